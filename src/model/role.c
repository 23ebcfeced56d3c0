/*
 * role: the table of names and the look-up.
 */
#include "model/role.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

struct role_rule {
    const char *gguf;
    const char *hf[ROLE_HF_NAMES];
    bool per_layer;
};

static const struct role_rule rules[ROLE_COUNT] = {
    [ROLE_EMBEDDING] = {"token_embd", {"embed_tokens", "wte"}, false},
    [ROLE_HEAD] = {"output", {"lm_head"}, false},
    [ROLE_FINAL_NORM] = {"output_norm", {"norm", "final_layernorm"}, false},
    [ROLE_ROPE_FREQUENCIES] = {"rope_freqs", {NULL}, false},
    [ROLE_ROPE_FACTORS_SHORT] = {"rope_factors_short", {NULL}, false},
    [ROLE_ROPE_FACTORS_LONG] = {"rope_factors_long", {NULL}, false},
    [ROLE_LAYER_INPUT_EMBEDDING] = {"per_layer_token_embd", {"embed_tokens_per_layer"}, false},
    [ROLE_LAYER_INPUT_PROJECTION] = {"per_layer_model_proj", {"per_layer_model_projection"}, false},
    [ROLE_LAYER_INPUT_NORM] = {"per_layer_proj_norm", {"per_layer_projection_norm"}, false},
    [ROLE_ATTENTION_NORM] = {"attn_norm", {"input_layernorm"}, true},
    [ROLE_ATTENTION_POST_NORM] = {"post_attention_norm", {NULL}, true},
    [ROLE_Q] = {"attn_q", {"self_attn.q_proj"}, true},
    [ROLE_K] = {"attn_k", {"self_attn.k_proj"}, true},
    [ROLE_V] = {"attn_v", {"self_attn.v_proj"}, true},
    [ROLE_QKV] = {"attn_qkv", {"self_attn.qkv_proj", "self_attn.query_key_value"}, true},
    [ROLE_ATTENTION_OUT] = {"attn_output", {"self_attn.o_proj", "self_attn.dense"}, true},
    [ROLE_ATTENTION_GATE] = {"attn_gate", {"self_attn.gate_proj", "self_attn.g_proj"}, true},
    [ROLE_Q_NORM] = {"attn_q_norm", {"self_attn.q_norm"}, true},
    [ROLE_K_NORM] = {"attn_k_norm", {"self_attn.k_norm"}, true},
    [ROLE_SINKS] = {"attn_sinks", {"self_attn.sinks", "self_attn.attention_sink_bias"}, true},
    [ROLE_Q_A] = {"attn_q_a", {"self_attn.q_a_proj"}, true},
    [ROLE_Q_A_NORM] = {"attn_q_a_norm", {"self_attn.q_a_layernorm"}, true},
    [ROLE_Q_B] = {"attn_q_b", {"self_attn.q_b_proj"}, true},
    [ROLE_KV_A] = {"attn_kv_a_mqa", {"self_attn.kv_a_proj_with_mqa"}, true},
    [ROLE_KV_A_NORM] = {"attn_kv_a_norm", {"self_attn.kv_a_layernorm"}, true},
    [ROLE_KV_B] = {"attn_kv_b", {"self_attn.kv_b_proj"}, true},
    [ROLE_K_B] = {"attn_k_b", {"self_attn.embed_q"}, true},
    [ROLE_V_B] = {"attn_v_b", {"self_attn.unembed_out"}, true},
    [ROLE_INDEX_Q] = {"indexer.attn_q_b", {"self_attn.indexer.wq_b"}, true},
    [ROLE_INDEX_K] = {"indexer.attn_k", {"self_attn.indexer.wk"}, true},
    [ROLE_INDEX_K_NORM] = {"indexer.k_norm", {"self_attn.indexer.k_norm"}, true},
    [ROLE_INDEX_WEIGHTS] = {"indexer.proj", {"self_attn.indexer.weights_proj"}, true},
    [ROLE_RECURRENT_IN] = {"ssm_in", {"linear_attn.in_proj_qkvz", "mamba.in_proj", "mixer.in_proj"}, true},
    [ROLE_RECURRENT_CONV] = {"ssm_conv1d", {"linear_attn.conv1d", "mamba.conv1d", "mixer.conv1d"}, true},
    [ROLE_RECURRENT_RATE] = {"ssm_a", {"linear_attn.A_log", "mamba.A_log", "mixer.A_log", "self_attn.A_log"}, true},
    [ROLE_RECURRENT_RATE_BIAS] = {"ssm_dt", {"linear_attn.dt", "mamba.dt", "mixer.dt", "self_attn.dt"}, true},
    [ROLE_RECURRENT_SKIP] = {"ssm_d", {"mamba.D", "mixer.D"}, true},
    [ROLE_SPACE_INPUTS] = {"ssm_x", {"mamba.x_proj"}, true},
    [ROLE_SPACE_STEP_NORM] = {"ssm_dt_norm", {"mamba.dt_layernorm"}, true},
    [ROLE_SPACE_B_NORM] = {"ssm_b_norm", {"mamba.b_layernorm"}, true},
    [ROLE_SPACE_C_NORM] = {"ssm_c_norm", {"mamba.c_layernorm"}, true},
    [ROLE_SPACE_STEP] = {"ssm_dt", {"mamba.dt_proj"}, true},
    [ROLE_RECURRENT_NORM] = {"ssm_norm", {"linear_attn.norm", "mamba.norm", "mixer.norm", "self_attn.o_norm"}, true},
    [ROLE_RECURRENT_OUT] = {"ssm_out", {"linear_attn.out_proj", "mamba.out_proj", "mixer.out_proj"}, true},
    [ROLE_DELTA_QKV] = {"attn_qkv", {"linear_attn.in_proj_qkv"}, true},
    [ROLE_DELTA_Z] = {"attn_gate", {"linear_attn.in_proj_z"}, true},
    [ROLE_DELTA_B] = {"ssm_beta", {"linear_attn.in_proj_b", "self_attn.b_proj"}, true},
    [ROLE_DELTA_A] = {"ssm_alpha", {"linear_attn.in_proj_a"}, true},
    [ROLE_DELTA_BA] = {"ssm_ba", {"linear_attn.in_proj_ba"}, true},
    [ROLE_DELTA_CONV_Q] = {"ssm_conv1d_q", {"self_attn.q_conv1d", "self_attn.q_conv.conv"}, true},
    [ROLE_DELTA_CONV_K] = {"ssm_conv1d_k", {"self_attn.k_conv1d", "self_attn.k_conv.conv"}, true},
    [ROLE_DELTA_CONV_V] = {"ssm_conv1d_v", {"self_attn.v_conv1d", "self_attn.v_conv.conv"}, true},
    [ROLE_DELTA_DECAY_IN] = {"ssm_f_a", {"self_attn.f_a_proj"}, true},
    [ROLE_DELTA_DECAY_OUT] = {"ssm_f_b", {"self_attn.f_b_proj"}, true},
    [ROLE_DELTA_GATE_IN] = {"ssm_g_a", {"self_attn.g_a_proj"}, true},
    [ROLE_DELTA_GATE_OUT] = {"ssm_g_b", {"self_attn.g_b_proj"}, true},
    [ROLE_STEADY_NORM] = {NULL, {"attention.g_norm"}, true},
    [ROLE_CONV_IN] = {"shortconv.in_proj", {"conv.in_proj"}, true},
    [ROLE_CONV] = {"shortconv.conv", {"conv.conv"}, true},
    [ROLE_CONV_OUT] = {"shortconv.out_proj", {"conv.out_proj"}, true},
    [ROLE_FFN_NORM] = {"ffn_norm", {"post_attention_layernorm"}, true},
    [ROLE_FFN_POST_NORM] = {"post_ffw_norm", {NULL}, true},
    [ROLE_FFN_GATE] = {"ffn_gate", {"mlp.gate_proj"}, true},
    [ROLE_FFN_UP] = {"ffn_up", {"mlp.up_proj"}, true},
    [ROLE_FFN_GATE_UP] = {NULL, {"mlp.gate_up_proj"}, true},
    [ROLE_FFN_DOWN] = {"ffn_down", {"mlp.down_proj"}, true},
    [ROLE_ROUTER] = {"ffn_gate_inp", {"mlp.gate", "block_sparse_moe.gate", "mlp.router"}, true},
    [ROLE_ROUTER_BIAS] = {"exp_probs_b",
                          {"mlp.gate.e_score_correction_bias", "mlp.e_score_correction_bias", "mlp.moe_statics.e_score_correction_bias",
                           "block_sparse_moe.e_score_correction_bias", "mlp.gate.expert_bias"},
                          true},
    [ROLE_EXPERT_GATE] = {"ffn_gate_exps",
                          {"mlp.experts.*.gate_proj", "mlp.switch_mlp.gate_proj", "block_sparse_moe.experts.*.w1", "mlp.experts.gate_proj",
                           "block_sparse_moe.switch_mlp.gate_proj"},
                          true},
    [ROLE_EXPERT_UP] = {"ffn_up_exps",
                        {"mlp.experts.*.up_proj", "mlp.switch_mlp.up_proj", "block_sparse_moe.experts.*.w3", "mlp.experts.up_proj",
                         "block_sparse_moe.switch_mlp.up_proj"},
                        true},
    [ROLE_EXPERT_GATE_UP] = {"ffn_gate_up_exps", {"mlp.experts.gate_up_proj"}, true},
    [ROLE_EXPERT_DOWN] = {"ffn_down_exps",
                          {"mlp.experts.*.down_proj", "mlp.switch_mlp.down_proj", "block_sparse_moe.experts.*.w2", "mlp.experts.down_proj",
                           "block_sparse_moe.switch_mlp.down_proj"},
                          true},
    [ROLE_SHARED_GATE] = {"ffn_gate_shexp",
                          {"mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj", "mlp.shared_mlp.gate_proj"},
                          true},
    [ROLE_SHARED_UP] = {"ffn_up_shexp", {"mlp.shared_experts.up_proj", "mlp.shared_expert.up_proj", "mlp.shared_mlp.up_proj"}, true},
    [ROLE_SHARED_GATE_UP] = {"ffn_gate_up_shexp", {"mlp.shared_experts.gate_up_proj", "mlp.shared_expert.gate_up_proj"}, true},
    [ROLE_SHARED_DOWN] = {"ffn_down_shexp",
                          {"mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj", "mlp.shared_mlp.down_proj"},
                          true},
    [ROLE_SHARED_SCALE] = {"ffn_gate_inp_shexp", {"mlp.shared_expert_gate"}, true},
    [ROLE_ROUTER_INPUT_SCALE] = {"ffn_gate_inp.scale", {"router.scale"}, true},
    [ROLE_EXPERT_SCALE] = {"ffn_down_exps.scale", {"router.per_expert_scale"}, true},
    [ROLE_EXPERT_LATENT_IN] = {"ffn_latent_down", {"mixer.fc1_latent_proj"}, true},
    [ROLE_EXPERT_LATENT_OUT] = {"ffn_latent_up", {"mixer.fc2_latent_proj"}, true},
    [ROLE_EXPERT_NORM] = {"pre_ffw_norm_2", {"pre_feedforward_layernorm_2"}, true},
    [ROLE_FFN_BRANCH_NORM] = {"post_ffw_norm_1", {"post_feedforward_layernorm_1"}, true},
    [ROLE_EXPERT_BRANCH_NORM] = {"post_ffw_norm_2", {"post_feedforward_layernorm_2"}, true},
    [ROLE_LAYER_INPUT_GATE] = {"inp_gate", {"per_layer_input_gate"}, true},
    [ROLE_LAYER_INPUT_OUT] = {"proj", {"per_layer_projection"}, true},
    [ROLE_LAYER_INPUT_POST_NORM] = {"post_norm", {"post_per_layer_input_norm"}, true},
    [ROLE_LAYER_SCALE] = {"layer_output_scale", {"layer_scalar"}, true},
    [ROLE_GATE_ALPHA_P] = {NULL, {"mlp.act_fn.alpha_p"}, true},
    [ROLE_GATE_ALPHA_N] = {NULL, {"mlp.act_fn.alpha_n"}, true},
    [ROLE_GATE_BETA] = {NULL, {"mlp.act_fn.beta"}, true},
    [ROLE_GATE_EPSILON] = {NULL, {"mlp.act_fn.eps"}, true},
    [ROLE_DRAFT_TOKEN_NORM] = {"nextn.enorm", {"enorm", "token_layernorm", "/mtp.pre_fc_norm_embedding"}, true},
    [ROLE_DRAFT_HIDDEN_NORM] = {"nextn.hnorm", {"hnorm", "hidden_layernorm", "/mtp.pre_fc_norm_hidden", "hidden_norm"}, true},
    [ROLE_DRAFT_PROJECTION] = {"nextn.eh_proj", {"eh_proj", "input_proj", "/mtp.fc", "/fc", "/input_proj", "/pre_projection"}, true},
    [ROLE_DRAFT_EMBEDDING] = {"nextn.embed_tokens", {"embed_tokens"}, true},
    [ROLE_DRAFT_HEAD] = {"nextn.shared_head_head", {"shared_head.head"}, true},
    [ROLE_DRAFT_NORM] = {"nextn.shared_head_norm", {"shared_head.norm", "final_layernorm", "/mtp.norm"}, true},
    [ROLE_DRAFT_OUT] = {NULL, {"/output_proj", "/post_projection"}, true},
    [ROLE_DRAFT_TOKENS] = {NULL, {"/d2t"}, true},
    [ROLE_DRAFT_CLUSTERS] = {NULL, {"/masked_embedding.centroids"}, true},
    [ROLE_DRAFT_CLUSTER_TOKENS] = {NULL, {"/masked_embedding.token_ordering"}, true},
};

