/* helium: llama that rotates neighbours. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_helium = {
    .name = "helium",
    .model_types = ARCH_NAMES("helium"),
    .architectures = ARCH_NAMES("HeliumForCausalLM"),
    .rope_pairs_hf = true,
    .rope_theta = 100000,
    .pattern = PATTERN_ALL_FULL,
};
