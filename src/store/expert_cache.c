/* expert_cache: see expert_cache.h. */
#include "store/expert_cache.h"

#include <inttypes.h>

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
        index_list_init(&cache->order[c]);
        cache->class_first[c] = cache->slot_count;
        cache->class_base_bytes[c] = used_bytes;
        cache->slot_count += cache->classes.classes[c].slot_count;
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
            cache->slots[slot] =
                (struct cache_slot){.load.id = WEIGHT_NONE, .item = INDEX_NONE, .class_index = (uint8_t)c, .in_order = true};
            index_list_append(&cache->order[c], cache->links, slot);
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

static struct index_list *order_of(struct expert_cache *cache, uint32_t slot) { return &cache->order[cache->slots[slot].class_index]; }

static void leave_order(struct expert_cache *cache, uint32_t slot) {
    if (cache->slots[slot].in_order)
        index_list_remove(order_of(cache, slot), cache->links, slot);
    cache->slots[slot].in_order = false;
}

static void enter_order(struct expert_cache *cache, uint32_t slot, bool next_victim) {
    ASSERT(!cache->slots[slot].in_order && !cache->slots[slot].in_demand);
    if (next_victim)
        index_list_prepend(order_of(cache, slot), cache->links, slot);
    else
        index_list_append(order_of(cache, slot), cache->links, slot);
    cache->slots[slot].in_order = true;
}

static bool pinned(const struct cache_slot *slot) { return slot->leases > 0 || slot->item != INDEX_NONE; }

uint32_t expert_cache_place(struct expert_cache *cache, weight_id id) {
    CHECK(cache->slot_of[id] == INDEX_NONE);
    uint32_t c = expert_cache_class_of(cache, id), slot = cache->order[c].first;
    if (slot == INDEX_NONE)
        return INDEX_NONE;
    struct cache_slot *s = &cache->slots[slot];
    CHECK(!pinned(s) && s->load.in_flight == 0);
    leave_order(cache, slot);
    if (s->load.id != WEIGHT_NONE) {
        cache->slot_of[s->load.id] = INDEX_NONE;
        counter_add(&cache->counters->evictions, 1);
    }
    uint64_t offset = cache->class_base_bytes[c] + (slot - cache->class_first[c]) * cache->classes.classes[c].slot_bytes;
    record_load_begin(&s->load, id, cache->memory.base + offset);
    cache->slot_of[id] = slot;
    index_list_append(&cache->demand, cache->links, slot);
    s->in_demand = true;
    return slot;
}

void expert_cache_touch(struct expert_cache *cache, uint32_t slot) {
    if (!cache->slots[slot].in_order)
        return;
    leave_order(cache, slot);
    enter_order(cache, slot, false);
}

void expert_cache_pin(struct expert_cache *cache, uint32_t slot, uint32_t item) {
    CHECK(slot < cache->slot_count && cache->slots[slot].item == INDEX_NONE && item != INDEX_NONE); /* else listed twice */
    leave_order(cache, slot);
    cache->slots[slot].item = item;
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
    if (pinned(s) || s->in_order || !record_load_settled(cache->map, &s->load))
        return;
    bool whole = record_load_whole(cache->map, &s->load);
    if (!whole) {
        cache->slot_of[s->load.id] = INDEX_NONE;
        s->load = (struct record_load){.id = WEIGHT_NONE};
    }
    enter_order(cache, slot, !whole);
}

void expert_cache_reset(struct expert_cache *cache) {
    for (uint32_t slot = 0; slot < cache->slot_count; slot++) {
        struct cache_slot *s = &cache->slots[slot];
        if (s->load.id == WEIGHT_NONE)
            continue;
        CHECK(s->load.in_flight == 0);
        s->leases = 0;
        s->item = INDEX_NONE;
        record_load_cancel(cache->map, &s->load);
        expert_cache_settle(cache, slot);
    }
    cache->leases = 0;
}