static const char *const prefixes[] = {"model.",   "language_model.model.", "model.language_model.", "language_model.",
                                       "",         "transformer.",          "model.text_model.",     "backbone.",
                                       "gpt_neox."};
static const char *const layer_words[] = {"layers.", "h.", "blocks."};

#define NAME_BYTES 256

const char *role_name(enum role role) {
    CHECK(role < ROLE_COUNT);
    return rules[role].gguf ? rules[role].gguf : rules[role].hf[0];
}

bool role_is_per_layer(enum role role) { return rules[role].per_layer; }

static const struct role_override *override_of(const struct role_names *names, enum role role) {
    for (const struct role_override *o = names->overrides; o && o->role != ROLE_COUNT; o++)
        if (o->role == role)
            return o;
    return NULL;
}

static const struct tensor_entry *find_exact(const struct role_names *names, const char *name) {
    return catalogue_find(names->catalogue, text_of(name));
}

/* Looks for base + suffix, and for base alone when the suffix is ".weight". */
static const struct tensor_entry *find_suffixed(const struct role_names *names, const char *base, const char *suffix) {
    char name[NAME_BYTES];
    int length = snprintf(name, sizeof name, "%s%s", base, suffix);
    if (length < 0 || (size_t)length >= sizeof name)
        return NULL;
    const struct tensor_entry *tensor = find_exact(names, name);
    return tensor || strcmp(suffix, ".weight") != 0 ? tensor : find_exact(names, base);
}

