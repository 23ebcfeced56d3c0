/* phi: Phi-1, 1.5 and 2: attention and feed-forward side by side behind one layer norm, biases everywhere, part of each head rotates. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ATTENTION_OUT, NULL, {"self_attn.dense"}},
    {ROLE_FFN_UP, NULL, {"mlp.fc1"}},
    {ROLE_FFN_DOWN, NULL, {"mlp.fc2"}},
    {ROLE_FINAL_NORM, NULL, {"final_layernorm"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, "layer_norm_eps", "attention.layer_norm_epsilon", PARAM_IN_BOTH, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_phi = {
    .name = "phi",
    .gguf = ARCH_NAMES("phi2"),
    .model_types = ARCH_NAMES("phi"),
    .architectures = ARCH_NAMES("PhiForCausalLM"),
    .params = params,
    .roles = roles,
    .hf_refused = ARCH_NAMES("qk_layernorm"),
    .norm = NORM_LAYER,
    .parallel_blocks = true,
    .rope_partial = 0.5,
    .pattern = PATTERN_ALL_FULL,
    .gate = GATE_GELU_TANH,
    .gateless = true,
};
