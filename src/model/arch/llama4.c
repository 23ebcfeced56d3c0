/*
 * llama4: text part of Llama 4: layers that rotate see their own chunk of the context, every fourth sees everything and does not rotate;
 * one expert a token reads its input scaled by the router, beside a shared expert.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_FFN_GATE, NULL, {"feed_forward.gate_proj"}},
    {ROLE_FFN_UP, NULL, {"feed_forward.up_proj"}},
    {ROLE_FFN_DOWN, NULL, {"feed_forward.down_proj"}},
    {ROLE_ROUTER, NULL, {"feed_forward.router"}},
    {ROLE_EXPERT_GATE, NULL, {"feed_forward.experts.gate_proj"}},
    {ROLE_EXPERT_UP, NULL, {"feed_forward.experts.up_proj"}},
    {ROLE_EXPERT_GATE_UP, NULL, {"feed_forward.experts.gate_up_proj"}},
    {ROLE_EXPERT_DOWN, NULL, {"feed_forward.experts.down_proj"}},
    {ROLE_SHARED_GATE, NULL, {"feed_forward.shared_expert.gate_proj"}},
    {ROLE_SHARED_UP, NULL, {"feed_forward.shared_expert.up_proj"}},
    {ROLE_SHARED_DOWN, NULL, {"feed_forward.shared_expert.down_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_WINDOW, "attention_chunk_size", NULL, PARAM_IN_HF, 8192},
    {PARAM_FFN_HIDDEN, "intermediate_size_mlp", NULL, PARAM_NO_INITIAL, 0},
    {PARAM_EXPERT_HIDDEN, "intermediate_size", NULL, PARAM_NO_INITIAL, 0},
    {PARAM_TOP_K, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_QUERY_TEMPERATURE, "attn_scale", NULL, PARAM_IN_HF, 0.1},
    {PARAM_ORIGINAL_CONTEXT, "floor_scale", NULL, PARAM_IN_HF, 8192},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_llama4 = {
    .name = "llama4",
    .model_types = ARCH_NAMES("llama4_text", "llama4"),
    .architectures = ARCH_NAMES("Llama4ForCausalLM", "Llama4ForConditionalGeneration"),
    .params = params,
    .roles = roles,
    .qk_norm_unweighted = true,
    .rope_pairs_hf = true,
    .pattern = PATTERN_FROM_FILE,
    .windows_are_chunks = true,
    .window_period = 4,
    .rope_theta = 500000,
    .temperature_in_still_layers = true,
    .rope_free_period = 4,
    .router = ROUTER_SIGMOID,
    .router_scales_input = true,
    .hf_experts_transposed = true,
};
