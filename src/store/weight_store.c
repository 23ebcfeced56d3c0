/* weight_store: life cycle, leases of resident and streamed records, and the pump that keeps the disk busy. See weight_store.h. */
#include "store/weight_store.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/store_internal.h"

/*
 * Read-ahead is submitted while fewer bytes than this are in flight, of all purposes: enough to saturate any local disk (14 GB/s x 1 ms),
 * and what a demanded read may find before it in the device: 5 ms at 3 GB/s.
 */
#define AHEAD_BYTES_MAX ((uint64_t)16 << 20)
/* Part of the queue that read-ahead leaves free when experts are cached: their reads are submitted at once, whatever streams. */
#define DEMAND_SHARE 4

/* ---- life cycle ---- */

static bool give_place(struct weight_store *store, weight_id id, uint64_t *trunk_bytes) {
    store->resident_offsets[id] = *trunk_bytes;
    return size_add(*trunk_bytes, record_map_memory_bytes(&store->map, id), trunk_bytes);
}

/* What may go lies at the end, what goes first last: then one range goes, and its huge pages go whole. */
static enum status lay_out_trunk(struct weight_store *store, const struct store_options *options, uint64_t *trunk_bytes,
                                 struct error *err) {
    bool fits = true;
    *trunk_bytes = 0;
    for (weight_id id = 0; id < options->record_count && fits; id++)
        if (store->lives[id] == WEIGHT_RESIDENT && store->keep.ranks[id] == UINT32_MAX)
            fits = give_place(store, id, trunk_bytes);
    for (uint32_t rank = 0; rank < options->keep_count && fits; rank++)
        fits = give_place(store, options->keep_order[rank], trunk_bytes);
    return fits ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "the resident weights are larger than the address space");
}

static enum status create_trunk(struct weight_store *store, const struct store_options *options, struct error *err) {
    uint64_t trunk_bytes = 0;
    store->lives = memory_alloc_array(options->record_count, sizeof *store->lives);
    store->resident_offsets = memory_alloc_array(options->record_count, sizeof *store->resident_offsets);
    if (!store->lives || !store->resident_offsets)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the index of %u weights", options->record_count);
    for (uint32_t i = 0; i < options->stream_count; i++) {
        CHECK(options->stream_order[i] < options->record_count);
        store->resident_offsets[options->stream_order[i]] = UINT64_MAX; /* marks what the order names */
    }
    for (weight_id id = 0; id < options->record_count; id++) {
        enum weight_life life = store->lives[id] = options->lives[id];
        CHECK(life <= WEIGHT_CACHED);
        CHECK(life == WEIGHT_RESIDENT || (life == WEIGHT_STREAMED) == (store->resident_offsets[id] == UINT64_MAX));
    }
    TRY(trunk_keep_init(store, options, err));
    TRY(lay_out_trunk(store, options, &trunk_bytes, err));
    if (options->mapped) {
        CHECK(options->stream_count == 0 && options->keep_count == 0);
        enum status status = mapping_init(&store->mapping, &store->map, options->lock, err);
        if (status != STATUS_UNSUPPORTED)
            return status;
    }
    return weight_region_create(&store->trunk, &store->map, trunk_bytes, MEMORY_TRUNK, options->lock, err);
}

static enum status init(struct weight_store *store, const struct store_options *options, struct error *err) {
    TRY(record_map_init(&store->map, options, err));
    TRY(reader_init(&store->reader, options->queue, &store->counters, options->read_timeout_ns, err));
    TRY(create_trunk(store, options, err)); /* locked first, then ring, then cache */
    TRY(layer_stream_init(&store->stream, &store->map, store->lives, options, err));
    TRY(expert_cache_init(&store->cache, &store->map, options, &store->counters, err));
    store_cache_limit(store, UINT64_MAX);
    store_trunk_limit(store, UINT64_MAX);
    if (options->count_usage && store->cache.record_count > 0) {
        store->usage = memory_alloc_array(options->record_count, sizeof *store->usage);
        store->prefill.ids = memory_alloc_array(store->cache.record_count, sizeof *store->prefill.ids);
        if (!store->usage || !store->prefill.ids)
            return error_set(err, STATUS_NO_MEMORY, "no memory to count the use of %u experts", store->cache.record_count);
    }
    if (store->cache.record_count > 0) {
        store->expected.ids = memory_alloc_array(store->cache.record_count, sizeof *store->expected.ids);
        if (!store->expected.ids)
            return error_set(err, STATUS_NO_MEMORY, "no memory to foretell the use of %u experts", store->cache.record_count);
    }
    TRY(expert_step_init(&store->step, store->cache.record_count, err));
    return weight_region_create(&store->staging, &store->map, STORE_STAGING_BYTES, MEMORY_STAGING, false, err);
}

