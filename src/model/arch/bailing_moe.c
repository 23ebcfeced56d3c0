/*
 * bailing_moe: Ling and Ring: q, k, v fused, shared experts; the second generation has norms on q and k and a sigmoid router with groups.
 * The linear ones have steady attention in most layers, and attention, or latent attention, in the last of each group.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_EMBEDDING, NULL, {"word_embeddings"}},
    {ROLE_QKV, NULL, {"attention.query_key_value"}},
    {ROLE_ATTENTION_OUT, NULL, {"attention.dense"}},
    {ROLE_Q_NORM, NULL, {"attention.query_layernorm"}},
    {ROLE_K_NORM, NULL, {"attention.key_layernorm"}},
    {ROLE_ATTENTION_GATE, NULL, {"attention.g_proj"}},
    {ROLE_Q, NULL, {"attention.q_proj"}},
    {ROLE_Q_A, NULL, {"attention.q_a_proj"}},
    {ROLE_Q_A_NORM, NULL, {"attention.q_a_layernorm"}},
    {ROLE_Q_B, NULL, {"attention.q_b_proj"}},
    {ROLE_KV_A, NULL, {"attention.kv_a_proj_with_mqa"}},
    {ROLE_KV_A_NORM, NULL, {"attention.kv_a_layernorm"}},
    {ROLE_KV_B, NULL, {"attention.kv_b_proj"}},
    {ROLE_K_B, NULL, {"attention.embed_q"}},
    {ROLE_V_B, NULL, {"attention.unembed_out"}},
    {ROLE_ROUTER, NULL, {"mlp.gate", "mlp.gate.gate_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_bailing_moe = {
    .name = "bailing_moe",
    .gguf = ARCH_NAMES("bailingmoe"),
    .model_types = ARCH_NAMES("bailing_moe"),
    .architectures = ARCH_NAMES("BailingMoeForCausalLM"),
    .params = params,
    .roles = roles,
    .hf_refused = ARCH_NAMES("norm_head", "norm_softmax"),
    .gguf_interleaved_qk = true,
    .pattern = PATTERN_ALL_FULL,
};

const struct arch_spec arch_bailing_moe_v2 = {
    .name = "bailing_moe_v2",
    .gguf = ARCH_NAMES("bailingmoe2"),
    .model_types = ARCH_NAMES("bailing_moe_v2"),
    .architectures = ARCH_NAMES("BailingMoeV2ForCausalLM"),
    .params = params,
    .roles = roles,
    .hf_refused = ARCH_NAMES("norm_head", "norm_softmax"),
    .pattern = PATTERN_ALL_FULL,
};

const struct arch_spec arch_bailing_moe_linear = {
    .name = "bailing_moe_linear",
    .model_types = ARCH_NAMES("bailing_moe_linear"),
    .architectures = ARCH_NAMES("BailingMoeLinearForCausalLM", "BailingMoeLinearV2ForCausalLM"),
    .params = params,
    .roles = roles,
    .pattern = PATTERN_ALL_FULL,
    .rope_partial = 0.5,
    .router = ROUTER_SIGMOID,
    .steady_first_layer = 1,
};

static const struct param_override hybrid_params[] = {
    {PARAM_ROPE_DIM, "qk_rope_head_dim", NULL, PARAM_IN_HF, 64},
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_bailing_hybrid = {
    .name = "bailing_hybrid",
    .model_types = ARCH_NAMES("bailing_hybrid"),
    .architectures = ARCH_NAMES("BailingMoeV2_5ForCausalLM"),
    .params = hybrid_params,
    .roles = roles,
    .hf_refused = ARCH_NAMES("kda_safe_gate", "kda_lower_bound"), /* of Ling 3, which has the same model_type */
    .rope_pairs_hf = true,                                        /* of latent attention */
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SIGMOID,
};
