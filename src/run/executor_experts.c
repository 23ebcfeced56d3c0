/*
 * executor_experts: one mixture: the union of the rows' experts, wanted at once, computed as it comes into memory.
 *
 * Few rows (decode, drafts): any order, present experts first, outputs parked and summed at the end in increasing expert index.
 * An expert whose gate and up are there is computed so far while its down comes.
 * Many rows (prompt chunks): in increasing index, each expert's weights read once for all its rows and added at once.
 */
#include <string.h>

#include "base/check.h"
#include "run/executor_internal.h"

/* ---- scratch ---- */

struct cutter {
    uint8_t *data; /* NULL: only counts */
    size_t used_bytes;
};

static void *cut(struct cutter *cutter, size_t count, size_t element_bytes) {
    size_t at = cutter->used_bytes;
    cutter->used_bytes += (size_t)size_round_up(count * element_bytes, 64);
    return cutter->data ? cutter->data + at : NULL;
}

static void cut_scratch(struct cutter *cutter, struct experts_scratch *s, const struct plan *plan, uint32_t max_rows) {
    size_t experts = plan->experts, pairs = (size_t)max_rows * plan->top_k;
    size_t parked = experts ? (size_t)(max_rows < PARK_ROWS ? max_rows : PARK_ROWS) * plan->top_k : 0;
    s->work = cut(cutter, experts, sizeof *s->work);
    s->leases = cut(cutter, experts, sizeof *s->leases);
    s->ids = cut(cutter, experts, sizeof *s->ids);
    s->wanted = cut(cutter, experts, sizeof *s->wanted);
    s->first = cut(cutter, experts ? experts + 1 : 0, sizeof *s->first);
    s->rows = cut(cutter, experts ? pairs : 0, sizeof *s->rows);
    s->ranks = cut(cutter, experts ? pairs : 0, sizeof *s->ranks);
    s->pair_of = cut(cutter, parked, sizeof *s->pair_of);
    s->park = cut(cutter, parked * plan->hidden, sizeof *s->park);
    s->expected = cut(cutter, experts, sizeof *s->expected);
    s->votes = cut(cutter, experts, sizeof *s->votes);
}

size_t experts_scratch_bytes(const struct plan *plan, uint32_t max_rows) {
    struct cutter counter = {0};
    struct experts_scratch none;
    cut_scratch(&counter, &none, plan, max_rows);
    return counter.used_bytes;
}

void experts_scratch_cut(struct experts_scratch *scratch, const struct plan *plan, uint32_t max_rows, uint8_t *memory) {
    struct cutter cutter = {.data = memory};
    cut_scratch(&cutter, scratch, plan, max_rows);
}

/* ---- who goes where ---- */

uint32_t executor_routed(const float *routing, size_t width, size_t row, size_t rank) {
    uint32_t id;
    memcpy(&id, routing + row * width + rank, sizeof id);
    return id;
}

/* Fills ids (union, increasing) and each expert's rows and ranks; returns the size of the union. */
static uint32_t sort_rows(struct executor *x, const struct op *op, const struct op_call *call) {
    struct experts_scratch *s = &x->experts;
    uint32_t experts = op->experts.experts, top_k = op->experts.top_k, used = 0;
    memset(s->first, 0, (experts + 1) * sizeof *s->first);
    for (size_t r = 0; r < call->rows; r++)
        for (uint32_t k = 0; k < top_k; k++) {
            uint32_t id = executor_routed(call->in[1], call->in_width[1], r, k);
            CHECK(id < experts + op->experts.zero_experts);
            if (id < experts)
                s->first[id + 1]++;
        }
    for (uint32_t e = 0; e < experts; e++) {
        if (s->first[e + 1])
            s->ids[used++] = e;
        s->first[e + 1] += s->first[e];
    }
    for (size_t r = 0; r < call->rows; r++)
        for (uint32_t k = 0; k < top_k; k++) {
            uint32_t id = executor_routed(call->in[1], call->in_width[1], r, k);
            if (id >= experts)
                continue;
            uint32_t place = s->first[id]++;
            s->rows[place] = (uint32_t)r;
            s->ranks[place] = k;
        }
    for (uint32_t e = experts; e > 0; e--)
        s->first[e] = s->first[e - 1];
    s->first[0] = 0;
    return used;
}

