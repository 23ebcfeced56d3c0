/*
 * plan_build: embedding, layers (norms, residual sums, which block), head.
 */
#include "model/plan_build.h"

#include <math.h>

#include "base/check.h"
#include "base/memory.h"
#include "model/block.h"
#include "model/layer_pattern.h"

static bool hf(const struct build *b) { return catalogue_world(b->binder->catalogue) == CATALOGUE_HF; }

/* ---- rope ---- */

static enum status read_divisors(struct build *b, struct rope_request *rope, struct error *err) {
    uint32_t constant, second = PLAN_NONE;
    struct bind_vector_request request = {.role = ROLE_ROPE_FREQUENCIES, .suffix = ".weight", .optional = true};
    TRY(bind_vector(b->binder, &request, &constant, err));
    request.role = ROLE_ROPE_FACTORS_SHORT;
    if (constant == PLAN_NONE)
        TRY(bind_vector(b->binder, &request, &constant, err));
    rope->divisor_count = constant == PLAN_NONE ? 0 : b->plan->constants[constant].size;
    request.role = ROLE_ROPE_FACTORS_LONG;
    request.size = rope->divisor_count;
    if (constant != PLAN_NONE)
        TRY(bind_vector(b->binder, &request, &second, err));
    rope->divisors = plan_constant_data(b->plan, constant);
    rope->long_divisors = plan_constant_data(b->plan, second);
    return STATUS_OK;
}

static enum status rope_table_for(struct build *b, uint32_t layer, bool window, struct error *err) {
    if (b->tables[window] != PLAN_NONE)
        return STATUS_OK;
    const struct arch_spec *arch = b->binder->arch;
    struct rope_request request = {.kind = window ? ROPE_WINDOW_LAYERS : ROPE_FULL_LAYERS,
                                   .layer = layer,
                                   .theta_initial = arch->rope_theta,
                                   .window_theta_initial = arch->rope_window_theta,
                                   .partial_initial = arch->rope_partial,
                                   .proportional_initial = arch->rope_proportional,
                                   .gguf_full_partial = arch->gguf_full_rope,
                                   .unrounded_context = arch->gguf_yarn_unrounded_context,
                                   .whole = params_has(b->binder->params, PARAM_KV_LATENT),
                                   .window_unscaled = arch->window_rope_unscaled};
    struct rope_spec rope;
    if (params_has(b->binder->params, PARAM_KV_LATENT)) /* heads have a part of their own that is rotated */
        request.head_dim = params_u32(b->binder->params, PARAM_ROPE_DIM, layer);
    else
        TRY(block_head_dim(b->binder, layer, &request.head_dim, err));
    TRY(read_divisors(b, &request, err));
    TRY(rope_read(b->binder->params, b->binder->catalogue, &request, &rope, err));
    struct plan_step step = plan_step_of(OP_ROPE_TABLE, -1);
    step.op.rope_table.half = rope.half;
    enum status status = plan_add_rope(b->plan, &rope, &step.op.rope_table.rope, err);
    if (status != STATUS_OK) {
        memory_free(rope.inverse_frequencies);
        return status;
    }
    TRY(plan_add_buffer(b->plan, window ? "rope_window" : "rope", 2 * rope.half, &step.out[0], err));
    b->tables[window] = step.out[0];
    b->halves[window] = rope.half;
    return plan_add_step(b->plan, &step, err);
}

/* ---- parts of a pass ---- */

static enum status emit_scale(struct build *b, uint32_t buffer, double factor, struct error *err) {
    if (factor == 1)
        return STATUS_OK;
    struct plan_step step = plan_step_of(OP_SCALE, -1);
    step.op.scale.factor = (float)factor;
    step.out[0] = buffer;
    return plan_add_step(b->plan, &step, err);
}

float build_embedding_scale(const struct binder *binder) {
    bool by_hidden = binder->arch->scale_embedding_by_sqrt_hidden;
    const char *flag = catalogue_world(binder->catalogue) == CATALOGUE_HF ? binder->arch->hf_embedding_scale_flag : NULL;
    if (flag)
        by_hidden = meta_bool(params_meta(binder->params, binder->catalogue, flag), &by_hidden) && by_hidden;
    return (float)(by_hidden ? sqrt(params_f64(binder->params, PARAM_HIDDEN, 0)) : params_f64(binder->params, PARAM_EMBEDDING_SCALE, 0));
}

