/*
 * draft: rows for the drafter's executor.
 */
#include "run/draft.h"

#include "base/check.h"
#include "base/memory.h"

struct draft {
    struct executor *target, *own;
    const struct plan *plan; /* the drafter's */
    uint32_t sequence, max_rows, max_logit_rows;
    struct row *rows; /* [max_rows] */
    uint32_t last_row, last_position;
    bool keeps; /* states of its own */
};

enum status draft_create(struct executor *target, struct executor *own, const struct plan *own_plan, uint32_t sequence, uint32_t max_rows,
                         uint32_t max_logit_rows, struct draft **out, struct error *err) {
    *out = NULL;
    struct draft *d = memory_alloc(sizeof *d);
    if (d) {
        *d = (struct draft){.target = target,
                            .own = own,
                            .plan = own_plan,
                            .sequence = sequence,
                            .max_rows = max_rows,
                            .max_logit_rows = max_logit_rows,
                            .last_row = UINT32_MAX};
        d->rows = memory_alloc_array(max_rows, sizeof *d->rows);
    }
    if (!d || !d->rows) {
        draft_destroy(d);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a drafter's rows");
    }
    for (uint32_t s = 0; s < own_plan->state_count; s++)
        d->keeps = d->keeps || !own_plan->states[s].of_target;
    *out = d;
    return STATUS_OK;
}

void draft_destroy(struct draft *draft) {
    if (!draft)
        return;
    memory_free(draft->rows);
    memory_free(draft);
}

uint32_t draft_target_token(const struct draft *draft, uint32_t token) {
    CHECK(token < draft->plan->vocab);
    return draft->plan->target_tokens ? draft->plan->target_tokens[token] : token;
}

static enum status run_rows(struct draft *d, uint32_t count, const struct executor_given *given, struct error *err) {
    d->last_row = UINT32_MAX; /* after an error there is none to go on from */
    TRY(executor_run_given(d->own, d->rows, count, given, err));
    d->last_row = count - 1;
    d->last_position = d->rows[count - 1].position;
    return STATUS_OK;
}

enum status draft_follow(struct draft *d, const struct draft_follow *request, struct error *err) {
    CHECK(request->count > 0 && (!request->wants_logits || request->logits));
    uint32_t most = request->wants_logits ? d->max_logit_rows : d->max_rows;
    for (uint32_t done = 0; done < request->count;) {
        uint32_t count = request->count - done < most ? request->count - done : most;
        for (uint32_t r = 0; r < count; r++)
            d->rows[r] = (struct row){.token = request->next[done + r],
                                      .sequence = d->sequence,
                                      .position = request->position + done + r,
                                      .parent = r ? (int32_t)r - 1 : ROW_NO_PARENT,
                                      .wants_logits = request->wants_logits};
        const struct executor_given given = {.vectors = executor_features(d->target, request->first_row + done)};
        TRY(run_rows(d, count, &given, err));
        for (uint32_t r = 0; request->wants_logits && r < count; r++)
            TRY(request->logits(request->context, d->rows[r].position, executor_logits(d->own, r), err));
        done += count;
    }
    return STATUS_OK;
}

enum status draft_step(struct draft *d, uint32_t token, float **logits, struct error *err) {
    CHECK(d->last_row != UINT32_MAX);
    const struct executor_given given = {.vectors = executor_features(d->own, d->last_row), .own = true};
    d->rows[0] = (struct row){
        .token = token, .sequence = d->sequence, .position = d->last_position + d->keeps, .parent = ROW_NO_PARENT, .wants_logits = true};
    TRY(run_rows(d, 1, &given, err));
    *logits = executor_logits(d->own, 0);
    return STATUS_OK;
}
