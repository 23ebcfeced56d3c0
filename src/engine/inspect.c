/*
 * inspect: what a model is made of.
 *
 * Formats   shares of the bytes of the matrices that a pass uses, as products see them ("affine 4-bit", not U32 and BF16); of all tensors
 *           when the model does not open.
 * Unknown   a key of the metadata that nobody asked for while the model was opened, and that neither is off (null, false, 0, empty) nor
 *           known to be without effect on a pass.
 */
#include "engine/inspect.h"

#include <inttypes.h>
#include <string.h>

#include "base/byte_buffer.h"
#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"
#include "text/reply_markers.h"

#define NAMES_BYTES (1u << 20)

static void put(json_t *root, const char *key, json_t *value) { (void)json_object_set_new(root, key, value); }
static void put_u64(json_t *root, const char *key, uint64_t value) { put(root, key, json_integer((json_int_t)value)); }
static void put_text(json_t *root, const char *key, const char *value) { put(root, key, json_string_nocheck(value)); }

/* Lines of text as an array, if there are any. */
static void put_lines(json_t *root, const char *key, struct text lines) {
    json_t *list = json_array();
    for (size_t at = 0, end; at < lines.size_bytes; at = end + 1) {
        for (end = at; end < lines.size_bytes && lines.data[end] != '\n';)
            end++;
        (void)json_array_append_new(list, json_stringn_nocheck(lines.data + at, end - at));
    }
    if (json_array_size(list) > 0)
        put(root, key, list);
    else
        json_decref(list);
}

/* ---- files ---- */

static json_t *stored_formats(const struct catalogue *catalogue) {
    uint64_t bytes[DTYPE_COUNT] = {0}, total = 0;
    for (uint64_t i = 0; i < catalogue_tensor_count(catalogue); i++) {
        bytes[catalogue_tensor(catalogue, i)->dtype] += catalogue_tensor(catalogue, i)->size_bytes;
        total += catalogue_tensor(catalogue, i)->size_bytes;
    }
    json_t *formats = json_object();
    for (enum dtype d = 0; d < DTYPE_COUNT; d++)
        if (bytes[d])
            put(formats, dtype_info(d)->name, json_real((double)bytes[d] / (double)total));
    return formats;
}

static json_t *tensors_json(const struct catalogue *catalogue) {
    json_t *list = json_array();
    for (uint64_t i = 0; i < catalogue_tensor_count(catalogue); i++) {
        const struct tensor_entry *t = catalogue_tensor(catalogue, i);
        json_t *shape = json_array();
        for (uint32_t d = 0; d < t->rank; d++)
            (void)json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
        (void)json_array_append_new(list,
                                    json_pack("{s:o,s:s,s:o,s:i,s:I,s:I}", "name", json_stringn_nocheck(t->name.data, t->name.size_bytes),
                                              "format", dtype_info(t->dtype)->name, "shape", shape, "file", (int)t->file, "offset_bytes",
                                              (json_int_t)t->offset_bytes, "size_bytes", (json_int_t)t->size_bytes));
    }
    return list;
}

static json_t *files_json(const char *path, const struct catalogue *catalogue, const struct file_set *files) {
    uint64_t bytes = 0, count = 0;
    for (uint32_t f = 0; f < file_set_count(files); f++)
        if (file_set_copy_number(files, f) == 0) {
            bytes += file_set_size_bytes(files, f);
            count++;
        }
    json_t *root = json_object();
    put_text(root, "path", path);
    put_text(root, "kind", catalogue_world(catalogue) == CATALOGUE_GGUF ? "GGUF" : "Hugging Face / MLX");
    put_u64(root, "files", count);
    put_u64(root, "file_bytes", bytes);
    put_u64(root, "tensor_count", catalogue_tensor_count(catalogue));
    return root;
}

/* ---- network ---- */

static json_t *used_formats(const struct plan *plan) {
    json_t *formats = json_object();
    uint64_t total = 0;
    for (uint32_t w = 0; w < plan->weight_count; w++)
        total += plan_weight_total_bytes(&plan->weights[w]);
    for (uint32_t w = 0; w < plan->weight_count; w++) {
        const struct plan_weight *weight = &plan->weights[w];
        char name[64];
        if (weight->bits)
            (void)snprintf(name, sizeof name, "%s %u-bit", matrix_format_name(weight->format), weight->bits);
        else
            (void)snprintf(name, sizeof name, "%s", matrix_format_name(weight->format));
        double share = json_number_value(json_object_get(formats, name));
        put(formats, name, json_real(share + (double)plan_weight_total_bytes(weight) / (double)total));
    }
    return formats;
}