static enum status emit_embedding(struct build *b, struct error *err) {
    struct plan_step step = plan_step_of(OP_EMBED, -1);
    struct bind_matrix_request request = {.role = ROLE_EMBEDDING, .rows = b->vocab, .cols = b->hidden, .fused = ROLE_COUNT};
    TRY(bind_matrix(b->binder, &request, &b->embedding_weight, err));
    TRY(plan_add_buffer(b->plan, "x", b->hidden, &b->residual, err));
    step.op.embed.scale = build_embedding_scale(b->binder);
    step.weight[0] = b->embedding_weight;
    step.out[0] = b->residual;
    return plan_add_step(b->plan, &step, err);
}

enum status build_norm(struct build *b, const struct layer_context *c, enum role role, uint32_t in, uint32_t *out, struct error *err) {
    uint32_t weight, bias;
    struct bind_vector_request request = {
        .role = role, .suffix = ".weight", .layer = c->layer, .size = b->hidden, .add_one = bind_norm_adds_one(b->binder)};
    TRY(bind_vector(b->binder, &request, &weight, err));
    request.suffix = ".bias", request.optional = true, request.add_one = false;
    TRY(bind_vector(b->binder, &request, &bias, err));
    if (*out == PLAN_NONE)
        TRY(plan_add_buffer(b->plan, "normed", b->hidden, out, err));
    return block_norm(c, in, *out, weight, bias, 1, b->hidden, err);
}

enum status build_add(struct build *b, const struct layer_context *c, uint32_t result, struct error *err) {
    TRY(emit_scale(b, result, params_f64(b->binder->params, PARAM_RESIDUAL_SCALE, 0), err));
    struct plan_step add = plan_step_of(OP_ADD, (int32_t)c->layer);
    add.in[0] = result;
    add.out[0] = b->residual;
    return plan_add_step(b->plan, &add, err);
}

/* x = norm(x), the block reads it, x = a x + b f(x) */
static enum status emit_carried(struct build *b, const struct layer_context *c, enum role norm, block_function *block, struct error *err) {
    const struct params *params = b->binder->params;
    bool steady = norm == ROLE_ATTENTION_NORM && layer_mixer(b->binder, c->layer) == MIXER_STEADY_ATTENTION;
    enum param keep = norm == ROLE_FFN_NORM ? PARAM_FFN_KEEP : steady ? PARAM_LINEAR_KEEP : PARAM_ATTENTION_KEEP;
    enum param add = norm == ROLE_FFN_NORM ? PARAM_FFN_ADD : steady ? PARAM_LINEAR_ADD : PARAM_ATTENTION_ADD;
    uint32_t result;
    bool carried = true;
    (void)meta_bool(params_meta(params, b->binder->catalogue, "postnorm"), &carried);
    if (!carried)
        return error_set(err, STATUS_UNSUPPORTED, "%s: config.json sets postnorm to false, a variant of %s that is not supported",
                         catalogue_path(b->binder->catalogue), b->binder->arch->name);
    TRY(build_norm(b, c, norm, b->residual, &b->residual, err));
    TRY(block(c, b->residual, &result, err));
    TRY(block_scale(c, result, params_f64(params, add, c->layer), err));
    TRY(block_scale(c, b->residual, params_f64(params, keep, c->layer), err));
    struct plan_step sum = plan_step_of(OP_ADD, (int32_t)c->layer);
    sum.in[0] = result;
    sum.out[0] = b->residual;
    return plan_add_step(b->plan, &sum, err);
}

enum status build_sublayer(struct build *b, const struct layer_context *c, enum role before, enum role after, block_function *block,
                           struct error *err) {
    uint32_t normed = PLAN_NONE, result;
    enum norm_place place = b->binder->arch->norm_place;
    if (place == NORM_BEFORE_OR_AFTER)
        place = bind_vector_size(b->binder, ROLE_ATTENTION_NORM, c->layer, ".weight") > 0 ? NORM_BEFORE : NORM_AFTER;
    if (place == NORM_CARRIED)
        return emit_carried(b, c, before, block, err);
    if (place == NORM_AFTER)
        normed = b->residual;
    else
        TRY(build_norm(b, c, before, b->residual, &normed, err));
    TRY(block(c, normed, &result, err));
    if (place != NORM_BEFORE)
        TRY(build_norm(b, c, after, result, &result, err));
    return build_add(b, c, result, err);
}

