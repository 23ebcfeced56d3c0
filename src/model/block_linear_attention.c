/*
 * block_linear_attention: gated delta net (qwen3_next, qwen3_5): products of the input, a short convolution over q, k and v, their lengths
 * made 1, the delta rule with its state of fixed size, a norm per head with an output gate, output product.
 *
 * Model   Heads are value heads; several may share a key head. The inputs come in tensors of their own, q, k and v in one or in three, or,
 *         key head by key head, in two mixed ones; the ops take all orders, so that nothing is copied but the output gate.
 */
#include <math.h>

#include "base/check.h"
#include "base/math_f64.h"
#include "model/block.h"

#define LENGTH_EPSILON 1e-6f

struct delta_shape {
    uint32_t heads, key_heads, key_dim, value_dim;
    uint32_t keys, values, channels; /* widths of k and v of all heads, and of what is convolved */
};
struct delta_buffers {
    uint32_t qkv, z, b, a; /* b and a, and qkv and z, may be one buffer */
    uint32_t single[3];    /* q, k and v where each has a matrix and a convolution of its own */
    bool mixed_qkvz, mixed_ba, apart;
};

static enum status read_shape(const struct layer_context *c, struct delta_shape *shape, struct error *err) {
    const struct binder *b = c->binder;
    TRY(params_need(b->params, b->catalogue, PARAM_RECURRENT_HEADS, err));
    TRY(params_need(b->params, b->catalogue, PARAM_RECURRENT_KEY_HEADS, err));
    TRY(params_need(b->params, b->catalogue, PARAM_RECURRENT_KEY_DIM, err));
    uint64_t value_dim = bind_vector_size(b, ROLE_RECURRENT_NORM, c->layer, ".weight");
    *shape = (struct delta_shape){.heads = params_u32(b->params, PARAM_RECURRENT_HEADS, c->layer),
                                  .key_heads = params_u32(b->params, PARAM_RECURRENT_KEY_HEADS, c->layer),
                                  .key_dim = params_u32(b->params, PARAM_RECURRENT_KEY_DIM, c->layer),
                                  .value_dim = (uint32_t)value_dim};
    if (value_dim == 0)
        shape->value_dim = shape->key_dim; /* the norm is missing and will be listed so */
    if (shape->heads % shape->key_heads != 0 || value_dim > 8192)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u: linear attention of %u heads with %u key heads and values of %llu elements",
                         catalogue_path(b->catalogue), c->layer, shape->heads, shape->key_heads, (unsigned long long)value_dim);
    shape->keys = shape->key_heads * shape->key_dim;
    shape->values = shape->heads * shape->value_dim;
    shape->channels = 2 * shape->keys + shape->values;
    return STATUS_OK;
}

/* ---- inputs ---- */

static enum status emit_inputs(const struct layer_context *c, const struct delta_shape *shape, uint32_t in, struct delta_buffers *out,
                               struct error *err) {
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    *out = (struct delta_buffers){.mixed_qkvz = bind_rows(c->binder, ROLE_RECURRENT_IN, c->layer) > 0,
                                  .mixed_ba = bind_rows(c->binder, ROLE_DELTA_BA, c->layer) > 0,
                                  .apart = bind_rows(c->binder, ROLE_Q, c->layer) > 0};
    step.in[0] = in;
    if (out->apart) {
        struct plan_step first = step;
        TRY(block_add_output(c, &first, ROLE_Q, shape->keys, &out->single[0], err));
        TRY(block_add_output(c, &first, ROLE_K, shape->keys, &out->single[1], err));
        TRY(block_add_output(c, &first, ROLE_V, shape->values, &out->single[2], err));
        TRY(plan_add_step(c->binder->plan, &first, err));
        TRY(block_add_output(c, &step, ROLE_DELTA_Z, shape->values, &out->z, err));
    } else if (out->mixed_qkvz) {
        TRY(block_add_output(c, &step, ROLE_RECURRENT_IN, shape->channels + shape->values, &out->qkv, err));
    } else {
        TRY(block_add_output(c, &step, ROLE_DELTA_QKV, shape->channels, &out->qkv, err));
        TRY(block_add_output(c, &step, ROLE_DELTA_Z, shape->values, &out->z, err));
    }
    if (out->mixed_ba) {
        TRY(block_add_output(c, &step, ROLE_DELTA_BA, 2 * shape->heads, &out->b, err));
        out->a = out->b;
    } else {
        TRY(block_add_output(c, &step, ROLE_DELTA_B, shape->heads, &out->b, err));
        TRY(block_add_output(c, &step, ROLE_DELTA_A, shape->heads, &out->a, err));
    }
    TRY(plan_add_step(c->binder->plan, &step, err));
    if (!out->mixed_qkvz)
        return STATUS_OK;
    struct plan_step copy = plan_step_of(OP_COPY_HEADS, (int32_t)c->layer);
    copy.op.copy_heads.heads = shape->key_heads;
    copy.op.copy_heads.size = copy.op.copy_heads.out_stride = shape->values / shape->key_heads;
    copy.op.copy_heads.in_offset = 2 * shape->key_dim + shape->values / shape->key_heads;
    copy.op.copy_heads.in_stride = 2 * (shape->key_dim + shape->values / shape->key_heads);
    TRY(plan_add_buffer(c->binder->plan, role_name(ROLE_DELTA_Z), shape->values, &out->z, err));
    copy.in[0] = out->qkv;
    copy.out[0] = out->z;
    return plan_add_step(c->binder->plan, &copy, err);
}

