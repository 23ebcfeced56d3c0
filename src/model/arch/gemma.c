/* gemma to gemma3: norms before and after each block (stored around 0 by Hugging Face), scaled embedding, windows in most layers. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_ATTENTION_POST_NORM, NULL, {"post_attention_layernorm"}},
    {ROLE_FFN_NORM, NULL, {"pre_feedforward_layernorm"}},
    {ROLE_FFN_POST_NORM, NULL, {"post_feedforward_layernorm"}},
    ROLE_END,
};

static const struct param_override gemma_params[] = {
    {PARAM_HEAD_DIM, NULL, NULL, PARAM_IN_HF, 256},
    {PARAM_TIED, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_gemma = {
    .name = "gemma",
    .gguf = ARCH_NAMES("gemma"),
    .model_types = ARCH_NAMES("gemma"),
    .architectures = ARCH_NAMES("GemmaForCausalLM"),
    .params = gemma_params,
    .hf_norms_add_one = true,
    .pattern = PATTERN_ALL_FULL,
    .gate = GATE_GELU_TANH,
    .scale_embedding_by_sqrt_hidden = true,
};

static const struct param_override gemma2_params[] = {
    {PARAM_HEAD_DIM, NULL, NULL, PARAM_IN_HF, 256},           {PARAM_WINDOW, NULL, NULL, PARAM_IN_BOTH, 4096},
    {PARAM_ATTENTION_SOFTCAP, NULL, NULL, PARAM_IN_BOTH, 50}, {PARAM_FINAL_SOFTCAP, NULL, NULL, PARAM_IN_BOTH, 30},
    {PARAM_QUERY_SCALAR, NULL, NULL, PARAM_IN_HF, 256},       PARAM_END,
};

const struct arch_spec arch_gemma2 = {
    .name = "gemma2",
    .gguf = ARCH_NAMES("gemma2"),
    .model_types = ARCH_NAMES("gemma2"),
    .architectures = ARCH_NAMES("Gemma2ForCausalLM"),
    .params = gemma2_params,
    .roles = roles,
    .norm_place = NORM_BEFORE_AND_AFTER,
    .hf_norms_add_one = true,
    .pattern = PATTERN_FROM_FILE,
    .window_period = 2,
    .gate = GATE_GELU_TANH,
    .scale_embedding_by_sqrt_hidden = true,
    .query_scale_by_hidden_gguf_27b = true,
};

static const struct param_override gemma3_params[] = {
    {PARAM_HEAD_DIM, NULL, NULL, PARAM_IN_HF, 256},     {PARAM_HEADS, NULL, NULL, PARAM_IN_HF, 8},
    {PARAM_KV_HEADS, NULL, NULL, PARAM_IN_HF, 4},       {PARAM_WINDOW, NULL, NULL, PARAM_IN_BOTH, 4096},
    {PARAM_QUERY_SCALAR, NULL, NULL, PARAM_IN_HF, 256}, PARAM_END,
};

const struct arch_spec arch_gemma3 = {
    .name = "gemma3",
    .gguf = ARCH_NAMES("gemma3"),
    .model_types = ARCH_NAMES("gemma3_text", "gemma3"),
    .architectures = ARCH_NAMES("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
    .params = gemma3_params,
    .roles = roles,
    .norm_place = NORM_BEFORE_AND_AFTER,
    .hf_norms_add_one = true,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_rope_unscaled = true,
    .window_period = 6,
    .rope_theta = 1000000,
    .rope_window_theta = 10000,
    .gate = GATE_GELU_TANH,
    .scale_embedding_by_sqrt_hidden = true,
    .query_scale_by_hidden_gguf_27b = true,
};