/* x += attention(norm(x)) + feed_forward(norm(x)); both read one norm unless there are two. */
static enum status emit_parallel(struct build *b, const struct layer_context *c, block_function *mixer, block_function *ffn,
                                 struct error *err) {
    uint32_t normed = PLAN_NONE, ffn_in = PLAN_NONE, mixed, result;
    bool own = bind_vector_size(b->binder, ROLE_FFN_NORM, c->layer, ".weight") > 0;
    bool attention_own = bind_vector_size(b->binder, ROLE_ATTENTION_NORM, c->layer, ".weight") > 0;
    TRY(build_norm(b, c, own && !attention_own ? ROLE_FFN_NORM : ROLE_ATTENTION_NORM, b->residual, &normed, err));
    TRY(mixer(c, normed, &mixed, err));
    if (own && attention_own)
        TRY(build_norm(b, c, ROLE_FFN_NORM, b->residual, &ffn_in, err));
    TRY(ffn(c, own && attention_own ? ffn_in : normed, &result, err));
    TRY(build_add(b, c, mixed, err));
    return build_add(b, c, result, err);
}

/* Part of a layer with experts beside it: they run with the first part, and their sum waits for the end of the second. */
static enum status emit_shortcut(struct build *b, const struct layer_context *c, struct error *err) {
    uint32_t normed = PLAN_NONE, result;
    bool first = c->layer % 2 == 0;
    TRY(build_sublayer(b, c, ROLE_ATTENTION_NORM, ROLE_ATTENTION_POST_NORM, build_mixer_of(b, c->layer), err));
    TRY(build_norm(b, c, ROLE_FFN_NORM, b->residual, &normed, err));
    if (first)
        TRY(block_experts(c, normed, &b->shortcut, err));
    TRY(block_ffn(c, normed, &result, err));
    TRY(build_add(b, c, result, err));
    return first ? STATUS_OK : build_add(b, c, b->shortcut, err);
}

static bool is_parallel(const struct build *b) {
    static const char *const keys[] = {"use_parallel_residual", "parallel_attn"};
    bool parallel = b->binder->arch->parallel_blocks;
    for (size_t i = 0; parallel && i < sizeof keys / sizeof *keys; i++)
        (void)meta_bool(params_meta(b->binder->params, b->binder->catalogue, keys[i]), &parallel);
    return parallel;
}

/* The layer's piece of the per-layer embedding, and its scale. */
static enum status emit_layer_end(struct build *b, const struct layer_context *c, struct error *err) {
    uint32_t constant;
    if (b->layer_inputs != PLAN_NONE) {
        uint32_t result;
        TRY(block_layer_input(c, b->layer_inputs, &result, err));
        TRY(build_norm(b, c, ROLE_LAYER_INPUT_POST_NORM, result, &result, err));
        TRY(build_add(b, c, result, err));
    }
    const struct bind_vector_request scale = {
        .role = ROLE_LAYER_SCALE, .suffix = ".weight", .layer = c->layer, .size = 1, .optional = true};
    TRY(bind_vector(b->binder, &scale, &constant, err));
    return constant == PLAN_NONE ? STATUS_OK : emit_scale(b, b->residual, (double)plan_constant_data(b->plan, constant)[0], err);
}

block_function *build_ffn_of(const struct build *b, uint32_t layer) {
    if (!layer_has_experts(b->binder, layer))
        return block_ffn;
    return b->binder->arch->experts_beside_ffn ? block_ffn_and_experts : block_experts;
}

block_function *build_mixer_of(const struct build *b, uint32_t layer) {
    switch (layer_mixer(b->binder, layer)) {
    case MIXER_LINEAR_ATTENTION:
        return block_linear_attention;
    case MIXER_DELTA_ATTENTION:
        return block_delta_attention;
    case MIXER_STEADY_ATTENTION:
        return block_attention;
    case MIXER_STATE_SPACE:
        return bind_rows(b->binder, ROLE_SPACE_INPUTS, layer) > 0 ? block_selective_space : block_state_space;
    case MIXER_ATTENTION_AND_STATE_SPACE:
        return block_attention_and_state_space;
    case MIXER_SHORT_CONV:
        return block_short_conv;
    case MIXER_NONE:
        return build_ffn_of(b, layer);
    case MIXER_ATTENTION:
    default:
        return params_has(b->binder->params, PARAM_KV_LATENT) ? block_latent_attention : block_attention;
    }
}