/* Puts the expert's index in place of '*'. False: the pattern and the question do not fit together. */
static bool fill_expert(const char *pattern, int64_t expert, char *out, size_t out_bytes) {
    const char *star = strchr(pattern, '*');
    if ((star != NULL) != (expert >= 0))
        return false;
    int length = star ? snprintf(out, out_bytes, "%.*s%" PRId64 "%s", (int)(star - pattern), pattern, expert, star + 1)
                      : snprintf(out, out_bytes, "%s", pattern);
    return length >= 0 && (size_t)length < out_bytes;
}

/* GGUF: where experts are tensors of their own, "ffn_up_exps" is "ffn_up.<expert>". */
static const char *single_expert_pattern(const char *pattern, int64_t expert, char *buffer, size_t buffer_bytes) {
    static const char stacked[] = "_exps";
    size_t length = pattern ? strlen(pattern) : 0;
    if (expert < 0 || length < sizeof stacked || strcmp(pattern + length - (sizeof stacked - 1), stacked) != 0)
        return pattern;
    (void)snprintf(buffer, buffer_bytes, "%.*s.*", (int)(length - (sizeof stacked - 1)), pattern);
    return buffer;
}

/* Puts the layer's part in place of '%'. */
static void fill_part(char *name, uint32_t part) {
    char *sign = strchr(name, '%');
    if (sign)
        *sign = (char)('0' + part);
}

