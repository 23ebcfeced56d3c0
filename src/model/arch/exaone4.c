/* exaone4: norms only after each block; where some layers have a window, the others do not rotate. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ATTENTION_POST_NORM, NULL, {"post_attention_layernorm"}},
    {ROLE_FFN_POST_NORM, NULL, {"post_feedforward_layernorm"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 4096},
    PARAM_END,
};

const struct arch_spec arch_exaone4 = {
    .name = "exaone4",
    .gguf = ARCH_NAMES("exaone4"),
    .model_types = ARCH_NAMES("exaone4"),
    .architectures = ARCH_NAMES("Exaone4ForCausalLM"),
    .params = params,
    .roles = roles,
    .norm_place = NORM_AFTER,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_period = 4,
    .rope_in_window_layers_only = true,
};
