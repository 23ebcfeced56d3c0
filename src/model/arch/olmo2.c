/* olmo2 and olmo3: norms only after each block and on whole rows of q and k; olmo3 has windows in three layers of four. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ATTENTION_POST_NORM, NULL, {"post_attention_layernorm"}},
    {ROLE_FFN_POST_NORM, NULL, {"post_feedforward_layernorm"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_olmo2 = {
    .name = "olmo2",
    .gguf = ARCH_NAMES("olmo2"),
    .model_types = ARCH_NAMES("olmo2", "olmo3"),
    .architectures = ARCH_NAMES("Olmo2ForCausalLM", "Olmo3ForCausalLM"),
    .params = params,
    .roles = roles,
    .norm_place = NORM_AFTER,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_rope_unscaled = true,
    .window_period = 4,
};
