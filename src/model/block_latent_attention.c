/*
 * block_latent_attention: attention whose keys and values of all heads come from one narrow vector per position, the latent (MLA).
 *
 * Model      key of a head = [K latent][r], value = V latent, with K and V of the head and r rotated and shared by all heads. Computed in
 *            absorbed form for every row: the query takes K with it, q.k = (K^T q).latent + q_r.r, and V comes after the sum over
 *            positions. So the cache holds [latent][r] once, as a key whose first elements are the value, and attention is that of
 *            many query heads with one key head.
 * Weights    K^T and V of all heads as files of today have them, or as halves of one matrix (kv_b): then K^T is read by columns.
 */
#include <math.h>

#include "base/check.h"
#include "base/math_f64.h"
#include "base/memory.h"
#include "model/block.h"

#define LATENT_NORM_EPSILON 1e-6f /* of the norms inside the block, whatever the model's others have */

struct latent_shape {
    uint32_t heads, latent, rotated, plain, value; /* a head's key is [plain][rotated] */
    uint32_t head, key;                            /* [plain][rotated] of a query, [latent][rotated] of what is cached */
};

static enum status read_shape(const struct layer_context *c, struct latent_shape *shape, struct error *err) {
    const struct params *p = c->binder->params;
    const struct catalogue *catalogue = c->binder->catalogue;
    bool gguf = catalogue_world(catalogue) == CATALOGUE_GGUF;
    enum param head = params_has(p, PARAM_LATENT_HEAD_DIM) ? PARAM_LATENT_HEAD_DIM : gguf ? PARAM_HEAD_DIM : PARAM_NOPE_DIM;
    enum param value = params_has(p, PARAM_LATENT_V_DIM) ? PARAM_LATENT_V_DIM : PARAM_V_HEAD_DIM;
    TRY(params_need(p, catalogue, head, err));
    TRY(params_need(p, catalogue, value, err));
    TRY(params_need(p, catalogue, PARAM_ROPE_DIM, err));
    shape->heads = params_u32(p, PARAM_HEADS, c->layer);
    shape->latent = params_u32(p, PARAM_KV_LATENT, c->layer);
    shape->rotated = params_u32(p, PARAM_ROPE_DIM, c->layer);
    shape->value = params_u32(p, value, c->layer);
    shape->head = params_u32(p, head, c->layer) + (head == PARAM_NOPE_DIM ? shape->rotated : 0);
    if (shape->heads == 0 || shape->rotated == 0 || shape->rotated % 2 != 0 || shape->head <= shape->rotated)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u: %u heads of %u elements, of which %u are rotated, cannot be",
                         catalogue_path(catalogue), c->layer, shape->heads, shape->head, shape->rotated);
    shape->plain = shape->head - shape->rotated;
    shape->key = shape->latent + shape->rotated;
    return STATUS_OK;
}

/* ---- products with the layer's input ---- */

enum status block_add_output(const struct layer_context *c, struct plan_step *step, enum role role, uint32_t rows, uint32_t *buffer,
                             struct error *err) {
    uint32_t slot = step->op.matmul.outputs++;
    CHECK(slot < OP_WEIGHTS_MAX);
    const struct bind_matrix_request request = {
        .role = role, .layer = c->layer, .rows = rows, .cols = c->binder->plan->buffers[step->in[0]].width, .fused = ROLE_COUNT};
    TRY(bind_matrix(c->binder, &request, &step->weight[slot], err));
    TRY(bind_bias(c->binder, &request, &step->constant[slot], err));
    TRY(plan_add_buffer(c->binder->plan, role_name(role), rows, buffer, err));
    step->out[slot] = *buffer;
    return STATUS_OK;
}