static bool has_role(const struct plan_weight *weight, enum role role) {
    const char *dot = strrchr(weight->name, '.');
    return strcmp(dot ? dot + 1 : weight->name, role_name(role)) == 0;
}

static void put_experts(json_t *root, const struct model *model) {
    const struct plan *plan = &model->plan;
    uint32_t shared_layers = 0, shared = 0;
    for (uint32_t w = 0; w < plan->weight_count; w++)
        shared_layers += has_role(&plan->weights[w], ROLE_SHARED_DOWN);
    for (uint32_t l = 0; l < model->params.layers && shared_layers > 0; l++)
        if (params_u32(&model->params, PARAM_SHARED_EXPERTS, l) > shared)
            shared = params_u32(&model->params, PARAM_SHARED_EXPERTS, l);
    put_u64(root, "experts", plan->experts);
    put_u64(root, "experts_per_token", plan->top_k);
    put_u64(root, "shared_experts", shared_layers > 0 && shared == 0 ? 1 : shared); /* the tensors count, not the metadata */
    put_u64(root, "expert_layers", plan->expert_layers);
}

/* What a decoded token reads: all matrices but the embedding, of which it takes a row, and the chosen experts. */
static void put_token_bytes(json_t *root, const struct plan *plan) {
    uint64_t dense = 0, experts = 0;
    for (uint32_t w = 0; w < plan->weight_count; w++) {
        const struct plan_weight *weight = &plan->weights[w];
        if (weight->experts)
            experts += plan_weight_bytes(weight) * plan->top_k;
        else
            dense += plan_weight_bytes(weight) / (weight->rows_only ? weight->rows : 1);
    }
    put_u64(root, "bytes_per_token", dense + experts);
    put_u64(root, "bytes_per_token_dense", dense);
    put_u64(root, "bytes_per_token_experts", experts);
}

static void put_state_bytes(json_t *root, const struct model *model) {
    const struct plan *plan = &model->plan;
    uint64_t per_token = 0;
    uint32_t windows = 0, window = 0;
    for (uint32_t s = 0; s < plan->state_count; s++) {
        const struct plan_state *state = &plan->states[s];
        if (state->kind != STATE_KV)
            continue;
        per_token += 2ull * state->kv_heads * (state->head_dim + (state->values_in_keys ? 0 : state->v_dim));
        windows += state->window > 0;
        window = state->window > window ? state->window : window;
    }
    put_u64(root, "context", model->context);
    put_u64(root, "kv_bytes_per_token", per_token);
    put_u64(root, "kv_bytes_at_context", kv_cache_bytes(plan, &(struct kv_options){.sequences = 1, .context = model->context}));
    if (windows > 0) {
        put_u64(root, "window_layers", windows);
        put_u64(root, "window", window);
    }
    if (recurrent_state_bytes(plan, 1) > 0)
        put_u64(root, "recurrent_state_bytes", recurrent_state_bytes(plan, 1));
}

/* ---- text ---- */

static void warn(json_t *warnings, const char *text) { (void)json_array_append_new(warnings, json_string_nocheck(text)); }

static void put_tokenizer(json_t *root, const sluice_model *m, json_t *warnings) {
    put_text(root, "tokenizer", m->tokenizer ? tokenizer_kind(m->tokenizer) : "missing");
    if (!m->tokenizer) {
        warn(warnings, "there is no tokenizer: prompts can only be given as ids");
        return;
    }
    uint32_t vocab = tokenizer_vocab_size(m->tokenizer);
    char text[160];
    put_u64(root, "tokenizer_vocab", vocab);
    (void)snprintf(text, sizeof text, "the tokenizer has %u ids, the model only %u: an id that is too high ends a request with an error",
                   vocab, m->model->plan.vocab);
    if (vocab > m->model->plan.vocab)
        warn(warnings, text);
}

static void put_template(json_t *root, const sluice_model *m, json_t *warnings) {
    struct error err;
    struct chat_template *chat = NULL;
    enum status status = chat_template_open(m->model->catalogue, &chat, &err);
    put_text(root, "chat_template", status == STATUS_OK ? "yes" : status == STATUS_NOT_FOUND ? "no" : "unusable");
    if (status == STATUS_OK)
        put_text(root, "reply_format", reply_family_detect(chat_template_source(chat, false))->name);
    else if (status != STATUS_NOT_FOUND || m->tokenizer)
        warn(warnings, err.text);
    chat_template_close(chat);
}

static void put_end_ids(json_t *root, const sluice_model *m, json_t *warnings) {
    json_t *ids = json_array();
    for (uint32_t i = 0; i < m->end_id_count; i++)
        (void)json_array_append_new(ids, json_integer((json_int_t)m->end_ids[i]));
    put(root, "end_ids", ids);
    if (m->end_id_count == 0)
        warn(warnings, "no file names an id that ends a text: answers go on to the limit");
}

