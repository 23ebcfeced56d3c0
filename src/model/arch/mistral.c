/* mistral: llama with a sliding window in all layers, when config.json gives one. As GGUF it is called llama. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 4096},
    PARAM_END,
};

const struct arch_spec arch_mistral = {
    .name = "mistral",
    .model_types = ARCH_NAMES("mistral", "ministral"),
    .architectures = ARCH_NAMES("MistralForCausalLM", "MinistralForCausalLM"),
    .params = params,
    .pattern = PATTERN_FROM_FILE,
};
