/*
 * size_class: expert records in a few slot sizes, and a cache budget cut into slots of them.
 *
 * It is separate because the planner and the cache must cut alike.
 *
 * Model       records whose sizes lie within 1/32 of each other share a class; the tolerance doubles until SIZE_CLASSES_MAX are enough
 *             (the same tensor needs a block more or less in memory, as its file offset falls; files with mixed formats have a few truly
 *             different sizes). A slot is as large as the largest record of its class.
 *             Slots are dealt so that every class has the same share of its records cached: each layer wants as many per token.
 * Invariants  classes are in ascending size; a larger budget never gives fewer bytes of slots.
 */
#pragma once

#include <stdint.h>

#include "base/status.h"

#define SIZE_CLASSES_MAX 8 /* published mixed files have up to five expert sizes */

struct size_class {
    uint64_t slot_bytes;
    uint32_t record_count;
    uint32_t slot_count; /* set by size_classes_cut */
};

struct size_classes {
    struct size_class classes[SIZE_CLASSES_MAX];
    uint32_t count;
};

/* Sorts `sizes` in place. Sizes are above 0; a count of 0 gives no classes. */
void size_classes_build(uint64_t *sizes, uint32_t count, struct size_classes *out);
/* Class of a record of this size (one of those given to build). */
uint32_t size_classes_find(const struct size_classes *classes, uint64_t size_bytes);
/* Bytes of `slots` slots in each class, or as many as it has records. */
uint64_t size_classes_bytes(const struct size_classes *classes, uint32_t slots);
/* Sets the slot counts, at most one per record, and returns their bytes, at most budget_bytes. Below size_classes_bytes(.., 1) some are 0.
 */
uint64_t size_classes_cut(struct size_classes *classes, uint64_t budget_bytes);