/* ---- what is not understood ---- */

/* First words of keys that say nothing about the arithmetic of a pass, */
static const char *const harmless[] = {
    "_attn_implementation",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_dropout",
    "audio_config",
    "auto_map",
    "aux_loss_alpha",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "dtype",
    "embd_pdrop",
    "embedding_initializer_range",
    "eod_token_id",
    "ep_size",
    "expert_dropout",
    "hidden_dropout_prob",
    "id2label",
    "image_token_id",
    "image_token_index",
    "initializer_factor",
    "initializer_range",
    "is_decoder",
    "label2id",
    "max_length",
    "mlp_dropout",
    "model_type",
    "num_return_sequences",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "problem_type",
    "resid_pdrop",
    "residual_dropout",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "router_z_loss_coef",
    "sep_token_id",
    "seq_aux",
    "task_specific_params",
    "torch_dtype",
    "transformers_version",
    "unsloth_version",
    "use_cache",
    "vision_config",
    /* keys that repeat what the tensors say, */
    "add_swa_attention_sink_bias",
    "attention_method",
    "attention_other_setting",
    "attn_layer_offset",
    "attn_layer_period",
    "attn_type_list",
    "block_auto_adjust_ff_dim",
    "block_dim",
    "block_ff_dim",
    "block_ffn_dim_multiplier",
    "block_multiple_of",
    "conv_kernel",
    "expert_layer_offset",
    "expert_layer_period",
    "hybrid_override_pattern",
    "kda.head_dim",
    "layer_group_size",
    "linear_attn_config",
    "mamba_conv_bias",
    "mamba_d_conv",
    "mamba_d_head",
    "mamba_d_ssm",
    "mamba_dt_rank",
    "mamba_expand",
    "mamba_head_dim",
    "mamba_use_mlp",
    "moe_every_n_layers",
    "moe_latent_size",
    "moe_layers_enum",
    "moe_shared_expert_intermediate_size",
    "multi_query",
    "new_decoder_architecture",
    "num_kv_heads",
    "share_expert_dim",
    "shared_intermediate_size",
    "shared_moe_mode",
    "use_conv_bias",
    "use_head_wise_attn_gate",
    "use_qkv_bias",
    "attention_bias",
    "attention_k_eq_v",
    "bias",
    "conv_L_cache",
    "enable_moe_block",
    "full_attention_interval",
    "global_head_dim",
    "is_moe_layer",
    "layer_types",
    "linear_conv_kernel_dim",
    "linear_value_head_dim",
    "max_window_layers",
    "mlp_bias",
    "mlp_layer_types",
    "mlp_only_layers",
    "moe_layer_end_index",
    "moe_layer_freq",
    "moe_layer_interval",
    "moe_layer_start_index",
    "moe_router_enable_expert_bias",
    "num_global_key_value_heads",
    "num_nextn_predict_layers",
    "per_layer_config",
    "q_lora_rank",
    "qk_head_dim",
    "qkv_bias",
    "swa_head_dim",
    "swa_num_attention_heads",
    "swa_num_key_value_heads",
    "swa_v_head_dim",
    "use_double_wide_mlp",
    "use_expert_bias",
    "vocab_size_per_layer_input",
    "attention.key_length_swa",
    "attention.q_lora_rank",
    "attention.recurrent_layers",
    "attention.value_length_swa",
    "rope.dimension_sections",
    "shortconv.l_cache",
    "ssm.conv_kernel",
    "ssm.inner_size",
    /* and keys that are read where the better one is missing, or whose value has one meaning here. */
    "hidden_act",
    "hidden_activation",
    "_sliding_window_pattern",
    "attn_temperature_tuning",
    "interleave_moe_layer_step",
    "moe_norm_min",
    "moe_num_shared_experts",
    "no_rope_layer_interval",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "quantization",
    "rope.freq_base",
    "use_grouped_topk",
    "yarn_only_types",
    "quantization_config",
    "rms_norm_eps",
    "attention.layer_norm_rms_epsilon",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window_pattern",
    "topk_method",
};

static bool is_off(const struct meta_value *value) {
    bool truth;
    double number;
    struct text text;
    if (value->type == META_BOOL)
        return meta_bool(value, &truth) && !truth;
    if (value->type == META_TEXT)
        return meta_text(value, &text) && text.size_bytes == 0;
    return value->type == META_NULL || (value->type == META_ARRAY && value->array.count == 0) || (meta_f64(value, &number) && number == 0);
}

