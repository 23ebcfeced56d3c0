/* glm: GLM-4 9B in transformers' form (chatglm as GGUF), GLM-4-0414 with norms after each block too, the mixtures of GLM-4.5, and Solar
 * Open, which is one of those whose whole heads rotate. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1.5625e-7},
    PARAM_END,
};

const struct arch_spec arch_glm = {
    .name = "glm",
    .gguf = ARCH_NAMES("chatglm"),
    .model_types = ARCH_NAMES("glm"),
    .architectures = ARCH_NAMES("GlmForCausalLM"),
    .params = params,
    .rope_pairs_gguf = true,
    .rope_pairs_hf = true,
    .rope_partial = 0.5,
    .pattern = PATTERN_ALL_FULL,
};

static const struct role_override glm4_roles[] = {
    {ROLE_ATTENTION_POST_NORM, NULL, {"post_self_attn_layernorm"}},
    {ROLE_FFN_POST_NORM, NULL, {"post_mlp_layernorm"}},
    ROLE_END,
};

const struct arch_spec arch_glm4 = {
    .name = "glm4",
    .gguf = ARCH_NAMES("glm4"),
    .model_types = ARCH_NAMES("glm4"),
    .architectures = ARCH_NAMES("Glm4ForCausalLM"),
    .params = params,
    .roles = glm4_roles,
    .norm_place = NORM_BEFORE_AND_AFTER,
    .rope_pairs_gguf = true,
    .rope_pairs_hf = true,
    .rope_partial = 0.5,
    .pattern = PATTERN_ALL_FULL,
};

static const struct role_override moe_roles[] = {
    {ROLE_FFN_NORM, "post_attention_norm", {NULL}},
    ROLE_END,
};

static const struct param_override moe_params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_FIRST_DENSE, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_glm4_moe = {
    .name = "glm4_moe",
    .gguf = ARCH_NAMES("glm4moe"),
    .model_types = ARCH_NAMES("glm4_moe"),
    .architectures = ARCH_NAMES("Glm4MoeForCausalLM"),
    .params = moe_params,
    .roles = moe_roles,
    .rope_partial = 0.5,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SIGMOID,
};

static const struct param_override solar_params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_solar_open = {
    .name = "solar_open",
    .model_types = ARCH_NAMES("solar_open"),
    .architectures = ARCH_NAMES("SolarOpenForCausalLM"),
    .params = solar_params,
    .rope_theta = 1000000,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SIGMOID,
};

static const struct param_override lite_params[] = {
    {PARAM_ROPE_DIM, "qk_rope_head_dim", NULL, PARAM_IN_HF, 64},
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_FIRST_DENSE, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_EXPERT_SCALE, NULL, NULL, PARAM_IN_HF, 1.8},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_glm4_moe_lite = {
    .name = "glm4_moe_lite",
    .model_types = ARCH_NAMES("glm4_moe_lite"),
    .architectures = ARCH_NAMES("Glm4MoeLiteForCausalLM"),
    .params = lite_params,
    .rope_pairs_hf = true,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SIGMOID,
};
