/*
 * resident: loads everything that stays, once, with the whole depth of the queue.
 *
 * Records are read in the order of their ids, which is about the order of the file. The trunk is written by reads alone, so that no page of
 * it is touched before its bytes come. What is mapped is filled by mapping.c.
 */
#include "base/check.h"
#include "base/clock.h"
#include "store/store_internal.h"

struct resident_progress {
    bool (*report)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *context;
    uint64_t total_bytes;
    bool cancelled;
};

/* False: the queue is full. */
static bool submit(struct weight_store *store, struct record_load *load) {
    struct store_read *read = reader_obtain(&store->reader);
    if (!read)
        return false;
    record_load_part(&store->map, load, &read->request);
    read->purpose = READ_FOR_RESIDENT;
    read->index = load->id;
    struct read_request part = read->request; /* a copy: from submit on the queue may write the request */
    if (!reader_submit(&store->reader, read))
        return false;
    store->blocking.in_flight++;
    record_load_advance(&store->map, load, &part);
    return true;
}

/* Waits for a read. False: stop, one failed or the user cancelled. */
static bool reap(struct weight_store *store, struct resident_progress *progress) {
    if (!store_reap(store, true)) { /* all are lost */
        store->blocking.failure = reader_failure_of_lost(reader_any_lost(&store->reader));
        store->blocking.failed_id = WEIGHT_NONE;
        return false;
    }
    if (progress->report && !progress->cancelled)
        progress->cancelled = !progress->report(progress->context, store->blocking.done_bytes, progress->total_bytes);
    return !progress->cancelled && store->blocking.failure.status == STATUS_OK;
}

static bool read_all(struct weight_store *store, struct resident_progress *progress) {
    for (weight_id id = 0; id < store->map.record_count; id++) {
        if (store->lives[id] != WEIGHT_RESIDENT)
            continue;
        struct record_load load;
        record_load_begin(&load, id, store->trunk.base + store->resident_offsets[id]);
        while (record_load_has_part(&store->map, &load))
            if (!submit(store, &load) && !reap(store, progress))
                return false;
    }
    while (store->blocking.in_flight > 0)
        if (!reap(store, progress))
            return false;
    return true;
}

enum status store_load_resident(struct weight_store *store, bool (*report)(void *, uint64_t, uint64_t), void *context, struct error *err) {
    CHECK(store->blocking.in_flight == 0);
    if (store->resident_loaded)
        return STATUS_OK;
    struct resident_progress progress = {.report = report, .context = context};
    for (weight_id id = 0; id < store->map.record_count; id++)
        if (store->lives[id] == WEIGHT_RESIDENT)
            progress.total_bytes += record_map_range_bytes(&store->map, id);
    uint64_t start_ns = clock_now_ns();
    if (store->mapping.count > 0) {
        TRY(mapping_fill(&store->mapping, report, context, err));
        counter_add(&store->counters.resident_bytes, mapping_bytes(&store->mapping));
        counter_add(&store->counters.load_ns, clock_now_ns() - start_ns);
        store->resident_loaded = true;
        return STATUS_OK;
    }
    store->blocking = (struct blocking_reads){0};
    bool whole = read_all(store, &progress);
    store_drain(store);
    counter_add(&store->counters.load_ns, clock_now_ns() - start_ns);
    if (!whole && store->blocking.failure.status != STATUS_OK)
        return record_map_error(&store->map, store->blocking.failed_id, &store->blocking.failure, err);
    if (!whole)
        return error_set(err, STATUS_CANCELLED, "loading the weights was cancelled");
    CHECK(store->blocking.done_bytes == progress.total_bytes);
    store->resident_loaded = true;
    store_pump(store);
    return STATUS_OK;
}
