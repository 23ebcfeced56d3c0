/* starcoder2: layer norms and biases everywhere, no gate, tanh gelu. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_FFN_UP, NULL, {"mlp.c_fc"}},
    {ROLE_FFN_DOWN, NULL, {"mlp.c_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, "norm_epsilon", "attention.layer_norm_epsilon", PARAM_IN_BOTH, 1e-5},
    {PARAM_TIED, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_starcoder2 = {
    .name = "starcoder2",
    .gguf = ARCH_NAMES("starcoder2"),
    .model_types = ARCH_NAMES("starcoder2"),
    .architectures = ARCH_NAMES("Starcoder2ForCausalLM"),
    .params = params,
    .roles = roles,
    .norm = NORM_LAYER,
    .pattern = PATTERN_FROM_FILE,
    .gguf_ignores_window = true,
    .gate = GATE_GELU_TANH,
    .gateless = true,
};
