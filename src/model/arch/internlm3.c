/* internlm3: llama with biases; beyond its context the rotation stretches (dynamic). */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_internlm3 = {
    .name = "internlm3",
    .model_types = ARCH_NAMES("internlm3"),
    .architectures = ARCH_NAMES("InternLM3ForCausalLM"),
    .params = params,
    .pattern = PATTERN_ALL_FULL,
};
