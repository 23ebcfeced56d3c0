/*
 * falcon: Falcon 7B, 40B, 180B and 2: attention and feed-forward side by side behind one layer norm or two, q, k, v of each key head
 * together. GGUF calls the norm of the feed-forward attn_norm; where there is one, both read it.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_EMBEDDING, NULL, {"word_embeddings"}},
    {ROLE_FINAL_NORM, NULL, {"ln_f"}},
    {ROLE_ATTENTION_NORM, "attn_norm_2", {"input_layernorm", "ln_attn"}},
    {ROLE_FFN_NORM, "attn_norm", {"ln_mlp", "post_attention_layernorm"}},
    {ROLE_QKV, NULL, {"self_attention.query_key_value"}},
    {ROLE_ATTENTION_OUT, NULL, {"self_attention.dense"}},
    {ROLE_FFN_UP, NULL, {"mlp.dense_h_to_4h"}},
    {ROLE_FFN_DOWN, NULL, {"mlp.dense_4h_to_h"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, "layer_norm_epsilon", "attention.layer_norm_epsilon", PARAM_IN_BOTH, 1e-5},
    {PARAM_TIED, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_falcon = {
    .name = "falcon",
    .gguf = ARCH_NAMES("falcon"),
    .model_types = ARCH_NAMES("falcon", "RefinedWeb", "RefinedWebModel"),
    .architectures = ARCH_NAMES("FalconForCausalLM", "RWForCausalLM"),
    .params = params,
    .roles = roles,
    .hf_refused = ARCH_NAMES("alibi"),
    .norm = NORM_LAYER,
    .parallel_blocks = true,
    .hf_qkv_by_group = true,
    .pattern = PATTERN_ALL_FULL,
    .gate = GATE_GELU_ERF,
    .gateless = true,
};
