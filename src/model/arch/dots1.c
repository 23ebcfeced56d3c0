/* dots1: shared expert, sigmoid router with a bias for choosing, norms on q and k. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_HF, 4096},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_dots1 = {
    .name = "dots1",
    .gguf = ARCH_NAMES("dots1"),
    .model_types = ARCH_NAMES("dots1"),
    .architectures = ARCH_NAMES("Dots1ForCausalLM"),
    .params = params,
    .q_norm = true,
    .k_norm = true,
    .pattern = PATTERN_FROM_FILE,
    .window_flag = WINDOW_UP,
    .gguf_ignores_window = true,
    .router = ROUTER_SIGMOID,
};
