/*
 * block_sparse_index: which earlier positions a row attends to: the best by a small attention of its own (DeepSeek Sparse Attention).
 *
 * Model      score of a position = sum over index heads of weight * max(0, q.k); q comes from the query's latent, k and the weights from
 *            the layer's input. k is cached. The choice is made in some layers and used in the ones after them too, as the file says;
 *            where it is silent, a layer without an index of its own takes the choice of the layer before.
 */
#include "base/check.h"
#include "model/block.h"

#define INDEX_NORM_EPSILON 1e-6f

struct index_shape {
    uint32_t heads, dim, top_k;
    bool pairs;
};

/* ---- which layers ---- */

/* What config.json says: a list, a pattern of letters, or every n-th layer from one on. */
static bool config_says(const struct binder *b, uint32_t layer, bool *shared) {
    struct text type;
    uint64_t period = 0, offset = 2;
    const struct meta_value *list = params_meta(b->params, b->catalogue, "indexer_types");
    const struct meta_value *pattern = params_meta(b->params, b->catalogue, "index_topk_pattern");
    if (!list || list->type != META_ARRAY)
        list = pattern;
    if (list && list->type == META_ARRAY && meta_array_text(list, layer, &type)) {
        *shared = text_is(type, "shared");
        return true;
    }
    if (pattern && meta_text(pattern, &type) && layer < type.size_bytes) {
        *shared = type.data[layer] == 'S';
        return true;
    }
    if (!meta_u64(params_meta(b->params, b->catalogue, "index_topk_freq"), &period) || period == 0)
        return false;
    (void)meta_u64(params_meta(b->params, b->catalogue, "index_skip_topk_offset"), &offset);
    *shared = (uint64_t)layer + 1 > offset && (layer + 1 - offset) % period != 0;
    return true;
}

static bool metadata_says(const struct binder *b, uint32_t layer, bool *shared) {
    const struct meta_value *list = params_meta(b->params, b->catalogue, "attention.indexer.types");
    bool full;
    int64_t number;
    if (!list || list->type != META_ARRAY)
        return false;
    if (meta_array_bool(list, layer, &full)) {
        *shared = !full;
        return true;
    }
    if (!meta_array_i64(list, layer, &number))
        return false;
    *shared = number == 0;
    return true;
}

static bool is_shared(const struct layer_context *c) {
    const struct binder *b = c->binder;
    bool shared = false, said;
    if (*c->selection == PLAN_NONE)
        return false;
    said = catalogue_world(b->catalogue) == CATALOGUE_GGUF ? metadata_says(b, c->layer, &shared) : config_says(b, c->layer, &shared);
    return said ? shared : bind_rows(b, ROLE_INDEX_K, c->layer) == 0;
}

/* ---- steps ---- */

static enum status read_shape(const struct layer_context *c, struct index_shape *shape, struct error *err) {
    const struct binder *b = c->binder;
    TRY(params_need(b->params, b->catalogue, PARAM_INDEX_HEADS, err));
    TRY(params_need(b->params, b->catalogue, PARAM_INDEX_DIM, err));
    shape->heads = params_u32(b->params, PARAM_INDEX_HEADS, c->layer);
    shape->dim = params_u32(b->params, PARAM_INDEX_DIM, c->layer);
    shape->top_k = params_u32(b->params, PARAM_INDEX_TOP_K, c->layer);
    shape->pairs = params_u32(b->params, PARAM_INDEX_ROPE_PAIRS, c->layer) != 0;
    if (shape->dim < 2 * c->rope_half)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u: index heads of %u elements, but %u are rotated", catalogue_path(b->catalogue),
                         c->layer, shape->dim, 2 * c->rope_half);
    return STATUS_OK;
}

