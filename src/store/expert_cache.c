/* expert_cache: see expert_cache.h. */
#include "store/expert_cache.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

/* Finds the classes and cuts the budget into slots. */
static enum status plan_slots(struct expert_cache *cache, const struct store_options *options, struct error *err) {
    uint64_t *sizes = memory_alloc_array(cache->map->record_count, sizeof *sizes);
    if (!sizes)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the index of %u weights", cache->map->record_count);
    for (weight_id id = 0; id < cache->map->record_count; id++)
        if (options->lives[id] == WEIGHT_CACHED)
            sizes[cache->record_count++] = record_map_memory_bytes(cache->map, id);
    size_classes_build(sizes, cache->record_count, &cache->classes);
    memory_free(sizes);
    uint64_t least = size_classes_bytes(&cache->classes, 1);
    if (options->cache_bytes < least)
        return error_set(err, STATUS_OVER_BUDGET, "the expert cache needs %" PRIu64 " bytes for one expert of each size, it got %" PRIu64,
                         least, options->cache_bytes);
    (void)size_classes_cut(&cache->classes, options->cache_bytes);
    return STATUS_OK;
}

enum status expert_cache_init(struct expert_cache *cache, const struct record_map *map, const struct store_options *options,
                              struct store_counters *counters, struct error *err) {
    *cache = (struct expert_cache){.map = map, .counters = counters};
    index_list_init(&cache->demand);
    TRY(plan_slots(cache, options, err));
    uint64_t used_bytes = 0;
    for (uint32_t c = 0; c < cache->classes.count; c++) {
        index_list_init(&cache->empty[c]);
        index_list_init(&cache->order[c]);
        cache->class_first[c] = cache->slot_count;
        cache->class_base_bytes[c] = used_bytes;
        cache->open[c] = cache->classes.classes[c].slot_count;
        cache->slot_count += cache->open[c];
        used_bytes += cache->classes.classes[c].slot_bytes * cache->classes.classes[c].slot_count;
    }
    CHECK(used_bytes <= options->cache_bytes && cache->slot_count <= cache->record_count);
    cache->slots = memory_alloc_array(cache->slot_count, sizeof *cache->slots);
    cache->links = memory_alloc_array(cache->slot_count, sizeof *cache->links);
    cache->slot_of = memory_alloc_array(map->record_count, sizeof *cache->slot_of);
    if (!cache->slots || !cache->links || !cache->slot_of)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the index of %u expert slots", cache->slot_count);
    for (weight_id id = 0; id < map->record_count; id++)
        cache->slot_of[id] = INDEX_NONE;
    for (uint32_t c = 0; c < cache->classes.count; c++)
        for (uint32_t i = 0; i < cache->classes.classes[c].slot_count; i++) {
            uint32_t slot = cache->class_first[c] + i;
            cache->slots[slot] = (struct cache_slot){.load.id = WEIGHT_NONE, .item = INDEX_NONE, .class_index = (uint8_t)c, .listed = true};
            index_list_append(&cache->empty[c], cache->links, slot);
        }
    return weight_region_create(&cache->memory, map, used_bytes, MEMORY_CACHE, options->lock, err);
}

void expert_cache_deinit(struct expert_cache *cache) {
    weight_region_destroy(&cache->memory);
    memory_free(cache->slots);
    memory_free(cache->links);
    memory_free(cache->slot_of);
    *cache = (struct expert_cache){0};
}

uint32_t expert_cache_class_of(const struct expert_cache *cache, weight_id id) {
    return size_classes_find(&cache->classes, record_map_memory_bytes(cache->map, id));
}

/* ---- where a slot belongs ---- */

static uint32_t place_in_class(const struct expert_cache *cache, uint32_t slot) {
    return slot - cache->class_first[cache->slots[slot].class_index];
}

static bool is_open(const struct expert_cache *cache, uint32_t slot) {
    return place_in_class(cache, slot) < cache->open[cache->slots[slot].class_index];
}

/* In the cache's memory. */
static uint64_t offset_of(const struct expert_cache *cache, uint32_t slot) {
    uint32_t c = cache->slots[slot].class_index;
    return cache->class_base_bytes[c] + place_in_class(cache, slot) * cache->classes.classes[c].slot_bytes;
}

