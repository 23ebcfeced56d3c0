/* mellum: JetBrains' Mellum 2: the mixture of qwen3 with windows in most layers, each kind with a rotation of its own. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1},
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 1024},
    PARAM_END,
};

const struct arch_spec arch_mellum = {
    .name = "mellum",
    .gguf = ARCH_NAMES("mellum"),
    .model_types = ARCH_NAMES("mellum"),
    .architectures = ARCH_NAMES("MellumForCausalLM"),
    .params = params,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_rope_unscaled = true,
    .window_period = 4,
    .window_flag = WINDOW_LISTED,
    .router = ROUTER_SOFTMAX,
};
