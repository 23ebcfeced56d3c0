/* bailing_moe: Ling and Ring: q, k, v fused, shared experts; the second generation has norms on q and k and a sigmoid router with groups.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_EMBEDDING, NULL, {"word_embeddings"}},
    {ROLE_QKV, NULL, {"attention.query_key_value"}},
    {ROLE_ATTENTION_OUT, NULL, {"attention.dense"}},
    {ROLE_Q_NORM, NULL, {"attention.query_layernorm"}},
    {ROLE_K_NORM, NULL, {"attention.key_layernorm"}},
    {ROLE_ROUTER, NULL, {"mlp.gate", "mlp.gate.gate_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_bailing_moe = {
    .name = "bailing_moe",
    .model_types = ARCH_NAMES("bailing_moe", "bailing_moe_v2"),
    .architectures = ARCH_NAMES("BailingMoeForCausalLM", "BailingMoeV2ForCausalLM"),
    .params = params,
    .roles = roles,
    .hf_refused = ARCH_NAMES("norm_head", "norm_softmax"),
    .pattern = PATTERN_ALL_FULL,
};