static struct index_list *list_of(struct expert_cache *cache, uint32_t slot) {
    const struct cache_slot *s = &cache->slots[slot];
    return s->load.id == WEIGHT_NONE ? &cache->empty[s->class_index] : &cache->order[s->class_index];
}

static void leave_list(struct expert_cache *cache, uint32_t slot) {
    if (cache->slots[slot].listed)
        index_list_remove(list_of(cache, slot), cache->links, slot);
    cache->slots[slot].listed = false;
}

static void forget(struct expert_cache *cache, uint32_t slot) {
    struct cache_slot *s = &cache->slots[slot];
    CHECK(!s->listed && s->load.in_flight == 0);
    if (s->lost && is_open(cache, slot))
        cache->held[s->class_index]--;
    if (!s->lost)
        cache->slot_of[s->load.id] = INDEX_NONE;
    s->lost = s->expected = false;
    s->load = (struct record_load){.id = WEIGHT_NONE};
}

static bool closed(const struct expert_cache *cache, uint32_t slot) {
    const struct cache_slot *s = &cache->slots[slot];
    return !s->listed && s->load.id == WEIGHT_NONE;
}

/* Gives the pages of a slot that is in no list back; with those it shares with a closed neighbour, as slots need not be whole pages. */
static void give_back(struct expert_cache *cache, uint32_t slot) {
    const struct size_class *class = &cache->classes.classes[cache->slots[slot].class_index];
    uint64_t begin = offset_of(cache, slot), end = begin + class->slot_bytes,
             slack = (uint64_t)(cache->memory.base - cache->memory.region.data);
    uint32_t place = place_in_class(cache, slot);
    if (place > 0 && closed(cache, slot - 1))
        begin -= class->slot_bytes;
    if (place + 1 < class->slot_count && closed(cache, slot + 1))
        end += class->slot_bytes;
    memory_region_discard(&cache->memory.region, slack + begin, end - begin);
    counter_add(&cache->counters->given_back_bytes, class->slot_bytes);
}

/* A slot that is empty or whole, unpinned, and in no list. */
static void enter_list(struct expert_cache *cache, uint32_t slot, bool next_victim) {
    struct cache_slot *s = &cache->slots[slot];
    ASSERT(!s->listed && !s->in_demand);
    if (!is_open(cache, slot)) {
        if (s->load.id != WEIGHT_NONE)
            forget(cache, slot);
        give_back(cache, slot);
        return;
    }
    if (s->load.id == WEIGHT_NONE || next_victim)
        index_list_prepend(list_of(cache, slot), cache->links, slot);
    else
        index_list_append(list_of(cache, slot), cache->links, slot);
    s->listed = true;
}

static bool pinned(const struct cache_slot *slot) { return slot->leases > 0 || slot->item != INDEX_NONE; }

static void begin_load(struct expert_cache *cache, uint32_t slot, weight_id id) {
    record_load_begin(&cache->slots[slot].load, id, cache->memory.base + offset_of(cache, slot));
    cache->slot_of[id] = slot;
}

/* A listed slot, empty or with a victim, leaves its list empty. */
static void take_out(struct expert_cache *cache, uint32_t slot) {
    const struct cache_slot *s = &cache->slots[slot];
    CHECK(!pinned(s) && s->load.in_flight == 0);
    leave_list(cache, slot);
    if (s->load.id != WEIGHT_NONE) {
        forget(cache, slot);
        counter_add(&cache->counters->evictions, 1);
    }
}

uint32_t expert_cache_place(struct expert_cache *cache, weight_id id) {
    CHECK(cache->slot_of[id] == INDEX_NONE);
    uint32_t c = expert_cache_class_of(cache, id), slot = cache->empty[c].first;
    if (slot == INDEX_NONE)
        slot = cache->order[c].first;
    if (slot == INDEX_NONE)
        return INDEX_NONE;
    take_out(cache, slot);
    begin_load(cache, slot, id);
    index_list_append(&cache->demand, cache->links, slot);
    cache->slots[slot].in_demand = true;
    return slot;
}

static void end_ahead(struct expert_cache *cache, uint32_t slot) {
    if (is_open(cache, slot)) {
        CHECK(cache->held[cache->slots[slot].class_index] > 0);
        cache->held[cache->slots[slot].class_index]--;
    }
    cache->slots[slot].ahead = false;
}

