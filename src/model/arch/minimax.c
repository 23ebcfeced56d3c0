/*
 * minimax: MiniMax Text-01 and M1: steady attention in most layers, attention in the last of each group, norms that are carried on, a
 * mixture. Under the names of the published files and of those that transformers writes.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_STEADY_NORM, "attn_norm_2", {"self_attn.norm"}},
    {ROLE_ATTENTION_GATE, NULL, {"self_attn.output_gate"}},
    {ROLE_ATTENTION_OUT, NULL, {"self_attn.o_proj", "self_attn.out_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1},
    {PARAM_RECURRENT_NORM_EPSILON, NULL, NULL, PARAM_IN_BOTH, 1e-6},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_minimax = {
    .name = "minimax",
    .gguf = ARCH_NAMES("minimax-01"),
    .model_types = ARCH_NAMES("minimax", "minimax_text_01", "minimax_m1"),
    .architectures = ARCH_NAMES("MiniMaxForCausalLM", "MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"),
    .params = params,
    .roles = roles,
    .hf_refused = ARCH_NAMES("sliding_window"),
    .norm_place = NORM_CARRIED,
    .hf_qkv_by_group = true,
    .rope_theta = 1000000,
    .pattern = PATTERN_ALL_FULL,
    .steady_activates = true,
    .steady_even_slopes = true,
    .router = ROUTER_SOFTMAX,
};
