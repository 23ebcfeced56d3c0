/* internlm3: llama with biases; beyond its context the rotation stretches (dynamic). */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_internlm3 = {
    .name = "internlm3",
    .model_types = ARCH_NAMES("internlm3"),
    .architectures = ARCH_NAMES("InternLM3ForCausalLM"),
    .pattern = PATTERN_ALL_FULL,
};
