/*
 * plan_ahead: where the router of the next mixture can be asked before its layer.
 *
 * A residual stream changes little from one layer to the next, so the next router, asked with what the stream is at a mixture, mostly
 * chooses what it will choose. The steps between the stream and a choice (a norm, a product, the router) run a second time, early, with
 * results of their own that nothing but the store's read-ahead sees: no text depends on them.
 */
#include "base/check.h"
#include "model/plan.h"

/* The step before `step` that last wrote a buffer, or PLAN_NONE. */
static uint32_t writer_of(const struct plan *plan, uint32_t buffer, uint32_t step) {
    while (step-- > 0)
        for (int i = 0; i < OP_BUFFERS_MAX; i++)
            if (plan->steps[step].out[i] == buffer)
                return step;
    return PLAN_NONE;
}

/* The steps from the residual stream to the choice of a mixture, in order; returns the stream's buffer, or PLAN_NONE. */
static uint32_t find_chain(const struct plan *plan, uint32_t mixture, uint32_t chain[PLAN_AHEAD_STEPS]) {
    static const enum op_kind kinds[PLAN_AHEAD_STEPS] = {OP_NORM, OP_MATMUL, OP_ROUTER};
    uint32_t buffer = plan->steps[mixture].in[1], step = mixture;
    for (int i = PLAN_AHEAD_STEPS - 1; i >= 0; i--) {
        step = buffer == PLAN_NONE ? PLAN_NONE : writer_of(plan, buffer, step);
        if (step == PLAN_NONE || plan->steps[step].op.kind != kinds[i] || plan->steps[step].out[1] != PLAN_NONE)
            return PLAN_NONE;
        chain[i] = step;
        buffer = plan->steps[step].in[0];
    }
    return buffer;
}

static enum status add(struct plan *plan, uint32_t mixture, uint32_t next, const uint32_t chain[PLAN_AHEAD_STEPS], struct error *err) {
    static const char *const names[PLAN_AHEAD_STEPS] = {"ahead_normed", "ahead_logits", "ahead_routing"};
    struct plan_ahead ahead = {.mixture = next};
    for (int i = 0; i < PLAN_AHEAD_STEPS; i++) {
        ahead.steps[i] = chain[i];
        TRY(plan_add_buffer(plan, names[i], plan->buffers[plan->steps[chain[i]].out[0]].width, &ahead.out[i], err));
        struct plan_buffer *buffer = &plan->buffers[ahead.out[i]];
        buffer->first_step = buffer->last_step = mixture;
    }
    plan->steps[mixture].ahead = plan->ahead_count;
    plan->aheads[plan->ahead_count++] = ahead;
    return STATUS_OK;
}

enum status plan_look_ahead(struct plan *plan, struct error *err) {
    uint32_t mixtures = 0, before = PLAN_NONE, stream_before = PLAN_NONE;
    for (uint32_t s = 0; s < plan->step_count; s++)
        mixtures += plan->steps[s].op.kind == OP_EXPERTS;
    if (mixtures < 2)
        return STATUS_OK;
    plan->aheads = memory_alloc_array(mixtures, sizeof *plan->aheads);
    if (!plan->aheads)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the plan of the model");
    for (uint32_t s = 0; s < plan->step_count; s++) {
        uint32_t chain[PLAN_AHEAD_STEPS];
        if (plan->steps[s].op.kind != OP_EXPERTS)
            continue;
        uint32_t stream = find_chain(plan, s, chain);
        if (stream != PLAN_NONE && stream == stream_before)
            TRY(add(plan, before, s, chain, err));
        before = s;
        stream_before = stream;
    }
    return STATUS_OK;
}
