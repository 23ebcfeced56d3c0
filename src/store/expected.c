/*
 * expected: reads what the next step will probably want while this one computes, so that the disk is busy when nothing is left to ask for.
 *
 * Order       after everything that is wanted or streamed has been asked for, so a demanded read finds at most the bytes below before it.
 * Room        an empty slot, or that of the next victim; what is expected and there becomes the last victim first. Half of the slots that
 *             neither this step nor a read needs, so that nothing wanted soon goes.
 * Waste       what is read and never wanted may come to 1/128 of what is demanded and one step's guess: beyond that nothing is expected
 *             any more until enough was demanded. So a router that cannot be foretold costs less than 1 % of the bytes.
 */
#include "base/check.h"
#include "store/store_internal.h"

#define IN_FLIGHT_BYTES ((uint64_t)64 << 20) /* ops on many rows keep the engine thread from asking for tens of milliseconds */
#define WASTE_SHARE 128
#define WASTE_BYTES ((uint64_t)32 << 20) /* allowed from the beginning */

bool store_may_expect(const struct weight_store *store) {
    const struct store_counters *c = &store->counters;
    uint64_t unused_bytes = counter_read(&c->expected_bytes) - counter_read(&c->expected_used_bytes);
    return store->expected.ids && unused_bytes <= WASTE_BYTES + counter_read(&c->demanded_bytes) / WASTE_SHARE;
}

void store_expect(struct weight_store *store, const weight_id *ids, uint32_t count) {
    struct ahead_list *expected = &store->expected;
    struct expert_cache *cache = &store->cache;
    uint32_t room[SIZE_CLASSES_MAX];
    CHECK(expected->ids);
    for (uint32_t c = 0; c < cache->classes.count; c++) {
        uint32_t needed = store->step.count + cache->held[c];
        room[c] = cache->open[c] > needed ? (cache->open[c] - needed) / 2 : 0;
    }
    expected->count = expected->next = 0;
    for (uint32_t i = 0; i < count; i++) {
        CHECK(ids[i] < store->map.record_count && store->lives[ids[i]] == WEIGHT_CACHED);
        uint32_t c = expert_cache_class_of(cache, ids[i]), slot = expert_cache_find(cache, ids[i]);
        if (room[c] == 0)
            continue;
        room[c]--;
        if (slot != INDEX_NONE)
            expert_cache_touch(cache, slot);
        else
            expected->ids[expected->count++] = ids[i];
    }
    store_pump(store);
}

void expected_end(struct weight_store *store) {
    ahead_list_stop(store, &store->expected);
    store->expected.count = store->expected.next = 0;
}

bool store_demand_is_left(const struct weight_store *store) {
    for (uint32_t c = 0; c < store->cache.classes.count; c++)
        if (store->step.active && store->step.pending[c].first != INDEX_NONE)
            return true;
    return store->cache.demand.first != INDEX_NONE;
}

void expected_pump(struct weight_store *store, unsigned depth) {
    struct ahead_list *expected = &store->expected;
    struct reader *reader = &store->reader;
    if ((expected->next == expected->count && expected->slot == INDEX_NONE) || store_demand_is_left(store))
        return;
    while (reader->in_flight < depth && reader->in_flight_bytes < IN_FLIGHT_BYTES) {
        struct record_load *load = ahead_list_load(store, expected, true);
        if (!load || !reader_submit_part(reader, &store->map, load, READ_FOR_CACHE, expected->slot))
            return;
    }
}