enum status build_context(struct build *b, uint32_t layer, struct layer_context *context, struct error *err) {
    const struct params *params = b->binder->params;
    bool window = layer_has_window(b->binder, layer), rotates = layer_rotates(b->binder, layer);
    uint32_t shared = params_u32(params, PARAM_SHARED_KV_LAYERS, 0);
    bool shares = b->all_share || (shared > 0 && shared < params->layers && layer >= params->layers - shared);
    if (rotates)
        TRY(rope_table_for(b, layer, window, err));
    *context = (struct layer_context){.binder = b->binder,
                                      .layer = layer,
                                      .window = window,
                                      .hidden = b->hidden,
                                      .rope_table = rotates ? b->tables[window] : PLAN_NONE,
                                      .rope_half = b->halves[window],
                                      .residual = b->residual,
                                      .kv_state = shares ? b->kv_states[window] : PLAN_NONE,
                                      .selection = &b->selection};
    if (shares && context->kv_state == PLAN_NONE)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u reads the keys of an earlier %s layer, but there is none",
                         catalogue_path(b->binder->catalogue), layer, window ? "window" : "full");
    return STATUS_OK;
}

enum status build_layer(struct build *b, uint32_t layer, struct error *err) {
    struct layer_context context;
    uint32_t states = b->plan->state_count;
    TRY(build_context(b, layer, &context, err));
    bool window = context.window;
    if (b->binder->arch->one_sublayer) {
        TRY(build_sublayer(b, &context, ROLE_ATTENTION_NORM, ROLE_ATTENTION_POST_NORM, build_mixer_of(b, layer), err));
    } else if (b->binder->arch->shortcut_experts) {
        TRY(emit_shortcut(b, &context, err));
    } else if (is_parallel(b)) {
        TRY(emit_parallel(b, &context, build_mixer_of(b, layer), build_ffn_of(b, layer), err));
    } else {
        TRY(build_sublayer(b, &context, ROLE_ATTENTION_NORM, ROLE_ATTENTION_POST_NORM, build_mixer_of(b, layer), err));
        TRY(build_sublayer(b, &context, ROLE_FFN_NORM, ROLE_FFN_POST_NORM, build_ffn_of(b, layer), err));
    }
    if (b->plan->state_count > states && b->plan->states[states].kind == STATE_KV)
        b->kv_states[window] = states;
    return emit_layer_end(b, &context, err);
}

/* What a drafter reads of this plan, and the rows whose logits are wanted, normalised: *normed. */
static enum status emit_final_norm(struct build *b, const struct feature_request *features, uint32_t *normed, struct error *err) {
    const struct layer_context context = {.binder = b->binder, .hidden = b->hidden};
    bool last = features && features->layer_count == 0, all_rows = last && !features->before_norm;
    uint32_t selected;
    *normed = PLAN_NONE;
    if (last) {
        b->plan->features = b->residual;
        b->plan->features_width = b->hidden;
    }
    if (!all_rows) {
        TRY(build_select(b, b->residual, &selected, err));
        TRY(build_norm(b, &context, ROLE_FINAL_NORM, selected, normed, err));
    } else {
        TRY(build_norm(b, &context, ROLE_FINAL_NORM, b->residual, normed, err));
        b->plan->features = *normed;
    }
    b->plan->steps[b->plan->step_count - 1].layer = -1;
    return all_rows ? build_select(b, *normed, normed, err) : STATUS_OK;
}

enum status build_select(struct build *b, uint32_t from, uint32_t *selected, struct error *err) {
    struct plan_step select = plan_step_of(OP_SELECT_ROWS, -1);
    select.in[0] = from;
    TRY(plan_add_buffer(b->plan, "selected", b->plan->buffers[from].width, selected, err));
    select.out[0] = *selected;
    return plan_add_step(b->plan, &select, err);
}

enum status build_logits(struct build *b, const struct plan_step *head, uint32_t normed, struct error *err) {
    struct plan *plan = b->plan;
    struct plan_step product = *head;
    TRY(plan_add_buffer(plan, "logits", b->vocab, &plan->logits, err));
    product.op.matmul.outputs = 1;
    product.in[0] = normed;
    product.out[0] = plan->logits;
    TRY(plan_add_step(plan, &product, err));
    double scale = params_f64(b->binder->params, PARAM_LOGIT_SCALE, 0);
    TRY(emit_scale(b, plan->logits, b->binder->arch->logit_scale_divides && scale != 0 ? 1 / scale : scale, err));
    float cap = (float)params_f64(b->binder->params, PARAM_FINAL_SOFTCAP, 0);
    if (cap == 0)
        return STATUS_OK;
    struct plan_step softcap = plan_step_of(OP_SOFTCAP, -1);
    softcap.op.softcap.cap = cap;
    softcap.out[0] = plan->logits;
    return plan_add_step(plan, &softcap, err);
}

