/*
 * prefill: reads what earlier runs used most into slots that are empty, while the disk has nothing else to do.
 *
 * It may never delay what is demanded: nothing is asked for while any other read is in flight or a step waits; then one part at a time,
 * which a demanded read may find before it in the device. Between requests more are in flight.
 */
#include "base/check.h"
#include "store/store_internal.h"

#define IDLE_BYTES ((uint64_t)4 << 20) /* in flight between requests: 3 ms at 1.4 GB/s, and enough to keep a disk near its rate */

void store_prefill(struct weight_store *store, const weight_id *ids, uint32_t count) {
    CHECK(store->prefill.ids && count <= store->cache.record_count);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(ids[i] < store->map.record_count && store->lives[ids[i]] == WEIGHT_CACHED);
        store->prefill.ids[i] = ids[i];
    }
    store->prefill.count = count;
    store->prefill.next = 0;
}

void prefill_done(struct weight_store *store, const struct store_read *read) {
    CHECK(store->prefill_in_flight > 0);
    store->prefill_in_flight--;
    if (read->request.status == STATUS_OK)
        counter_add(&store->counters.prefilled_bytes, read->request.size_bytes);
    else
        store->prefill.next = store->prefill.count; /* who wants it reads it again, and is told */
}

void prefill_lost(struct weight_store *store) {
    CHECK(store->prefill_in_flight > 0);
    store->prefill_in_flight--;
    store->prefill.next = store->prefill.count;
}

struct record_load *ahead_list_load(struct weight_store *store, struct ahead_list *list, bool expected) {
    for (;;) {
        if (list->slot != INDEX_NONE) {
            struct cache_slot *slot = &store->cache.slots[list->slot];
            if (slot->ahead && record_load_has_part(&store->map, &slot->load))
                return &slot->load;
            list->slot = INDEX_NONE; /* all asked for, or wanted meanwhile */
        }
        if (list->next == list->count)
            return NULL;
        list->slot = expert_cache_place_ahead(&store->cache, list->ids[list->next++], expected);
    }
}

void ahead_list_stop(struct weight_store *store, struct ahead_list *list) {
    if (list->slot != INDEX_NONE)
        expert_cache_cancel_ahead(&store->cache, list->slot);
    list->slot = INDEX_NONE;
}

static bool somebody_waits(const struct weight_store *store) {
    return reader_awaited(&store->reader) > store->prefill_in_flight || store_demand_is_left(store) ||
           (store->step.active && store->step.loading.first != INDEX_NONE);
}

void prefill_pump(struct weight_store *store, uint64_t limit_bytes) {
    struct ahead_list *prefill = &store->prefill;
    struct reader *reader = &store->reader;
    if ((prefill->next == prefill->count && prefill->slot == INDEX_NONE) || somebody_waits(store))
        return;
    while (reader_awaited(reader) == 0 || reader->in_flight_bytes < limit_bytes) {
        struct record_load *load = ahead_list_load(store, prefill, false);
        if (!load || !reader_submit_part(reader, &store->map, load, READ_AHEAD_FOR_CACHE, prefill->slot))
            return;
        store->prefill_in_flight++;
    }
}

bool store_tend(struct weight_store *store) {
    CHECK(!store->step.active);
    (void)store_reap(store, false);
    store_pump(store);
    prefill_pump(store, IDLE_BYTES);
    reader_flush(&store->reader);
    if (store->prefill_in_flight == 0)
        return false;
    (void)store_reap(store, true);
    return true;
}

const uint32_t *store_usage(const struct weight_store *store) { return store->usage; }