void expert_cache_lose(struct expert_cache *cache, uint32_t slot) {
    struct cache_slot *s = &cache->slots[slot];
    CHECK(record_load_failed(&s->load) && !s->listed);
    if (s->ahead)
        end_ahead(cache, slot);
    if (!s->lost) {
        cache->slot_of[s->load.id] = INDEX_NONE;
        cache->held[s->class_index] += is_open(cache, slot);
    }
    s->lost = true;
    expert_cache_settle(cache, slot);
}

uint32_t expert_cache_place_ahead(struct expert_cache *cache, weight_id id, bool expected) {
    uint32_t c = expert_cache_class_of(cache, id), slot = cache->empty[c].first;
    if (slot == INDEX_NONE && expected)
        slot = cache->order[c].first;
    if (slot == INDEX_NONE || cache->slot_of[id] != INDEX_NONE || cache->open[c] - cache->held[c] < 2)
        return INDEX_NONE;
    take_out(cache, slot);
    begin_load(cache, slot, id);
    cache->slots[slot].ahead = true;
    cache->slots[slot].expected = expected;
    if (expected)
        counter_add(&cache->counters->expected_bytes, record_map_piece_bytes(cache->map, id));
    cache->held[c]++;
    return slot;
}

void expert_cache_cancel_ahead(struct expert_cache *cache, uint32_t slot) {
    if (!cache->slots[slot].ahead)
        return;
    record_load_cancel(cache->map, &cache->slots[slot].load);
    expert_cache_settle(cache, slot);
}

void expert_cache_touch(struct expert_cache *cache, uint32_t slot) {
    if (!cache->slots[slot].listed)
        return;
    leave_list(cache, slot);
    enter_list(cache, slot, false);
}

void expert_cache_pin(struct expert_cache *cache, uint32_t slot, uint32_t item) {
    CHECK(slot < cache->slot_count && cache->slots[slot].item == INDEX_NONE && item != INDEX_NONE); /* else listed twice */
    leave_list(cache, slot);
    cache->slots[slot].item = item;
    cache->slots[slot].expected = false;
    if (cache->slots[slot].ahead)
        end_ahead(cache, slot);
    if (!cache->slots[slot].in_demand && record_load_has_part(cache->map, &cache->slots[slot].load)) {
        index_list_append(&cache->demand, cache->links, slot);
        cache->slots[slot].in_demand = true;
    }
}

void expert_cache_unpin(struct expert_cache *cache, uint32_t slot) {
    CHECK(cache->slots[slot].item != INDEX_NONE);
    cache->slots[slot].item = INDEX_NONE;
    expert_cache_settle(cache, slot);
}

void expert_cache_lease(struct expert_cache *cache, uint32_t slot) {
    CHECK(cache->slots[slot].item != INDEX_NONE);
    cache->slots[slot].item = INDEX_NONE;
    cache->slots[slot].leases++;
    cache->leases++;
}

void expert_cache_release(struct expert_cache *cache, uint32_t slot) {
    CHECK(slot < cache->slot_count && cache->slots[slot].leases > 0 && cache->leases > 0);
    cache->slots[slot].leases--;
    cache->leases--;
    expert_cache_settle(cache, slot);
}

void expert_cache_settle(struct expert_cache *cache, uint32_t slot) {
    struct cache_slot *s = &cache->slots[slot];
    CHECK(s->load.id != WEIGHT_NONE);
    if (s->in_demand && !record_load_has_part(cache->map, &s->load)) {
        index_list_remove(&cache->demand, cache->links, slot);
        s->in_demand = false;
    }
    if (pinned(s) || s->listed || !record_load_settled(cache->map, &s->load))
        return;
    bool next_victim = s->ahead && !s->expected;
    if (s->ahead)
        end_ahead(cache, slot);
    if (!record_load_whole(cache->map, &s->load))
        forget(cache, slot);
    enter_list(cache, slot, next_victim);
}

void expert_cache_reset(struct expert_cache *cache) {
    for (uint32_t slot = 0; slot < cache->slot_count; slot++) {
        struct cache_slot *s = &cache->slots[slot];
        if (s->load.id == WEIGHT_NONE)
            continue;
        CHECK(s->load.in_flight == 0 || s->lost);
        s->leases = 0;
        s->item = INDEX_NONE;
        record_load_cancel(cache->map, &s->load);
        expert_cache_settle(cache, slot);
    }
    cache->leases = 0;
}

