/* deepseek (V1: a mixture with plain attention), deepseek_v2, deepseek_v3 (with Kimi K2 and GLM-4.7-Flash, which share its shape) and
 * deepseek_v32: latent attention, shared experts; the last with a sparse index. GGUF calls the first two deepseek2 and says itself how the
 * router scores. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_deepseek = {
    .name = "deepseek",
    .model_types = ARCH_NAMES("deepseek"),
    .architectures = ARCH_NAMES("DeepseekForCausalLM"),
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SOFTMAX,
};

static const struct param_override v2_params[] = {
    {PARAM_ROPE_DIM, "qk_rope_head_dim", NULL, PARAM_IN_HF, 64},
    PARAM_END,
};

const struct arch_spec arch_deepseek_v2 = {
    .name = "deepseek_v2",
    .gguf = ARCH_NAMES("deepseek2"),
    .model_types = ARCH_NAMES("deepseek_v2"),
    .architectures = ARCH_NAMES("DeepseekV2ForCausalLM"),
    .params = v2_params,
    .rope_pairs_gguf = true,
    .rope_pairs_hf = true,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SOFTMAX,
};

static const struct param_override v3_params[] = {
    {PARAM_ROPE_DIM, "qk_rope_head_dim", NULL, PARAM_IN_HF, 64},
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_FIRST_DENSE, NULL, NULL, PARAM_IN_HF, 3},
    {PARAM_EXPERT_GROUPS, NULL, NULL, PARAM_IN_HF, 8},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 4},
    {PARAM_EXPERT_SCALE, NULL, NULL, PARAM_IN_HF, 2.5},
    PARAM_END,
};

const struct arch_spec arch_deepseek_v3 = {
    .name = "deepseek_v3",
    .model_types = ARCH_NAMES("deepseek_v3", "kimi_k2", "joyai_llm_flash"),
    .architectures = ARCH_NAMES("DeepseekV3ForCausalLM"),
    .params = v3_params,
    .rope_pairs_hf = true,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SIGMOID,
};

static const struct param_override v32_params[] = {
    {PARAM_ROPE_DIM, "qk_rope_head_dim", NULL, PARAM_IN_HF, 64},
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_FIRST_DENSE, NULL, NULL, PARAM_IN_HF, 3},
    {PARAM_INDEX_HEADS, NULL, NULL, PARAM_IN_HF, 64},
    {PARAM_INDEX_DIM, NULL, NULL, PARAM_IN_HF, 128},
    {PARAM_INDEX_TOP_K, NULL, NULL, PARAM_IN_HF, 2048},
    {PARAM_EXPERT_GROUPS, NULL, NULL, PARAM_IN_HF, 8},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 4},
    {PARAM_EXPERT_SCALE, NULL, NULL, PARAM_IN_HF, 2.5},
    PARAM_END,
};

const struct arch_spec arch_deepseek_v32 = {
    .name = "deepseek_v32",
    .gguf = ARCH_NAMES("deepseek32"),
    .model_types = ARCH_NAMES("deepseek_v32"),
    .architectures = ARCH_NAMES("DeepseekV32ForCausalLM"),
    .params = v32_params,
    .rope_pairs_gguf = true,
    .rope_pairs_hf = true,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SIGMOID,
};
