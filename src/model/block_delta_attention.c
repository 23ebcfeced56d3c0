/*
 * block_delta_attention: Kimi's delta attention: as linear attention, with q, k and v convolved one by one, a decay for each element of a
 * key that comes through a narrow product, and an output gate that does too.
 */
#include <math.h>

#include "base/check.h"
#include "model/block.h"

struct delta_shape {
    uint32_t heads, head_dim, width; /* width: of q, k, v, decay and gate each */
};
struct delta_buffers {
    uint32_t qkv[3], strength, decay, gate;
};

static enum status read_shape(const struct layer_context *c, struct delta_shape *shape, struct error *err) {
    uint64_t heads = bind_vector_size(c->binder, ROLE_RECURRENT_RATE, c->layer, ".weight");
    uint64_t head_dim = bind_vector_size(c->binder, ROLE_RECURRENT_NORM, c->layer, ".weight");
    heads = heads ? heads : 1, head_dim = head_dim ? head_dim : 1; /* what is missing will be listed */
    if (heads > 4096 || head_dim > 8192)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u: delta attention of %llu heads with %llu elements each",
                         catalogue_path(c->binder->catalogue), c->layer, (unsigned long long)heads, (unsigned long long)head_dim);
    *shape = (struct delta_shape){.heads = (uint32_t)heads, .head_dim = (uint32_t)head_dim, .width = (uint32_t)(heads * head_dim)};
    return STATUS_OK;
}

/* out = second(first(in)), where the file says how narrow the middle is. */
static enum status emit_narrow(const struct layer_context *c, uint32_t in, enum role first, enum role second, uint32_t width, uint32_t *out,
                               struct error *err) {
    struct plan_step down = plan_step_of(OP_MATMUL, (int32_t)c->layer), up = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    uint64_t rows = bind_rows(c->binder, first, c->layer);
    if (rows > 1u << 20)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u: a narrow product of %llu rows", catalogue_path(c->binder->catalogue), c->layer,
                         (unsigned long long)rows);
    down.in[0] = in;
    TRY(block_add_output(c, &down, first, rows ? (uint32_t)rows : 1, &up.in[0], err));
    TRY(plan_add_step(c->binder->plan, &down, err));
    TRY(block_add_output(c, &up, second, width, out, err));
    return plan_add_step(c->binder->plan, &up, err);
}

static enum status emit_inputs(const struct layer_context *c, const struct delta_shape *shape, uint32_t in, struct delta_buffers *out,
                               struct error *err) {
    static const enum role roles[3] = {ROLE_Q, ROLE_K, ROLE_V};
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    step.in[0] = in;
    for (int i = 0; i < 3; i++)
        TRY(block_add_output(c, &step, roles[i], shape->width, &out->qkv[i], err));
    TRY(block_add_output(c, &step, ROLE_DELTA_B, shape->heads, &out->strength, err));
    TRY(plan_add_step(c->binder->plan, &step, err));
    TRY(emit_narrow(c, in, ROLE_DELTA_DECAY_IN, ROLE_DELTA_DECAY_OUT, shape->width, &out->decay, err));
    TRY(emit_narrow(c, in, ROLE_DELTA_GATE_IN, ROLE_DELTA_GATE_OUT, shape->width, &out->gate, err));
    struct plan_step decay = plan_step_of(OP_DECAY, (int32_t)c->layer);
    TRY(block_bind_rates(c, shape->heads, shape->width, &decay, err));
    decay.op.decay.heads = shape->heads;
    decay.op.decay.size = shape->head_dim;
    decay.in[0] = decay.out[0] = out->decay;
    return plan_add_step(c->binder->plan, &decay, err);
}

/* q, k and v behind each other, convolved, lengths of q and k made 1. */
static enum status emit_convolutions(const struct layer_context *c, const struct delta_shape *shape, const uint32_t qkv[3], uint32_t *out,
                                     struct error *err) {
    static const enum role roles[3] = {ROLE_DELTA_CONV_Q, ROLE_DELTA_CONV_K, ROLE_DELTA_CONV_V};
    TRY(plan_add_buffer(c->binder->plan, "qkv", 3 * shape->width, out, err));
    for (uint32_t i = 0; i < 3; i++) {
        struct plan_step step = plan_step_of(OP_SHORT_CONV, (int32_t)c->layer);
        step.op.short_conv.groups = 1;
        step.op.short_conv.group_stride = step.op.short_conv.parts[0] = shape->width;
        step.op.short_conv.out_offset = i * shape->width;
        step.op.short_conv.silu = true;
        step.in[0] = qkv[i];
        step.out[0] = *out;
        TRY(block_convolve(c, roles[i], &step, err));
    }
    return block_unit_lengths(c, *out, 2 * shape->heads, shape->head_dim, err);
}

static enum status emit_rule(const struct layer_context *c, const struct delta_shape *shape, const struct delta_buffers *inputs,
                             uint32_t qkv, uint32_t *out, struct error *err) {
    struct plan *plan = c->binder->plan;
    struct plan_step step = plan_step_of(OP_DELTA_RULE, (int32_t)c->layer);
    struct op *op = &step.op;
    const struct plan_state memory = {
        .kind = STATE_RECURRENT, .layer = (int32_t)c->layer, .floats = (uint64_t)shape->width * shape->head_dim};
    TRY(plan_add_state(plan, &memory, &op->delta_rule.state, err));
    op->delta_rule.heads = op->delta_rule.key_heads = op->delta_rule.gate_group = op->delta_rule.gate_stride = shape->heads;
    op->delta_rule.key_dim = op->delta_rule.value_dim = shape->head_dim;
    op->delta_rule.k_offset = shape->width;
    op->delta_rule.v_offset = 2 * shape->width;
    op->delta_rule.channel_decay = true;
    op->delta_rule.scale = (float)(1 / sqrt(shape->head_dim));
    TRY(plan_add_buffer(plan, "mixed", shape->width, out, err));
    step.in[0] = qkv;
    step.in[1] = inputs->strength;
    step.in[2] = inputs->decay;
    step.out[0] = *out;
    return plan_add_step(plan, &step, err);
}

enum status block_delta_attention(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    struct delta_shape shape = {0};
    struct delta_buffers inputs = {0};
    uint32_t qkv, mixed;
    TRY(read_shape(c, &shape, err));
    TRY(emit_inputs(c, &shape, in, &inputs, err));
    TRY(emit_convolutions(c, &shape, inputs.qkv, &qkv, err));
    TRY(emit_rule(c, &shape, &inputs, qkv, &mixed, err));
    const struct head_gate gate = {.heads = shape.heads, .size = shape.head_dim, .gate = GATE_SIGMOID, .gate_buffer = inputs.gate};
    TRY(block_gated_norm(c, &gate, mixed, err));
    return block_attention_out(c, mixed, out, err);
}
