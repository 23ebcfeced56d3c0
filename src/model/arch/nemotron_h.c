/* nemotron_h: each layer is a state space, attention without rotation, a feed-forward or a mixture, behind one norm; squared relu. */
#include "model/arch/arch_rows.h"

static const struct role_override roles[] = {
    {ROLE_EMBEDDING, NULL, {"embeddings", "embed_tokens"}},
    {ROLE_FINAL_NORM, NULL, {"norm_f"}},
    {ROLE_ATTENTION_NORM, NULL, {"norm"}},
    {ROLE_Q, NULL, {"mixer.q_proj"}},
    {ROLE_K, NULL, {"mixer.k_proj"}},
    {ROLE_V, NULL, {"mixer.v_proj"}},
    {ROLE_ATTENTION_OUT, NULL, {"mixer.o_proj"}},
    {ROLE_FFN_UP, NULL, {"mixer.up_proj"}},
    {ROLE_FFN_DOWN, NULL, {"mixer.down_proj"}},
    {ROLE_ROUTER, NULL, {"mixer.gate"}},
    {ROLE_ROUTER_BIAS, NULL, {"mixer.gate.e_score_correction_bias"}},
    {ROLE_EXPERT_UP, NULL, {"mixer.experts.*.up_proj", "mixer.switch_mlp.fc1", "mixer.experts.up_proj"}},
    {ROLE_EXPERT_DOWN, NULL, {"mixer.experts.*.down_proj", "mixer.switch_mlp.fc2", "mixer.experts.down_proj"}},
    {ROLE_SHARED_UP, NULL, {"mixer.shared_experts.up_proj"}},
    {ROLE_SHARED_DOWN, NULL, {"mixer.shared_experts.down_proj"}},
    ROLE_END,
};

static const struct param_override params[] = {
    {PARAM_NORM_EPSILON, "layer_norm_epsilon", NULL, PARAM_IN_HF, 1e-5},
    {PARAM_TOP_GROUPS, NULL, NULL, PARAM_IN_HF, 1},
    {PARAM_EXPERT_RENORMALISE, NULL, NULL, PARAM_IN_HF, 1},
    PARAM_END,
};

const struct arch_spec arch_nemotron_h = {
    .name = "nemotron_h",
    .gguf = ARCH_NAMES("nemotron_h", "nemotron_h_moe"),
    .model_types = ARCH_NAMES("nemotron_h"),
    .architectures = ARCH_NAMES("NemotronHForCausalLM"),
    .params = params,
    .roles = roles,
    .one_sublayer = true,
    .pattern = PATTERN_ALL_FULL,
    .rope_free_period = 1,
    .gate = GATE_RELU2,
    .gateless = true,
    .router = ROUTER_SIGMOID,
};
