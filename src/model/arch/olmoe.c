/* olmoe: experts, norms on whole rows of q and k. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_olmoe = {
    .name = "olmoe",
    .gguf = ARCH_NAMES("olmoe"),
    .model_types = ARCH_NAMES("olmoe"),
    .architectures = ARCH_NAMES("OlmoeForCausalLM"),
    .params = params,
    .hf_refused = ARCH_NAMES("clip_qkv"),
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_ALL_FULL,
};
