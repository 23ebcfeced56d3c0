/* qwen2: Qwen 1.5 to 2.5, biases on q, k and v, also as text parts of Qwen2-VL; the mixtures have a shared expert with a gate. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_qwen2 = {
    .name = "qwen2",
    .gguf = ARCH_NAMES("qwen2"),
    .model_types = ARCH_NAMES("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"),
    .architectures = ARCH_NAMES("Qwen2ForCausalLM", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    .pattern = PATTERN_FROM_FILE,
    .window_needs_flag = true,
    .gguf_ignores_window = true,
};

const struct arch_spec arch_qwen2_moe = {
    .name = "qwen2_moe",
    .gguf = ARCH_NAMES("qwen2moe"),
    .model_types = ARCH_NAMES("qwen2_moe"),
    .architectures = ARCH_NAMES("Qwen2MoeForCausalLM"),
    .pattern = PATTERN_FROM_FILE,
    .window_needs_flag = true,
    .gguf_ignores_window = true,
};