/* Layer norm with weight and bias, rotation of the first elements, cache. */
static enum status emit_keys(const struct layer_context *c, const struct index_shape *shape, uint32_t keys, uint32_t *state,
                             struct error *err) {
    struct binder *b = c->binder;
    struct plan_step norm = plan_step_of(OP_NORM, (int32_t)c->layer), write = plan_step_of(OP_KV_WRITE, (int32_t)c->layer);
    struct bind_vector_request request = {.role = ROLE_INDEX_K_NORM, .suffix = ".weight", .layer = c->layer, .size = shape->dim};
    TRY(bind_vector(b, &request, &norm.constant[0], err));
    request.suffix = ".bias";
    TRY(bind_vector(b, &request, &norm.constant[1], err));
    norm.op.norm.norm = NORM_LAYER;
    norm.op.norm.epsilon = INDEX_NORM_EPSILON;
    norm.op.norm.vectors = 1;
    norm.op.norm.size = shape->dim;
    norm.in[0] = norm.out[0] = keys;
    TRY(plan_add_step(b->plan, &norm, err));
    const struct op rope = {.rope = {.heads = 1, .head_dim = shape->dim, .pairs = shape->pairs}};
    TRY(block_rope(c, &rope, keys, err));
    const struct plan_state kv = {.kind = STATE_KV, .layer = (int32_t)c->layer, .kv_heads = 1, .head_dim = shape->dim, .unrounded = true};
    TRY(plan_add_state(b->plan, &kv, state, err));
    write.op.kv_write.state = *state;
    write.op.kv_write.kv_heads = 1;
    write.op.kv_write.head_dim = shape->dim;
    write.in[0] = keys;
    return plan_add_step(b->plan, &write, err);
}

static enum status emit_index(const struct layer_context *c, const struct index_shape *shape, uint32_t in, uint32_t narrow_q,
                              struct error *err) {
    struct plan *plan = c->binder->plan;
    struct plan_step from_input = plan_step_of(OP_MATMUL, (int32_t)c->layer), from_q = plan_step_of(OP_MATMUL, (int32_t)c->layer),
                     choose = plan_step_of(OP_INDEX, (int32_t)c->layer);
    uint32_t keys, weights, queries, state;
    from_input.in[0] = in;
    TRY(block_add_output(c, &from_input, ROLE_INDEX_K, shape->dim, &keys, err));
    TRY(block_add_output(c, &from_input, ROLE_INDEX_WEIGHTS, shape->heads, &weights, err));
    TRY(plan_add_step(plan, &from_input, err));
    TRY(emit_keys(c, shape, keys, &state, err));
    from_q.in[0] = narrow_q;
    TRY(block_add_output(c, &from_q, ROLE_INDEX_Q, shape->heads * shape->dim, &queries, err));
    TRY(plan_add_step(plan, &from_q, err));
    const struct op rope = {.rope = {.heads = shape->heads, .head_dim = shape->dim, .pairs = shape->pairs}};
    TRY(block_rope(c, &rope, queries, err));
    TRY(plan_add_buffer(plan, "selection", shape->top_k + 1, c->selection, err));
    choose.op.index.state = state;
    choose.op.index.heads = shape->heads;
    choose.op.index.head_dim = shape->dim;
    choose.op.index.top_k = shape->top_k;
    choose.in[0] = queries;
    choose.in[1] = weights;
    choose.out[0] = *c->selection;
    return plan_add_step(plan, &choose, err);
}

enum status block_sparse_index(const struct layer_context *c, uint32_t in, uint32_t narrow_q, uint32_t *selection, struct error *err) {
    struct index_shape shape;
    *selection = PLAN_NONE;
    if (!params_has(c->binder->params, PARAM_INDEX_TOP_K))
        return STATUS_OK;
    CHECK(c->selection);
    if (!is_shared(c)) {
        if (narrow_q == PLAN_NONE)
            return error_set(err, STATUS_UNSUPPORTED, "%s: layer %u: a sparse index needs queries that come through a latent of their own",
                             catalogue_path(c->binder->catalogue), c->layer);
        TRY(read_shape(c, &shape, err));
        TRY(emit_index(c, &shape, in, narrow_q, err));
    }
    *selection = *c->selection;
    return STATUS_OK;
}
