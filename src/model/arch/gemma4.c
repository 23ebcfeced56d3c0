/*
 * gemma4: larger heads in full layers, values normalised, keys that serve as values, layers that read earlier keys, per-layer embeddings,
 * experts beside the dense feed-forward.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ATTENTION_POST_NORM, NULL, {"post_attention_layernorm"}},
    {ROLE_FFN_NORM, NULL, {"pre_feedforward_layernorm"}},
    {ROLE_FFN_POST_NORM, NULL, {"post_feedforward_layernorm"}},
    {ROLE_ROUTER, NULL, {"router.proj"}},
    {ROLE_EXPERT_GATE, NULL, {"experts.switch_glu.gate_proj"}},
    {ROLE_EXPERT_UP, NULL, {"experts.switch_glu.up_proj"}},
    {ROLE_EXPERT_GATE_UP, NULL, {"experts.gate_up_proj"}},
    {ROLE_EXPERT_DOWN, NULL, {"experts.down_proj", "experts.switch_glu.down_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_HEADS, NULL, NULL, PARAM_IN_HF, 8},
    {PARAM_KV_HEADS, NULL, NULL, PARAM_IN_HF, 4},
    {PARAM_HEAD_DIM, NULL, NULL, PARAM_IN_HF, 256},
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_BOTH, 512},
    {PARAM_ATTENTION_SCALE, NULL, NULL, PARAM_IN_BOTH, 1},
    {PARAM_FINAL_SOFTCAP, NULL, NULL, PARAM_IN_GGUF, 30},
    {PARAM_LAYER_INPUT, NULL, NULL, PARAM_IN_HF, 256},
    {PARAM_TOP_K, "top_k_experts", NULL, PARAM_IN_HF, 0},
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1},
    PARAM_END,
};

const struct arch_spec arch_gemma4 = {
    .name = "gemma4",
    .gguf = ARCH_NAMES("gemma4"),
    .model_types = ARCH_NAMES("gemma4_text", "gemma4"),
    .architectures = ARCH_NAMES("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"),
    .params = params,
    .roles = roles,
    .norm_place = NORM_BEFORE_AND_AFTER,
    .q_norm = true,
    .k_norm = true,
    .v_norm = true,
    .head_sizes_from_rows = true,
    .pattern = PATTERN_FROM_FILE,
    .window_rope_unscaled = true,
    .window_period = 6,
    .rope_theta = 1000000,
    .rope_window_theta = 10000,
    .rope_proportional = 0.25,
    .gate = GATE_GELU_TANH,
    .experts_beside_ffn = true,
    .scale_embedding_by_sqrt_hidden = true,
};
