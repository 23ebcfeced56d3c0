/* kimi_linear: delta attention, latent attention without rotation in every few layers, a mixture as deepseek's. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ROUTER, NULL, {"block_sparse_moe.gate", "mlp.gate"}},
    {ROLE_ROUTER_BIAS, NULL, {"block_sparse_moe.gate.e_score_correction_bias", "mlp.e_score_correction_bias"}},
    {ROLE_SHARED_GATE, NULL, {"block_sparse_moe.shared_experts.gate_proj", "mlp.shared_experts.gate_proj"}},
    {ROLE_SHARED_UP, NULL, {"block_sparse_moe.shared_experts.up_proj", "mlp.shared_experts.up_proj"}},
    {ROLE_SHARED_DOWN, NULL, {"block_sparse_moe.shared_experts.down_proj", "mlp.shared_experts.down_proj"}},
    /* dense layers, saved anew by transformers */
    {ROLE_FFN_GATE, NULL, {"mlp.gate_proj", "block_sparse_moe.gate_proj"}},
    {ROLE_FFN_UP, NULL, {"mlp.up_proj", "block_sparse_moe.up_proj"}},
    {ROLE_FFN_DOWN, NULL, {"mlp.down_proj", "block_sparse_moe.down_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_CONTEXT, "model_max_length", NULL, PARAM_IN_HF, 4096},
    {PARAM_ROPE_DIM, "qk_rope_head_dim", NULL, PARAM_NO_INITIAL, 0},
    {PARAM_EXPERT_RENORMALISE, "moe_renormalize", NULL, PARAM_IN_BOTH, 1},
    {PARAM_EXPERT_GROUPS, "num_expert_group", NULL, PARAM_NO_INITIAL, 0},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_EXPERT_SCALE, NULL, NULL, PARAM_IN_HF, 2.446},
    PARAM_END,
};

const struct arch_spec arch_kimi_linear = {
    .name = "kimi_linear",
    .gguf = ARCH_NAMES("kimi-linear"),
    .model_types = ARCH_NAMES("kimi_linear"),
    .architectures = ARCH_NAMES("KimiLinearForCausalLM"),
    .params = params,
    .roles = roles,
    .pattern = PATTERN_ALL_FULL,
    .rope_free_period = 1,
    .router = ROUTER_SIGMOID,
};
