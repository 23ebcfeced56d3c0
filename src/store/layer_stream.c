/* layer_stream: see layer_stream.h. */
#include "store/layer_stream.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/memory.h"

enum status layer_stream_init(struct layer_stream *stream, const struct record_map *map, const uint8_t *lives,
                              const struct store_options *options, struct error *err) {
    *stream = (struct layer_stream){.map = map,
                                    .lives = lives,
                                    .order = options->stream_order,
                                    .order_count = options->stream_count,
                                    .ring_bytes = options->ring_bytes & ~(map->alignment_bytes - 1)};
    if (stream->order_count == 0)
        return STATUS_OK;
    for (uint32_t i = 0; i < stream->order_count; i++) {
        weight_id id = stream->order[i];
        CHECK(id < map->record_count && lives[id] != WEIGHT_CACHED);
        uint64_t bytes = record_map_memory_bytes(map, id);
        if (bytes > stream->ring_bytes)
            return error_set(err, STATUS_OVER_BUDGET, "the ring for streamed weights has %" PRIu64 " bytes, %s needs %" PRIu64,
                             stream->ring_bytes, map->records[id].name, bytes);
    }
    stream->entries = memory_alloc_array(STREAM_ENTRIES_MAX, sizeof *stream->entries);
    if (!stream->entries)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the ring of streamed weights");
    return weight_region_create(&stream->memory, map, stream->ring_bytes, MEMORY_STAGING, options->lock, err);
}

void layer_stream_deinit(struct layer_stream *stream) {
    weight_region_destroy(&stream->memory);
    memory_free(stream->entries);
    *stream = (struct layer_stream){0};
}

static struct stream_entry *entry_at(const struct layer_stream *stream, uint32_t place) {
    return &stream->entries[(stream->first + place) % STREAM_ENTRIES_MAX];
}

/* Where size_bytes go in the ring. False: no room until entries leave. */
static bool find_room(const struct layer_stream *stream, uint64_t size_bytes, uint64_t *begin_bytes) {
    *begin_bytes = 0;
    if (stream->count == 0)
        return size_bytes <= stream->ring_bytes;
    const struct stream_entry *oldest = entry_at(stream, 0), *newest = entry_at(stream, stream->count - 1);
    uint64_t end_bytes = newest->begin_bytes + newest->size_bytes;
    if (newest->begin_bytes < oldest->begin_bytes) { /* wrapped: the free bytes lie between */
        *begin_bytes = end_bytes;
        return size_bytes <= oldest->begin_bytes - end_bytes;
    }
    if (size_bytes <= stream->ring_bytes - end_bytes) {
        *begin_bytes = end_bytes;
        return true;
    }
    return size_bytes <= oldest->begin_bytes;
}

static uint32_t behind(const struct layer_stream *stream, uint32_t position) {
    return position + 1 < stream->order_count ? position + 1 : 0;
}

uint32_t layer_stream_from(const struct layer_stream *stream, uint32_t position) {
    for (uint32_t i = 0; i < stream->order_count; i++, position = behind(stream, position))
        if (stream->lives[stream->order[position]] == WEIGHT_STREAMED)
            return position;
    return stream->order_count;
}

void layer_stream_fill(struct layer_stream *stream) {
    while (!stream->lost_place && stream->count < STREAM_ENTRIES_MAX) {
        uint32_t position = layer_stream_from(stream, stream->fill_position);
        if (position == stream->order_count)
            return;
        stream->fill_position = position;
        uint64_t size_bytes = record_map_memory_bytes(stream->map, stream->order[position]), begin_bytes;
        if (!find_room(stream, size_bytes, &begin_bytes))
            return;
        struct stream_entry *entry = entry_at(stream, stream->count++);
        *entry = (struct stream_entry){.begin_bytes = begin_bytes, .size_bytes = size_bytes, .position = position};
        record_load_begin(&entry->load, stream->order[position], stream->memory.base + begin_bytes);
        stream->fill_position = behind(stream, position);
    }
}

struct record_load *layer_stream_demand(struct layer_stream *stream) {
    for (; stream->asked < stream->count; stream->asked++)
        if (record_load_has_part(stream->map, &entry_at(stream, stream->asked)->load))
            return &entry_at(stream, stream->asked)->load;
    return NULL;
}

