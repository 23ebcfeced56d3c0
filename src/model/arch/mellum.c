/* mellum: JetBrains' Mellum 2: the mixture of qwen3 with windows in most layers, each kind with a rotation of its own. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_mellum = {
    .name = "mellum",
    .model_types = ARCH_NAMES("mellum"),
    .architectures = ARCH_NAMES("MellumForCausalLM"),
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .router = ROUTER_SOFTMAX,
};
