/* qwen3 and qwen3_moe: norms on q and k, per head. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_qwen3 = {
    .name = "qwen3",
    .gguf = ARCH_NAMES("qwen3"),
    .model_types = ARCH_NAMES("qwen3"),
    .architectures = ARCH_NAMES("Qwen3ForCausalLM"),
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_needs_flag = true,
    .gguf_ignores_window = true,
};

static const struct param_override moe_params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_GGUF, 1},
    PARAM_END,
};

const struct arch_spec arch_qwen3_moe = {
    .name = "qwen3_moe",
    .gguf = ARCH_NAMES("qwen3moe"),
    .model_types = ARCH_NAMES("qwen3_moe"),
    .architectures = ARCH_NAMES("Qwen3MoeForCausalLM"),
    .params = moe_params,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_needs_flag = true,
    .gguf_ignores_window = true,
};