static bool full_name(const struct role_names *names, enum role role, const char *pattern, uint32_t layer, int64_t expert, char *out) {
    char local[NAME_BYTES];
    if (!fill_expert(pattern, expert, local, sizeof local))
        return false;
    bool gguf = catalogue_world(names->catalogue) == CATALOGUE_GGUF;
    uint32_t parts = names->parts ? names->parts : 1;
    int length;
    fill_part(local, layer % parts);
    layer /= parts;
    if (local[0] == '/')
        length = snprintf(out, NAME_BYTES, "%s", local + 1);
    else if (!rules[role].per_layer)
        length = snprintf(out, NAME_BYTES, "%s%s", gguf || role == ROLE_HEAD ? "" : names->prefix, local);
    else if (gguf)
        length = snprintf(out, NAME_BYTES, "blk.%u.%s", layer, local);
    else if (names->one_layer)
        length = snprintf(out, NAME_BYTES, "%s%s", names->layers, local);
    else
        length = snprintf(out, NAME_BYTES, "%s%u.%s", names->layers, layer, local);
    return length >= 0 && length < NAME_BYTES;
}

const struct tensor_entry *role_find(const struct role_names *names, enum role role, uint32_t layer, int64_t expert, const char *suffix) {
    const struct role_override *override = override_of(names, role);
    char base[NAME_BYTES];
    if (catalogue_world(names->catalogue) == CATALOGUE_GGUF) {
        char single[NAME_BYTES];
        const char *pattern = override && override->gguf ? override->gguf : rules[role].gguf;
        pattern = single_expert_pattern(pattern, expert, single, sizeof single);
        return pattern && full_name(names, role, pattern, layer, expert, base) ? find_suffixed(names, base, suffix) : NULL;
    }
    const char *const *patterns = override && override->hf[0] ? override->hf : rules[role].hf;
    for (int i = 0; i < ROLE_HF_NAMES && patterns[i]; i++) {
        if (!full_name(names, role, patterns[i], layer, expert, base))
            continue;
        const struct tensor_entry *tensor = find_suffixed(names, base, suffix);
        if (tensor)
            return tensor;
        char wrapped[NAME_BYTES + 32]; /* wrappers keep the head beside or inside the text model */
        if (role == ROLE_HEAD && snprintf(wrapped, sizeof wrapped, "language_model.%s", base) > 0 &&
            (tensor = find_suffixed(names, wrapped, suffix)))
            return tensor;
        if (role == ROLE_HEAD && snprintf(wrapped, sizeof wrapped, "%s%s", names->prefix, base) > 0 &&
            (tensor = find_suffixed(names, wrapped, suffix)))
            return tensor;
    }
    return NULL;
}

