/*
 * block_short_conv: a gated short convolution in the place of attention (lfm2): out(c * conv(b * x)), where b, c and x are a third of
 * one product each; and what every block with a convolution needs.
 */
#include "base/check.h"
#include "base/memory.h"
#include "model/block.h"

/* [channels][kernel] as in the files -> [kernel][channels], in place. */
static enum status turn_weights(struct plan *plan, uint32_t constant, uint32_t channels, uint32_t kernel, struct error *err) {
    float *weights = plan->constant_data + plan->constants[constant].offset;
    float *turned = memory_alloc_array((size_t)channels * kernel, sizeof *turned);
    if (!turned)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the weights of a convolution");
    for (size_t c = 0; c < channels; c++)
        for (size_t t = 0; t < kernel; t++)
            turned[t * channels + c] = weights[c * kernel + t];
    for (size_t i = 0; i < (size_t)channels * kernel; i++)
        weights[i] = turned[i];
    memory_free(turned);
    return STATUS_OK;
}

enum status block_convolve(const struct layer_context *c, enum role role, struct plan_step *step, struct error *err) {
    struct plan *plan = c->binder->plan;
    struct op *op = &step->op;
    uint32_t channels = op->short_conv.groups * (op->short_conv.parts[0] + op->short_conv.parts[1] + op->short_conv.parts[2]);
    CHECK(op->kind == OP_SHORT_CONV && channels > 0);
    uint64_t size = bind_vector_size(c->binder, role, c->layer, ".weight"), kernel = size / channels;
    if (size > 0 && (size % channels != 0 || kernel < 2 || kernel > OP_KERNEL_MAX))
        return error_set(err, STATUS_CORRUPT,
                         "%s: layer %u: a convolution has %llu weights; %u channels with a kernel of 2 to %d positions are expected",
                         catalogue_path(c->binder->catalogue), c->layer, (unsigned long long)size, channels, OP_KERNEL_MAX);
    struct bind_vector_request request = {.role = role, .suffix = ".weight", .layer = c->layer};
    TRY(bind_vector(c->binder, &request, &step->constant[0], err));
    if (step->constant[0] == PLAN_NONE)
        return STATUS_OK; /* noted as missing */
    TRY(turn_weights(plan, step->constant[0], channels, (uint32_t)kernel, err));
    request = (struct bind_vector_request){.role = role, .suffix = ".bias", .layer = c->layer, .size = channels, .optional = true};
    TRY(bind_vector(c->binder, &request, &step->constant[1], err));
    op->short_conv.channels = channels;
    op->short_conv.kernel = (uint32_t)kernel;
    const struct plan_state past = {.kind = STATE_RECURRENT, .layer = (int32_t)c->layer, .floats = (kernel - 1) * channels};
    TRY(plan_add_state(plan, &past, &op->short_conv.state, err));
    return plan_add_step(plan, step, err);
}

static enum status emit_product(const struct layer_context *c, uint32_t from, uint32_t to, struct error *err) {
    struct plan_step step = plan_step_of(OP_MULTIPLY, (int32_t)c->layer);
    step.in[0] = from;
    step.out[0] = to;
    return plan_add_step(c->binder->plan, &step, err);
}

enum status block_short_conv(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    static const char *const names[3] = {"conv_b", "conv_c", "conv_x"};
    struct binder *b = c->binder;
    uint32_t gates[3], mixed;
    struct plan_step step = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    step.op.matmul.outputs = 3;
    step.in[0] = in;
    for (uint32_t i = 0; i < 3; i++) {
        const struct bind_matrix_request request = {.role = ROLE_CONV_IN,
                                                    .layer = c->layer,
                                                    .rows = c->hidden,
                                                    .cols = c->hidden,
                                                    .fused = ROLE_CONV_IN,
                                                    .fused_first_row = (uint64_t)i * c->hidden,
                                                    .fused_rows = 3ull * c->hidden};
        TRY(bind_matrix(b, &request, &step.weight[i], err));
        TRY(bind_bias(b, &request, &step.constant[i], err));
        TRY(plan_add_buffer(b->plan, names[i], c->hidden, &gates[i], err));
        step.out[i] = gates[i];
    }
    TRY(plan_add_step(b->plan, &step, err));
    TRY(emit_product(c, gates[0], gates[2], err));
    struct plan_step convolution = plan_step_of(OP_SHORT_CONV, (int32_t)c->layer), last = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    convolution.op.short_conv.groups = 1;
    convolution.op.short_conv.group_stride = convolution.op.short_conv.parts[0] = c->hidden;
    TRY(plan_add_buffer(b->plan, "conv", c->hidden, &mixed, err));
    convolution.in[0] = gates[2];
    convolution.out[0] = mixed;
    TRY(block_convolve(c, ROLE_CONV, &convolution, err));
    TRY(emit_product(c, gates[1], mixed, err));
    last.in[0] = mixed;
    TRY(block_add_output(c, &last, ROLE_CONV_OUT, c->hidden, out, err));
    return plan_add_step(b->plan, &last, err);
}
