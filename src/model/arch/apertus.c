/* apertus: no gate, an activation whose slopes are trained (xielu), norms on q and k. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ATTENTION_NORM, NULL, {"attention_layernorm"}},
    {ROLE_FFN_NORM, NULL, {"feedforward_layernorm"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_apertus = {
    .name = "apertus",
    .gguf = ARCH_NAMES("apertus"),
    .model_types = ARCH_NAMES("apertus"),
    .architectures = ARCH_NAMES("ApertusForCausalLM"),
    .params = params,
    .roles = roles,
    .q_norm = true,
    .k_norm = true,
    .rope_theta = 12000000,
    .pattern = PATTERN_ALL_FULL,
    .gate = GATE_XIELU,
    .gateless = true,
};