static bool is_harmless(struct text key) {
    size_t length = 0;
    while (length < key.size_bytes && key.data[length] != '/')
        length++;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (text_is((struct text){key.data, length}, harmless[i]))
            return true;
    return false;
}

/* The key behind the prefix of the family's own keys; false: it belongs to something else. */
static bool own_key(const struct model *model, struct text key, struct text *rest) {
    struct text prefix = text_of(model->params.prefix);
    if (!text_starts_with(key, prefix))
        return false;
    *rest = (struct text){key.data + prefix.size_bytes, key.size_bytes - prefix.size_bytes};
    return catalogue_world(model->catalogue) == CATALOGUE_GGUF || prefix.size_bytes > 0 ||
           !text_starts_with(*rest, TEXT("generation_config/"));
}

static void put_unknown(json_t *root, const struct model *model, json_t *warnings) {
    json_t *keys = json_array();
    for (uint64_t i = 0; i < catalogue_meta_count(model->catalogue); i++) {
        struct text key = catalogue_meta_key(model->catalogue, i), rest;
        if (catalogue_meta_was_asked(model->catalogue, i) || is_off(catalogue_meta_at(model->catalogue, i)) ||
            !own_key(model, key, &rest) || is_harmless(rest))
            continue;
        (void)json_array_append_new(keys, json_stringn_nocheck(key.data, key.size_bytes));
    }
    if (json_array_size(keys) > 0) {
        warn(warnings, "unknown_keys: settings that this version does not look at; if one changes the network, the output is wrong");
        put(root, "unknown_keys", keys);
    } else {
        json_decref(keys);
    }
    put_u64(root, "unused_tensors", model->unused_count);
    put_lines(root, "unused_names", text_of(model->unused_names ? model->unused_names : ""));
}

/* ---- all ---- */

static void add_model(json_t *root, sluice_model *m) {
    sluice_info info;
    json_t *warnings = json_array();
    sluice_get_info(m, &info);
    put(root, "formats", used_formats(&m->model->plan));
    put_text(root, "family", info.family);
    put_u64(root, "parameters", info.parameters);
    put_u64(root, "active_parameters", info.active_parameters);
    put_u64(root, "layers", info.layers);
    put_u64(root, "hidden", info.hidden);
    put_u64(root, "vocab", info.vocab);
    put_experts(root, m->model);
    put_u64(root, "weight_bytes", info.file_bytes);
    put_token_bytes(root, &m->model->plan);
    put_state_bytes(root, m->model);
    put_tokenizer(root, m, warnings);
    put_template(root, m, warnings);
    put_end_ids(root, m, warnings);
    put_unknown(root, m->model, warnings);
    put(root, "warnings", warnings);
}

static void add_problem(json_t *root, const char *path, const struct catalogue *catalogue, const sluice_error *problem) {
    struct byte_buffer missing;
    struct error err;
    byte_buffer_init(&missing, NAMES_BYTES);
    put(root, "formats", stored_formats(catalogue));
    put_text(root, "problem", problem->text);
    if (problem->status == SLUICE_NOT_FOUND && model_list_missing(path, &missing, &err) == STATUS_OK)
        put_lines(root, "missing_tensors", byte_buffer_text(&missing));
    byte_buffer_deinit(&missing);
}

enum status inspect_model(const char *path, sluice_model *model, json_t **out, struct error *err) {
    *out = files_json(path, model->model->catalogue, model->files);
    if (!*out)
        return error_set(err, STATUS_NO_MEMORY, "no memory to describe %s", path);
    add_model(*out, model);
    return STATUS_OK;
}

static enum status inspect_files(const char *path, bool tensors, struct file_set *files, json_t **out, struct error *err) {
    struct catalogue *catalogue = NULL;
    TRY(catalogue_open(path, files, &catalogue, err));
    sluice_model *model = NULL;
    sluice_error problem = {0};
    enum status status = STATUS_OK;
    if (sluice_open(path, &model, &problem) == SLUICE_OK)
        status = inspect_model(path, model, out, err);
    else if ((*out = files_json(path, catalogue, files)) != NULL)
        add_problem(*out, path, catalogue, &problem);
    if (tensors && *out)
        put(*out, "tensors", tensors_json(catalogue));
    sluice_close(model);
    catalogue_close(catalogue);
    return status == STATUS_OK && !*out ? error_set(err, STATUS_NO_MEMORY, "no memory to describe %s", path) : status;
}

enum status inspect_path(const char *path, bool tensors, json_t **out, struct error *err) {
    struct file_set *files = NULL;
    *out = NULL;
    TRY(file_set_create(&files, err));
    enum status status = inspect_files(path, tensors, files, out, err);
    file_set_destroy(files);
    return status;
}
