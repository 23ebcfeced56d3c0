/* llama: Llama 1-3 and everything that shares its shape; its GGUF name also stands for Mistral and Mixtral. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1}, /* Mixtral as GGUF */
    PARAM_END,
};

const struct arch_spec arch_llama = {
    .name = "llama",
    .gguf = ARCH_NAMES("llama"),
    .model_types = ARCH_NAMES("llama", "iquestcoder", "xverse"),
    .architectures = ARCH_NAMES("LlamaForCausalLM"),
    .params = params,
    .gguf_interleaved_qk = true,
    .pattern = PATTERN_ALL_FULL,
};
