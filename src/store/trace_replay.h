/*
 * trace_replay: what a cache of another size, or another rule of eviction, would have made of the experts that a run wanted.
 *
 * It is separate from expert_cache.h because it only counts: nothing is read and nothing computed.
 *
 * Model       slots are cut from the bytes by size class, as the cache does. A step's experts are wanted together: those that are there
 *             are hits and are pinned, then the others take the slots of victims, and when all slots are pinned those of the step's first
 *             ones, which are computed by then.
 * Policies    LRU          the one that was wanted longest ago goes: what the cache does
 *             LFU          the one that was wanted least often since the beginning
 *             decayed LFU  the same, with a want counting half after TRACE_HALF_LIFE_PASSES passes
 *             Belady       the one that will be wanted last: no rule can miss less, and none can know it
 * Threads     pure.
 * Memory      about 40 bytes per record and, for Belady, 4 per want; freed before return.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define TRACE_HALF_LIFE_PASSES 64

struct trace_record {
    uint64_t slot_bytes;  /* of memory: store_record_bytes */
    uint64_t piece_bytes; /* that a miss has to read */
};

struct trace_step {
    uint64_t first_want; /* into trace_wants.ids */
    uint32_t want_count; /* no duplicates among them */
    bool decode;         /* false: of a prompt */
};

struct trace_wants {
    const struct trace_record *records;
    uint32_t record_count;
    uint32_t layer_count; /* steps of a pass */
    const struct trace_step *steps;
    uint32_t step_count;
    const uint32_t *ids; /* records */
    uint64_t id_count;
};

enum trace_policy { TRACE_LRU, TRACE_LFU, TRACE_DECAYED_LFU, TRACE_BELADY, TRACE_POLICY_COUNT };

struct trace_counts {
    uint64_t hits, misses, miss_bytes;
};

struct trace_result {
    struct trace_counts prompt, decode;
    uint32_t slot_count;
};

const char *trace_policy_name(enum trace_policy policy);
/* Slot bytes of all records: a cache that never evicts. */
uint64_t trace_all_bytes(const struct trace_wants *wants);
/* Every id must be below record_count (CHECK). STATUS_NO_MEMORY is the only error. */
MUST_CHECK enum status trace_replay(const struct trace_wants *wants, enum trace_policy policy, uint64_t cache_bytes,
                                    struct trace_result *out, struct error *err);
