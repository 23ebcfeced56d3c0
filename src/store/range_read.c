/*
 * range_read: small ranges (embedding rows) through the queue, many at once, by way of a staging area, since direct reads need aligned
 * memory and the rows' destinations are not.
 *
 * Ranges fill the staging from the front; when it is full, all are waited for. They go before everything that was not submitted yet.
 */
#include "base/check.h"
#include "store/store_internal.h"

/* Longer ranges are read in parts of this size: many of them fit the staging whatever the alignment, and rows are mostly shorter. */
#define RANGE_PART_BYTES ((uint64_t)64 << 10)

struct staging {
    struct weight_store *store;
    uint64_t used_bytes;
};

/* Reads [offset, offset + size) of a file into dst, at some time before finish; or store->blocking fails. */
static void start(struct staging *staging, uint32_t file, uint64_t offset_bytes, uint64_t size_bytes, uint8_t *dst) {
    struct weight_store *store = staging->store;
    uint64_t window_bytes = read_queue_window(store->map.files, file, offset_bytes, size_bytes).window_bytes;
    uint64_t room_bytes = size_round_up(window_bytes, store->map.alignment_bytes);
    CHECK(room_bytes <= STORE_STAGING_BYTES);
    if (room_bytes > STORE_STAGING_BYTES - staging->used_bytes) {
        while (store->blocking.in_flight > 0)
            (void)store_wait(store);
        staging->used_bytes = 0;
        if (store->lost_in_staging > 0)
            return;
    }
    for (;;) {
        struct store_read *read = reader_obtain(&store->reader);
        if (read) {
            read->purpose = READ_FOR_RANGE;
            read->index = WEIGHT_NONE;
            read->copy_to = dst;
            read->request.file = file;
            read->request.offset_bytes = offset_bytes;
            read->request.size_bytes = size_bytes;
            read->request.dst = store->staging.base + staging->used_bytes;
            read->request.dst_size_bytes = room_bytes;
            if (reader_submit(&store->reader, read))
                break;
        }
        if (!store_wait(store)) { /* all are lost */
            store->blocking.failure = reader_failure_of_lost(reader_any_lost(&store->reader));
            return;
        }
    }
    store->blocking.in_flight++;
    staging->used_bytes += room_bytes;
}

enum status store_read_ranges(struct weight_store *store, const struct weight_piece *pieces, uint32_t count, uint8_t *const *dst,
                              struct error *err) {
    CHECK(store->blocking.in_flight == 0);
    if (store->lost_in_staging > 0)
        (void)store_reap(store, false);
    if (store->lost_in_staging > 0)
        return store_lost_error(store, err);
    store->blocking = (struct blocking_reads){0};
    struct staging staging = {.store = store};
    uint64_t total_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct weight_piece *piece = &pieces[i];
        CHECK(piece->file < file_set_count(store->map.files));
        for (uint64_t done = 0; done < piece->size_bytes && store->blocking.failure.status == STATUS_OK;) {
            uint64_t left = piece->size_bytes - done, part = left < RANGE_PART_BYTES ? left : RANGE_PART_BYTES;
            start(&staging, piece->file, piece->offset_bytes + done, part, dst[i] + done);
            done += part;
        }
        total_bytes += piece->size_bytes;
    }
    while (store->blocking.in_flight > 0)
        (void)store_wait(store);
    counter_add(&store->counters.demanded_bytes, store->blocking.done_bytes);
    if (store->blocking.failure.status != STATUS_OK)
        return record_map_error(&store->map, WEIGHT_NONE, &store->blocking.failure, err);
    CHECK(store->blocking.done_bytes == total_bytes);
    store_pump(store);
    return STATUS_OK;
}
