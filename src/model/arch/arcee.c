/* arcee: AFM: llama with relu squared and no gate. */
#include "model/arch/arch_rows.h"

const struct arch_spec arch_arcee = {
    .name = "arcee",
    .gguf = ARCH_NAMES("arcee"),
    .model_types = ARCH_NAMES("arcee"),
    .architectures = ARCH_NAMES("ArceeForCausalLM"),
    .gguf_interleaved_qk = true,
    .pattern = PATTERN_ALL_FULL,
    .gate = GATE_RELU2,
    .gateless = true,
};
