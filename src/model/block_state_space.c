/*
 * block_state_space: Mamba 2: one product gives output gate, inputs of a short convolution and steps; the convolved inputs write to and
 * read from a state of fixed size per head, as in linear attention without its correction; gate, norm per group of heads, output product.
 *
 * Model   In the words of the delta rule: B is the key, C the query, x the value, groups are key heads, the step is what is stored.
 */
#include <float.h>
#include <math.h>

#include "base/check.h"
#include "base/memory.h"
#include "model/block.h"

struct space_shape {
    uint32_t heads, groups, state; /* state: elements that a head keeps for each of its own */
    uint32_t inner, head_dim;
    uint32_t keys, channels; /* widths of B and C, and of what is convolved: [x][B][C] */
};

static enum status read_shape(const struct layer_context *c, struct space_shape *shape, struct error *err) {
    const struct binder *b = c->binder;
    TRY(params_need(b->params, b->catalogue, PARAM_RECURRENT_HEADS, err));
    TRY(params_need(b->params, b->catalogue, PARAM_RECURRENT_KEY_HEADS, err));
    TRY(params_need(b->params, b->catalogue, PARAM_RECURRENT_KEY_DIM, err));
    uint32_t heads = params_u32(b->params, PARAM_RECURRENT_HEADS, c->layer),
             groups = params_u32(b->params, PARAM_RECURRENT_KEY_HEADS, c->layer);
    uint64_t keys = (uint64_t)groups * params_u32(b->params, PARAM_RECURRENT_KEY_DIM, c->layer),
             rows = bind_rows(b, ROLE_RECURRENT_IN, c->layer);
    /* [gate][x][B][C][step]: gate and x are as wide as the norm says, or as what is left of the rows */
    uint64_t inner = rows > 2 * keys + heads ? (rows - 2 * keys - heads) / 2 : 0;
    if (rows > 0 && (inner == 0 || 2 * (inner + keys) + heads != rows || inner % heads != 0 || inner > 1u << 24 || heads % groups != 0))
        return error_set(err, STATUS_CORRUPT,
                         "%s: layer %u: %llu inputs of a state space do not divide into %u heads, %u groups and states of %u elements",
                         catalogue_path(b->catalogue), c->layer, (unsigned long long)rows, heads, groups,
                         params_u32(b->params, PARAM_RECURRENT_KEY_DIM, c->layer));
    inner = inner ? inner : heads; /* the tensor is missing and will be listed so */
    *shape = (struct space_shape){.heads = heads,
                                  .groups = groups,
                                  .state = params_u32(b->params, PARAM_RECURRENT_KEY_DIM, c->layer),
                                  .inner = (uint32_t)inner,
                                  .head_dim = (uint32_t)inner / heads,
                                  .keys = (uint32_t)keys,
                                  .channels = (uint32_t)(inner + 2 * keys)};
    return STATUS_OK;
}

/* The product's three parts: gate, what is convolved, steps. */
static enum status emit_inputs(const struct layer_context *c, const struct space_shape *shape, uint32_t in, uint32_t parts[3],
                               struct error *err) {
    static const char *const names[3] = {"ssm_gate", "ssm_xbc", "ssm_step"};
    const uint32_t widths[3] = {shape->inner, shape->channels, shape->heads};
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    uint64_t first = 0;
    step.op.matmul.outputs = 3;
    step.in[0] = in;
    for (uint32_t i = 0; i < 3; first += widths[i++]) {
        const struct bind_matrix_request request = {.role = ROLE_RECURRENT_IN,
                                                    .layer = c->layer,
                                                    .rows = widths[i],
                                                    .cols = c->hidden,
                                                    .fused = ROLE_RECURRENT_IN,
                                                    .fused_first_row = first,
                                                    .fused_rows = (uint64_t)shape->inner + shape->channels + shape->heads};
        TRY(bind_matrix(c->binder, &request, &step.weight[i], err));
        TRY(bind_bias(c->binder, &request, &step.constant[i], err));
        TRY(plan_add_buffer(c->binder->plan, names[i], widths[i], &parts[i], err));
        step.out[i] = parts[i];
    }
    return plan_add_step(c->binder->plan, &step, err);
}

/* config.json may multiply gate, x, B, C and step by factors of their own: ssm_multipliers. */
static enum status emit_factors(const struct layer_context *c, const struct space_shape *shape, const uint32_t parts[3],
                                struct error *err) {
    const uint32_t widths[3] = {shape->inner, shape->keys, shape->keys};
    double factors[5];
    for (uint64_t i = 0; i < 5; i++)
        factors[i] = params_factor(c->binder->params, c->binder->catalogue, "ssm_multipliers", i);
    TRY(block_scale(c, parts[0], factors[0], err));
    TRY(block_scale(c, parts[2], factors[4], err));
    if (factors[1] == 1 && factors[2] == 1 && factors[3] == 1)
        return STATUS_OK;
    float *vector = memory_alloc_array(shape->channels, sizeof *vector), *next = vector;
    if (!vector)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the factors of a state space");
    for (uint32_t part = 0; part < 3; part++)
        for (uint32_t i = 0; i < widths[part]; i++)
            *next++ = (float)factors[1 + part];
    struct plan_step step = plan_step_of(OP_SCALE_VECTOR, (int32_t)c->layer);
    enum status status = plan_add_constant(c->binder->plan, vector, shape->channels, &step.constant[0], err);
    memory_free(vector);
    TRY(status);
    step.out[0] = parts[1];
    return plan_add_step(c->binder->plan, &step, err);
}

