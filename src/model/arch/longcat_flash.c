/*
 * longcat_flash: LongCat-Flash: layers of two parts, each with latent attention and a feed-forward, and a mixture that runs beside the
 * second part; some experts give back their input.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ATTENTION_NORM, NULL, {"input_layernorm.%"}},
    {ROLE_Q, NULL, {"self_attn.%.q_proj"}},
    {ROLE_Q_A, NULL, {"self_attn.%.q_a_proj"}},
    {ROLE_Q_A_NORM, NULL, {"self_attn.%.q_a_layernorm"}},
    {ROLE_Q_B, NULL, {"self_attn.%.q_b_proj"}},
    {ROLE_KV_A, NULL, {"self_attn.%.kv_a_proj_with_mqa"}},
    {ROLE_KV_A_NORM, NULL, {"self_attn.%.kv_a_layernorm"}},
    {ROLE_KV_B, NULL, {"self_attn.%.kv_b_proj"}},
    {ROLE_K_B, NULL, {"self_attn.%.embed_q"}},
    {ROLE_V_B, NULL, {"self_attn.%.unembed_out"}},
    {ROLE_ATTENTION_OUT, NULL, {"self_attn.%.o_proj"}},
    {ROLE_FFN_NORM, NULL, {"post_attention_layernorm.%"}},
    {ROLE_FFN_GATE, NULL, {"mlps.%.gate_proj"}},
    {ROLE_FFN_UP, NULL, {"mlps.%.up_proj"}},
    {ROLE_FFN_DOWN, NULL, {"mlps.%.down_proj"}},
    {ROLE_ROUTER, NULL, {"mlp.router.classifier"}},
    {ROLE_ROUTER_BIAS, NULL, {"mlp.router.e_score_correction_bias"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_LAYERS, "num_layers", NULL, PARAM_NO_INITIAL, 0},
    {PARAM_LAYER_PARTS, NULL, NULL, PARAM_IN_HF, 2},
    {PARAM_ROPE_DIM, "qk_rope_head_dim", NULL, PARAM_IN_HF, 64},
    {PARAM_FFN_HIDDEN, "ffn_hidden_size", NULL, PARAM_NO_INITIAL, 0},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    {PARAM_EXPERT_SCALE, NULL, NULL, PARAM_IN_HF, 6},
    PARAM_END,
};

const struct arch_spec arch_longcat_flash = {
    .name = "longcat_flash",
    .model_types = ARCH_NAMES("longcat_flash"),
    .architectures = ARCH_NAMES("LongcatFlashForCausalLM", "LongcatCausalLM"),
    .params = params,
    .roles = roles,
    .latents_scaled = true,
    .rope_pairs_hf = true,
    .rope_theta = 10000000,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SOFTMAX,
    .shortcut_experts = true,
};
