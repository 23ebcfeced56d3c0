/*
 * block_selective_space: Mamba 1: one product gives x and the output gate; x is convolved and gives, through one narrow product, steps, B
 * and C, each normalised where the files have norms; every channel of x writes to and reads from a state of its own, whose elements fade by
 * rates of their own; gate, output product.
 *
 * Model   In the words of the delta rule: a channel is a head with a value of one element, B is the key and C the query of all of them.
 */
#include <math.h>

#include "base/check.h"
#include "model/block.h"

struct space_shape {
    uint32_t inner, state, rank; /* channels, elements that each keeps, width of the narrow step */
};

static enum status read_shape(const struct layer_context *c, struct space_shape *shape, struct error *err) {
    const struct binder *b = c->binder;
    uint64_t inner = bind_rows(b, ROLE_RECURRENT_IN, c->layer) / 2, rates = bind_vector_size(b, ROLE_RECURRENT_RATE, c->layer, ".weight");
    uint64_t inputs = bind_rows(b, ROLE_SPACE_INPUTS, c->layer), state = inner ? rates / inner : 0;
    if (inner == 0 || inner > 1u << 20 || state == 0 || state > OP_KEY_RATES_MAX || state * inner != rates || inputs <= 2 * state ||
        inputs > 1u << 20)
        return error_set(
            err, STATUS_CORRUPT, "%s: layer %u: a state space of %llu channels with %llu rates and %llu narrow inputs cannot be",
            catalogue_path(b->catalogue), c->layer, (unsigned long long)inner, (unsigned long long)rates, (unsigned long long)inputs);
    *shape = (struct space_shape){.inner = (uint32_t)inner, .state = (uint32_t)state, .rank = (uint32_t)(inputs - 2 * state)};
    return STATUS_OK;
}

/* One tensor's rows as several outputs. */
static enum status emit_ranges(const struct layer_context *c, enum role role, uint32_t in, const uint32_t *widths, uint32_t count,
                               const char *const *names, uint32_t *buffers, struct error *err) {
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    uint64_t all = 0, first = 0;
    for (uint32_t i = 0; i < count; i++)
        all += widths[i];
    step.op.matmul.outputs = count;
    step.in[0] = in;
    for (uint32_t i = 0; i < count; first += widths[i++]) {
        const struct bind_matrix_request request = {.role = role,
                                                    .layer = c->layer,
                                                    .rows = widths[i],
                                                    .cols = c->binder->plan->buffers[in].width,
                                                    .fused = role,
                                                    .fused_first_row = first,
                                                    .fused_rows = all};
        TRY(bind_matrix(c->binder, &request, &step.weight[i], err));
        TRY(bind_bias(c->binder, &request, &step.constant[i], err));
        TRY(plan_add_buffer(c->binder->plan, names[i], widths[i], &buffers[i], err));
        step.out[i] = buffers[i];
    }
    return plan_add_step(c->binder->plan, &step, err);
}

static enum status emit_norm(const struct layer_context *c, enum role role, uint32_t buffer, uint32_t size, struct error *err) {
    uint32_t weight;
    const struct bind_vector_request request = {.role = role, .suffix = ".weight", .layer = c->layer, .size = size, .optional = true};
    TRY(bind_vector(c->binder, &request, &weight, err));
    return weight == PLAN_NONE ? STATUS_OK : block_norm(c, buffer, buffer, weight, PLAN_NONE, 1, size, err);
}

/* x -> steps, and [x][B][C] side by side. */
static enum status emit_narrow(const struct layer_context *c, const struct space_shape *shape, uint32_t x, uint32_t *steps, uint32_t *xbc,
                               struct error *err) {
    static const char *const names[3] = {"ssm_step", "ssm_b", "ssm_c"};
    static const enum role norms[3] = {ROLE_SPACE_STEP_NORM, ROLE_SPACE_B_NORM, ROLE_SPACE_C_NORM};
    const uint32_t widths[3] = {shape->rank, shape->state, shape->state};
    struct plan *plan = c->binder->plan;
    uint32_t parts[3], offset = 0;
    TRY(emit_ranges(c, ROLE_SPACE_INPUTS, x, widths, 3, names, parts, err));
    for (uint32_t i = 0; i < 3; i++)
        TRY(emit_norm(c, norms[i], parts[i], widths[i], err));
    struct plan_step widen = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    const struct bind_matrix_request request = {
        .role = ROLE_SPACE_STEP, .layer = c->layer, .rows = shape->inner, .cols = shape->rank, .fused = ROLE_COUNT};
    TRY(bind_matrix(c->binder, &request, &widen.weight[0], err)); /* its bias belongs to the rule */
    TRY(plan_add_buffer(plan, "ssm_steps", shape->inner, steps, err));
    widen.op.matmul.outputs = 1;
    widen.in[0] = parts[0];
    widen.out[0] = *steps;
    TRY(plan_add_step(plan, &widen, err));
    TRY(plan_add_buffer(plan, "xbc", shape->inner + 2 * shape->state, xbc, err));
    for (uint32_t i = 0; i < 3; i++) {
        struct plan_step copy = plan_step_of(OP_COPY_HEADS, (int32_t)c->layer);
        copy.in[0] = i == 0 ? x : parts[i];
        copy.op.copy_heads.heads = 1;
        copy.op.copy_heads.size = copy.op.copy_heads.in_stride = plan->buffers[copy.in[0]].width;
        copy.op.copy_heads.out_stride = plan->buffers[*xbc].width;
        copy.op.copy_heads.out_offset = offset;
        copy.out[0] = *xbc;
        offset += copy.op.copy_heads.size;
        TRY(plan_add_step(plan, &copy, err));
    }
    return STATUS_OK;
}