/* RMS norm of the first `size` elements of a buffer, in place. */
static enum status emit_norm(const struct layer_context *c, enum role role, uint32_t buffer, uint32_t size, struct error *err) {
    struct plan_step step = plan_step_of(OP_NORM, (int32_t)c->layer);
    const struct bind_vector_request request = {.role = role, .suffix = ".weight", .layer = c->layer, .size = size};
    TRY(bind_vector(c->binder, &request, &step.constant[0], err));
    step.op.norm.norm = NORM_RMS;
    step.op.norm.epsilon = LATENT_NORM_EPSILON;
    step.op.norm.vectors = 1;
    step.op.norm.size = size;
    step.in[0] = step.out[0] = buffer;
    return plan_add_step(c->binder->plan, &step, err);
}

/* What a latent of this width is multiplied by; config.json may turn it off. */
static double latent_scale(const struct layer_context *c, const char *key, uint32_t width) {
    bool scaled = c->binder->arch->latents_scaled;
    if (scaled)
        (void)meta_bool(params_meta(c->binder->params, c->binder->catalogue, key), &scaled);
    return scaled ? sqrt((double)c->hidden / width) : 1;
}

/* The first elements of a key, its latent; the rotated ones stay. */
static enum status emit_latent_scale(const struct layer_context *c, const struct latent_shape *shape, uint32_t key, struct error *err) {
    double scale = latent_scale(c, "mla_scale_kv_lora", shape->latent);
    if (scale == 1)
        return STATUS_OK;
    float *factors = memory_alloc_array(shape->key, sizeof *factors);
    if (!factors)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the factors of a latent");
    for (uint32_t i = 0; i < shape->key; i++)
        factors[i] = i < shape->latent ? (float)scale : 1;
    struct plan_step step = plan_step_of(OP_SCALE_VECTOR, (int32_t)c->layer);
    enum status status = plan_add_constant(c->binder->plan, factors, shape->key, &step.constant[0], err);
    memory_free(factors);
    TRY(status);
    step.out[0] = key;
    return plan_add_step(c->binder->plan, &step, err);
}

struct latent_buffers {
    uint32_t narrow_q; /* q's own latent, normed; PLAN_NONE: q comes from the input at once */
    uint32_t q, key, out;
};

static enum status emit_inputs(const struct layer_context *c, const struct latent_shape *shape, uint32_t in, struct latent_buffers *buffers,
                               struct error *err) {
    struct plan *plan = c->binder->plan;
    uint64_t narrow = bind_rows(c->binder, ROLE_Q_A, c->layer);
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer), second = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    if (narrow > 1u << 20)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u: q comes from %llu elements", catalogue_path(c->binder->catalogue), c->layer,
                         (unsigned long long)narrow);
    buffers->narrow_q = PLAN_NONE;
    step.in[0] = in;
    if (narrow > 0)
        TRY(block_add_output(c, &step, ROLE_Q_A, (uint32_t)narrow, &buffers->narrow_q, err));
    else
        TRY(block_add_output(c, &step, ROLE_Q, shape->heads * shape->head, &buffers->q, err));
    TRY(block_add_output(c, &step, ROLE_KV_A, shape->key, &buffers->key, err));
    TRY(plan_add_step(plan, &step, err));
    TRY(emit_norm(c, ROLE_KV_A_NORM, buffers->key, shape->latent, err));
    TRY(emit_latent_scale(c, shape, buffers->key, err));
    if (narrow == 0)
        return STATUS_OK;
    TRY(emit_norm(c, ROLE_Q_A_NORM, buffers->narrow_q, (uint32_t)narrow, err));
    second.in[0] = buffers->narrow_q;
    TRY(block_add_output(c, &second, ROLE_Q_B, shape->heads * shape->head, &buffers->q, err));
    TRY(plan_add_step(plan, &second, err));
    return block_scale(c, buffers->q, latent_scale(c, "mla_scale_q_lora", (uint32_t)narrow), err);
}

/* ---- positions and cache ---- */

