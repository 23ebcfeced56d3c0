/*
 * block_attention: grouped-query attention: q, k, v products, optional norms, rotation, cache, softmax, output product.
 */
#include <math.h>

#include "base/check.h"
#include "model/block.h"
#include "model/layer_pattern.h"

struct attention_shape {
    uint32_t heads, kv_heads, head_dim, v_dim;
    uint32_t q_width, k_width, v_width;
    bool by_group; /* q, k and v of each key head stand together in one tensor */
    bool gated;    /* rows of q hold each head's query and then its output gate */
};

enum status block_head_dim(const struct binder *b, uint32_t layer, uint32_t *head_dim, struct error *err) {
    uint32_t heads = params_u32(b->params, PARAM_HEADS, layer), hidden = params_u32(b->params, PARAM_HIDDEN, 0);
    if (heads == 0)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u has no attention heads", catalogue_path(b->catalogue), layer);
    uint64_t rows = b->arch->head_sizes_from_rows ? bind_rows(b, ROLE_Q, layer) : 0;
    if (rows > 0 && rows % heads == 0 && rows / heads <= 8192) {
        *head_dim = (uint32_t)(rows / heads);
        return STATUS_OK;
    }
    *head_dim = params_has(b->params, PARAM_HEAD_DIM) ? params_u32(b->params, PARAM_HEAD_DIM, layer) : hidden / heads;
    if (!params_has(b->params, PARAM_HEAD_DIM) && hidden % heads != 0)
        return error_set(err, STATUS_CORRUPT, "%s: hidden size %u is no multiple of %u heads, and no head size is given",
                         catalogue_path(b->catalogue), hidden, heads);
    return STATUS_OK;
}

/* Key heads and value size of a layer whose own rows of k and v say them, or of the layer whose cache it reads. */
static void shape_from_rows(const struct layer_context *c, struct attention_shape *shape) {
    const struct binder *b = c->binder;
    if (c->kv_state != PLAN_NONE) {
        shape->kv_heads = b->plan->states[c->kv_state].kv_heads;
        shape->v_dim = b->plan->states[c->kv_state].v_dim;
        return;
    }
    uint64_t k_rows = bind_rows(b, ROLE_K, c->layer), v_rows = bind_rows(b, ROLE_V, c->layer);
    if (k_rows > 0 && k_rows % shape->head_dim == 0)
        shape->kv_heads = (uint32_t)(k_rows / shape->head_dim);
    if (v_rows == 0 && k_rows > 0)
        shape->v_dim = shape->head_dim; /* k serves as v */
    else if (v_rows > 0 && shape->kv_heads > 0 && v_rows % shape->kv_heads == 0)
        shape->v_dim = (uint32_t)(v_rows / shape->kv_heads);
}