static enum status emit_rule(const struct layer_context *c, const struct space_shape *shape, uint32_t xbc, uint32_t steps, uint32_t *out,
                             struct error *err) {
    struct plan *plan = c->binder->plan;
    struct plan_step step = plan_step_of(OP_DELTA_RULE, (int32_t)c->layer);
    struct op *op = &step.op;
    const struct plan_state state = {.kind = STATE_RECURRENT, .layer = (int32_t)c->layer, .floats = (uint64_t)shape->inner * shape->state};
    TRY(plan_add_state(plan, &state, &op->delta_rule.state, err));
    op->delta_rule.heads = op->delta_rule.gate_group = op->delta_rule.gate_stride = shape->inner;
    op->delta_rule.key_heads = op->delta_rule.value_dim = 1;
    op->delta_rule.key_dim = shape->state;
    op->delta_rule.k_offset = shape->inner;
    op->delta_rule.q_offset = shape->inner + shape->state;
    op->delta_rule.key_rates = true;
    op->delta_rule.most = HUGE_VALF;
    op->delta_rule.scale = 1;
    struct bind_vector_request request = {.role = ROLE_SPACE_STEP, .suffix = ".bias", .layer = c->layer, .size = shape->inner};
    TRY(block_bind_rate(c, (uint64_t)shape->inner * shape->state, &step.constant[0], err));
    TRY(bind_vector(c->binder, &request, &step.constant[1], err));
    request.role = ROLE_RECURRENT_SKIP;
    request.suffix = ".weight";
    TRY(bind_vector(c->binder, &request, &step.constant[2], err));
    TRY(plan_add_buffer(plan, "mixed", shape->inner, out, err));
    step.in[0] = xbc;
    step.in[2] = steps;
    step.out[0] = *out;
    return plan_add_step(plan, &step, err);
}

enum status block_selective_space(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    static const char *const names[2] = {"ssm_x", "ssm_gate"};
    struct space_shape shape = {0};
    struct plan *plan = c->binder->plan;
    uint32_t parts[2], x, steps, xbc, mixed;
    TRY(read_shape(c, &shape, err));
    const uint32_t widths[2] = {shape.inner, shape.inner};
    TRY(emit_ranges(c, ROLE_RECURRENT_IN, in, widths, 2, names, parts, err));
    struct plan_step conv = plan_step_of(OP_SHORT_CONV, (int32_t)c->layer), act = plan_step_of(OP_GATE, (int32_t)c->layer),
                     product = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    conv.op.short_conv.groups = 1;
    conv.op.short_conv.group_stride = conv.op.short_conv.parts[0] = shape.inner;
    conv.op.short_conv.silu = true;
    TRY(plan_add_buffer(plan, "x_conv", shape.inner, &x, err));
    conv.in[0] = parts[0];
    conv.out[0] = x;
    TRY(block_convolve(c, ROLE_RECURRENT_CONV, &conv, err));
    TRY(emit_narrow(c, &shape, x, &steps, &xbc, err));
    TRY(emit_rule(c, &shape, xbc, steps, &mixed, err));
    act.op.gate.gate = GATE_SILU;
    act.in[0] = parts[1];
    act.in[1] = act.out[0] = mixed;
    TRY(plan_add_step(plan, &act, err));
    product.in[0] = mixed;
    TRY(block_add_output(c, &product, ROLE_RECURRENT_OUT, c->hidden, out, err));
    return plan_add_step(plan, &product, err);
}
