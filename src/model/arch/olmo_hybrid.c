/*
 * olmo_hybrid: linear attention with norms before each block, and in every fourth layer attention with norms after them. Under the names of
 * the published files and of those that transformers writes.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ATTENTION_NORM, NULL, {"input_layernorm", "attention_layer_norm"}},
    {ROLE_ATTENTION_POST_NORM,
     NULL,
     {"post_attention_layernorm", "feedforward_layer_norm"}}, /* the other when saved anew by transformers */
    {ROLE_FFN_NORM, NULL, {"feedforward_layer_norm", "post_attention_layernorm"}},
    {ROLE_FFN_POST_NORM, NULL, {"post_feedforward_layernorm"}},
    {ROLE_Q, NULL, {"self_attn.q_proj", "linear_attn.q_proj"}},
    {ROLE_K, NULL, {"self_attn.k_proj", "linear_attn.k_proj"}},
    {ROLE_V, NULL, {"self_attn.v_proj", "linear_attn.v_proj"}},
    {ROLE_DELTA_Z, NULL, {"linear_attn.g_proj"}},
    {ROLE_DELTA_A, NULL, {"linear_attn.a_proj"}},
    {ROLE_DELTA_B, NULL, {"linear_attn.b_proj"}},
    {ROLE_DELTA_CONV_Q, NULL, {"linear_attn.q_conv1d"}},
    {ROLE_DELTA_CONV_K, NULL, {"linear_attn.k_conv1d"}},
    {ROLE_DELTA_CONV_V, NULL, {"linear_attn.v_conv1d"}},
    {ROLE_RECURRENT_NORM, NULL, {"linear_attn.o_norm"}},
    {ROLE_RECURRENT_OUT, NULL, {"linear_attn.o_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_RECURRENT_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    {PARAM_DOUBLE_STRENGTH, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_olmo_hybrid = {
    .name = "olmo_hybrid",
    .model_types = ARCH_NAMES("olmo_hybrid"),
    .architectures = ARCH_NAMES("OlmoHybridForCausalLM"),
    .params = params,
    .roles = roles,
    .norm_place = NORM_BEFORE_OR_AFTER,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_ALL_FULL,
};
