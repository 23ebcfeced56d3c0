/* minimax_m2: norms on whole rows of q and k, part of each head rotates, sigmoid router with a bias for choosing. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_BOTH, 1},
    PARAM_END,
};

const struct arch_spec arch_minimax_m2 = {
    .name = "minimax_m2",
    .gguf = ARCH_NAMES("minimax-m2"),
    .model_types = ARCH_NAMES("minimax_m2"),
    .architectures = ARCH_NAMES("MiniMaxM2ForCausalLM"),
    .params = params,
    .q_norm = true,
    .k_norm = true,
    .rope_theta = 5000000,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SIGMOID,
};
