/* mistral: llama with a sliding window in all layers, when config.json gives one. As GGUF it is called llama. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_mistral = {
    .name = "mistral",
    .model_types = ARCH_NAMES("mistral"),
    .architectures = ARCH_NAMES("MistralForCausalLM"),
    .pattern = PATTERN_FROM_FILE,
};
