/*
 * mimo: MiMo 7B is qwen2 with prediction layers; MiMo-V2-Flash has more key heads and sinks in its window layers, values scaled and
 * narrower than keys, and a sigmoid router.
 */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_mimo = {
    .name = "mimo",
    .model_types = ARCH_NAMES("mimo"),
    .architectures = ARCH_NAMES("MiMoForCausalLM"),
    .pattern = PATTERN_FROM_FILE,
    .window_flag = WINDOW_FLAG_UP,
};

static const struct param_override flash_params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1},
    {PARAM_VALUE_SCALE, NULL, NULL, PARAM_IN_HF, 0.707},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_mimo_v2_flash = {
    .name = "mimo_v2_flash",
    .gguf = ARCH_NAMES("mimo2"),
    .model_types = ARCH_NAMES("mimo_v2_flash"),
    .architectures = ARCH_NAMES("MiMoV2FlashForCausalLM"),
    .params = flash_params,
    .head_sizes_from_rows = true,
    .pattern = PATTERN_FROM_FILE,
    .window_rope_unscaled = true,
    .window_period = 6,
    .first_layer_full = true,
    .rope_theta = 5000000,
    .rope_window_theta = 10000,
    .rope_partial = 0.334,
    .router = ROUTER_SIGMOID,
};