static enum status read_shape(const struct layer_context *c, struct attention_shape *shape, struct error *err) {
    const struct params *p = c->binder->params;
    shape->heads = params_u32(p, PARAM_HEADS, c->layer);
    shape->kv_heads = params_has(p, PARAM_KV_HEADS) ? params_u32(p, PARAM_KV_HEADS, c->layer) : shape->heads;
    TRY(block_head_dim(c->binder, c->layer, &shape->head_dim, err));
    shape->v_dim = params_has(p, PARAM_V_HEAD_DIM) ? params_u32(p, PARAM_V_HEAD_DIM, c->layer) : shape->head_dim;
    if (c->binder->arch->head_sizes_from_rows)
        shape_from_rows(c, shape);
    if (c->binder->arch->heads_from_rows) {
        shape->heads = (uint32_t)(bind_rows(c->binder, ROLE_Q, c->layer) / shape->head_dim);
        shape->kv_heads = (uint32_t)(bind_rows(c->binder, ROLE_K, c->layer) / shape->head_dim);
    }
    if (layer_mixer(c->binder, c->layer) == MIXER_STEADY_ATTENTION)
        shape->kv_heads = shape->heads;
    uint64_t q_rows = bind_rows(c->binder, ROLE_Q, c->layer), all_rows = q_rows ? 0 : bind_rows(c->binder, ROLE_QKV, c->layer);
    shape->by_group = c->binder->arch->hf_qkv_by_group && all_rows > 0 &&
                      (catalogue_world(c->binder->catalogue) == CATALOGUE_HF || layer_mixer(c->binder, c->layer) == MIXER_STEADY_ATTENTION);
    if (shape->by_group) /* each key head adds two rows of heads to those of the queries */
        shape->kv_heads = all_rows / shape->head_dim > shape->heads ? (uint32_t)((all_rows / shape->head_dim - shape->heads) / 2) : 0;
    if (shape->heads == 0 || shape->kv_heads == 0 || shape->heads % shape->kv_heads != 0)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u: %u heads do not divide into %u key heads",
                         catalogue_path(c->binder->catalogue), c->layer, shape->heads, shape->kv_heads);
    if (c->kv_state != PLAN_NONE && c->binder->plan->states[c->kv_state].head_dim != shape->head_dim)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u: heads of %u elements cannot read the keys of an earlier layer, which have %u",
                         catalogue_path(c->binder->catalogue), c->layer, shape->head_dim, c->binder->plan->states[c->kv_state].head_dim);
    shape->q_width = shape->heads * shape->head_dim;
    shape->k_width = shape->kv_heads * shape->head_dim;
    shape->v_width = shape->kv_heads * shape->v_dim;
    shape->gated = q_rows == 2ull * shape->q_width || all_rows == 2ull * shape->q_width + shape->k_width + shape->v_width;
    return STATUS_OK;
}

/* How many of q, k and v the layer computes: all, q and k where k is v too, or q alone where keys and values are an earlier layer's. */
static uint32_t product_count(const struct layer_context *c) {
    const struct binder *b = c->binder;
    if (c->kv_state != PLAN_NONE)
        return 1;
    bool no_v = b->arch->v_norm && bind_rows(b, ROLE_V, c->layer) == 0 && bind_rows(b, ROLE_QKV, c->layer) == 0;
    return no_v ? 2 : 3;
}

/* One product, whose rows are then put apart. */
static enum status emit_grouped_qkv(const struct layer_context *c, const struct attention_shape *shape, uint32_t in, uint32_t qkv[3],
                                    struct error *err) {
    static const char *const names[3] = {"q", "k", "v"};
    const uint32_t sizes[3] = {shape->q_width / shape->kv_heads, shape->head_dim, shape->head_dim};
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer), copy = plan_step_of(OP_COPY_HEADS, (int32_t)c->layer);
    step.in[0] = in;
    TRY(block_add_output(c, &step, ROLE_QKV, shape->q_width + 2 * shape->k_width, &copy.in[0], err));
    TRY(plan_add_step(c->binder->plan, &step, err));
    copy.op.copy_heads.heads = shape->kv_heads;
    copy.op.copy_heads.in_stride = sizes[0] + 2 * shape->head_dim;
    for (uint32_t i = 0; i < 3; copy.op.copy_heads.in_offset += sizes[i++]) {
        copy.op.copy_heads.size = copy.op.copy_heads.out_stride = sizes[i];
        TRY(plan_add_buffer(c->binder->plan, names[i], shape->kv_heads * sizes[i], &qkv[i], err));
        copy.out[0] = qkv[i];
        TRY(plan_add_step(c->binder->plan, &copy, err));
    }
    return STATUS_OK;
}

