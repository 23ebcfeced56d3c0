/*
 * step3p5: Step 3.5 Flash: more heads in window layers, an output gate for each head, a base and a rotated part for each layer, activations
 * clamped in some layers, a sigmoid router with a bias for choosing, a shared expert.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ROUTER, NULL, {"moe.gate"}},
    {ROLE_ROUTER_BIAS, NULL, {"moe.router_bias"}},
    {ROLE_EXPERT_GATE, NULL, {"moe.gate_proj"}},
    {ROLE_EXPERT_UP, NULL, {"moe.up_proj"}},
    {ROLE_EXPERT_DOWN, NULL, {"moe.down_proj"}},
    {ROLE_SHARED_GATE, NULL, {"share_expert.gate_proj"}},
    {ROLE_SHARED_UP, NULL, {"share_expert.up_proj"}},
    {ROLE_SHARED_DOWN, NULL, {"share_expert.down_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_KV_HEADS, "num_attention_groups", NULL, PARAM_NO_INITIAL, 0},
    {PARAM_NORM_EPSILON, "rms_norm_eps", NULL, PARAM_IN_HF, 1e-5},
    {PARAM_TOP_K, "moe_top_k", NULL, PARAM_IN_HF, 8},
    {PARAM_EXPERTS, "moe_num_experts", NULL, PARAM_IN_HF, 288},
    {PARAM_EXPERT_SCALE, "moe_router_scaling_factor", NULL, PARAM_IN_HF, 3},
    {PARAM_EXPERT_RENORMALISE, "norm_expert_weight", NULL, PARAM_IN_HF, 1},
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 512},
    PARAM_END,
};

const struct arch_spec arch_step3p5 = {
    .name = "step3p5",
    .gguf = ARCH_NAMES("step35"),
    .model_types = ARCH_NAMES("step3p5"),
    .architectures = ARCH_NAMES("Step3p5ForCausalLM"),
    .params = params,
    .roles = roles,
    .hf_norms_add_one = true,
    .q_norm = true,
    .k_norm = true,
    .heads_from_rows = true,
    .pattern = PATTERN_FROM_FILE,
    .window_rope_unscaled = true,
    .window_period = 4,
    .gguf_full_rope = 0.5,
    .gate = GATE_SILU_CLAMPED,
    .router = ROUTER_SIGMOID,
};
