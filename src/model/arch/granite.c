/* granite: factors on embedding, scores, residual sums and logits; the mixture takes a softmax over the chosen experts. */
#include "model/arch/arch_rows.h"

static const struct param_override params[] = {
    {PARAM_ATTENTION_SCALE, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_RECURRENT_KEY_HEADS, NULL, NULL, PARAM_IN_HF, 1},
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

/* Granite 4: state spaces, attention in every few layers. Without experts the shared feed-forward is the only one. */
static const struct role_override hybrid_roles[] = {
    {ROLE_ROUTER, NULL, {"block_sparse_moe.router.layer"}},
    {ROLE_EXPERT_GATE_UP, NULL, {"block_sparse_moe.input_linear"}},
    {ROLE_EXPERT_DOWN, NULL, {"block_sparse_moe.output_linear", "block_sparse_moe.switch_mlp.down_proj"}},
    {ROLE_SHARED_GATE_UP, NULL, {"shared_mlp.input_linear"}},
    {ROLE_SHARED_DOWN, NULL, {"shared_mlp.output_linear"}},
    {ROLE_FFN_GATE_UP, NULL, {"shared_mlp.input_linear"}},
    {ROLE_FFN_DOWN, NULL, {"shared_mlp.output_linear", "mlp.down_proj"}},
    ROLE_END,
};

const struct arch_spec arch_granitemoehybrid = {
    .name = "granitemoehybrid",
    .gguf = ARCH_NAMES("granitehybrid"),
    .model_types = ARCH_NAMES("granitemoehybrid"),
    .architectures = ARCH_NAMES("GraniteMoeHybridForCausalLM"),
    .params = params,
    .roles = hybrid_roles,
    .gguf_interleaved_qk = true,
    .pattern = PATTERN_ALL_FULL,
    .hf_rope_must_be_named = true,
    .gguf_finetuned_is_rope = true,
    .router = ROUTER_SOFTMAX_CHOSEN,
    .logit_scale_divides = true,
};
