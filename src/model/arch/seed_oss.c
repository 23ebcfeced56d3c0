/* seed_oss: llama with biases on q, k and v; GGUF calls the second norm by another name. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_FFN_NORM, "post_attention_norm", {NULL}},
    ROLE_END,
};

const struct arch_spec arch_seed_oss = {
    .name = "seed_oss",
    .gguf = ARCH_NAMES("seed_oss"),
    .model_types = ARCH_NAMES("seed_oss"),
    .architectures = ARCH_NAMES("SeedOssForCausalLM"),
    .roles = roles,
    .pattern = PATTERN_ALL_FULL,
};
