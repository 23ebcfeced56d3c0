/*
 * block_attention_and_state_space: a layer whose attention and state space read the same input, each with factors of its own; the sum of
 * both (falcon_h1).
 */
#include "model/block.h"

/* in times factor, in a buffer of its own, since another block reads `in` too. */
static enum status emit_scaled(const struct layer_context *c, uint32_t in, double factor, uint32_t *out, struct error *err) {
    struct plan_step step = plan_step_of(OP_COPY_HEADS, (int32_t)c->layer);
    *out = in;
    if (factor == 1)
        return STATUS_OK;
    TRY(plan_add_buffer(c->binder->plan, "scaled", c->hidden, out, err));
    step.op.copy_heads.heads = 1;
    step.op.copy_heads.size = step.op.copy_heads.in_stride = step.op.copy_heads.out_stride = c->hidden;
    step.in[0] = in;
    step.out[0] = *out;
    TRY(plan_add_step(c->binder->plan, &step, err));
    return block_scale(c, *out, factor, err);
}

enum status block_attention_and_state_space(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    const struct params *p = c->binder->params;
    struct plan_step add = plan_step_of(OP_ADD, (int32_t)c->layer);
    uint32_t scaled;
    TRY(emit_scaled(c, in, params_f64(p, PARAM_SPACE_IN_SCALE, 0), &scaled, err));
    TRY(block_state_space(c, scaled, &add.in[0], err));
    TRY(block_scale(c, add.in[0], params_f64(p, PARAM_SPACE_OUT_SCALE, 0), err));
    TRY(emit_scaled(c, in, params_f64(p, PARAM_ATTENTION_IN_SCALE, 0), &scaled, err));
    TRY(block_attention(c, scaled, out, err));
    TRY(block_scale(c, *out, params_f64(p, PARAM_ATTENTION_OUT_SCALE, 0), err));
    add.out[0] = *out;
    return plan_add_step(c->binder->plan, &add, err);
}
