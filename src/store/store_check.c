/*
 * store_check: walks everything the store holds and CHECKs every invariant. For tests and debug builds.
 */
#include "base/check.h"
#include "store/store_internal.h"

static void check_load(const struct record_map *map, const struct record_load *load) {
    uint32_t sum = 0, count = map->records[load->id].piece_count;
    CHECK(load->id < map->record_count && load->piece <= count && load->memory);
    for (uint32_t i = 0; i < STORE_PIECES_MAX; i++) {
        sum += load->piece_in_flight[i];
        CHECK(load->piece_in_flight[i] == 0 || i <= load->piece);
    }
    CHECK(sum == load->in_flight);
    CHECK(load->piece < count || load->asked_bytes == 0);
    CHECK(load->piece < count || load->run_base_bytes == record_map_memory_bytes(map, load->id));
}

/* ---- the cache ---- */

static uint32_t check_list(const struct index_list *list, const struct index_link *links, uint32_t limit) {
    uint32_t length = 0, previous = INDEX_NONE;
    for (uint32_t i = list->first; i != INDEX_NONE; i = links[i].next) {
        CHECK(i < limit && length < limit && links[i].previous == previous);
        previous = i;
        length++;
    }
    CHECK(list->last == previous);
    return length;
}

static void check_slot(const struct expert_cache *cache, uint32_t slot) {
    const struct cache_slot *s = &cache->slots[slot];
    const struct size_class *class = &cache->classes.classes[s->class_index];
    uint32_t first = cache->class_first[s->class_index];
    CHECK(slot >= first && slot < first + class->slot_count);
    CHECK(!s->listed || !s->in_demand);
    bool pinned = s->leases > 0 || s->item != INDEX_NONE;
    if (s->load.id == WEIGHT_NONE) {
        CHECK(s->listed == (slot - first < cache->open[s->class_index]) && !pinned && s->load.in_flight == 0);
        return;
    }
    check_load(cache->map, &s->load);
    CHECK((cache->slot_of[s->load.id] == slot) == !s->lost);
    CHECK(!s->lost || (record_load_failed(&s->load) && s->load.in_flight > 0 && !s->listed && !s->ahead));
    CHECK(expert_cache_class_of(cache, s->load.id) == s->class_index);
    CHECK(s->load.memory == cache->memory.base + cache->class_base_bytes[s->class_index] + (slot - first) * class->slot_bytes);
    CHECK(s->in_demand == (record_load_has_part(cache->map, &s->load) && !s->ahead));
    CHECK(!s->ahead || (!pinned && !s->listed));
    CHECK(s->listed == (!pinned && record_load_whole(cache->map, &s->load)));
    CHECK(!s->listed || slot - first < cache->open[s->class_index]);
    if (!pinned && !s->listed) /* else it would have been emptied */
        CHECK(!record_load_settled(cache->map, &s->load));
}

/* One of the two lists of a class. Returns its length. */
static uint32_t check_class(const struct expert_cache *cache, uint32_t c, const struct index_list *list, bool empty) {
    for (uint32_t i = list->first; i != INDEX_NONE; i = cache->links[i].next) {
        const struct cache_slot *s = &cache->slots[i];
        CHECK(s->class_index == c && s->listed && (s->load.id == WEIGHT_NONE) == empty);
    }
    return check_list(list, cache->links, cache->slot_count);
}

void expert_cache_check(const struct expert_cache *cache, uint32_t *in_flight) {
    uint32_t held[SIZE_CLASSES_MAX] = {0}, records = 0, leases = 0, listed = 0, in_demand = 0, ordered = 0;
    *in_flight = 0;
    for (uint32_t slot = 0; slot < cache->slot_count; slot++) {
        const struct cache_slot *s = &cache->slots[slot];
        check_slot(cache, slot);
        records += s->load.id != WEIGHT_NONE && !s->lost;
        leases += s->leases;
        held[s->class_index] += (s->ahead || s->lost) && slot - cache->class_first[s->class_index] < cache->open[s->class_index];
        listed += s->listed;
        in_demand += s->in_demand;
        *in_flight += s->load.in_flight;
    }
    CHECK(leases == cache->leases);
    for (weight_id id = 0; id < cache->map->record_count; id++)
        if (cache->slot_of[id] != INDEX_NONE) {
            CHECK(cache->slot_of[id] < cache->slot_count && cache->slots[cache->slot_of[id]].load.id == id);
            CHECK(records-- > 0);
        }
    CHECK(records == 0);
    for (uint32_t c = 0; c < cache->classes.count; c++) {
        CHECK(held[c] == cache->held[c]);
        CHECK(cache->open[c] >= 1 && cache->open[c] <= cache->classes.classes[c].slot_count);
        ordered += check_class(cache, c, &cache->empty[c], true) + check_class(cache, c, &cache->order[c], false);
    }
    CHECK(ordered == listed);
    CHECK(check_list(&cache->demand, cache->links, cache->slot_count) == in_demand);
}

