/*
 * plan_draft: the plan of a drafter: a small network that guesses the next tokens from what its target has computed.
 *
 * Model     A drafter's row stands at position p: it brings the token of position p + 1 and the features of position p, and its logits are
 *           a guess for the token of position p + 2. Features are the target's (plan->given) or, one guess further, those of the
 *           drafter's own row before (plan->own). Which of the target's values are features, the drafter says (feature_request).
 *           It is a second plan over the same store: embedding table and head are the target's where the drafter has none.
 */
#pragma once

#include "model/plan_build.h"

enum draft_form {
    DRAFT_PREDICTION, /* a prediction layer in the target's own files: norms, a projection, a layer of the family, a norm */
    DRAFT_EAGLE,      /* a projection of token and features, layers; no norm, the target's head */
    DRAFT_EAGLE3,     /* features of several layers of the target; the first layer reads token and features side by side */
    DRAFT_ALONE,      /* like DRAFT_EAGLE with a norm and an output projection; every row sees itself alone */
    DRAFT_ASSISTANT,  /* reads the target's keys and values, has none (gemma 4) */
};

struct draft_request {
    enum draft_form form;
    uint32_t layer;        /* number of its first layer among its names */
    bool hidden_first;     /* the projection reads features before the token */
    bool before_norm;      /* features are x as it is before the final norm, the target's and its own */
    struct binder *target; /* the target's names; its plan is the drafter's */
    const struct plan *target_plan;
};

/* The forms that a drafter's own files may have, by their tensors; names of *own are completed. STATUS_UNSUPPORTED: none. */
MUST_CHECK enum status draft_find_form(struct role_names *own, struct draft_request *request, struct error *err);
/* The names of the first prediction layer in a model's own files: `own` begins as the model's names. STATUS_NOT_FOUND: there is none. */
MUST_CHECK enum status draft_find_prediction(struct role_names *own, uint32_t layers, struct draft_request *request, struct error *err);
/* What the drafter reads of a target with so many layers. STATUS_CORRUPT: of a layer that there is not. */
MUST_CHECK enum status draft_features(const struct draft_request *request, const struct catalogue *catalogue, uint32_t target_layers,
                                      struct feature_request *features, struct error *err);
/* Builds binder->plan. */
MUST_CHECK enum status plan_draft_build(struct binder *binder, const struct draft_request *request, struct error *err);
