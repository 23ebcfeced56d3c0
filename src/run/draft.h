/*
 * draft: one timeline of a drafter beside its target's: rows that follow the target's passes, and rows that go on from the drafter's own.
 *
 * Model       Row p holds the token of position p + 1 and the features of position p (model/plan_draft.h); its logits are a guess for
 *             position p + 2. follow() takes the features of the target's last pass; step() those of the drafter's last row, one position
 *             further, except for drafters that keep nothing: they stay where they are and look at the target's keys from there.
 *             Rows are written again by following once more: going back is to follow from an earlier position.
 * Logits      in the drafter's vocabulary: draft_target_token gives the target's id.
 * Threads     as the executors: one owner.
 */
#pragma once

#include "run/executor.h"

struct draft;

/* sequence: the slot of the target's session; the drafter's own cache has the same slots. */
MUST_CHECK enum status draft_create(struct executor *target, struct executor *own, const struct plan *own_plan, uint32_t sequence,
                                    uint32_t max_rows, uint32_t max_logit_rows, struct draft **out, struct error *err);
void draft_destroy(struct draft *draft);

struct draft_follow {
    uint32_t first_row;   /* of the target's last pass, */
    uint32_t position;    /* where it stands, */
    const uint32_t *next; /* [count] and the tokens behind it and the ones after it */
    uint32_t count;       /* >= 1 */
    bool wants_logits;    /* of all rows; else of none */
    enum status (*logits)(void *context, uint32_t position, float *logits, struct error *err); /* [vocab]; NULL when none are wanted */
    void *context;
};
MUST_CHECK enum status draft_follow(struct draft *draft, const struct draft_follow *request, struct error *err);
/* One row more, from the last one. *logits: [vocab], valid until the next row. */
MUST_CHECK enum status draft_step(struct draft *draft, uint32_t token, float **logits, struct error *err);
/* The target's id of a token of the drafter. */
uint32_t draft_target_token(const struct draft *draft, uint32_t token);
