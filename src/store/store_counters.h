/*
 * store_counters: the store's totals, written by the engine thread and read by any.
 *
 * Threads   one writer, so an addition is a load and a store; readers see each number whole, and not all of one moment.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "io/file_set.h"

struct store_counters {
    _Atomic uint64_t read_bytes, demanded_bytes, resident_bytes;
    _Atomic uint64_t hits, misses, hit_bytes, evictions;
    _Atomic uint64_t given_back_bytes, given_back_times, prefilled_bytes, cache_limit_bytes, trunk_limit_bytes;
    _Atomic uint64_t expected_bytes, expected_used_bytes;
    _Atomic uint64_t stall_ns, load_ns, reads, read_retries;
    _Atomic uint64_t copy_bytes[FILE_COPIES_MAX]; /* by copy number of the file that was read */
};

static inline void counter_add(_Atomic uint64_t *counter, uint64_t amount) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount, memory_order_relaxed);
}

static inline uint64_t counter_read(const _Atomic uint64_t *counter) { return atomic_load_explicit(counter, memory_order_relaxed); }
