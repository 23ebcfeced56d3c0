/*
 * executor_ahead: what the next mixture will probably want of the cache, told to the store while this one computes a prompt.
 *
 * Its router is asked early (model/plan_ahead.c), for all rows. What at least four rows choose is told: one row's choice changes more
 * easily, and of a few rows' choices too many change (docs/EXPERIMENTS.md has decode's numbers).
 */
#include <string.h>

#include "run/executor_internal.h"

#define VOTES_LEAST 4

/* Whether the next mixture comes from the cache and its router can be asked without a read. */
static bool can_ask(const struct executor *x, const struct plan_ahead *ahead) {
    const struct plan *plan = x->options.plan;
    for (int i = 0; i < PLAN_AHEAD_STEPS; i++) {
        uint32_t weight = plan->steps[ahead->steps[i]].weight[0];
        if (weight != PLAN_NONE && x->weights[weight].missing > 0)
            return false;
    }
    return store_life(x->options.store, executor_expert_record(x, &plan->steps[ahead->mixture], 0)) == WEIGHT_CACHED;
}

/* Runs the steps; *routing is the last one's result. */
static enum status ask(struct executor *x, const struct plan_ahead *ahead, struct op_call *routing, struct error *err) {
    const struct plan *plan = x->options.plan;
    for (int i = 0; i < PLAN_AHEAD_STEPS; i++) {
        const struct plan_step *step = &plan->steps[ahead->steps[i]];
        struct op_call call = {.rows = x->row_count, .row = x->rows};
        executor_resolve_buffers(x, step, &call);
        if (i > 0)
            call.in[0] = routing->out[0];
        call.out[0] = executor_buffer(x, ahead->out[i]);
        TRY(step->op.kind == OP_MATMUL ? executor_run_matmul(x, step, &call, err) : executor_compute(x, &step->op, &call, err));
        *routing = call;
    }
    return STATUS_OK;
}

/* The likely experts in `list`, [experts], increasing; returns how many. */
static uint32_t likely(const struct executor *x, const struct op *op, const struct op_call *routing, uint32_t *list) {
    uint32_t *votes = x->experts.votes, experts = op->experts.experts, count = 0;
    memset(votes, 0, experts * sizeof *votes);
    for (uint32_t row = 0; row < x->row_count; row++)
        for (uint32_t rank = 0; rank < op->experts.top_k; rank++) {
            uint32_t id = executor_routed(routing->out[0], routing->out_width[0], row, rank);
            if (id < experts)
                votes[id]++;
        }
    for (uint32_t id = 0; id < experts; id++)
        if (votes[id] >= VOTES_LEAST)
            list[count++] = id;
    return count;
}

enum status executor_look_ahead(struct executor *x, const struct plan_step *step, struct error *err) {
    const struct plan *plan = x->options.plan;
    if (!x->options.look_ahead || step->ahead == PLAN_NONE || x->row_count <= PARK_ROWS || !store_may_expect(x->options.store))
        return STATUS_OK;
    const struct plan_ahead *ahead = &plan->aheads[step->ahead];
    if (!can_ask(x, ahead))
        return STATUS_OK;
    const struct plan_step *mixture = &plan->steps[ahead->mixture];
    struct op_call routing = {0};
    TRY(ask(x, ahead, &routing, err));
    uint32_t *list = x->experts.expected, count = likely(x, &mixture->op, &routing, list);
    for (uint32_t i = 0; i < count; i++)
        list[i] = executor_expert_record(x, mixture, list[i]);
    store_expect(x->options.store, list, count);
    return STATUS_OK;
}
