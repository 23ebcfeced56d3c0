/*
 * afmoe: Arcee's Trinity: norms before and after each block, attention with an output gate, rotation in window layers only, a sigmoid
 * router with a bias for choosing, a shared expert.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ATTENTION_POST_NORM, NULL, {"post_attention_layernorm"}},
    {ROLE_FFN_NORM, NULL, {"pre_mlp_layernorm"}},
    {ROLE_FFN_POST_NORM, NULL, {"post_mlp_layernorm"}},
    {ROLE_ROUTER, NULL, {"mlp.router.gate"}},
    {ROLE_ROUTER_BIAS, NULL, {"mlp.expert_bias"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_EXPERT_RENORMALISE, "route_norm", NULL, PARAM_IN_BOTH, 1},
    {PARAM_EXPERT_SCALE, "route_scale", NULL, PARAM_IN_HF, 1},
    {PARAM_FIRST_DENSE, NULL, NULL, PARAM_IN_HF, 2},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 1024},
    PARAM_END,
};

const struct arch_spec arch_afmoe = {
    .name = "afmoe",
    .gguf = ARCH_NAMES("afmoe"),
    .model_types = ARCH_NAMES("afmoe"),
    .architectures = ARCH_NAMES("AfmoeForCausalLM"),
    .params = params,
    .roles = roles,
    .norm_place = NORM_BEFORE_AND_AFTER,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_period = 4,
    .rope_in_window_layers_only = true,
    .router = ROUTER_SIGMOID,
    .scale_embedding_by_sqrt_hidden = true,
    .hf_embedding_scale_flag = "mup_enabled",
};
