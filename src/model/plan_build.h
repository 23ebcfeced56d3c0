/*
 * plan_build: from bound tensors to the steps of a pass: embedding, layers (norms, residual sums, which block), head. The parts that a
 * drafter's plan is made of too (plan_draft.h) have names of their own.
 */
#pragma once

#include "model/bind.h"
#include "model/block.h"

#define FEATURE_LAYERS_MAX 8

/* What a drafter wants of each row of its target: x as it is before these layers, or x after the last one when there are none. */
struct feature_request {
    uint32_t layer_count, layers[FEATURE_LAYERS_MAX];
    bool before_norm; /* the latter as it is before the final norm */
};

/* Builds binder->plan. features: NULL: no drafter reads this plan. */
MUST_CHECK enum status plan_build(struct binder *binder, const struct feature_request *features, struct error *err);

struct build { /* a plan in the making */
    struct binder *binder;
    struct plan *plan;
    uint32_t hidden, vocab;
    uint32_t residual; /* buffer with x */
    uint32_t embedding_weight;
    uint32_t layer_inputs;         /* buffer with the per-layer embeddings, PLAN_NONE: the model has none */
    uint32_t kv_states[2];         /* last layer with keys and values of its own, of full and window layers */
    bool all_share;                /* every layer reads the keys and values of kv_states */
    uint32_t tables[2], halves[2]; /* rope tables of full and window layers, PLAN_NONE until needed */
    uint32_t shortcut;             /* what experts will add at the end of the next layer */
    uint32_t selection;            /* the last choice of a sparse index */
};

typedef enum status block_function(const struct layer_context *, uint32_t, uint32_t *, struct error *);

/* Everything at its beginning; hidden from the parameters. */
void build_init(struct build *b, struct binder *binder);
/* Context of a layer, with its rope table if it rotates. */
MUST_CHECK enum status build_context(struct build *b, uint32_t layer, struct layer_context *context, struct error *err);
/* Which blocks a layer is made of, by its tensors. */
block_function *build_mixer_of(const struct build *b, uint32_t layer);
block_function *build_ffn_of(const struct build *b, uint32_t layer);
/* A whole layer on b->residual. */
MUST_CHECK enum status build_layer(struct build *b, uint32_t layer, struct error *err);
/* x += [norm] f([norm] x), as the family places its norms. */
MUST_CHECK enum status build_sublayer(struct build *b, const struct layer_context *c, enum role before, enum role after,
                                      block_function *block, struct error *err);
/* *out = norm(in) with a role's weight, width b->hidden; a new buffer when *out is PLAN_NONE. */
MUST_CHECK enum status build_norm(struct build *b, const struct layer_context *c, enum role role, uint32_t in, uint32_t *out,
                                  struct error *err);
/* x += result, scaled as the family does. */
MUST_CHECK enum status build_add(struct build *b, const struct layer_context *c, uint32_t result, struct error *err);
/* Copies all of `from` into `to`, from element `offset` on. */
MUST_CHECK enum status build_copy(struct build *b, uint32_t from, uint32_t to, uint32_t offset, struct error *err);
/* The rows that want logits: a new buffer. Steps behind it work on those alone. */
MUST_CHECK enum status build_select(struct build *b, uint32_t from, uint32_t *selected, struct error *err);
/* plan->logits, [b->vocab], from selected rows; head: weight 0 and constant 0 of the product. */
MUST_CHECK enum status build_logits(struct build *b, const struct plan_step *head, uint32_t normed, struct error *err);
/* Whether the embedding table is the head, whatever else is in the files. */
bool build_is_tied(const struct binder *binder);
/* The factor on embedded tokens. */
float build_embedding_scale(const struct binder *binder);
