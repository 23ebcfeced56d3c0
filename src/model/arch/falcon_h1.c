/* falcon_h1: attention and a state space side by side in every layer, factors everywhere; GGUF has the factors in its weights. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_FFN_NORM, NULL, {"pre_ff_layernorm"}},
    {ROLE_FFN_GATE, NULL, {"feed_forward.gate_proj"}},
    {ROLE_FFN_UP, NULL, {"feed_forward.up_proj"}},
    {ROLE_FFN_DOWN, NULL, {"feed_forward.down_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_LOGIT_SCALE, "lm_head_multiplier", NULL, PARAM_NO_INITIAL, 0},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_BOTH, 1e-5},
    {PARAM_RECURRENT_KEY_HEADS, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_falcon_h1 = {
    .name = "falcon_h1",
    .gguf = ARCH_NAMES("falcon-h1"),
    .model_types = ARCH_NAMES("falcon_h1"),
    .architectures = ARCH_NAMES("FalconH1ForCausalLM"),
    .params = params,
    .roles = roles,
    .hf_refused = ARCH_NAMES("mamba_norm_before_gate"),
    .pattern = PATTERN_ALL_FULL,
    .rope_theta = 10000,
    .state_space_norm_optional = true,
};