static enum status emit_qkv(const struct layer_context *c, const struct attention_shape *shape, uint32_t in, uint32_t qkv[3],
                            struct error *err) {
    if (shape->by_group)
        return emit_grouped_qkv(c, shape, in, qkv, err);
    static const enum role roles[3] = {ROLE_Q, ROLE_K, ROLE_V};
    static const char *const names[3] = {"q", "k", "v"};
    const uint32_t widths[3] = {shape->gated ? 2 * shape->q_width : shape->q_width, shape->k_width, shape->v_width};
    const uint64_t firsts[3] = {0, widths[0], (uint64_t)widths[0] + shape->k_width};
    bool interleaved = c->binder->arch->gguf_interleaved_qk && catalogue_world(c->binder->catalogue) == CATALOGUE_GGUF;
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    step.op.matmul.outputs = product_count(c);
    step.in[0] = in;
    qkv[1] = qkv[2] = PLAN_NONE;
    for (uint32_t i = 0; i < step.op.matmul.outputs; i++) {
        struct bind_matrix_request request = {.role = roles[i],
                                              .layer = c->layer,
                                              .rows = widths[i],
                                              .cols = c->binder->plan->buffers[in].width,
                                              .fused = ROLE_QKV,
                                              .fused_first_row = firsts[i],
                                              .fused_rows = firsts[2] + shape->v_width};
        TRY(bind_matrix(c->binder, &request, &step.weight[i], err));
        TRY(bind_bias(c->binder, &request, &step.constant[i], err));
        TRY(plan_add_buffer(c->binder->plan, names[i], widths[i], &qkv[i], err));
        step.out[i] = qkv[i];
    }
    TRY(plan_add_step(c->binder->plan, &step, err));
    for (uint32_t i = 0; interleaved && i < 2 && i < step.op.matmul.outputs; i++) {
        struct plan_step unpermute = plan_step_of(OP_UNPERMUTE, (int32_t)c->layer);
        unpermute.op.unpermute.heads = i == 0 ? shape->heads : shape->kv_heads;
        unpermute.op.unpermute.head_dim = shape->head_dim;
        unpermute.out[0] = qkv[i];
        TRY(plan_add_step(c->binder->plan, &unpermute, err));
    }
    return STATUS_OK;
}

enum status block_norm(const struct layer_context *c, uint32_t in, uint32_t out, uint32_t weight, uint32_t bias, uint32_t vectors,
                       uint32_t size, struct error *err) {
    struct plan_step step = plan_step_of(OP_NORM, (int32_t)c->layer);
    step.op.norm.norm = c->binder->arch->norm;
    step.op.norm.epsilon = (float)params_f64(c->binder->params, PARAM_NORM_EPSILON, 0);
    step.op.norm.vectors = vectors;
    step.op.norm.size = size;
    step.in[0] = in;
    step.out[0] = out;
    step.constant[0] = weight;
    step.constant[1] = bias;
    return plan_add_step(c->binder->plan, &step, err);
}

/* Every head has a norm weight of its own, [heads][head_dim]: norms without weight, then all weights at once. */
static enum status emit_norm_per_head(const struct layer_context *c, enum role role, uint32_t buffer, uint32_t heads, uint32_t head_dim,
                                      struct error *err) {
    struct plan_step step = plan_step_of(OP_SCALE_VECTOR, (int32_t)c->layer);
    const struct bind_vector_request request = {
        .role = role, .suffix = ".weight", .layer = c->layer, .size = (uint64_t)heads * head_dim, .add_one = bind_norm_adds_one(c->binder)};
    TRY(block_norm(c, buffer, buffer, PLAN_NONE, PLAN_NONE, heads, head_dim, err));
    TRY(bind_vector(c->binder, &request, &step.constant[0], err));
    step.out[0] = buffer;
    return plan_add_step(c->binder->plan, &step, err);
}

/* Norm of q or k: per head when the weight is one head wide or a matrix, else over the whole row. */
static enum status emit_qk_norm(const struct layer_context *c, enum role role, bool required, uint32_t buffer, uint32_t heads,
                                uint32_t head_dim, struct error *err) {
    struct binder *b = c->binder;
    uint64_t size = bind_vector_size(b, role, c->layer, ".weight");
    if (size == 0 && !required)
        return STATUS_OK;
    uint32_t width = heads * head_dim, weight;
    if (heads > 1 && bind_rows(b, role, c->layer) == heads)
        return emit_norm_per_head(c, role, buffer, heads, head_dim, err);
    bool whole = size == width && size != head_dim;
    struct bind_vector_request request = {
        .role = role, .suffix = ".weight", .layer = c->layer, .size = whole ? width : head_dim, .add_one = bind_norm_adds_one(b)};
    TRY(bind_vector(b, &request, &weight, err));
    return block_norm(c, buffer, buffer, weight, PLAN_NONE, whole ? 1 : heads, whole ? width : head_dim, err);
}

