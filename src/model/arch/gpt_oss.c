/*
 * gpt_oss: sinks, a window in every other layer, biases everywhere, clamped swiglu. Checkpoints in bf16 multiply experts from the right
 * and alternate gate and up; MXFP4 ones alternate rows.
 */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_FFN_NORM, "post_attention_norm", {NULL}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 128},
    PARAM_END,
};

const struct arch_spec arch_gpt_oss = {
    .name = "gpt_oss",
    .gguf = ARCH_NAMES("gpt-oss"),
    .model_types = ARCH_NAMES("gpt_oss"),
    .architectures = ARCH_NAMES("GptOssForCausalLM"),
    .params = params,
    .roles = roles,
    .pattern = PATTERN_FROM_FILE,
    .window_period = 2,
    .rope_theta = 150000,
    .gguf_yarn_unrounded_context = 4096,
    .gate = GATE_SWIGLU_CLAMPED,
    .router = ROUTER_SOFTMAX_CHOSEN,
    .hf_experts_transposed = true,
    .hf_gate_up_interleaved = true,
};
