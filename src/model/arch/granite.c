/* granite: factors on embedding, scores, residual sums and logits; the mixture takes a softmax over the chosen experts. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_ATTENTION_SCALE, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_granite = {
    .name = "granite",
    .gguf = ARCH_NAMES("granite"),
    .model_types = ARCH_NAMES("granite"),
    .architectures = ARCH_NAMES("GraniteForCausalLM"),
    .params = params,
    .gguf_interleaved_qk = true,
    .pattern = PATTERN_ALL_FULL,
    .logit_scale_divides = true,
};

static const struct role_override moe_roles[] = {
    {ROLE_ROUTER, NULL, {"block_sparse_moe.router.layer"}},
    {ROLE_EXPERT_GATE_UP, NULL, {"block_sparse_moe.input_linear"}},
    {ROLE_EXPERT_DOWN, NULL, {"block_sparse_moe.output_linear", "block_sparse_moe.switch_mlp.down_proj"}},
    {ROLE_SHARED_GATE_UP, NULL, {"shared_mlp.input_linear"}},
    {ROLE_SHARED_DOWN, NULL, {"shared_mlp.output_linear"}},
    ROLE_END,
};

const struct arch_spec arch_granitemoe = {
    .name = "granitemoe",
    .gguf = ARCH_NAMES("granitemoe"),
    .model_types = ARCH_NAMES("granitemoe", "granitemoeshared"),
    .architectures = ARCH_NAMES("GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"),
    .params = params,
    .roles = moe_roles,
    .gguf_interleaved_qk = true,
    .pattern = PATTERN_ALL_FULL,
    .router = ROUTER_SOFTMAX_CHOSEN,
    .logit_scale_divides = true,
};