/* ---- convolution and lengths ---- */

enum status block_unit_lengths(const struct layer_context *c, uint32_t buffer, uint32_t vectors, uint32_t size, struct error *err) {
    struct plan_step step = plan_step_of(OP_NORM, (int32_t)c->layer);
    step.op.norm.norm = NORM_L2;
    step.op.norm.epsilon = LENGTH_EPSILON;
    step.op.norm.vectors = vectors;
    step.op.norm.size = size;
    step.in[0] = step.out[0] = buffer;
    return plan_add_step(c->binder->plan, &step, err);
}

/* q, k and v, each convolved alone. */
static enum status emit_convolutions(const struct layer_context *c, const struct delta_shape *shape, const struct delta_buffers *inputs,
                                     uint32_t out, struct error *err) {
    static const enum role roles[3] = {ROLE_DELTA_CONV_Q, ROLE_DELTA_CONV_K, ROLE_DELTA_CONV_V};
    const uint32_t widths[3] = {shape->keys, shape->keys, shape->values};
    for (uint32_t i = 0; i < 3; i++) {
        struct plan_step step = plan_step_of(OP_SHORT_CONV, (int32_t)c->layer);
        step.op.short_conv.groups = 1;
        step.op.short_conv.group_stride = step.op.short_conv.parts[0] = widths[i];
        step.op.short_conv.out_offset = i * shape->keys;
        step.op.short_conv.silu = true;
        step.in[0] = inputs->single[i];
        step.out[0] = out;
        TRY(block_convolve(c, roles[i], &step, err));
    }
    return block_unit_lengths(c, out, 2 * shape->key_heads, shape->key_dim, err);
}

static enum status emit_convolution(const struct layer_context *c, const struct delta_shape *shape, const struct delta_buffers *inputs,
                                    uint32_t *out, struct error *err) {
    if (inputs->apart) {
        TRY(plan_add_buffer(c->binder->plan, "qkv", shape->channels, out, err));
        return emit_convolutions(c, shape, inputs, *out, err);
    }
    uint32_t groups = inputs->mixed_qkvz ? shape->key_heads : 1;
    struct plan_step step = plan_step_of(OP_SHORT_CONV, (int32_t)c->layer);
    step.op.short_conv.groups = groups;
    step.op.short_conv.group_stride = c->binder->plan->buffers[inputs->qkv].width / groups;
    step.op.short_conv.parts[0] = step.op.short_conv.parts[1] = shape->keys / groups;
    step.op.short_conv.parts[2] = shape->values / groups;
    step.op.short_conv.silu = true;
    TRY(plan_add_buffer(c->binder->plan, "qkv", shape->channels, out, err));
    step.in[0] = inputs->qkv;
    step.out[0] = *out;
    TRY(block_convolve(c, ROLE_RECURRENT_CONV, &step, err));
    return block_unit_lengths(c, *out, 2 * shape->key_heads, shape->key_dim, err);
}

/* ---- the rule ---- */

enum status block_bind_rate(const struct layer_context *c, uint64_t count, uint32_t *constant, struct error *err) {
    struct binder *b = c->binder;
    const struct bind_vector_request request = {.role = ROLE_RECURRENT_RATE, .suffix = ".weight", .layer = c->layer, .size = count};
    TRY(bind_vector(b, &request, constant, err));
    if (*constant == PLAN_NONE || catalogue_world(b->catalogue) == CATALOGUE_GGUF)
        return STATUS_OK;
    float *rates = b->plan->constant_data + b->plan->constants[*constant].offset;
    for (uint64_t i = 0; i < count; i++)
        rates[i] = -(float)math_exp_f64((double)rates[i]);
    return STATUS_OK;
}

