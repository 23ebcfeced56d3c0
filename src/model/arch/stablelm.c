/* stablelm: StableLM 3B and 2: layer norms with a bias, a quarter of each head rotates; variants with norms on q and k are refused. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, "layer_norm_eps", "attention.layer_norm_epsilon", PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_stablelm = {
    .name = "stablelm",
    .model_types = ARCH_NAMES("stablelm"),
    .architectures = ARCH_NAMES("StableLmForCausalLM", "StableLMEpochForCausalLM"),
    .params = params,
    .hf_refused = ARCH_NAMES("use_parallel_residual", "qk_layernorm"),
    .norm = NORM_LAYER,
    .rope_partial = 0.25,
    .pattern = PATTERN_ALL_FULL,
};
