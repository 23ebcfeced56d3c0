/* hunyuan: norms on q and k come after the rotation; the mixture has a shared expert and always renormalises. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_Q_NORM, NULL, {"self_attn.query_layernorm"}},
    {ROLE_K_NORM, NULL, {"self_attn.key_layernorm"}},
    {ROLE_ROUTER, NULL, {"mlp.gate.wg"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_hunyuan_v1_dense = {
    .name = "hunyuan_v1_dense",
    .gguf = ARCH_NAMES("hunyuan-dense"),
    .model_types = ARCH_NAMES("hunyuan_v1_dense"),
    .architectures = ARCH_NAMES("HunYuanDenseV1ForCausalLM"),
    .params = params,
    .roles = roles,
    .qk_norm_after_rope = true,
    .pattern = PATTERN_ALL_FULL,
};

static const struct param_override moe_params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_hunyuan_v1_moe = {
    .name = "hunyuan_v1_moe",
    .gguf = ARCH_NAMES("hunyuan-moe"),
    .model_types = ARCH_NAMES("hunyuan_v1_moe"),
    .architectures = ARCH_NAMES("HunYuanMoEV1ForCausalLM"),
    .params = moe_params,
    .roles = roles,
    .qk_norm_after_rope = true,
    .pattern = PATTERN_ALL_FULL,
};
