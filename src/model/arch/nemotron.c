/* nemotron: layer norms stored around 0 with biases, no gate, squared relu, half of each head rotates. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, "attention.layer_norm_epsilon", PARAM_IN_BOTH, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_nemotron = {
    .name = "nemotron",
    .gguf = ARCH_NAMES("nemotron"),
    .model_types = ARCH_NAMES("nemotron"),
    .architectures = ARCH_NAMES("NemotronForCausalLM"),
    .params = params,
    .norm = NORM_LAYER,
    .hf_norms_add_one = true,
    .rope_partial = 0.5,
    .pattern = PATTERN_ALL_FULL,
    .gate = GATE_RELU2,
    .gateless = true,
};
