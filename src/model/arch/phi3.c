/* phi3: Phi-3 and Phi-4: q, k, v fused, gate and up fused, two sets of rotations for short and long contexts. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_phi3 = {
    .name = "phi3",
    .gguf = ARCH_NAMES("phi3"),
    .model_types = ARCH_NAMES("phi3"),
    .architectures = ARCH_NAMES("Phi3ForCausalLM"),
    .params = params,
    .pattern = PATTERN_FROM_FILE,
};
