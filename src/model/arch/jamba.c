/* jamba: state spaces with a rate for each element, attention without rotation in every few layers, a mixture in some. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_FFN_NORM, NULL, {"pre_ff_layernorm"}},
    {ROLE_FFN_GATE, NULL, {"feed_forward.gate_proj"}},
    {ROLE_FFN_UP, NULL, {"feed_forward.up_proj"}},
    {ROLE_FFN_DOWN, NULL, {"feed_forward.down_proj"}},
    {ROLE_ROUTER, NULL, {"feed_forward.router"}},
    {ROLE_EXPERT_GATE, NULL, {"feed_forward.experts.*.gate_proj", "feed_forward.switch_mlp.gate_proj"}},
    {ROLE_EXPERT_UP, NULL, {"feed_forward.experts.*.up_proj", "feed_forward.switch_mlp.up_proj"}},
    {ROLE_EXPERT_DOWN, NULL, {"feed_forward.experts.*.down_proj", "feed_forward.switch_mlp.down_proj"}},
    ROLE_END,
};

const struct arch_spec arch_jamba = {
    .name = "jamba",
    .gguf = ARCH_NAMES("jamba"),
    .model_types = ARCH_NAMES("jamba"),
    .architectures = ARCH_NAMES("JambaForCausalLM"),
    .roles = roles,
    .pattern = PATTERN_ALL_FULL,
    .rope_free_period = 1,
    .router = ROUTER_SOFTMAX,
};
