/* olmoe: experts, norms on whole rows of q and k. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_olmoe = {
    .name = "olmoe",
    .gguf = ARCH_NAMES("olmoe"),
    .model_types = ARCH_NAMES("olmoe"),
    .architectures = ARCH_NAMES("OlmoeForCausalLM"),
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_ALL_FULL,
};
