/*
 * prefix_index: finds all texts of a vocabulary that a given text starts with, shortest first.
 *
 * Model       ids sorted by their texts; a walk narrows the range of ids that share the bytes read so far, one byte at a time.
 *             Four bytes per entry, against eight and more for each node of a trie.
 * Threads     immutable after the build; every walk has its own state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "text/vocab.h"

struct prefix_index {
    const struct vocab *vocab; /* must outlive the index */
    uint32_t *ids;             /* sorted by text, texts not empty and different */
    uint32_t count;
    uint32_t starts[257]; /* ids[starts[b]..starts[b + 1]) begin with byte b */
};

/* Takes the ids for which any of `flags` is set. Of several ids with one text the lowest is kept. */
MUST_CHECK enum status prefix_index_init(struct prefix_index *index, const struct vocab *vocab, unsigned flags, struct error *err);
void prefix_index_deinit(struct prefix_index *index);

struct prefix_walk {
    uint32_t low, high;
    size_t depth;
};
static inline struct prefix_walk prefix_walk_start(void) { return (struct prefix_walk){0, 0, 0}; }
/* The next longer entry that `text` starts with; false when there is none. */
bool prefix_walk_next(const struct prefix_index *index, struct text text, struct prefix_walk *walk, uint32_t *id);