static enum status emit_head(struct build *b, const struct feature_request *features, struct error *err) {
    struct plan *plan = b->plan;
    uint32_t normed;
    struct plan_step product = plan_step_of(OP_MATMUL, -1);
    TRY(emit_final_norm(b, features, &normed, err));
    /* tie_word_embeddings true: the table is the head even when a head is in the files too; false: there must be one; silent: if there is
     * one */
    bool tied = build_is_tied(b->binder);
    struct bind_matrix_request request = {.role = ROLE_HEAD,
                                          .rows = b->vocab,
                                          .cols = b->hidden,
                                          .fused = ROLE_COUNT,
                                          .optional = !hf(b) || !params_has(b->binder->params, PARAM_TIED)};
    if (!tied)
        TRY(bind_matrix(b->binder, &request, &product.weight[0], err));
    TRY(bind_bias(b->binder, &request, &product.constant[0], err)); /* a tied head may have one of its own */
    if (product.weight[0] == PLAN_NONE)
        product.weight[0] = b->embedding_weight;
    else if (b->embedding_weight != PLAN_NONE)
        plan->weights[b->embedding_weight].rows_only = true;
    return build_logits(b, &product, normed, err);
}

bool build_is_tied(const struct binder *binder) {
    return catalogue_world(binder->catalogue) == CATALOGUE_HF && params_u32(binder->params, PARAM_TIED, 0) != 0;
}

/* A copy of x as it is before a layer that a drafter reads. */
static enum status emit_taps(struct build *b, const struct feature_request *features, uint32_t layer, struct error *err) {
    for (uint32_t i = 0; features && i < features->layer_count; i++) {
        if (features->layers[i] != layer)
            continue;
        if (b->plan->features_width == 0) {
            b->plan->features_width = features->layer_count * b->hidden;
            TRY(plan_add_buffer(b->plan, "features", b->plan->features_width, &b->plan->features, err));
        }
        TRY(build_copy(b, b->residual, b->plan->features, i * b->hidden, err));
    }
    return STATUS_OK;
}

enum status build_copy(struct build *b, uint32_t from, uint32_t to, uint32_t offset, struct error *err) {
    struct plan_step step = plan_step_of(OP_COPY_HEADS, -1);
    step.op.copy_heads.heads = 1;
    step.op.copy_heads.size = step.op.copy_heads.in_stride = b->plan->buffers[from].width;
    step.op.copy_heads.out_stride = b->plan->buffers[to].width;
    step.op.copy_heads.out_offset = offset;
    step.in[0] = from;
    step.out[0] = to;
    return plan_add_step(b->plan, &step, err);
}

/* The table's own shape decides: metadata may be missing, or smaller than a padded table. */
static enum status find_vocab(struct build *b, struct error *err) {
    const struct tensor_entry *table = role_find(&b->binder->names, ROLE_EMBEDDING, 0, -1, ".weight");
    if (!table || table->rank != 2 || table->shape[0] == 0 || table->shape[0] > 1u << 24)
        return error_set(err, STATUS_CORRUPT, "%s: no usable embedding table (token_embd / embed_tokens, [vocab][hidden])",
                         catalogue_path(b->binder->catalogue));
    b->vocab = (uint32_t)table->shape[0];
    return STATUS_OK;
}

void build_init(struct build *b, struct binder *binder) {
    *b = (struct build){
        .binder = binder,
        .plan = binder->plan,
        .residual = PLAN_NONE,
        .embedding_weight = PLAN_NONE,
        .tables = {PLAN_NONE, PLAN_NONE},
        .kv_states = {PLAN_NONE, PLAN_NONE},
        .layer_inputs = PLAN_NONE,
        .selection = PLAN_NONE,
        .hidden = params_u32(binder->params, PARAM_HIDDEN, 0),
    };
}

enum status plan_build(struct binder *binder, const struct feature_request *features, struct error *err) {
    struct build b;
    build_init(&b, binder);
    TRY(find_vocab(&b, err));
    TRY(emit_embedding(&b, err));
    if (params_u32(binder->params, PARAM_LAYER_INPUT, 0) > 0) {
        const struct layer_context context = {.binder = binder, .hidden = b.hidden};
        TRY(block_layer_inputs(&context, b.vocab, b.residual, &b.layer_inputs, err));
    }
    for (uint32_t layer = 0; layer < binder->params->layers; layer++) {
        TRY(emit_taps(&b, features, layer, err));
        TRY(build_layer(&b, layer, err));
    }
    TRY(emit_head(&b, features, err));
    TRY(bind_finish(binder, err));
    binder->plan->layers = binder->params->layers;
    binder->plan->hidden = b.hidden;
    binder->plan->vocab = binder->plan->embedded = b.vocab;
    return plan_finish(binder->plan, err);
}