enum status store_create(const struct store_options *options, struct weight_store **out, struct error *err) {
    CHECK(options->files && options->queue && options->records && options->pieces && options->lives);
    CHECK(read_queue_in_flight(options->queue) == 0);
    *out = NULL;
    struct weight_store *store = memory_alloc(sizeof *store);
    if (!store)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a weight store");
    store->prefill.slot = store->expected.slot = INDEX_NONE;
    enum status status = init(store, options, err);
    if (status == STATUS_OK)
        *out = store;
    else
        (void)store_destroy(store);
    return status;
}

/* What lost reads may write to stays mapped, but holds no memory; the requests stay too. */
static void leave_behind(struct weight_store *store) {
    struct weight_region *const regions[] = {&store->staging, &store->cache.memory, &store->stream.memory, &store->trunk};
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++)
        if (regions[i]->region.data)
            memory_region_discard(&regions[i]->region, 0, regions[i]->region.size_bytes);
}

bool store_destroy(struct weight_store *store) {
    if (!store)
        return true;
    CHECK(store->cache.leases == 0 && store->stream.leases == 0 && store->resident_leases == 0);
    if (!reader_end(&store->reader)) {
        leave_behind(store);
        return false;
    }
    weight_region_destroy(&store->staging);
    expert_step_deinit(&store->step);
    memory_free(store->expected.ids);
    memory_free(store->prefill.ids);
    memory_free(store->usage);
    expert_cache_deinit(&store->cache);
    layer_stream_deinit(&store->stream);
    weight_region_destroy(&store->trunk);
    mapping_deinit(&store->mapping);
    memory_free(store->keep.ranks);
    memory_free(store->resident_offsets);
    memory_free(store->lives);
    reader_deinit(&store->reader);
    memory_free(store);
    return true;
}

void store_reset(struct weight_store *store) {
    store_drain(store);
    store->step.active = false;
    store->step.count = 0;
    expert_step_reset(&store->step);
    expert_cache_reset(&store->cache);
    layer_stream_reset(&store->stream);
    store->blocking = (struct blocking_reads){0};
    store->prefill.slot = store->expected.slot = INDEX_NONE;
    store->expected.count = store->expected.next = 0;
}

/* ---- reads ---- */

/* failure->status STATUS_OK: it went well. */
static void blocking_read_over(struct blocking_reads *blocking, const struct read_failure *failure, weight_id id) {
    CHECK(blocking->in_flight > 0);
    blocking->in_flight--;
    if (failure->status == STATUS_OK || blocking->failure.status != STATUS_OK)
        return;
    blocking->failure = *failure;
    blocking->failed_id = id;
}

static void blocking_read_done(struct blocking_reads *blocking, const struct store_read *read) {
    struct read_failure failure = read_failure_of(&read->request);
    blocking->done_bytes += read->request.status == STATUS_OK ? read->request.size_bytes : 0;
    blocking_read_over(blocking, &failure, read->index);
}

static void dispatch(struct weight_store *store, struct store_read *read) {
    const struct read_request *request = &read->request;
    switch (read->purpose) {
    case READ_AHEAD_FOR_CACHE:
        prefill_done(store, read);
        /* fall through */
    case READ_FOR_CACHE:
        record_load_done(read->load, read->piece, request);
        expert_step_arrived(store, read->index);
        expert_cache_settle(&store->cache, read->index);
        break;
    case READ_FOR_STREAM:
        record_load_done(read->load, read->piece, request);
        layer_stream_settle(&store->stream);
        break;
    case READ_FOR_RANGE:
        if (request->status == STATUS_OK)
            memcpy(read->copy_to, request->dst + request->skip_bytes, request->size_bytes);
        blocking_read_done(&store->blocking, read);
        break;
    case READ_FOR_RESIDENT:
        blocking_read_done(&store->blocking, read);
        break;
    }
    reader_finish(&store->reader, read);
}

/* A read that nobody waits for any more came after all: its memory is free. */
static void dispatch_lost(struct weight_store *store, struct store_read *read) {
    switch (read->purpose) {
    case READ_FOR_CACHE:
    case READ_AHEAD_FOR_CACHE:
        record_load_done(read->load, read->piece, &read->request);
        expert_cache_settle(&store->cache, read->index);
        break;
    case READ_FOR_STREAM:
        record_load_done(read->load, read->piece, &read->request);
        layer_stream_settle(&store->stream);
        break;
    case READ_FOR_RANGE:
        CHECK(store->lost_in_staging > 0);
        store->lost_in_staging--;
        break;
    case READ_FOR_RESIDENT:
        break; /* the same bytes as those of the next try */
    }
    reader_finish(&store->reader, read);
}

