/* smollm3: every fourth layer does not rotate. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_TIED, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_smollm3 = {
    .name = "smollm3",
    .gguf = ARCH_NAMES("smollm3"),
    .model_types = ARCH_NAMES("smollm3"),
    .architectures = ARCH_NAMES("SmolLM3ForCausalLM"),
    .params = params,
    .gguf_interleaved_qk = true,
    .rope_theta = 2000000,
    .rope_free_period = 4,
    .pattern = PATTERN_FROM_FILE,
    .window_flag = WINDOW_FLAG_STILL,
    .gguf_ignores_window = true,
};