static struct expert_work work_of(struct executor *x, const struct plan_step *step, uint32_t expert, const struct weight_lease *lease) {
    const struct plan *plan = x->options.plan;
    struct experts_scratch *s = &x->experts;
    uint32_t first = s->first[expert];
    struct expert_work work = {.expert = expert,
                               .row_count = s->first[expert + 1] - first,
                               .rows = s->rows + first,
                               .ranks = s->ranks + first,
                               .first_pair = first};
    struct matrix *matrices[3] = {&work.gate, &work.up, &work.down};
    const float **biases[3] = {&work.gate_bias, &work.up_bias, &work.down_bias};
    for (int w = 0; w < 3; w++)
        if (step->weight[w] != PLAN_NONE) {
            const struct plan_weight *weight = &plan->weights[step->weight[w]];
            *matrices[w] = record_matrix(weight, &record_table_weights(x->options.records, x->options.model)[step->weight[w]],
                                         lease->pieces, weight->rows);
            if (weight->expert_scales)
                matrices[w]->tensor_scale = weight->expert_scales[expert];
            if (step->constant[w] != PLAN_NONE)
                *biases[w] = plan_constant_data(plan, step->constant[w]) + expert * weight->rows;
        }
    return work;
}

weight_id executor_expert_record(const struct executor *x, const struct plan_step *step, uint32_t expert) {
    return record_table_weights(x->options.records, x->options.model)[step->weight[2]].first_record + expert;
}

/* ---- running ---- */

struct experts_pass {
    const struct plan_step *step;
    struct op_call *call;
    uint32_t used, done; /* experts of the union, and how many are computed */
    uint32_t held;       /* leases and work that wait for compute */
    uint32_t held_pairs;
    bool held_whole; /* all of them are; else down was not there when they were taken */
    bool cached;     /* leases come from store_take and go back */
};

/* Gate and up of what is held, while the last slices come. */
static enum status compute_early(struct executor *x, struct experts_pass *pass, struct error *err) {
    pass->call->stage = EXPERTS_GATE_UP;
    TRY(executor_compute(x, &pass->step->op, pass->call, err));
    for (uint32_t i = 0; i < pass->held; i++)
        TRY(store_wait_pieces(x->options.store, &x->experts.leases[i], err));
    pass->call->stage = EXPERTS_DOWN;
    return STATUS_OK;
}

static enum status compute_held(struct executor *x, struct experts_pass *pass, struct error *err) {
    struct experts_scratch *s = &x->experts;
    pass->call->work = s->work;
    pass->call->work_count = pass->held;
    pass->call->first_part = pass->done == 0;
    pass->call->last_part = pass->done + pass->held == pass->used;
    pass->call->stage = EXPERTS_WHOLE;
    if (pass->held > 0 && !pass->held_whole)
        TRY(compute_early(x, pass, err));
    enum status status = executor_compute(x, &pass->step->op, pass->call, err);
    for (uint32_t i = 0; i < pass->held && pass->cached; i++)
        store_release(x->options.store, &s->leases[i]);
    pass->done += pass->held;
    pass->held = pass->held_pairs = 0;
    return status;
}

static enum status hold(struct executor *x, struct experts_pass *pass, uint32_t expert, const struct weight_lease *lease,
                        struct error *err) {
    struct experts_scratch *s = &x->experts;
    uint32_t pairs = s->first[expert + 1] - s->first[expert];
    if (pass->held_pairs + pairs > x->pair_limit || (pass->held > 0 && lease->whole != pass->held_whole))
        TRY(compute_held(x, pass, err));
    pass->held_whole = lease->whole;
    s->leases[pass->held] = *lease;
    s->work[pass->held++] = work_of(x, pass->step, expert, lease);
    pass->held_pairs += pairs;
    return STATUS_OK;
}