/* ---- a limit below the whole ---- */

/* Gives the record of `from`, which stays where it is in the order, the memory of `to`, whose own record goes. Both are listed. */
static void move(struct expert_cache *cache, uint32_t from, uint32_t to) {
    struct cache_slot *source = &cache->slots[from], *target = &cache->slots[to];
    leave_list(cache, to);
    if (target->load.id != WEIGHT_NONE)
        forget(cache, to);
    memcpy(cache->memory.base + offset_of(cache, to), source->load.memory, record_map_memory_bytes(cache->map, source->load.id));
    target->load = source->load;
    target->expected = source->expected;
    source->expected = false;
    target->load.memory = cache->memory.base + offset_of(cache, to);
    target->listed = true;
    index_list_insert(&cache->order[source->class_index], cache->links, to, from);
    leave_list(cache, from);
    cache->slot_of[source->load.id] = to;
    source->load = (struct record_load){.id = WEIGHT_NONE};
}

/*
 * Empties the listed slots from open[c] on. Their records move into empty slots that stay; for the rest the records that were used longest
 * ago go, and where one of those lies in a slot that stays, it makes room for a younger one.
 */
static void close_slots(struct expert_cache *cache, uint32_t c, uint32_t open_before) {
    uint32_t first = cache->class_first[c], leaving = 0, old = cache->order[c].first, young = old;
    for (uint32_t slot = first + cache->open[c]; slot < first + open_before; slot++)
        if (cache->slots[slot].load.id == WEIGHT_NONE)
            leave_list(cache, slot);
        else
            leaving += cache->slots[slot].listed;
    for (uint32_t slot = cache->empty[c].first; slot != INDEX_NONE && leaving > 0; slot = cache->links[slot].next)
        leaving--;
    for (uint32_t i = 0; i < leaving; i++) /* these go: from here on they are the oldest ones */
        young = cache->links[young].next;
    while (young != INDEX_NONE) {
        uint32_t slot = young;
        young = cache->links[young].next;
        if (is_open(cache, slot))
            continue;
        uint32_t room = cache->empty[c].first;
        for (; room == INDEX_NONE; old = cache->links[old].next)
            if (is_open(cache, old))
                room = old;
        move(cache, slot, room);
    }
    for (uint32_t slot = first + open_before; slot-- > first + cache->open[c];) {
        struct cache_slot *s = &cache->slots[slot];
        if (s->listed) {
            leave_list(cache, slot);
            forget(cache, slot);
            counter_add(&cache->counters->evictions, 1);
        }
        if (s->load.id == WEIGHT_NONE) /* else it is closed when its reads are over */
            give_back(cache, slot);
    }
}

uint64_t expert_cache_limit(struct expert_cache *cache, uint64_t limit_bytes) {
    struct size_classes cut = cache->classes;
    uint64_t bytes = 0, closed_bytes = 0;
    CHECK(cache->leases == 0);
    (void)size_classes_cut(&cut, limit_bytes);
    for (uint32_t c = 0; c < cut.count; c++) {
        uint32_t most = cache->classes.classes[c].slot_count, before = cache->open[c];
        uint32_t open = cut.classes[c].slot_count < most ? cut.classes[c].slot_count : most;
        cache->open[c] = open > 0 ? open : 1;
        if (cache->open[c] < before)
            close_slots(cache, c, before);
        for (uint32_t slot = cache->class_first[c] + before; slot < cache->class_first[c] + cache->open[c]; slot++)
            if (closed(cache, slot))
                enter_list(cache, slot, false);
        cache->held[c] = 0;
        for (uint32_t slot = cache->class_first[c]; slot < cache->class_first[c] + cache->open[c]; slot++)
            cache->held[c] += cache->slots[slot].lost || cache->slots[slot].ahead;
        bytes += cache->open[c] * cut.classes[c].slot_bytes;
        closed_bytes += (most - cache->open[c]) * cut.classes[c].slot_bytes;
    }
    memory_region_set_absent(&cache->memory.region, closed_bytes);
    return bytes;
}
