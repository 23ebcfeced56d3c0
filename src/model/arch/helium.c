/* helium: llama that rotates neighbours. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-8},
    PARAM_END,
};

const struct arch_spec arch_helium = {
    .name = "helium",
    .model_types = ARCH_NAMES("helium"),
    .architectures = ARCH_NAMES("HeliumForCausalLM"),
    .params = params,
    .rope_pairs_hf = true,
    .rope_theta = 100000,
    .pattern = PATTERN_ALL_FULL,
};
