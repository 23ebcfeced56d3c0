/* lfm2 and lfm2_moe: short convolutions, attention in every few layers. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_FINAL_NORM, "token_embd_norm", {"embedding_norm"}},
    {ROLE_ATTENTION_NORM, NULL, {"operator_norm"}},
    {ROLE_ATTENTION_OUT, NULL, {"self_attn.out_proj"}},
    {ROLE_Q_NORM, NULL, {"self_attn.q_layernorm"}},
    {ROLE_K_NORM, NULL, {"self_attn.k_layernorm"}},
    {ROLE_FFN_NORM, NULL, {"ffn_norm"}},
    {ROLE_FFN_GATE, NULL, {"feed_forward.w1", "feed_forward.gate_proj"}},
    {ROLE_FFN_UP, NULL, {"feed_forward.w3", "feed_forward.up_proj"}},
    {ROLE_FFN_DOWN, NULL, {"feed_forward.w2", "feed_forward.down_proj"}},
    {ROLE_ROUTER, NULL, {"feed_forward.gate"}},
    {ROLE_ROUTER_BIAS, NULL, {"feed_forward.expert_bias"}},
    {ROLE_EXPERT_GATE, NULL, {"feed_forward.experts.*.w1", "feed_forward.switch_mlp.gate_proj"}},
    {ROLE_EXPERT_UP, NULL, {"feed_forward.experts.*.w3", "feed_forward.switch_mlp.up_proj"}},
    {ROLE_EXPERT_GATE_UP, NULL, {"feed_forward.experts.gate_up_proj"}},
    {ROLE_EXPERT_DOWN, NULL, {"feed_forward.experts.*.w2", "feed_forward.switch_mlp.down_proj", "feed_forward.experts.down_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_TIED, "tie_embedding", NULL, PARAM_NO_INITIAL, 0},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_lfm2 = {
    .name = "lfm2",
    .gguf = ARCH_NAMES("lfm2"),
    .model_types = ARCH_NAMES("lfm2"),
    .architectures = ARCH_NAMES("Lfm2ForCausalLM"),
    .params = params,
    .roles = roles,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_ALL_FULL,
    .rope_theta = 1000000,
};

static const struct param_override moe_params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_lfm2_moe = {
    .name = "lfm2_moe",
    .gguf = ARCH_NAMES("lfm2moe"),
    .model_types = ARCH_NAMES("lfm2_moe"),
    .architectures = ARCH_NAMES("Lfm2MoeForCausalLM"),
    .params = moe_params,
    .roles = roles,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_ALL_FULL,
    .rope_theta = 1000000,
    .router = ROUTER_SIGMOID,
};
