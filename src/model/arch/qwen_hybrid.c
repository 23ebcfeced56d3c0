/* qwen3_next, qwen3_5 and qwen3_5_moe: gated delta nets, gated attention in every fourth layer. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_FFN_NORM, "post_attention_norm", {NULL}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_HEAD_DIM, NULL, NULL, PARAM_IN_HF, 256},          {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1},
    {PARAM_RECURRENT_HEADS, NULL, NULL, PARAM_IN_HF, 32},    {PARAM_RECURRENT_KEY_HEADS, NULL, NULL, PARAM_IN_HF, 16},
    {PARAM_RECURRENT_KEY_DIM, NULL, NULL, PARAM_IN_HF, 128}, PARAM_END,
};

const struct arch_spec arch_qwen3_next = {
    .name = "qwen3_next",
    .gguf = ARCH_NAMES("qwen3next"),
    .model_types = ARCH_NAMES("qwen3_next"),
    .architectures = ARCH_NAMES("Qwen3NextForCausalLM"),
    .params = params,
    .roles = roles,
    .hf_norms_add_one = true,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_ALL_FULL,
    .rope_partial = 0.25,
};

const struct arch_spec arch_qwen3_5 = {
    .name = "qwen3_5",
    .gguf = ARCH_NAMES("qwen35"),
    .model_types = ARCH_NAMES("qwen3_5_text", "qwen3_5"),
    .architectures = ARCH_NAMES("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"),
    .params = params,
    .roles = roles,
    .hf_norms_add_one = true,
    .q_norm = true,
    .k_norm = true,
    .gguf_value_heads_tiled = true,
    .pattern = PATTERN_ALL_FULL,
    .rope_partial = 0.25,
};

const struct arch_spec arch_qwen3_5_moe = {
    .name = "qwen3_5_moe",
    .gguf = ARCH_NAMES("qwen35moe"),
    .model_types = ARCH_NAMES("qwen3_5_moe_text", "qwen3_5_moe"),
    .architectures = ARCH_NAMES("Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"),
    .params = params,
    .roles = roles,
    .hf_norms_add_one = true,
    .q_norm = true,
    .k_norm = true,
    .gguf_value_heads_tiled = true,
    .pattern = PATTERN_ALL_FULL,
    .rope_partial = 0.25,
};