bool role_single_name(const struct role_names *names, enum role role, uint32_t layer, uint32_t expert, char *buffer, size_t buffer_bytes) {
    const struct role_override *override = override_of(names, role);
    char name[NAME_BYTES], single[NAME_BYTES];
    const char *gguf = override && override->gguf ? override->gguf : rules[role].gguf;
    const char *const *patterns = override && override->hf[0] ? override->hf : rules[role].hf;
    if (catalogue_world(names->catalogue) == CATALOGUE_GGUF) {
        gguf = single_expert_pattern(gguf, expert, single, sizeof single);
        return gguf && full_name(names, role, gguf, layer, expert, name) &&
               (size_t)snprintf(buffer, buffer_bytes, "%s", name) < buffer_bytes;
    }
    for (int i = 0; i < ROLE_HF_NAMES && patterns[i]; i++)
        if (full_name(names, role, patterns[i], layer, expert, name))
            return (size_t)snprintf(buffer, buffer_bytes, "%s", name) < buffer_bytes;
    return false;
}

const char *role_wanted_name(const struct role_names *names, enum role role, uint32_t layer, char *buffer, size_t buffer_bytes) {
    const struct role_override *override = override_of(names, role);
    bool gguf = catalogue_world(names->catalogue) == CATALOGUE_GGUF;
    const char *pattern = gguf ? (override && override->gguf ? override->gguf : rules[role].gguf)
                               : (override && override->hf[0] ? override->hf[0] : rules[role].hf[0]);
    char name[NAME_BYTES];
    if (!pattern || !full_name(names, role, pattern, layer, strchr(pattern, '*') ? 0 : -1, name))
        (void)snprintf(name, sizeof name, "%s", role_name(role));
    (void)snprintf(buffer, buffer_bytes, "%s.weight", name);
    return buffer;
}

/* What stands before a layer's number: the word under which the first layer has an output of attention, else the usual one. */
static void find_layers(struct role_names *names) {
    for (size_t i = 0; i < sizeof layer_words / sizeof *layer_words; i++) {
        (void)snprintf(names->layers, sizeof names->layers, "%s%s", names->prefix, layer_words[i]);
        if (role_find(names, ROLE_ATTENTION_OUT, 0, -1, ".weight"))
            return;
    }
    (void)snprintf(names->layers, sizeof names->layers, "%s%s", names->prefix, layer_words[0]);
}

enum status role_names_init(struct role_names *names, const struct catalogue *catalogue, const struct role_override *overrides,
                            uint32_t parts, struct error *err) {
    *names = (struct role_names){.catalogue = catalogue, .overrides = overrides, .parts = parts};
    if (catalogue_world(catalogue) == CATALOGUE_GGUF)
        return STATUS_OK;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        (void)snprintf(names->prefix, sizeof names->prefix, "%s", prefixes[i]);
        if (role_find(names, ROLE_EMBEDDING, 0, -1, ".weight")) {
            find_layers(names);
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_NOT_FOUND,
                     "%s: no embedding table (model.embed_tokens.weight or the like): these files hold no language model",
                     catalogue_path(catalogue));
}