static enum status emit_convolution(const struct layer_context *c, const struct space_shape *shape, uint32_t in, uint32_t *out,
                                    struct error *err) {
    struct plan_step step = plan_step_of(OP_SHORT_CONV, (int32_t)c->layer);
    step.op.short_conv.groups = 1;
    step.op.short_conv.group_stride = step.op.short_conv.parts[0] = shape->channels;
    step.op.short_conv.silu = true;
    TRY(plan_add_buffer(c->binder->plan, "xbc", shape->channels, out, err));
    step.in[0] = in;
    step.out[0] = *out;
    return block_convolve(c, ROLE_RECURRENT_CONV, &step, err);
}

/* config.json may bound the steps: time_step_limit [least, most]. */
static void read_limits(const struct layer_context *c, struct op *op) {
    double least = 0, most = HUGE_VAL;
    const struct meta_value *limits = params_meta(c->binder->params, c->binder->catalogue, "time_step_limit");
    if (limits && limits->type == META_ARRAY && limits->array.count == 2) {
        (void)meta_array_f64(limits, 0, &least);
        (void)meta_array_f64(limits, 1, &most);
    }
    op->delta_rule.least = (float)least;
    op->delta_rule.most = most < (double)FLT_MAX ? (float)most : HUGE_VALF;
}

static enum status emit_rule(const struct layer_context *c, const struct space_shape *shape, uint32_t xbc, uint32_t steps, uint32_t *out,
                             struct error *err) {
    struct plan *plan = c->binder->plan;
    struct plan_step step = plan_step_of(OP_DELTA_RULE, (int32_t)c->layer);
    struct op *op = &step.op;
    const struct plan_state state = {.kind = STATE_RECURRENT, .layer = (int32_t)c->layer, .floats = (uint64_t)shape->inner * shape->state};
    TRY(plan_add_state(plan, &state, &op->delta_rule.state, err));
    op->delta_rule.heads = op->delta_rule.gate_group = op->delta_rule.gate_stride = shape->heads;
    op->delta_rule.key_heads = shape->groups;
    op->delta_rule.key_dim = shape->state;
    op->delta_rule.value_dim = shape->head_dim;
    op->delta_rule.k_offset = shape->inner;
    op->delta_rule.q_offset = shape->inner + shape->keys;
    op->delta_rule.scale = 1;
    read_limits(c, op);
    if (!(op->delta_rule.most > op->delta_rule.least))
        return error_set(err, STATUS_CORRUPT, "%s: time_step_limit leaves no step", catalogue_path(c->binder->catalogue));
    TRY(block_bind_rates(c, shape->heads, shape->heads, &step, err));
    const struct bind_vector_request skip = {.role = ROLE_RECURRENT_SKIP, .suffix = ".weight", .layer = c->layer, .size = shape->heads};
    TRY(bind_vector(c->binder, &skip, &step.constant[2], err));
    TRY(plan_add_buffer(plan, "mixed", shape->inner, out, err));
    step.in[0] = xbc;
    step.in[2] = steps;
    step.out[0] = *out;
    return plan_add_step(plan, &step, err);
}

/* mixed = norm(silu(gate) * mixed), group by group, where the model has a norm. */
static enum status emit_gated_norm(const struct layer_context *c, const struct space_shape *shape, uint32_t gate, uint32_t mixed,
                                   struct error *err) {
    struct plan *plan = c->binder->plan;
    struct plan_step act = plan_step_of(OP_GATE, (int32_t)c->layer), norm = plan_step_of(OP_NORM, (int32_t)c->layer),
                     weigh = plan_step_of(OP_SCALE_VECTOR, (int32_t)c->layer);
    uint32_t weight;
    const struct bind_vector_request request = {.role = ROLE_RECURRENT_NORM,
                                                .suffix = ".weight",
                                                .layer = c->layer,
                                                .size = shape->inner,
                                                .optional = c->binder->arch->state_space_norm_optional};
    act.op.gate.gate = GATE_SILU;
    act.in[0] = gate;
    act.in[1] = act.out[0] = mixed;
    TRY(plan_add_step(plan, &act, err));
    TRY(bind_vector(c->binder, &request, &weight, err));
    if (weight == PLAN_NONE)
        return STATUS_OK;
    norm.op.norm.norm = NORM_RMS;
    norm.op.norm.epsilon = (float)params_f64(c->binder->params, PARAM_NORM_EPSILON, 0);
    norm.op.norm.vectors = shape->groups;
    norm.op.norm.size = shape->inner / shape->groups;
    norm.constant[0] = shape->groups == 1 ? weight : PLAN_NONE;
    norm.in[0] = norm.out[0] = mixed;
    TRY(plan_add_step(plan, &norm, err));
    if (shape->groups == 1)
        return STATUS_OK;
    weigh.constant[0] = weight;
    weigh.out[0] = mixed;
    return plan_add_step(plan, &weigh, err);
}

enum status block_state_space(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    struct space_shape shape = {0};
    uint32_t parts[3], xbc, mixed;
    TRY(read_shape(c, &shape, err));
    TRY(emit_inputs(c, &shape, in, parts, err));
    TRY(emit_factors(c, &shape, parts, err));
    TRY(emit_convolution(c, &shape, parts[1], &xbc, err));
    TRY(emit_rule(c, &shape, xbc, parts[2], &mixed, err));
    TRY(emit_gated_norm(c, &shape, parts[0], mixed, err));
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    step.in[0] = mixed;
    TRY(block_add_output(c, &step, ROLE_RECURRENT_OUT, c->hidden, out, err));
    return plan_add_step(c->binder->plan, &step, err);
}
