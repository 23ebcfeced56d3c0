/* dots1: shared expert, sigmoid router with a bias for choosing, norms on q and k. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_dots1 = {
    .name = "dots1",
    .gguf = ARCH_NAMES("dots1"),
    .model_types = ARCH_NAMES("dots1"),
    .architectures = ARCH_NAMES("Dots1ForCausalLM"),
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_needs_flag = true,
    .gguf_ignores_window = true,
    .router = ROUTER_SIGMOID,
};