void expert_step_check(const struct weight_store *store) {
    const struct expert_step *step = &store->step;
    uint32_t counts[ITEM_TAKEN + 1] = {0}, pending = 0, pins = 0;
    for (uint32_t i = 0; i < step->count; i++) {
        const struct want_item *item = &step->items[i];
        counts[item->state]++;
        if (item->state != ITEM_LOADING && item->state != ITEM_PRESENT)
            continue;
        const struct cache_slot *s = &store->cache.slots[item->slot];
        CHECK(s->item == i && s->load.id == item->id);
        bool over = record_load_failed(&s->load) || record_load_whole(&store->map, &s->load);
        CHECK(over == (item->state == ITEM_PRESENT));
    }
    for (uint32_t slot = 0; slot < store->cache.slot_count; slot++)
        pins += store->cache.slots[slot].item != INDEX_NONE;
    CHECK(pins == counts[ITEM_LOADING] + counts[ITEM_PRESENT]);
    CHECK(counts[ITEM_TAKEN] == step->taken || !step->active);
    CHECK(check_list(&step->loading, step->links, step->count) == counts[ITEM_LOADING]);
    CHECK(check_list(&step->present, step->links, step->count) == counts[ITEM_PRESENT]);
    for (uint32_t c = 0; c < store->cache.classes.count; c++) {
        pending += check_list(&step->pending[c], step->links, step->count);
        for (uint32_t i = step->pending[c].first; i != INDEX_NONE; i = step->links[i].next)
            CHECK(step->items[i].class_index == c && (step->links[i].next == INDEX_NONE || step->links[i].next > i));
    }
    CHECK(pending == counts[ITEM_PENDING]);
}

/* ---- the stream ---- */

static bool overlap(const struct stream_entry *a, const struct stream_entry *b) {
    return a->begin_bytes < b->begin_bytes + b->size_bytes && b->begin_bytes < a->begin_bytes + a->size_bytes;
}

void layer_stream_check(const struct layer_stream *stream, uint32_t *in_flight) {
    uint32_t leases = 0, from = stream->next_position;
    *in_flight = 0;
    CHECK(stream->handed_out <= stream->count && stream->asked <= stream->count && stream->count <= STREAM_ENTRIES_MAX);
    CHECK(stream->order_count == 0 || (from < stream->order_count && stream->fill_position < stream->order_count));
    CHECK(!stream->lost_place || stream->handed_out == stream->count);
    for (uint32_t place = 0; place < stream->count; place++) {
        const struct stream_entry *entry = &stream->entries[(stream->first + place) % STREAM_ENTRIES_MAX];
        check_load(stream->map, &entry->load);
        CHECK(entry->begin_bytes + entry->size_bytes <= stream->ring_bytes);
        CHECK(entry->size_bytes == record_map_memory_bytes(stream->map, entry->load.id));
        CHECK(entry->load.memory == stream->memory.base + entry->begin_bytes);
        CHECK(stream->order[entry->position] == entry->load.id);
        CHECK(!entry->leased || record_load_whole(stream->map, &entry->load));
        CHECK((entry->leased || entry->gone) == (place < stream->handed_out) && !(entry->leased && entry->gone));
        bool stale = stream->lives[entry->load.id] == WEIGHT_RESIDENT;
        if (place >= stream->handed_out && stale)
            CHECK(!record_load_has_part(stream->map, &entry->load));
        if (place >= stream->handed_out && !stale) {
            CHECK(entry->position == layer_stream_from(stream, from));
            from = (entry->position + 1) % stream->order_count;
        }
        if (place < stream->asked)
            CHECK(!record_load_has_part(stream->map, &entry->load));
        for (uint32_t other = 0; other < place; other++)
            CHECK(!overlap(entry, &stream->entries[(stream->first + other) % STREAM_ENTRIES_MAX]));
        leases += entry->leased;
        *in_flight += entry->load.in_flight;
    }
    CHECK(leases == stream->leases);
}

/* ---- all ---- */

void store_check(const struct weight_store *store) {
    uint32_t cache_reads, stream_reads, unused = 0;
    expert_cache_check(&store->cache, &cache_reads);
    expert_step_check(store);
    layer_stream_check(&store->stream, &stream_reads);
    trunk_keep_check(store);
    const struct reader *reader = &store->reader;
    uint32_t lost = 0, lost_resident = 0;
    uint64_t bytes = 0;
    for (uint32_t file = 0; file < reader->copies.file_count; file++)
        bytes += reader->copies.devices[file].in_flight_bytes;
    for (unsigned i = 0; i < reader->depth; i++) {
        bytes -= reader->reads[i].in_flight ? reader->reads[i].request.size_bytes : 0;
        lost += reader->reads[i].lost;
        lost_resident += reader->reads[i].lost && reader->reads[i].purpose == READ_FOR_RESIDENT;
    }
    CHECK(bytes == 0 && lost == reader->lost && reader_awaited(reader) == reader->wait.awaited);
    CHECK(reader->in_flight == cache_reads + stream_reads + store->blocking.in_flight + store->lost_in_staging + lost_resident);
    CHECK(reader->in_flight == read_queue_in_flight(reader->queue));
    CHECK((reader_awaited(reader) == 0) == (reader->in_flight_bytes == 0));
    for (const struct store_read *read = reader->unused; read; read = read->next)
        unused++;
    CHECK(unused + reader->in_flight == reader->depth);
    for (uint32_t slot = 0; slot < store->cache.slot_count; slot++)
        CHECK(store->step.active || store->cache.slots[slot].item == INDEX_NONE);
}
