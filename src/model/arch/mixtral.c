/* mixtral: mistral with experts whose width is intermediate_size. As GGUF it is called llama. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_mixtral = {
    .name = "mixtral",
    .model_types = ARCH_NAMES("mixtral"),
    .architectures = ARCH_NAMES("MixtralForCausalLM"),
    .params = params,
    .rope_theta = 1000000,
    .pattern = PATTERN_FROM_FILE,
};
