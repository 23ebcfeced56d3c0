/* qwen2: Qwen 1.5 to 2.5, biases on q, k and v, also as text parts of Qwen2-VL; the mixtures have a shared expert with a gate. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 4096},
    PARAM_END,
};

const struct arch_spec arch_qwen2 = {
    .name = "qwen2",
    .gguf = ARCH_NAMES("qwen2"),
    .model_types = ARCH_NAMES("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"),
    .architectures = ARCH_NAMES("Qwen2ForCausalLM", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    .params = params,
    .pattern = PATTERN_FROM_FILE,
    .window_flag = WINDOW_FLAG_UP,
    .gguf_ignores_window = true,
};

static const struct param_override qwen2_moe_params[] = {
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 4096},
    PARAM_END,
};

const struct arch_spec arch_qwen2_moe = {
    .name = "qwen2_moe",
    .gguf = ARCH_NAMES("qwen2moe"),
    .model_types = ARCH_NAMES("qwen2_moe"),
    .architectures = ARCH_NAMES("Qwen2MoeForCausalLM"),
    .params = qwen2_moe_params,
    .pattern = PATTERN_FROM_FILE,
    .window_flag = WINDOW_FLAG_EVEN_BELOW,
    .gguf_ignores_window = true,
};
