/* qwen3 and qwen3_moe: norms on q and k, per head; also the text parts of Qwen3-VL, whose mixture multiplies from the right. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 4096},
    PARAM_END,
};

const struct arch_spec arch_qwen3 = {
    .name = "qwen3",
    .gguf = ARCH_NAMES("qwen3"),
    .model_types = ARCH_NAMES("qwen3", "qwen3_vl_text", "qwen3_vl"),
    .architectures = ARCH_NAMES("Qwen3ForCausalLM", "Qwen3VLForConditionalGeneration"),
    .params = params,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_flag = WINDOW_FLAG_UP,
    .gguf_ignores_window = true,
};

static const struct param_override moe_params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_GGUF, 1},
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 4096},
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
    .window_flag = WINDOW_FLAG_ALL,
    .gguf_ignores_window = true,
};

static const struct param_override vl_moe_params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_qwen3_vl_moe = {
    .name = "qwen3_vl_moe",
    .model_types = ARCH_NAMES("qwen3_vl_moe_text", "qwen3_vl_moe"),
    .architectures = ARCH_NAMES("Qwen3VLMoeForConditionalGeneration"),
    .params = vl_moe_params,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_ALL_FULL,
    .hf_experts_transposed = true,
};