enum status block_bind_rates(const struct layer_context *c, uint32_t heads, uint32_t biases, struct plan_step *step, struct error *err) {
    const struct bind_vector_request request = {.role = ROLE_RECURRENT_RATE_BIAS,
                                                .suffix = catalogue_world(c->binder->catalogue) == CATALOGUE_GGUF ? ".bias" : "_bias",
                                                .layer = c->layer,
                                                .size = biases};
    TRY(block_bind_rate(c, heads, &step->constant[0], err));
    return bind_vector(c->binder, &request, &step->constant[1], err);
}

static enum status emit_rule(const struct layer_context *c, const struct delta_shape *shape, const struct delta_buffers *inputs,
                             uint32_t qkv, uint32_t *out, struct error *err) {
    struct plan *plan = c->binder->plan;
    struct plan_step step = plan_step_of(OP_DELTA_RULE, (int32_t)c->layer);
    struct op *op = &step.op;
    uint32_t shared = shape->heads / shape->key_heads;
    const struct plan_state memory = {
        .kind = STATE_RECURRENT, .layer = (int32_t)c->layer, .floats = (uint64_t)shape->values * shape->key_dim};
    TRY(plan_add_state(plan, &memory, &op->delta_rule.state, err));
    op->delta_rule.heads = shape->heads;
    op->delta_rule.key_heads = shape->key_heads;
    op->delta_rule.key_dim = shape->key_dim;
    op->delta_rule.value_dim = shape->value_dim;
    op->delta_rule.k_offset = shape->keys;
    op->delta_rule.v_offset = 2 * shape->keys;
    op->delta_rule.tiled = c->binder->arch->gguf_value_heads_tiled && catalogue_world(c->binder->catalogue) == CATALOGUE_GGUF;
    op->delta_rule.gate_group = inputs->mixed_ba ? shared : shape->heads;
    op->delta_rule.gate_stride = inputs->mixed_ba ? 2 * shared : shape->heads;
    op->delta_rule.a_offset = inputs->mixed_ba ? shared : 0;
    op->delta_rule.doubles = params_u32(c->binder->params, PARAM_DOUBLE_STRENGTH, c->layer) != 0;
    op->delta_rule.most = HUGE_VALF;
    op->delta_rule.scale = (float)(1 / sqrt(shape->key_dim));
    TRY(block_bind_rates(c, shape->heads, shape->heads, &step, err));
    TRY(plan_add_buffer(plan, "mixed", shape->values, out, err));
    step.in[0] = qkv;
    step.in[1] = inputs->b;
    step.in[2] = inputs->a;
    step.out[0] = *out;
    return plan_add_step(plan, &step, err);
}

float block_recurrent_epsilon(const struct layer_context *c) {
    const struct params *params = c->binder->params;
    return (float)params_f64(params, params_has(params, PARAM_RECURRENT_NORM_EPSILON) ? PARAM_RECURRENT_NORM_EPSILON : PARAM_NORM_EPSILON,
                             0);
}

enum status block_gated_norm(const struct layer_context *c, const struct head_gate *options, uint32_t mixed, struct error *err) {
    struct plan_step norm = plan_step_of(OP_NORM, (int32_t)c->layer), gate = plan_step_of(OP_GATE, (int32_t)c->layer);
    const struct bind_vector_request request = {.role = ROLE_RECURRENT_NORM, .suffix = ".weight", .layer = c->layer, .size = options->size};
    TRY(bind_vector(c->binder, &request, &norm.constant[0], err));
    norm.op.norm.norm = NORM_RMS;
    norm.op.norm.epsilon = block_recurrent_epsilon(c);
    norm.op.norm.vectors = options->heads;
    norm.op.norm.size = options->size;
    norm.in[0] = norm.out[0] = mixed;
    TRY(plan_add_step(c->binder->plan, &norm, err));
    gate.op.gate.gate = options->gate;
    gate.in[0] = options->gate_buffer;
    gate.in[1] = gate.out[0] = mixed;
    return plan_add_step(c->binder->plan, &gate, err);
}

enum status block_linear_attention(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    struct delta_shape shape;
    struct delta_buffers inputs;
    uint32_t qkv, mixed;
    TRY(read_shape(c, &shape, err));
    TRY(emit_inputs(c, &shape, in, &inputs, err));
    TRY(emit_convolution(c, &shape, &inputs, &qkv, err));
    TRY(emit_rule(c, &shape, &inputs, qkv, &mixed, err));
    const struct head_gate gate = {.heads = shape.heads, .size = shape.value_dim, .gate = GATE_SILU, .gate_buffer = inputs.z};
    TRY(block_gated_norm(c, &gate, mixed, err));
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    step.in[0] = mixed;
    TRY(block_add_output(c, &step, ROLE_RECURRENT_OUT, c->hidden, out, err));
    return plan_add_step(c->binder->plan, &step, err);
}