static enum status run_resident(struct executor *x, struct experts_pass *pass, struct error *err) {
    for (uint32_t i = 0; i < pass->used; i++) {
        struct weight_lease lease;
        uint32_t expert = x->experts.ids[i];
        TRY(store_acquire(x->options.store, executor_expert_record(x, pass->step, expert), &lease, err));
        TRY(hold(x, pass, expert, &lease, err));
        store_release(x->options.store, &lease); /* resident: the pin adds nothing */
    }
    return compute_held(x, pass, err);
}

/* How many pieces of a record gate and up are; all of them where down shares one with up. */
static uint32_t pieces_before_down(const struct executor *x, const struct plan_step *step, weight_id record) {
    const struct weight_records *weights = record_table_weights(x->options.records, x->options.model);
    uint32_t up = weights[step->weight[1]].first_piece, down = weights[step->weight[2]].first_piece;
    return down > up ? down : x->options.records->records[record].piece_count;
}

/* Takes what is ready, computes it, waits only when nothing is. */
static enum status run_cached(struct executor *x, struct experts_pass *pass, enum store_order order, struct error *err) {
    struct experts_scratch *s = &x->experts;
    for (uint32_t i = 0; i < pass->used; i++)
        s->wanted[i] = executor_expert_record(x, pass->step, s->ids[i]);
    TRY(store_want(x->options.store, s->wanted, pass->used, order, err));
    TRY(executor_look_ahead(x, pass->step, err)); /* while what is wanted now loads */
    uint32_t pieces = pieces_before_down(x, pass->step, s->wanted[0]);
    while (pass->done < pass->used) {
        struct weight_lease lease;
        uint32_t index = UINT32_MAX;
        bool all_taken = pass->done + pass->held == pass->used;
        if (executor_cancelled(x))
            return executor_was_cancelled(err);
        if (!all_taken)
            TRY(store_take(x->options.store, pieces, pass->held == 0, &index, &lease, err));
        if (index == UINT32_MAX) {
            if (pass->held > 0)
                TRY(compute_held(x, pass, err));
            continue;
        }
        TRY(hold(x, pass, s->ids[index], &lease, err));
    }
    store_want_end(x->options.store);
    return STATUS_OK;
}

enum status executor_run_experts(struct executor *x, const struct plan_step *step, struct op_call *call, struct error *err) {
    struct experts_scratch *s = &x->experts;
    struct experts_pass pass = {.step = step, .call = call, .used = sort_rows(x, &step->op, call)};
    bool few = call->rows <= PARK_ROWS;
    if (x->trace && pass.used > 0)
        x->trace(x->trace_context,
                 &(struct executor_wanted){
                     .layer = step->layer, .position = x->rows[0].position, .rows = x->row_count, .experts = s->ids, .count = pass.used});
    pass.cached = pass.used > 0 && store_life(x->options.store, executor_expert_record(x, step, s->ids[0])) != WEIGHT_RESIDENT;
    call->park = NULL;
    if (few && pass.cached) {
        call->park = s->park;
        call->pair_of = s->pair_of;
        for (size_t p = 0; p < call->rows * step->op.experts.top_k; p++)
            s->pair_of[p] = UINT32_MAX;
        for (uint32_t e = 0; e < pass.used; e++)
            for (uint32_t p = s->first[s->ids[e]]; p < s->first[s->ids[e] + 1]; p++)
                s->pair_of[s->rows[p] * step->op.experts.top_k + s->ranks[p]] = p;
    }
    return pass.cached ? run_cached(x, &pass, few ? STORE_ANY : STORE_LISTED, err) : run_resident(x, &pass, err);
}
