/* gpt_neox: GPT-NeoX and Pythia: attention and feed-forward side by side behind layer norms of their own, q, k, v of each head together. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_EMBEDDING, NULL, {"embed_in"}},
    {ROLE_HEAD, NULL, {"embed_out", "lm_head"}},
    {ROLE_FINAL_NORM, NULL, {"final_layer_norm"}},
    {ROLE_QKV, NULL, {"attention.query_key_value"}},
    {ROLE_ATTENTION_OUT, NULL, {"attention.dense"}},
    {ROLE_FFN_UP, NULL, {"mlp.dense_h_to_4h"}},
    {ROLE_FFN_DOWN, NULL, {"mlp.dense_4h_to_h"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, "layer_norm_eps", "attention.layer_norm_epsilon", PARAM_IN_BOTH, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_gpt_neox = {
    .name = "gpt_neox",
    .gguf = ARCH_NAMES("gptneox"),
    .model_types = ARCH_NAMES("gpt_neox"),
    .architectures = ARCH_NAMES("GPTNeoXForCausalLM"),
    .params = params,
    .roles = roles,
    .norm = NORM_LAYER,
    .parallel_blocks = true,
    .hf_qkv_by_group = true,
    .rope_partial = 0.25,
    .pattern = PATTERN_ALL_FULL,
    .gate = GATE_GELU_ERF,
    .gateless = true,
};