static enum status emit_rope(const struct layer_context *c, uint32_t buffer, uint32_t heads, uint32_t head_dim, struct error *err) {
    if (c->rope_table == PLAN_NONE)
        return STATUS_OK;
    const struct arch_spec *arch = c->binder->arch;
    bool gguf = catalogue_world(c->binder->catalogue) == CATALOGUE_GGUF;
    struct plan_step step = plan_step_of(OP_ROPE, (int32_t)c->layer);
    step.op.rope.heads = heads;
    step.op.rope.head_dim = head_dim;
    step.op.rope.half = c->rope_half;
    step.op.rope.pairs = (gguf ? arch->rope_pairs_gguf : arch->rope_pairs_hf) && layer_mixer(c->binder, c->layer) != MIXER_STEADY_ATTENTION;
    step.in[0] = c->rope_table;
    step.out[0] = buffer;
    return plan_add_step(c->binder->plan, &step, err);
}

static float score_scale(const struct layer_context *c, const struct attention_shape *shape) {
    const struct params *p = c->binder->params;
    if (params_has(p, PARAM_ATTENTION_SCALE))
        return (float)params_f64(p, PARAM_ATTENTION_SCALE, 0);
    double divisor = shape->head_dim;
    if (params_has(p, PARAM_QUERY_SCALAR))
        divisor = params_f64(p, PARAM_QUERY_SCALAR, 0);
    else if (c->binder->arch->query_scale_by_hidden_gguf_27b && catalogue_world(c->binder->catalogue) == CATALOGUE_GGUF &&
             ((p->layers == 46 && c->hidden == 4608) || (p->layers == 62 && c->hidden == 5376)))
        divisor = (double)c->hidden / shape->heads; /* the 27B models; their GGUF files cannot say so */
    return (float)(1 / sqrt(divisor));
}

enum status block_scale(const struct layer_context *c, uint32_t buffer, double factor, struct error *err) {
    struct plan_step step = plan_step_of(OP_SCALE, (int32_t)c->layer);
    step.op.scale.factor = (float)factor;
    step.out[0] = buffer;
    return factor == 1 ? STATUS_OK : plan_add_step(c->binder->plan, &step, err);
}

/* Values: normalised, or scaled, by families that do so; k as it is before its own norm where there is no v. Keys: scaled. */
static enum status emit_value_options(const struct layer_context *c, const struct attention_shape *shape, uint32_t qkv[3],
                                      struct error *err) {
    struct plan *plan = c->binder->plan;
    if (c->kv_state != PLAN_NONE)
        return STATUS_OK;
    if (c->binder->arch->v_norm) {
        uint32_t from = qkv[2] == PLAN_NONE ? qkv[1] : qkv[2];
        if (qkv[2] == PLAN_NONE)
            TRY(plan_add_buffer(plan, "v", shape->v_width, &qkv[2], err));
        TRY(block_norm(c, from, qkv[2], PLAN_NONE, PLAN_NONE, shape->kv_heads, shape->v_dim, err));
    }
    TRY(block_scale(c, qkv[1], params_f64(c->binder->params, PARAM_KEY_SCALE, 0), err));
    return block_scale(c, qkv[2], params_f64(c->binder->params, PARAM_VALUE_SCALE, 0), err);
}

static enum status emit_qk_norms(const struct layer_context *c, const struct attention_shape *shape, const uint32_t qkv[3],
                                 struct error *err) {
    const struct arch_spec *arch = c->binder->arch;
    TRY(emit_qk_norm(c, ROLE_Q_NORM, arch->q_norm, qkv[0], shape->heads, shape->head_dim, err));
    return qkv[1] == PLAN_NONE ? STATUS_OK : emit_qk_norm(c, ROLE_K_NORM, arch->k_norm, qkv[1], shape->kv_heads, shape->head_dim, err);
}

