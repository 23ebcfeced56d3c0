/* exaone_moe: K-EXAONE: only window layers rotate, norms on q and k, sigmoid router with a bias for choosing, shared experts. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1}, {PARAM_EXPERT_SCALE, NULL, NULL, PARAM_IN_HF, 2.5},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},      {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 4096},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 1},           PARAM_END,
};

const struct arch_spec arch_exaone_moe = {
    .name = "exaone_moe",
    .model_types = ARCH_NAMES("exaone_moe"),
    .architectures = ARCH_NAMES("ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM"),
    .params = params,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_period = 4,
    .rope_theta = 1000000,
    .rope_in_window_layers_only = true,
    .router = ROUTER_SIGMOID,
};
