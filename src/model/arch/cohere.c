/* cohere and cohere2: attention and feed-forward side by side behind one layer norm without bias, rotation of neighbours; in cohere2 only
 * window layers rotate. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, "layer_norm_eps", "attention.layer_norm_epsilon", PARAM_IN_BOTH, 1e-5},
    {PARAM_LOGIT_SCALE, NULL, NULL, PARAM_IN_HF, 0.0625},
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_BOTH, 4096},
    {PARAM_TIED, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_cohere2 = {
    .name = "cohere2",
    .gguf = ARCH_NAMES("cohere2"),
    .model_types = ARCH_NAMES("cohere2"),
    .architectures = ARCH_NAMES("Cohere2ForCausalLM"),
    .params = params,
    .norm = NORM_LAYER,
    .parallel_blocks = true,
    .rope_pairs_gguf = true,
    .rope_pairs_hf = true,
    .pattern = PATTERN_FROM_FILE,
    .window_period = 4,
    .rope_in_window_layers_only = true,
};

static const struct param_override cohere_params[] = {
    {PARAM_NORM_EPSILON, "layer_norm_eps", "attention.layer_norm_epsilon", PARAM_IN_BOTH, 1e-5},
    {PARAM_LOGIT_SCALE, NULL, NULL, PARAM_IN_HF, 0.0625},
    {PARAM_TIED, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_cohere = {
    .name = "cohere",
    .gguf = ARCH_NAMES("command-r"),
    .model_types = ARCH_NAMES("cohere"),
    .architectures = ARCH_NAMES("CohereForCausalLM"),
    .params = cohere_params,
    .norm = NORM_LAYER,
    .parallel_blocks = true,
    .rope_pairs_gguf = true,
    .rope_pairs_hf = true,
    .rope_theta = 500000,
    .pattern = PATTERN_ALL_FULL,
};