void layer_stream_settle(struct layer_stream *stream) {
    while (stream->count > 0 && entry_at(stream, 0)->gone && entry_at(stream, 0)->load.in_flight == 0) {
        CHECK(stream->handed_out > 0);
        stream->first = (stream->first + 1) % STREAM_ENTRIES_MAX;
        stream->count--;
        stream->handed_out--;
        if (stream->asked > 0)
            stream->asked--;
    }
    /* The same from the other end: what was dropped behind a lease makes room at once. */
    while (stream->count > 0 && entry_at(stream, stream->count - 1)->gone && entry_at(stream, stream->count - 1)->load.in_flight == 0) {
        CHECK(stream->handed_out == stream->count);
        stream->handed_out = --stream->count;
        if (stream->asked > stream->count)
            stream->asked = stream->count;
    }
}

static void drop_next(struct layer_stream *stream) {
    struct stream_entry *entry = entry_at(stream, stream->handed_out);
    CHECK(stream->handed_out < stream->count && !entry->leased);
    record_load_cancel(stream->map, &entry->load);
    entry->gone = true;
    stream->handed_out++;
}

static bool stale(const struct layer_stream *stream, const struct stream_entry *entry) {
    return stream->lives[entry->load.id] != WEIGHT_STREAMED;
}

struct stream_entry *layer_stream_next(struct layer_stream *stream) {
    while (stream->handed_out < stream->count && stale(stream, entry_at(stream, stream->handed_out))) {
        drop_next(stream);
        layer_stream_settle(stream);
    }
    return stream->handed_out < stream->count ? entry_at(stream, stream->handed_out) : NULL;
}

uint32_t layer_stream_lease(struct layer_stream *stream) {
    struct stream_entry *entry = layer_stream_next(stream);
    CHECK(entry && record_load_whole(stream->map, &entry->load));
    CHECK(!stream->lost_place && entry->position == layer_stream_from(stream, stream->next_position));
    entry->leased = true;
    stream->leases++;
    stream->handed_out++;
    stream->next_position = behind(stream, entry->position);
    return (uint32_t)(entry - stream->entries);
}

void layer_stream_release(struct layer_stream *stream, uint32_t index) {
    CHECK(index < STREAM_ENTRIES_MAX && stream->entries[index].leased && stream->leases > 0);
    stream->entries[index].leased = false;
    stream->entries[index].gone = true;
    stream->leases--;
    layer_stream_settle(stream);
}

void layer_stream_drop(struct layer_stream *stream) {
    while (stream->handed_out < stream->count)
        drop_next(stream);
    stream->fill_position = stream->next_position;
    layer_stream_settle(stream);
}

void layer_stream_lose_place(struct layer_stream *stream) {
    layer_stream_drop(stream);
    stream->lost_place = true;
}

void layer_stream_seek(struct layer_stream *stream, weight_id id) {
    uint32_t position = stream->next_position, left = stream->order_count;
    for (; stream->order[position] != id; position = behind(stream, position))
        CHECK(--left > 0);
    CHECK(stream->lost_place && stream->handed_out == stream->count);
    stream->next_position = stream->fill_position = position;
    stream->lost_place = false;
}

void layer_stream_kept(struct layer_stream *stream, weight_id id) {
    CHECK(stream->lives[id] == WEIGHT_RESIDENT);
    for (uint32_t place = stream->handed_out; place < stream->count; place++)
        if (entry_at(stream, place)->load.id == id)
            record_load_cancel(stream->map, &entry_at(stream, place)->load);
}

void layer_stream_rewind(struct layer_stream *stream) {
    bool failed = false; /* an old failure must not meet a new pass */
    for (uint32_t place = stream->handed_out; place < stream->count; place++)
        failed |= record_load_failed(&entry_at(stream, place)->load);
    uint32_t first = layer_stream_from(stream, 0);
    while (layer_stream_next(stream) && (failed || layer_stream_next(stream)->position != first))
        drop_next(stream);
    stream->next_position = 0;
    if (stream->handed_out == stream->count)
        stream->fill_position = 0;
    stream->lost_place = false;
    layer_stream_settle(stream);
}

void layer_stream_reset(struct layer_stream *stream) {
    for (uint32_t place = 0; place < stream->count; place++) {
        struct stream_entry *entry = entry_at(stream, place);
        record_load_cancel(stream->map, &entry->load);
        entry->leased = false;
        entry->gone = true;
    }
    stream->handed_out = stream->asked = stream->count;
    stream->next_position = stream->fill_position = stream->leases = 0;
    stream->lost_place = false;
    layer_stream_settle(stream);
}
