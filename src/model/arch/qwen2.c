/* qwen2: Qwen 1.5 to 2.5, biases on q, k and v. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_qwen2 = {
    .name = "qwen2",
    .gguf = ARCH_NAMES("qwen2"),
    .model_types = ARCH_NAMES("qwen2"),
    .architectures = ARCH_NAMES("Qwen2ForCausalLM"),
    .pattern = PATTERN_FROM_FILE,
    .window_needs_flag = true,
    .gguf_ignores_window = true,
};
