/*
 * matcher: runs a grammar over bytes: a lazily built automaton whose states are sets of places in rules.
 *
 * Model       an *item* is a place {node, count of the loop it stands at, frame}; a frame is the set of items to go on with when the rule
 *             ends. A *set* of items is interned, and is both: the state after some bytes, and a frame. Since rules called at one place
 *             share one frame, ambiguity costs no more than the sum of its readings; rules that end in a call leave no frame. Steps are
 *             remembered: a set has one next set per class of bytes.
 * Open sets   matcher_open gives a set like another one, with frames from the third call on replaced by an open end, and counts that are
 *             far from their bounds brought to one value. What it allows within MATCHER_NEAR bytes without reaching the open end is
 *             what the original allows, so many states share it.
 * Memory      sets and steps up to a limit: then STATUS_OVER_BUDGET. matcher_keep makes room.
 */
#pragma once

#include "base/arena.h"
#include "generate/grammar.h"

#define MATCHER_DEAD 0u     /* nothing can follow */
#define MATCHER_COMPLETE 1u /* the text is complete, and nothing can follow */
#define MATCHER_UNKNOWN UINT32_MAX
#define MATCHER_NEAR 16u /* bytes */
#define MATCHER_OPEN_LEVELS 3

enum matcher_flags { MATCHER_ACCEPTS = 1 /* the text may end here */, MATCHER_ESCAPES = 2 /* reached the open end */ };

struct matcher_item {
    uint32_t node, count, frame;
};
struct matcher_set {
    const struct matcher_item *items;
    uint32_t count;
    uint8_t flags;
    bool counts_differ[MATCHER_OPEN_LEVELS]; /* of open: a count was changed */
    uint32_t *next;                          /* [classes] or NULL; MATCHER_UNKNOWN */
    uint32_t open[MATCHER_OPEN_LEVELS];      /* MATCHER_UNKNOWN */
    uint32_t mask, open_mask[2];             /* for the owner; 0 in a new set */
};

struct matcher {
    const struct grammar *grammar; /* finished; borrowed */
    struct matcher_set *sets;
    uint32_t set_count, set_capacity;
    uint32_t *table; /* hash -> set */
    uint32_t table_capacity;
    struct arena *arena; /* items, next */
    uint8_t class_of[256];
    uint32_t class_count;
    struct matcher_work *work;
    size_t limit_bytes;
};

/* space_apart: the space is a class of its own. *out is NULL on failure. */
MUST_CHECK enum status matcher_create(const struct grammar *grammar, size_t limit_bytes, bool space_apart, struct matcher **out,
                                      struct error *err);
void matcher_destroy(struct matcher *matcher);
/* Forgets all sets but these [count], which get new numbers in place. After a failure the matcher can only be destroyed. */
MUST_CHECK enum status matcher_keep(struct matcher *matcher, uint32_t *sets, uint32_t count, struct error *err);
size_t matcher_used_bytes(const struct matcher *matcher);

MUST_CHECK enum status matcher_start(struct matcher *matcher, uint32_t *set, struct error *err);
/* A set like `set`, but a space leads to `set` itself: the first space of an answer is not shown. It has no open set. */
MUST_CHECK enum status matcher_skip_space(struct matcher *matcher, uint32_t set, uint32_t *out, struct error *err);
/* The set after one more byte. Use matcher_next. */
MUST_CHECK enum status matcher_step(struct matcher *matcher, uint32_t set, uint8_t byte, uint32_t *next, struct error *err);
/* MATCHER_UNKNOWN as *set stays: the set has no open form. */
MUST_CHECK enum status matcher_open(struct matcher *matcher, uint32_t set, uint32_t *open, bool *counts_differ, struct error *err);

static inline enum status matcher_next(struct matcher *matcher, uint32_t set, uint8_t byte, uint32_t *next, struct error *err) {
    const uint32_t *known = matcher->sets[set].next;
    if (known && known[matcher->class_of[byte]] != MATCHER_UNKNOWN) {
        *next = known[matcher->class_of[byte]];
        return STATUS_OK;
    }
    return matcher_step(matcher, set, byte, next, err);
}