static bool rotates_pairs(const struct layer_context *c) {
    const struct binder *b = c->binder;
    if (catalogue_world(b->catalogue) == CATALOGUE_GGUF)
        return b->arch->rope_pairs_gguf;
    bool pairs = b->arch->rope_pairs_hf;
    (void)meta_bool(params_meta(b->params, b->catalogue, "rope_interleave"), &pairs);
    return pairs;
}

enum status block_rope(const struct layer_context *c, const struct op *options, uint32_t buffer, struct error *err) {
    if (c->rope_table == PLAN_NONE)
        return STATUS_OK;
    struct plan_step step = plan_step_of(OP_ROPE, (int32_t)c->layer);
    step.op = *options;
    step.op.kind = OP_ROPE;
    step.op.rope.half = c->rope_half;
    step.in[0] = c->rope_table;
    step.out[0] = buffer;
    return plan_add_step(c->binder->plan, &step, err);
}

static enum status emit_positions(const struct layer_context *c, const struct latent_shape *shape, const struct latent_buffers *buffers,
                                  uint32_t *state, struct error *err) {
    bool pairs = rotates_pairs(c);
    const struct op of_key = {.rope = {.heads = 1, .head_dim = shape->key, .offset = shape->latent, .pairs = pairs}};
    const struct op of_q = {.rope = {.heads = shape->heads, .head_dim = shape->head, .offset = shape->plain, .pairs = pairs}};
    const struct plan_state kv = {.kind = STATE_KV,
                                  .layer = (int32_t)c->layer,
                                  .kv_heads = 1,
                                  .head_dim = shape->key,
                                  .v_dim = shape->latent,
                                  .values_in_keys = true,
                                  .unrounded = true};
    struct plan_step write = plan_step_of(OP_KV_WRITE, (int32_t)c->layer);
    TRY(block_rope(c, &of_key, buffers->key, err));
    TRY(block_rope(c, &of_q, buffers->q, err));
    TRY(plan_add_state(c->binder->plan, &kv, state, err));
    write.op.kv_write.state = *state;
    write.op.kv_write.kv_heads = 1;
    write.op.kv_write.head_dim = shape->key;
    write.in[0] = buffers->key;
    return plan_add_step(c->binder->plan, &write, err);
}

/* ---- products by heads ---- */

/* One half of kv_b for all heads: from the role's own stack, or from rows [first, first + rows) of each head in kv_b. */
static enum status bind_half(const struct layer_context *c, const struct latent_shape *shape, enum role role, struct plan_step *step,
                             struct error *err) {
    bool keys = role == ROLE_K_B;
    struct bind_heads_request request = {.role = role,
                                         .layer = c->layer,
                                         .heads = shape->heads,
                                         .rows = keys ? shape->latent : shape->value,
                                         .cols = keys ? shape->plain : shape->latent};
    TRY(bind_heads(c->binder, &request, &step->weight[0], err));
    if (step->weight[0] != PLAN_NONE)
        return STATUS_OK;
    request.role = ROLE_KV_B;
    request.rows = keys ? shape->plain : shape->value;
    request.cols = shape->latent;
    request.first = keys ? 0 : shape->plain;
    request.step = shape->plain + shape->value;
    step->op.head_matmul.transposed = keys;
    TRY(bind_heads(c->binder, &request, &step->weight[0], err));
    return step->weight[0] == PLAN_NONE ? bind_missing(c->binder, role, c->layer, err) : STATUS_OK;
}

