/* glm_moe_dsa: GLM-5, the shape of deepseek_v32; its index rotates neighbours, and layers may share a choice of positions. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_ROPE_DIM, "qk_rope_head_dim", NULL, PARAM_IN_HF, 64},
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_FIRST_DENSE, NULL, NULL, PARAM_IN_HF, 3},
    {PARAM_INDEX_HEADS, NULL, NULL, PARAM_IN_HF, 32},
    {PARAM_INDEX_DIM, NULL, NULL, PARAM_IN_HF, 128},
    {PARAM_INDEX_TOP_K, NULL, NULL, PARAM_IN_HF, 2048},
    {PARAM_INDEX_ROPE_PAIRS, NULL, NULL, PARAM_IN_BOTH, 1},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_EXPERT_SCALE, NULL, NULL, PARAM_IN_HF, 2.5},
    PARAM_END,
};

const struct arch_spec arch_glm_moe_dsa = {
    .name = "glm_moe_dsa",
    .gguf = ARCH_NAMES("glm-dsa"),
    .model_types = ARCH_NAMES("glm_moe_dsa"),
    .architectures = ARCH_NAMES("GlmMoeDsaForCausalLM"),
    .params = params,
    .rope_pairs_gguf = true,
    .rope_pairs_hf = true,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SIGMOID,
};
