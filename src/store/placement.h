/*
 * placement: which record lives how, as a pure function of sizes and budget. No files, no clock, the same answer everywhere.
 *
 * Order of force
 *   1. what must be there: a ring of two of the largest streamed records when anything streams, one slot per size class of experts when
 *      experts are cached;
 *   2. a little for overlap, at most an eighth of the budget each: a ring of three and at least 48 MiB, but no larger than what the trunk
 *      lacks; slots for all top_k of a layer;
 *   3. the trunk. Which part stays is fixed, since a cyclic order defeats any replacement: first records so small that reading them costs
 *      a request rather than bytes, then stretches of 48 MiB spread evenly over the pass: while one is computed the disk fills the ring
 *      (a resident prefix would leave it idle once the ring is full, a pass that computes as long as it reads would take 1.4 times as
 *      long with 40 % resident);
 *   4. the expert cache. Below one token's demand every LRU hit rate is 0: cache_useless says so; the trunk has had the memory before.
 * What the trunk kept under 3 and the ring can hold may stream too: it can be given back later, what was kept last first (keep_order).
 *
 * Invariants  resident + ring + cache <= budget; a larger budget never keeps less; minimum_bytes works and one byte less is refused.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct placement_record {
    uint64_t memory_bytes; /* store_record_bytes: windows of its pieces, aligned */
    bool expert;           /* CACHED or RESIDENT; else STREAMED or RESIDENT */
    int32_t layer;
};

struct placement_input {
    const struct placement_record *records;
    uint32_t record_count;
    const uint32_t *stream_order; /* non-expert records in the order of a pass; one that is missing here is always resident */
    uint32_t stream_count;
    uint32_t stream_leases; /* streamed records that are leased at the same time; 0 counts as 1 */
    uint32_t top_k;         /* experts per token and layer; 0: no experts */
    uint32_t expert_layers;
    uint64_t budget_bytes; /* for weights in all their lives; UINT64_MAX: everything resident */
};

struct placement {
    uint8_t *lives;         /* enum weight_life per record; owned, placement_deinit */
    uint32_t *stream_order; /* the STREAMED ones and those of keep_order, as in the input */
    uint32_t stream_count;
    uint32_t *keep_order; /* RESIDENT ones that the ring can hold two of, in the order in which they were kept; each once */
    uint32_t keep_count;
    uint64_t resident_bytes, ring_bytes, cache_bytes, streamed_bytes /* read per pass */;
    uint64_t keep_bytes; /* of resident_bytes: keep_order */
    uint64_t expert_total_bytes, token_demand_bytes /* expert bytes of one token */;
    uint64_t minimum_bytes; /* smallest budget that works */
    bool everything_resident, cache_useless;
};

/*
 * STATUS_OVER_BUDGET (text names the smallest workable budget, out->minimum_bytes is set) when budget_bytes is too small. The budget does
 * not hold the store's staging for store_read_ranges (STORE_STAGING_BYTES): the caller sets that aside.
 */
MUST_CHECK enum status placement_plan(const struct placement_input *input, struct placement *out, struct error *err);
void placement_deinit(struct placement *placement);
