/* telechat3: llama with biases and a yarn of its own name. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_telechat3 = {
    .name = "telechat3",
    .model_types = ARCH_NAMES("telechat3"),
    .architectures = ARCH_NAMES("TeleChat3ForCausalLM"),
    .pattern = PATTERN_ALL_FULL,
};
