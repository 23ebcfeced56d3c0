/* eagle: EAGLE drafters, whatever their target is: layers of llama. One kind lets every row see itself alone: a window of 1. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_eagle = {
    .name = "eagle",
    .model_types = ARCH_NAMES("eagle", "eagle3"),
    .pattern = PATTERN_ALL_FULL,
};

static const struct param_override alone_params[] = {
    {PARAM_WINDOW, NULL, NULL, PARAM_IN_BOTH, 1},
    PARAM_END,
};

const struct arch_spec arch_eagle_alone = {
    .name = "eagle",
    .model_types = ARCH_NAMES("eagle"),
    .params = alone_params,
    .pattern = PATTERN_FROM_FILE,
};
