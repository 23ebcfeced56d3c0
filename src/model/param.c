/*
 * param: the table of rules and the reader. Keys are those of the published files: GGUF's after the architecture prefix, config.json's with
 * their aliases in order of preference.
 */
#include "model/param.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define HF_ALIASES 4

struct param_rule {
    const char *name;
    const char *gguf;
    const char *hf[HF_ALIASES];
    bool per_layer; /* an array of one value per layer is allowed */
    bool integer;
    double minimum, maximum;
    bool has_initial;
    double initial;
};

#define INT_RULE(least, most) .integer = true, .minimum = (least), .maximum = (most)
#define REAL_RULE(least, most) .minimum = (least), .maximum = (most)
#define INITIAL(value) .has_initial = true, .initial = (value)

static const struct param_rule rules[PARAM_COUNT] = {
    [PARAM_LAYERS] = {"layers", "block_count", {"num_hidden_layers", "n_layer", "num_layers"}, INT_RULE(1, 4096)},
    [PARAM_LAYER_PARTS] = {"layer_parts", NULL, {NULL}, INT_RULE(1, 2), INITIAL(1)},
    [PARAM_NEXTN_LAYERS] = {"nextn_layers", "nextn_predict_layers", {NULL}, INT_RULE(0, 64), INITIAL(0)},
    [PARAM_HIDDEN] = {"hidden", "embedding_length", {"hidden_size", "d_model", "n_embd"}, INT_RULE(1, 1 << 20)},
    [PARAM_VOCAB] = {"vocab", "vocab_size", {"vocab_size"}, INT_RULE(1, 1 << 24)},
    [PARAM_CONTEXT] = {"context", "context_length", {"max_position_embeddings"}, INT_RULE(1, 1 << 30), INITIAL(4096)},
    [PARAM_NORM_EPSILON] = {"norm_epsilon",
                            "attention.layer_norm_rms_epsilon",
                            {"rms_norm_eps", "norm_eps", "layer_norm_eps", "layernorm_epsilon"},
                            REAL_RULE(0, 1),
                            INITIAL(1e-6)},
    [PARAM_HEADS] = {"heads", "attention.head_count", {"num_attention_heads", "n_head"}, true, INT_RULE(0, 4096)},
    [PARAM_KV_HEADS] = {"kv_heads", "attention.head_count_kv", {"num_key_value_heads"}, true, INT_RULE(0, 4096)},
    [PARAM_HEAD_DIM] = {"head_dim", "attention.key_length", {"head_dim"}, INT_RULE(1, 8192)},
    [PARAM_V_HEAD_DIM] = {"v_head_dim", "attention.value_length", {"v_head_dim"}, INT_RULE(1, 8192)},
    [PARAM_WINDOW] = {"window", "attention.sliding_window", {"sliding_window"}, INT_RULE(0, 1 << 30)},
    [PARAM_WINDOW_BEFORE] = {"window_before", NULL, {"sliding_window_size"}, INT_RULE(0, 1 << 30)},
    [PARAM_ROPE_DIM] = {"rope_dim", "rope.dimension_count", {"rotary_dim"}, INT_RULE(0, 8192)},
    [PARAM_FFN_HIDDEN] = {"ffn_hidden", "feed_forward_length", {"intermediate_size"}, true, INT_RULE(0, 1 << 24)},
    [PARAM_EXPERTS] = {"experts",
                       "expert_count",
                       {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"},
                       INT_RULE(0, 1 << 16),
                       INITIAL(0)},
    [PARAM_TOP_K] = {"top_k",
                     "expert_used_count",
                     {"num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk"},
                     true,
                     INT_RULE(0, 1024),
                     INITIAL(0)},
    [PARAM_EXPERT_HIDDEN] =
        {"expert_hidden", "expert_feed_forward_length", {"moe_intermediate_size", "expert_ffn_hidden_size"}, true, INT_RULE(0, 1 << 20)},
    [PARAM_ZERO_EXPERTS] = {"zero_experts", NULL, {"zero_expert_num"}, INT_RULE(0, 1 << 16), INITIAL(0)},
    [PARAM_SHARED_EXPERTS] = {"shared_experts",
                              "expert_shared_count",
                              {"n_shared_experts", "num_shared_experts", "num_shared_expert"},
                              true,
                              INT_RULE(0, 1024),
                              INITIAL(0)},
    [PARAM_SHARED_HIDDEN] = {"shared_hidden",
                             "expert_shared_feed_forward_length",
                             {"shared_expert_intermediate_size"},
                             INT_RULE(0, 1 << 24)},
    [PARAM_FIRST_DENSE] =
        {"first_dense", "leading_dense_block_count", {"first_k_dense_replace", "num_dense_layers"}, INT_RULE(0, 4096), INITIAL(0)},
    [PARAM_EXPERT_STEP] = {"expert_step", "interleave_moe_layer_step", {"decoder_sparse_step"}, INT_RULE(1, 4096), INITIAL(1)},
    [PARAM_EXPERT_SCALE] = {"expert_scale", "expert_weights_scale", {"routed_scaling_factor"}, REAL_RULE(-1e6, 1e6), INITIAL(1)},
    [PARAM_EXPERT_RENORMALISE] = {"expert_renormalise", "expert_weights_norm", {"norm_topk_prob"}, INT_RULE(0, 1)},
    [PARAM_EXPERT_GROUPS] = {"expert_groups", "expert_group_count", {"n_group"}, INT_RULE(0, 4096), INITIAL(0)},
    [PARAM_TOP_GROUPS] = {"top_groups", "expert_group_used_count", {"topk_group"}, INT_RULE(0, 4096), INITIAL(0)},
    [PARAM_ATTENTION_SOFTCAP] = {"attention_softcap", "attn_logit_softcapping", {"attn_logit_softcapping"}, REAL_RULE(0, 1e6), INITIAL(0)},
    [PARAM_FINAL_SOFTCAP] = {"final_softcap", "final_logit_softcapping", {"final_logit_softcapping"}, REAL_RULE(0, 1e6), INITIAL(0)},
    [PARAM_QUERY_SCALAR] = {"query_scalar", NULL, {"query_pre_attn_scalar"}, REAL_RULE(1e-6, 1e9)},
    [PARAM_ATTENTION_SCALE] = {"attention_scale", "attention.scale", {"attention_multiplier"}, REAL_RULE(1e-9, 1e9)},
    [PARAM_EMBEDDING_SCALE] = {"embedding_scale", "embedding_scale", {"embedding_multiplier"}, REAL_RULE(-1e9, 1e9), INITIAL(1)},
    [PARAM_RESIDUAL_SCALE] = {"residual_scale", "residual_scale", {"residual_multiplier"}, REAL_RULE(-1e9, 1e9), INITIAL(1)},
    [PARAM_ATTENTION_KEEP] = {"attention_keep",
                              "residual_scale",
                              {"full_attn_alpha_factor", "layernorm_full_attention_alpha"},
                              REAL_RULE(-1e6, 1e6),
                              INITIAL(1)},
    [PARAM_ATTENTION_ADD] =
        {"attention_add", NULL, {"full_attn_beta_factor", "layernorm_full_attention_beta"}, REAL_RULE(-1e6, 1e6), INITIAL(1)},
    [PARAM_LINEAR_KEEP] = {"linear_keep",
                           "residual_scale",
                           {"linear_attn_alpha_factor", "layernorm_linear_attention_alpha"},
                           REAL_RULE(-1e6, 1e6),
                           INITIAL(1)},
    [PARAM_LINEAR_ADD] =
        {"linear_add", NULL, {"linear_attn_beta_factor", "layernorm_linear_attention_beta"}, REAL_RULE(-1e6, 1e6), INITIAL(1)},
    [PARAM_FFN_KEEP] = {"ffn_keep", "residual_scale", {"mlp_alpha_factor", "layernorm_mlp_alpha"}, REAL_RULE(-1e6, 1e6), INITIAL(1)},
    [PARAM_FFN_ADD] = {"ffn_add", NULL, {"mlp_beta_factor", "layernorm_mlp_beta"}, REAL_RULE(-1e6, 1e6), INITIAL(1)},
    [PARAM_LOGIT_SCALE] = {"logit_scale", "logit_scale", {"logit_scale", "logits_scaling"}, REAL_RULE(-1e9, 1e9), INITIAL(1)},
    [PARAM_VALUE_SCALE] = {"value_scale", "attention.value_scale", {"attention_value_scale"}, REAL_RULE(-1e9, 1e9), INITIAL(1)},
    [PARAM_KEY_SCALE] = {"key_scale", NULL, {"key_multiplier"}, REAL_RULE(-1e9, 1e9), INITIAL(1)},
    [PARAM_ATTENTION_IN_SCALE] = {"attention_in_scale", NULL, {"attention_in_multiplier"}, REAL_RULE(-1e9, 1e9), INITIAL(1)},
    [PARAM_ATTENTION_OUT_SCALE] = {"attention_out_scale", NULL, {"attention_out_multiplier"}, REAL_RULE(-1e9, 1e9), INITIAL(1)},
    [PARAM_SPACE_IN_SCALE] = {"space_in_scale", NULL, {"ssm_in_multiplier"}, REAL_RULE(-1e9, 1e9), INITIAL(1)},
    [PARAM_SPACE_OUT_SCALE] = {"space_out_scale", NULL, {"ssm_out_multiplier"}, REAL_RULE(-1e9, 1e9), INITIAL(1)},
    [PARAM_SHARED_KV_LAYERS] = {"shared_kv_layers", "attention.shared_kv_layers", {"num_kv_shared_layers"}, INT_RULE(0, 4096), INITIAL(0)},
    [PARAM_QUERY_TEMPERATURE] = {"query_temperature",
                                 "attention.temperature_scale",
                                 {"rope_parameters/llama_4_scaling_beta", "rope_scaling/llama_4_scaling_beta"},
                                 REAL_RULE(-1e3, 1e3),
                                 INITIAL(0)},
    [PARAM_ORIGINAL_CONTEXT] = {"original_context",
                                "rope.scaling.original_context_length",
                                {"rope_parameters/original_max_position_embeddings", "rope_scaling/original_max_position_embeddings",
                                 "original_max_position_embeddings"},
                                INT_RULE(1, 1 << 30)},
    [PARAM_QK_NORM] = {"qk_norm", NULL, {"use_qk_norm"}, INT_RULE(0, 1), INITIAL(1)},
    [PARAM_ROUTER_SCORE] = {"router_score", "expert_gating_func", {NULL}, INT_RULE(0, 16), INITIAL(0)},
    [PARAM_GATE_ALPHA] = {"gate_alpha", NULL, {"swiglu_alpha"}, REAL_RULE(-1e3, 1e3), INITIAL(1.702)},
    [PARAM_GATE_LIMIT] = {"gate_limit", NULL, {"swiglu_limit"}, REAL_RULE(0, 1e6), INITIAL(7)},
    [PARAM_LAYER_INPUT] =
        {"layer_input", "embedding_length_per_layer_input", {"hidden_size_per_layer_input"}, INT_RULE(0, 1 << 16), INITIAL(0)},
    [PARAM_KV_LATENT] = {"kv_latent", "attention.kv_lora_rank", {"kv_lora_rank"}, INT_RULE(1, 1 << 16)},
    [PARAM_NOPE_DIM] = {"nope_dim", NULL, {"qk_nope_head_dim"}, INT_RULE(1, 8192)},
    [PARAM_LATENT_HEAD_DIM] = {"latent_head_dim", "attention.key_length_mla", {NULL}, INT_RULE(1, 8192)},
    [PARAM_LATENT_V_DIM] = {"latent_v_dim", "attention.value_length_mla", {NULL}, INT_RULE(1, 8192)},
    [PARAM_YARN_FACTOR] =
        {"yarn_factor", "rope.scaling.factor", {"rope_parameters/factor", "rope_scaling/factor"}, REAL_RULE(0, 1e6), INITIAL(1)},
    [PARAM_YARN_SCORE_SCALE] =
        {"yarn_score_scale", NULL, {"rope_parameters/mscale_all_dim", "rope_scaling/mscale_all_dim"}, REAL_RULE(-1e3, 1e3), INITIAL(0)},
    [PARAM_YARN_LOG_MULTIPLIER] = {"yarn_log_multiplier", "rope.scaling.yarn_log_multiplier", {NULL}, REAL_RULE(-1e3, 1e3), INITIAL(0)},
    [PARAM_INDEX_HEADS] = {"index_heads", "attention.indexer.head_count", {"index_n_heads"}, INT_RULE(1, 4096)},
    [PARAM_INDEX_DIM] = {"index_dim", "attention.indexer.key_length", {"index_head_dim"}, INT_RULE(1, 8192)},
    [PARAM_INDEX_TOP_K] = {"index_top_k", "attention.indexer.top_k", {"index_topk"}, INT_RULE(1, 1 << 20)},
    [PARAM_INDEX_ROPE_PAIRS] = {"index_rope_pairs", NULL, {"indexer_rope_interleave"}, INT_RULE(0, 1), INITIAL(0)},
    [PARAM_RECURRENT_HEADS] = {"recurrent_heads",
                               "ssm.time_step_rank",
                               {"linear_num_value_heads", "mamba_n_heads", "mamba_num_heads"},
                               INT_RULE(1, 4096)},
    [PARAM_RECURRENT_KEY_HEADS] = {"recurrent_key_heads",
                                   "ssm.group_count",
                                   {"linear_num_key_heads", "mamba_n_groups", "n_groups"},
                                   INT_RULE(1, 4096)},
    [PARAM_RECURRENT_KEY_DIM] = {"recurrent_key_dim",
                                 "ssm.state_size",
                                 {"linear_key_head_dim", "mamba_d_state", "ssm_state_size"},
                                 INT_RULE(1, 8192)},
    [PARAM_RECURRENT_NORM_EPSILON] = {"recurrent_norm_epsilon", NULL, {NULL}, REAL_RULE(0, 1)},
    [PARAM_DOUBLE_STRENGTH] = {"double_strength", NULL, {"linear_allow_neg_eigval"}, INT_RULE(0, 1), INITIAL(0)},
    [PARAM_NORM_GROUPS] = {"norm_groups", NULL, {"group_norm_size"}, INT_RULE(1, 4096), INITIAL(1)},
    [PARAM_TIED] = {"tied", NULL, {"tie_word_embeddings"}, INT_RULE(0, 1)},
};

const char *param_name(enum param param) {
    CHECK(param < PARAM_COUNT);
    return rules[param].name;
}

const struct meta_value *params_meta(const struct params *params, const struct catalogue *catalogue, const char *key) {
    char full[256];
    int length = snprintf(full, sizeof full, "%s%s", params->prefix, key);
    CHECK(length > 0 && (size_t)length < sizeof full);
    const struct meta_value *value = catalogue_meta(catalogue, full);
    /* wrappers keep some keys of the text model at the top (tie_word_embeddings) */
    return value || catalogue_world(catalogue) == CATALOGUE_GGUF ? value : catalogue_meta(catalogue, key);
}

static enum status check_value(const struct param_rule *rule, const struct catalogue *catalogue, const char *prefix, const char *key,
                               double value, struct error *err) {
    if (!(value >= rule->minimum && value <= rule->maximum))
        return error_set(err, STATUS_CORRUPT,
                         "%s: %s%s is %g, allowed is %g to %g: the model's metadata is damaged or of a kind this "
                         "version does not know",
                         catalogue_path(catalogue), prefix, key, value, rule->minimum, rule->maximum);
    if (rule->integer && value != floor(value))
        return error_set(err, STATUS_CORRUPT, "%s: %s%s is %g, but must be a whole number", catalogue_path(catalogue), prefix, key, value);
    return STATUS_OK;
}

static enum status wrong_type(const struct catalogue *catalogue, const char *prefix, const char *key, struct error *err) {
    return error_set(err, STATUS_CORRUPT, "%s: %s%s is not a number as it should be", catalogue_path(catalogue), prefix, key);
}

static enum status store_one(struct params *params, enum param param, double value, struct error *err) {
    params->values[param] = memory_alloc_array(1, sizeof(double));
    if (!params->values[param])
        return error_set(err, STATUS_NO_MEMORY, "no memory for the model's parameters");
    params->values[param][0] = value;
    params->count[param] = 1;
    params->present[param] = true;
    return STATUS_OK;
}

static enum status read_array(struct params *params, const struct catalogue *catalogue, enum param param, const char *key,
                              const struct meta_value *value, struct error *err) {
    const struct param_rule *rule = &rules[param];
    if (!rule->per_layer || value->array.count == 0 || value->array.count > 8192)
        return error_set(err, STATUS_CORRUPT, "%s: %s%s is a list of %llu values where one number belongs", catalogue_path(catalogue),
                         params->prefix, key, (unsigned long long)value->array.count);
    double *values = memory_alloc_array(value->array.count, sizeof *values);
    if (!values)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %llu values of %s", (unsigned long long)value->array.count, key);
    params->values[param] = values;
    params->count[param] = (uint32_t)value->array.count;
    params->present[param] = true;
    for (uint64_t i = 0; i < value->array.count; i++) {
        bool truth;
        if (!meta_array_f64(value, i, &values[i])) {
            if (!meta_array_bool(value, i, &truth))
                return wrong_type(catalogue, params->prefix, key, err);
            values[i] = truth;
        }
        TRY(check_value(rule, catalogue, params->prefix, key, values[i], err));
    }
    return STATUS_OK;
}

static enum status read_key(struct params *params, const struct catalogue *catalogue, enum param param, const char *key, bool *null,
                            struct error *err) {
    const struct meta_value *value = params_meta(params, catalogue, key);
    if (!value)
        return STATUS_OK;
    if (value->type == META_NULL) {
        *null = true;
        return STATUS_OK;
    }
    if (value->type == META_ARRAY)
        return read_array(params, catalogue, param, key, value, err);
    double number;
    bool truth;
    if (meta_bool(value, &truth) && value->type == META_BOOL)
        number = truth;
    else if (!meta_f64(value, &number))
        return wrong_type(catalogue, params->prefix, key, err);
    TRY(check_value(&rules[param], catalogue, params->prefix, key, number, err));
    return store_one(params, param, number, err);
}

static enum status read_param(struct params *params, const struct catalogue *catalogue, enum param param,
                              const struct param_override *override, struct error *err) {
    const struct param_rule *rule = &rules[param];
    bool null = false, gguf = catalogue_world(catalogue) == CATALOGUE_GGUF;
    if (gguf) {
        const char *key = override && override->gguf_key ? override->gguf_key : rule->gguf;
        if (key)
            TRY(read_key(params, catalogue, param, key, &null, err));
    } else if (override && override->hf_key) {
        TRY(read_key(params, catalogue, param, override->hf_key, &null, err));
    } else {
        for (int i = 0; i < HF_ALIASES && rule->hf[i] && !params->present[param]; i++)
            TRY(read_key(params, catalogue, param, rule->hf[i], &null, err));
    }
    bool fits = override && (override->world == PARAM_IN_BOTH || override->world == (gguf ? PARAM_IN_GGUF : PARAM_IN_HF));
    if (!params->present[param] && fits && !null)
        return store_one(params, param, override->initial, err);
    if (!params->present[param] && rule->has_initial)
        return store_one(params, param, rule->initial, err);
    return STATUS_OK;
}

/* nemotron_h may have a list or a line of letters, one for each layer, and no number beside it. */
static enum status count_layers(struct params *params, const struct catalogue *catalogue, struct error *err) {
    const struct meta_value *kinds = params_meta(params, catalogue, "layers_block_type");
    struct text letters = {0};
    uint64_t count = kinds && kinds->type == META_ARRAY ? kinds->array.count : 0;
    if (count == 0 && meta_text(params_meta(params, catalogue, "hybrid_override_pattern"), &letters))
        count = letters.size_bytes;
    return count >= 1 && count <= 4096 ? store_one(params, PARAM_LAYERS, (double)count, err) : STATUS_OK;
}

enum status params_read(struct params *params, const struct catalogue *catalogue, const char *prefix,
                        const struct param_override *overrides, struct error *err) {
    *params = (struct params){0};
    int length = snprintf(params->prefix, sizeof params->prefix, "%s", prefix);
    if (length < 0 || (size_t)length >= sizeof params->prefix)
        return error_set(err, STATUS_CORRUPT, "%s: architecture name '%.40s...' is too long", catalogue_path(catalogue), prefix);
    for (enum param p = 0; p < PARAM_COUNT; p++) {
        const struct param_override *override = NULL;
        for (const struct param_override *o = overrides; o && o->param != PARAM_COUNT; o++)
            if (o->param == p)
                override = o;
        TRY(read_param(params, catalogue, p, override, err));
    }
    if (!params->present[PARAM_WINDOW] && params_f64(params, PARAM_WINDOW_BEFORE, 0) > 0)
        TRY(store_one(params, PARAM_WINDOW, params_f64(params, PARAM_WINDOW_BEFORE, 0) + 1, err));
    if (!params->present[PARAM_LAYERS])
        TRY(count_layers(params, catalogue, err));
    TRY(params_need(params, catalogue, PARAM_LAYERS, err));
    TRY(params_need(params, catalogue, PARAM_HIDDEN, err));
    TRY(params_need(params, catalogue, PARAM_HEADS, err));
    uint32_t all = params_u32(params, PARAM_LAYERS, 0), nextn = params_u32(params, PARAM_NEXTN_LAYERS, 0);
    if (nextn >= all)
        return error_set(err, STATUS_CORRUPT, "%s: %u prediction layers of %u layers in all", catalogue_path(catalogue), nextn, all);
    params->layers = (all - nextn) * params_u32(params, PARAM_LAYER_PARTS, 0);
    for (enum param p = 0; p < PARAM_COUNT; p++)
        if (params->present[p] && params->count[p] != 1 && params->count[p] < params->layers)
            return error_set(err, STATUS_CORRUPT, "%s: %s has %u values for %u layers", catalogue_path(catalogue), rules[p].name,
                             params->count[p], params->layers);
    return STATUS_OK;
}

void params_deinit(struct params *params) {
    for (enum param p = 0; p < PARAM_COUNT; p++)
        memory_free(params->values[p]);
    *params = (struct params){0};
}

bool params_has(const struct params *params, enum param param) { return params->present[param]; }

double params_f64(const struct params *params, enum param param, uint32_t layer) {
    if (!params->present[param])
        return 0;
    if (params->count[param] == 1)
        return params->values[param][0];
    uint32_t last = params->count[param] - 1; /* a prediction layer behind the last is like the last */
    return params->values[param][layer < last ? layer : last];
}

uint32_t params_u32(const struct params *params, enum param param, uint32_t layer) {
    double value = params_f64(params, param, layer);
    ASSERT(value >= 0 && value <= UINT32_MAX);
    return (uint32_t)value;
}

double params_factor(const struct params *params, const struct catalogue *catalogue, const char *key, uint64_t index) {
    double factor = 1;
    const struct meta_value *list = catalogue_world(catalogue) == CATALOGUE_HF ? params_meta(params, catalogue, key) : NULL;
    if (list && list->type == META_ARRAY && index < list->array.count)
        (void)meta_array_f64(list, index, &factor);
    return factor;
}

enum status params_need(const struct params *params, const struct catalogue *catalogue, enum param param, struct error *err) {
    if (params->present[param])
        return STATUS_OK;
    const struct param_rule *rule = &rules[param];
    bool gguf = catalogue_world(catalogue) == CATALOGUE_GGUF;
    const char *key = gguf ? rule->gguf : rule->hf[0];
    return error_set(err, STATUS_CORRUPT, "%s: %s%s is missing from the %s: the model cannot be run without it", catalogue_path(catalogue),
                     params->prefix, key ? key : rule->name, gguf ? "metadata" : "config.json");
}
