/* mistral4: Mistral Small 4: latent attention whose queries grow with the position, a softmax router that renormalises, a shared expert. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_ROPE_DIM, "qk_rope_head_dim", NULL, PARAM_IN_HF, 64},
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_mistral4 = {
    .name = "mistral4",
    .model_types = ARCH_NAMES("mistral4"),
    .architectures = ARCH_NAMES("Mistral4ForCausalLM"),
    .params = params,
    .rope_pairs_hf = true,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SOFTMAX,
};