/* Norms and rotation of q and k in the family's order, then what depends on the position alone. */
static enum status emit_positions(const struct layer_context *c, const struct attention_shape *shape, const uint32_t qkv[3],
                                  struct error *err) {
    const struct binder *b = c->binder;
    if (!b->arch->qk_norm_after_rope)
        TRY(emit_qk_norms(c, shape, qkv, err));
    TRY(emit_rope(c, qkv[0], shape->heads, shape->head_dim, err));
    if (qkv[1] != PLAN_NONE)
        TRY(emit_rope(c, qkv[1], shape->kv_heads, shape->head_dim, err));
    if (b->arch->qk_norm_after_rope)
        TRY(emit_qk_norms(c, shape, qkv, err));
    if (b->arch->qk_norm_unweighted && c->rope_table != PLAN_NONE && params_u32(b->params, PARAM_QK_NORM, 0)) {
        TRY(block_norm(c, qkv[0], qkv[0], PLAN_NONE, PLAN_NONE, shape->heads, shape->head_dim, err));
        TRY(block_norm(c, qkv[1], qkv[1], PLAN_NONE, PLAN_NONE, shape->kv_heads, shape->head_dim, err));
    }
    return block_query_temperature(c, qkv[0], err);
}

enum status block_query_temperature(const struct layer_context *c, uint32_t q, struct error *err) {
    const struct binder *b = c->binder;
    double slope = params_f64(b->params, PARAM_QUERY_TEMPERATURE, 0);
    bool still_only = b->arch->temperature_in_still_layers;
    if (slope == 0 || (still_only && c->rope_table != PLAN_NONE))
        return STATUS_OK;
    TRY(params_need(b->params, b->catalogue, PARAM_ORIGINAL_CONTEXT, err));
    struct plan_step step = plan_step_of(OP_SCALE_BY_POSITION, (int32_t)c->layer);
    step.op.scale_by_position.slope = (float)slope;
    step.op.scale_by_position.period = params_u32(b->params, PARAM_ORIGINAL_CONTEXT, 0);
    step.op.scale_by_position.offset = still_only ? 1 : 0;
    step.out[0] = q;
    return plan_add_step(b->plan, &step, err);
}

/* Stores k and v in a state of the layer's own. */
static enum status emit_kv_write(const struct layer_context *c, const struct attention_shape *shape, const uint32_t qkv[3], uint32_t window,
                                 uint32_t *state, struct error *err) {
    struct plan *plan = c->binder->plan;
    const struct plan_state kv = {.kind = STATE_KV,
                                  .layer = (int32_t)c->layer,
                                  .kv_heads = shape->kv_heads,
                                  .head_dim = shape->head_dim,
                                  .v_dim = shape->v_dim,
                                  .window = window};
    TRY(plan_add_state(plan, &kv, state, err));
    struct plan_step write = plan_step_of(OP_KV_WRITE, (int32_t)c->layer);
    write.op.kv_write.state = *state;
    write.op.kv_write.kv_heads = shape->kv_heads;
    write.op.kv_write.head_dim = shape->head_dim;
    write.op.kv_write.v_dim = shape->v_dim;
    write.in[0] = qkv[1];
    write.in[1] = qkv[2];
    return plan_add_step(plan, &write, err);
}

static enum status emit_cache_and_scores(const struct layer_context *c, const struct attention_shape *shape, const uint32_t qkv[3],
                                         uint32_t *out, struct error *err) {
    struct plan *plan = c->binder->plan;
    uint32_t window = c->window ? params_u32(c->binder->params, PARAM_WINDOW, c->layer) : 0, state = c->kv_state;
    if (state == PLAN_NONE)
        TRY(emit_kv_write(c, shape, qkv, window, &state, err));
    const struct bind_vector_request sinks = {
        .role = ROLE_SINKS, .suffix = ".weight", .layer = c->layer, .size = shape->heads, .optional = true};
    TRY(plan_add_buffer(plan, "attention", shape->heads * shape->v_dim, out, err));
    struct plan_step step = plan_step_of(OP_ATTENTION, (int32_t)c->layer);
    TRY(bind_vector(c->binder, &sinks, &step.constant[0], err));
    step.op.attention.state = state;
    step.op.attention.heads = shape->heads;
    step.op.attention.kv_heads = shape->kv_heads;
    step.op.attention.head_dim = shape->head_dim;
    step.op.attention.v_dim = shape->v_dim;
    step.op.attention.window = window;
    step.op.attention.chunks = c->binder->arch->windows_are_chunks;
    step.op.attention.scale = score_scale(c, shape);
    step.op.attention.softcap = (float)params_f64(c->binder->params, PARAM_ATTENTION_SOFTCAP, 0);
    step.in[0] = qkv[0];
    step.out[0] = *out;
    return plan_add_step(plan, &step, err);
}

