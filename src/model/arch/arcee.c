/* arcee: AFM: llama with relu squared and no gate. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, NULL, NULL, PARAM_IN_HF, 1e-5},
    PARAM_END,
};

const struct arch_spec arch_arcee = {
    .name = "arcee",
    .gguf = ARCH_NAMES("arcee"),
    .model_types = ARCH_NAMES("arcee"),
    .architectures = ARCH_NAMES("ArceeForCausalLM"),
    .params = params,
    .gguf_interleaved_qk = true,
    .pattern = PATTERN_ALL_FULL,
    .gate = GATE_RELU2,
    .gateless = true,
};