static void lose(struct weight_store *store, struct store_read *read) {
    struct read_failure failure = reader_failure_of_lost(read);
    switch (read->purpose) {
    case READ_AHEAD_FOR_CACHE:
        prefill_lost(store);
        /* fall through */
    case READ_FOR_CACHE:
        record_load_lost(read->load, &failure);
        expert_cache_lose(&store->cache, read->index);
        expert_step_arrived(store, read->index);
        break;
    case READ_FOR_STREAM:
        record_load_lost(read->load, &failure);
        break;
    case READ_FOR_RANGE:
        store->lost_in_staging++;
        /* fall through */
    case READ_FOR_RESIDENT:
        blocking_read_over(&store->blocking, &failure, read->index);
        break;
    }
}

/* What was waited for long enough is lost. False: nothing was. */
static bool give_up(struct weight_store *store) {
    struct store_read *read = reader_lose_overdue(&store->reader);
    if (!read)
        return false;
    for (; read; read = reader_lose_overdue(&store->reader))
        lose(store, read);
    if (reader_awaited(&store->reader) == 0) /* else it would fail the others too */
        read_queue_cancel(store->reader.queue);
    return true;
}

enum status store_lost_error(const struct weight_store *store, struct error *err) {
    const struct store_read *read = reader_any_lost(&store->reader);
    CHECK(read);
    struct read_failure failure = reader_failure_of_lost(read);
    return record_map_error(&store->map, WEIGHT_NONE, &failure, err);
}

bool store_reap(struct weight_store *store, bool wait) {
    bool came = false;
    struct store_read *read;
    for (; (read = reader_reap(&store->reader, wait && !came)) != NULL; came = true)
        if (read->lost)
            dispatch_lost(store, read);
        else
            dispatch(store, read);
    return give_up(store) || came;
}

bool store_wait(struct weight_store *store) {
    uint64_t start_ns = clock_now_ns();
    bool came = store_reap(store, true);
    counter_add(&store->counters.stall_ns, clock_now_ns() - start_ns);
    return came;
}

void store_drain(struct weight_store *store) {
    while (reader_awaited(&store->reader) > 0)
        (void)store_reap(store, true);
}

/* What read-ahead may fill of the queue. */
static unsigned depth_ahead(const struct weight_store *store) {
    unsigned depth = store->reader.depth;
    if (store->cache.record_count == 0 || depth == 1)
        return depth;
    return depth - (depth >= DEMAND_SHARE ? depth / DEMAND_SHARE : 1);
}

static void read_ahead(struct weight_store *store) {
    struct reader *reader = &store->reader;
    layer_stream_fill(&store->stream);
    while (reader->in_flight < depth_ahead(store) && (reader_awaited(reader) == 0 || reader->in_flight_bytes < AHEAD_BYTES_MAX)) {
        struct record_load *load = layer_stream_demand(&store->stream);
        if (!load || !reader_submit_part(reader, &store->map, load, READ_FOR_STREAM, 0))
            return;
    }
}

void store_pump(struct weight_store *store) {
    struct expert_cache *cache = &store->cache;
    expert_step_assign(store);
    while (cache->demand.first != INDEX_NONE) {
        uint32_t slot = cache->demand.first;
        if (!reader_submit_part(&store->reader, &store->map, &cache->slots[slot].load, READ_FOR_CACHE, slot))
            break;
        expert_cache_settle(cache, slot);
    }
    if (store->stream.order_count > 0) /* what is left of the queue: demand ends above when all is submitted or nothing more is taken */
        read_ahead(store);
    expected_pump(store, depth_ahead(store));
    prefill_pump(store, 0);
    reader_flush(&store->reader);
}

bool store_progress(struct weight_store *store, bool wait) {
    bool came = store_reap(store, false);
    store_pump(store);
    if (came || !wait || reader_awaited(&store->reader) == 0)
        return came;
    came = store_wait(store);
    store_pump(store);
    return came;
}

void store_poll(struct weight_store *store) { (void)store_progress(store, false); }

void store_cache_limit(struct weight_store *store, uint64_t limit_bytes) {
    struct store_counters *c = &store->counters;
    CHECK(!store->step.active);
    if (store->cache.record_count == 0)
        return;
    ahead_list_stop(store, &store->prefill);
    ahead_list_stop(store, &store->expected);
    uint64_t before = counter_read(&c->given_back_bytes), bytes = expert_cache_limit(&store->cache, limit_bytes);
    atomic_store_explicit(&c->cache_limit_bytes, bytes, memory_order_relaxed);
    counter_add(&c->given_back_times, counter_read(&c->given_back_bytes) > before);
}

uint64_t store_cache_used_bytes(const struct weight_store *store) {
    const struct expert_cache *cache = &store->cache;
    uint64_t sum = 0;
    for (uint32_t slot = 0; slot < cache->slot_count; slot++)
        if (cache->slots[slot].load.id != WEIGHT_NONE)
            sum += cache->classes.classes[cache->slots[slot].class_index].slot_bytes;
    return sum;
}

