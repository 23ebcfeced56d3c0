/*
 * trunk_limit: resident records become streamed ones and resident again, so that a model larger than memory can give way.
 *
 * A record that goes leaves its place in the trunk empty. When it may come back, nobody reads it for that: the next pass streams it, and
 * when that is done with it, it is copied from the ring to its place. So a limit never waits for the disk, and a read that fails is one
 * that the pass needed.
 */
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "store/store_internal.h"

static uint64_t bytes_of(const struct weight_store *store, uint32_t rank) {
    return record_map_memory_bytes(&store->map, store->keep.order[rank]);
}

enum status trunk_keep_init(struct weight_store *store, const struct store_options *options, struct error *err) {
    struct trunk_keep *keep = &store->keep;
    *keep = (struct trunk_keep){.order = options->keep_order, .count = options->keep_count};
    keep->ranks = memory_alloc_array(options->record_count, sizeof *keep->ranks);
    if (!keep->ranks)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the index of %u weights", options->record_count);
    memset(keep->ranks, 0xFF, options->record_count * sizeof *keep->ranks);
    for (uint32_t rank = 0; rank < keep->count; rank++) {
        weight_id id = keep->order[rank];
        CHECK(id < options->record_count && store->lives[id] == WEIGHT_RESIDENT && keep->ranks[id] == UINT32_MAX);
        keep->ranks[id] = rank;
        keep->total_bytes += bytes_of(store, rank);
    }
    keep->used_bytes = keep->total_bytes;
    return STATUS_OK;
}

static void account(struct weight_store *store) {
    memory_region_set_absent(&store->trunk.region, store->keep.total_bytes - store->keep.used_bytes);
}

static void let_go(struct weight_store *store, uint32_t rank) {
    store->lives[store->keep.order[rank]] = WEIGHT_STREAMED;
    store->keep.used_bytes -= bytes_of(store, rank);
}

/* All places from this one on. */
static void discard_from(struct weight_store *store, uint32_t rank) {
    struct weight_region *trunk = &store->trunk;
    uint64_t begin = (uint64_t)(trunk->base - trunk->region.data) + store->resident_offsets[store->keep.order[rank]];
    memory_region_discard(&trunk->region, begin, trunk->region.size_bytes - begin);
}

void store_trunk_limit(struct weight_store *store, uint64_t limit_bytes) {
    struct trunk_keep *keep = &store->keep;
    uint64_t bytes = 0, before_bytes = keep->used_bytes;
    CHECK(store->stream.leases == 0 && store->resident_leases == 0);
    for (keep->wanted = 0; keep->wanted < keep->count && bytes_of(store, keep->wanted) <= limit_bytes - bytes; keep->wanted++)
        bytes += bytes_of(store, keep->wanted);
    atomic_store_explicit(&store->counters.trunk_limit_bytes, bytes, memory_order_relaxed);
    for (uint32_t rank = keep->wanted; rank < keep->count; rank++)
        if (store->lives[keep->order[rank]] == WEIGHT_RESIDENT)
            let_go(store, rank);
    if (keep->used_bytes == before_bytes)
        return;
    layer_stream_lose_place(&store->stream);
    discard_from(store, keep->wanted);
    keep->losses++;
    counter_add(&store->counters.given_back_bytes, before_bytes - keep->used_bytes);
    counter_add(&store->counters.given_back_times, 1);
    account(store);
}

void trunk_keep_streamed(struct weight_store *store, weight_id id, const uint8_t *memory) {
    struct trunk_keep *keep = &store->keep;
    if (keep->ranks[id] >= keep->wanted || store->lives[id] != WEIGHT_STREAMED)
        return;
    memcpy(store->trunk.base + store->resident_offsets[id], memory, record_map_memory_bytes(&store->map, id));
    store->lives[id] = WEIGHT_RESIDENT;
    keep->used_bytes += record_map_memory_bytes(&store->map, id);
    layer_stream_kept(&store->stream, id);
    account(store);
}

enum weight_life store_life(const struct weight_store *store, weight_id id) {
    CHECK(id < store->map.record_count);
    return (enum weight_life)store->lives[id];
}

uint64_t store_losses(const struct weight_store *store) { return store->keep.losses; }

uint64_t store_trunk_used_bytes(const struct weight_store *store) { return store->keep.used_bytes; }

void trunk_keep_check(const struct weight_store *store) {
    const struct trunk_keep *keep = &store->keep;
    uint64_t used = 0, wanted = 0;
    CHECK(keep->wanted <= keep->count);
    for (uint32_t rank = 0; rank < keep->count; rank++) {
        bool here = store->lives[keep->order[rank]] == WEIGHT_RESIDENT;
        CHECK(keep->ranks[keep->order[rank]] == rank && (!here || rank < keep->wanted));
        used += here ? bytes_of(store, rank) : 0;
        wanted += rank < keep->wanted ? bytes_of(store, rank) : 0;
    }
    CHECK(used == keep->used_bytes && wanted == counter_read(&store->counters.trunk_limit_bytes));
}