/* [plain][rotated] of each head -> [latent][rotated]. */
static enum status emit_absorbed_query(const struct layer_context *c, const struct latent_shape *shape, uint32_t q, uint32_t *out,
                                       struct error *err) {
    struct plan *plan = c->binder->plan;
    struct plan_step product = plan_step_of(OP_HEAD_MATMUL, (int32_t)c->layer), copy = plan_step_of(OP_COPY_HEADS, (int32_t)c->layer);
    TRY(plan_add_buffer(plan, "latent_q", shape->heads * shape->key, out, err));
    product.op.head_matmul.heads = copy.op.copy_heads.heads = shape->heads;
    product.op.head_matmul.in_size = shape->plain;
    product.op.head_matmul.out_size = shape->latent;
    product.op.head_matmul.in_stride = copy.op.copy_heads.in_stride = shape->head;
    product.op.head_matmul.out_stride = copy.op.copy_heads.out_stride = shape->key;
    product.in[0] = copy.in[0] = q;
    product.out[0] = copy.out[0] = *out;
    TRY(bind_half(c, shape, ROLE_K_B, &product, err));
    TRY(plan_add_step(plan, &product, err));
    copy.op.copy_heads.size = shape->rotated;
    copy.op.copy_heads.in_offset = shape->plain;
    copy.op.copy_heads.out_offset = shape->latent;
    return plan_add_step(plan, &copy, err);
}

static enum status emit_values(const struct layer_context *c, const struct latent_shape *shape, uint32_t mixed, uint32_t *out,
                               struct error *err) {
    struct plan_step product = plan_step_of(OP_HEAD_MATMUL, (int32_t)c->layer);
    TRY(plan_add_buffer(c->binder->plan, "attention", shape->heads * shape->value, out, err));
    product.op.head_matmul.heads = shape->heads;
    product.op.head_matmul.in_size = product.op.head_matmul.in_stride = shape->latent;
    product.op.head_matmul.out_size = product.op.head_matmul.out_stride = shape->value;
    product.in[0] = mixed;
    product.out[0] = *out;
    TRY(bind_half(c, shape, ROLE_V_B, &product, err));
    return plan_add_step(c->binder->plan, &product, err);
}

/* ---- scores ---- */

/* 1 / sqrt(head), times the square of what YaRN's stretch adds. */
static float score_scale(const struct layer_context *c, const struct latent_shape *shape) {
    const struct params *p = c->binder->params;
    bool gguf = catalogue_world(c->binder->catalogue) == CATALOGUE_GGUF;
    double multiplier = gguf ? params_f64(p, PARAM_YARN_LOG_MULTIPLIER, 0) : 0.1 * params_f64(p, PARAM_YARN_SCORE_SCALE, 0);
    double factor = params_f64(p, PARAM_YARN_FACTOR, 0), stretch = factor > 1 ? 1 + multiplier * math_log_f64(factor) : 1;
    return (float)(stretch * stretch / sqrt(shape->head));
}

/* step->in: query and selection. */
static enum status emit_attention(const struct layer_context *c, const struct latent_shape *shape, uint32_t state, struct plan_step *step,
                                  uint32_t *out, struct error *err) {
    TRY(plan_add_buffer(c->binder->plan, "latent_sum", shape->heads * shape->latent, out, err));
    step->op.attention.state = state;
    step->op.attention.heads = shape->heads;
    step->op.attention.kv_heads = 1;
    step->op.attention.head_dim = shape->key;
    step->op.attention.v_dim = shape->latent;
    step->op.attention.values_in_keys = true;
    step->op.attention.scale = score_scale(c, shape);
    step->out[0] = *out;
    return plan_add_step(c->binder->plan, step, err);
}

enum status block_latent_attention(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    struct latent_shape shape;
    struct latent_buffers buffers;
    uint32_t state, mixed, values;
    struct plan_step attend = plan_step_of(OP_ATTENTION, (int32_t)c->layer);
    TRY(read_shape(c, &shape, err));
    TRY(emit_inputs(c, &shape, in, &buffers, err));
    TRY(emit_positions(c, &shape, &buffers, &state, err));
    TRY(block_sparse_index(c, in, buffers.narrow_q, &attend.in[1], err));
    TRY(emit_absorbed_query(c, &shape, buffers.q, &attend.in[0], err));
    TRY(block_query_temperature(c, attend.in[0], err));
    TRY(emit_attention(c, &shape, state, &attend, &mixed, err));
    TRY(emit_values(c, &shape, mixed, &values, err));
    return block_attention_out(c, values, out, err);
}