void store_unlock_mapped(struct weight_store *store) {
    for (uint32_t i = 0; i < store->mapping.count; i++)
        memory_region_unlock(&store->mapping.stretches[i].region);
}

/* ---- leases ---- */

static enum status acquire_streamed(struct weight_store *store, weight_id id, struct weight_lease *out, struct error *err) {
    struct layer_stream *stream = &store->stream;
    if (stream->lost_place)
        layer_stream_seek(stream, id);
    CHECK(stream->order[layer_stream_from(stream, stream->next_position)] == id);
    (void)store_progress(store, false);
    struct stream_entry *entry;
    while ((entry = layer_stream_next(stream)) == NULL || !record_load_whole(&store->map, &entry->load)) {
        if (entry && record_load_failed(&entry->load)) {
            enum status status = record_map_error(&store->map, id, &entry->load.failure, err);
            layer_stream_drop(stream);
            return status;
        }
        if (!store_progress(store, true))
            return store->reader.lost > 0
                       ? store_lost_error(store, err)
                       : error_set(err, STATUS_INTERNAL,
                                   "%s finds no room in the ring of %" PRIu64 " bytes while %" PRIu32 " streamed weights are leased",
                                   store->map.records[id].name, stream->ring_bytes, stream->leases);
    }
    counter_add(&store->counters.demanded_bytes, record_map_piece_bytes(&store->map, id));
    const uint8_t *memory = entry->load.memory;
    record_map_lease(&store->map, id, memory, layer_stream_lease(stream), out);
    return STATUS_OK;
}

enum status store_acquire(struct weight_store *store, weight_id id, struct weight_lease *out, struct error *err) {
    CHECK(id < store->map.record_count);
    out->id = WEIGHT_NONE;
    if (store->lives[id] == WEIGHT_STREAMED)
        return acquire_streamed(store, id, out, err);
    CHECK(store->lives[id] == WEIGHT_RESIDENT && store->resident_loaded);
    store->resident_leases++;
    if (store->mapping.count > 0)
        mapping_lease(&store->mapping, id, out);
    else
        record_map_lease(&store->map, id, store->trunk.base + store->resident_offsets[id], INDEX_NONE, out);
    return STATUS_OK;
}

void store_release(struct weight_store *store, struct weight_lease *lease) {
    CHECK(lease->id < store->map.record_count); /* else it was released before */
    if (store->lives[lease->id] == WEIGHT_CACHED) {
        expert_cache_release(&store->cache, lease->slot);
        store_pump(store);
    } else if (lease->slot != INDEX_NONE) {
        trunk_keep_streamed(store, lease->id, store->stream.entries[lease->slot].load.memory);
        layer_stream_release(&store->stream, lease->slot);
        store_pump(store);
    } else {
        CHECK(store->resident_leases > 0);
        store->resident_leases--;
    }
    lease->id = WEIGHT_NONE;
}

void store_stream_rewind(struct weight_store *store) {
    if (store->stream.order_count == 0)
        return;
    layer_stream_rewind(&store->stream);
    store_pump(store);
}

enum status store_intact(struct weight_store *store, struct error *err) {
    TRY(mapping_check(&store->mapping, err));
    return file_set_check(store->map.files, err);
}

/* ---- inspection ---- */

void store_stats_read(const struct weight_store *store, struct store_stats *out) {
    const struct store_counters *c = &store->counters;
    *out = (struct store_stats){
        .read_bytes = counter_read(&c->read_bytes),
        .demanded_bytes = counter_read(&c->demanded_bytes),
        .resident_bytes = counter_read(&c->resident_bytes),
        .hits = counter_read(&c->hits),
        .misses = counter_read(&c->misses),
        .hit_bytes = counter_read(&c->hit_bytes),
        .evictions = counter_read(&c->evictions),
        .prefilled_bytes = counter_read(&c->prefilled_bytes),
        .expected_bytes = counter_read(&c->expected_bytes),
        .expected_used_bytes = counter_read(&c->expected_used_bytes),
        .cache_limit_bytes = counter_read(&c->cache_limit_bytes),
        .trunk_limit_bytes = counter_read(&c->trunk_limit_bytes),
        .given_back_bytes = counter_read(&c->given_back_bytes),
        .given_back_times = counter_read(&c->given_back_times),
        .stall_ns = counter_read(&c->stall_ns),
        .reads = counter_read(&c->reads),
        .read_retries = counter_read(&c->read_retries),
        .load_ns = counter_read(&c->load_ns),
    };
    for (unsigned n = 0; n < FILE_COPIES_MAX; n++)
        out->copy_bytes[n] = counter_read(&c->copy_bytes[n]);
}

uint32_t store_slot_count(const struct weight_store *store) { return store->cache.slot_count; }
