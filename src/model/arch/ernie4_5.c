/* ernie4_5: rotates neighbours; the mixture has a bias for choosing and always renormalises. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_ernie4_5 = {
    .name = "ernie4_5",
    .gguf = ARCH_NAMES("ernie4_5"),
    .model_types = ARCH_NAMES("ernie4_5"),
    .architectures = ARCH_NAMES("Ernie4_5ForCausalLM"),
    .params = params,
    .rope_pairs_gguf = true,
    .rope_pairs_hf = true,
    .rope_theta = 500000,
    .pattern = PATTERN_ALL_FULL,
};

static const struct param_override moe_params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1},
    {PARAM_FIRST_DENSE, "moe_layer_start_index", NULL, PARAM_IN_HF, 1},
    {PARAM_EXPERT_STEP, "moe_layer_interval", NULL, PARAM_IN_HF, 1},
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_ernie4_5_moe = {
    .name = "ernie4_5_moe",
    .gguf = ARCH_NAMES("ernie4_5-moe"),
    .model_types = ARCH_NAMES("ernie4_5_moe"),
    .architectures = ARCH_NAMES("Ernie4_5_MoeForCausalLM"),
    .params = moe_params,
    .rope_pairs_gguf = true,
    .rope_pairs_hf = true,
    .rope_theta = 500000,
    .pattern = PATTERN_ALL_FULL,
};
