/* ministral3: llama whose queries grow with the logarithm of the position beyond the context it was first trained for. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_ministral3 = {
    .name = "ministral3",
    .gguf = ARCH_NAMES("mistral3"),
    .model_types = ARCH_NAMES("ministral3"),
    .architectures = ARCH_NAMES("Ministral3ForCausalLM"),
    .params = params,
    .gguf_interleaved_qk = true,
    .rope_theta = 1000000,
    .pattern = PATTERN_FROM_FILE,
};