/* The queries (part 0) or the output gates (1) of a product that holds both. */
static enum status emit_part(const struct layer_context *c, const struct attention_shape *shape, uint32_t both, uint32_t part,
                             uint32_t *out, struct error *err) {
    struct plan_step step = plan_step_of(OP_COPY_HEADS, (int32_t)c->layer);
    step.op.copy_heads.heads = shape->heads;
    step.op.copy_heads.size = step.op.copy_heads.out_stride = shape->head_dim;
    step.op.copy_heads.in_offset = part * shape->head_dim;
    step.op.copy_heads.in_stride = 2 * shape->head_dim;
    TRY(plan_add_buffer(c->binder->plan, part ? "attn_gate" : "q", shape->q_width, out, err));
    step.in[0] = both;
    step.out[0] = *out;
    return plan_add_step(c->binder->plan, &step, err);
}

static enum status emit_output_gate(const struct layer_context *c, uint32_t gate, uint32_t repeat, uint32_t mixed, struct error *err) {
    struct plan_step step = plan_step_of(OP_GATE, (int32_t)c->layer);
    step.op.gate.gate = GATE_SIGMOID;
    step.op.gate.repeat = repeat;
    step.in[0] = gate;
    step.in[1] = step.out[0] = mixed;
    return plan_add_step(c->binder->plan, &step, err);
}

/* A gate by a matrix of its own: a number for each element, or one for each head. */
static enum status emit_own_gate(const struct layer_context *c, const struct attention_shape *shape, uint32_t in, uint32_t mixed,
                                 struct error *err) {
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    uint64_t rows = bind_rows(c->binder, ROLE_ATTENTION_GATE, c->layer);
    uint32_t gate;
    if (rows == 0)
        return STATUS_OK;
    bool by_head = rows == shape->heads;
    step.in[0] = in;
    TRY(block_add_output(c, &step, ROLE_ATTENTION_GATE, by_head ? shape->heads : shape->heads * shape->v_dim, &gate, err));
    TRY(plan_add_step(c->binder->plan, &step, err));
    return emit_output_gate(c, gate, by_head ? shape->v_dim : 1, mixed, err);
}

enum status block_attention(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    struct attention_shape shape;
    uint32_t qkv[3], mixed, gate = PLAN_NONE;
    TRY(read_shape(c, &shape, err));
    TRY(emit_qkv(c, &shape, in, qkv, err));
    if (shape.gated) {
        uint32_t both = qkv[0];
        TRY(emit_part(c, &shape, both, 1, &gate, err));
        TRY(emit_part(c, &shape, both, 0, &qkv[0], err));
    }
    TRY(emit_value_options(c, &shape, qkv, err));
    TRY(emit_positions(c, &shape, qkv, err));
    if (layer_mixer(c->binder, c->layer) == MIXER_STEADY_ATTENTION)
        TRY(block_steady_memory(c, shape.heads, shape.head_dim, qkv, &mixed, err));
    else
        TRY(emit_cache_and_scores(c, &shape, qkv, &mixed, err));
    if (shape.gated)
        TRY(emit_output_gate(c, gate, 1, mixed, err));
    TRY(emit_own_gate(c, &shape, in, mixed, err));
    return block_attention_out(c, mixed, out, err);
}

enum status block_attention_out(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    const struct bind_matrix_request request = {
        .role = ROLE_ATTENTION_OUT, .layer = c->layer, .rows = c->hidden, .cols = c->binder->plan->buffers[in].width, .fused = ROLE_COUNT};
    step.op.matmul.outputs = 1;
    step.in[0] = in;
    TRY(bind_matrix(c->binder, &request, &step.weight[0], err));
    TRY(bind_bias(c->binder, &request, &step.constant[0], err));
    TRY(plan_add_buffer(c->binder->plan, "attention_out", c->hidden, out, err));
    step.out[0] = *out;
    return plan_add_step(c->binder->plan, &step, err);
}
