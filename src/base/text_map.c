/*
 * text_map: linear probing over slots of a power of two, at most three quarters full.
 *
 * A slot keeps the upper half of the hash as a tag (never 0; 0 is an empty slot), so that most misses compare no bytes.
 */
#include "base/text_map.h"

#include "base/check.h"
#include "base/memory.h"

struct text_map_slot {
    struct text key;
    uint32_t tag, value;
};

#define CAPACITY_MIN 16u

static uint32_t tag_of(uint64_t hash) {
    return (uint32_t)(hash >> 32) | 1u;
}

static enum status allocate_slots(struct text_map *map, uint64_t capacity, struct error *err) {
    map->slots = memory_alloc_array((size_t)capacity, sizeof(*map->slots));
    if (!map->slots)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a table of %llu names", (unsigned long long)capacity);
    map->capacity = capacity;
    ASSERT((capacity & (capacity - 1)) == 0);
    return STATUS_OK;
}

enum status text_map_init(struct text_map *map, uint64_t expected, struct error *err) {
    *map = (struct text_map){0};
    if (expected > UINT32_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "a table of %llu names is too large", (unsigned long long)expected);
    uint64_t capacity = CAPACITY_MIN;
    while (capacity / 4 * 3 < expected)
        capacity *= 2;
    return allocate_slots(map, capacity, err);
}

void text_map_deinit(struct text_map *map) {
    memory_free(map->slots);
    *map = (struct text_map){0};
}

/* The slot that holds the key, or the empty one where it belongs. */
static struct text_map_slot *find_slot(const struct text_map *map, struct text key, uint64_t hash) {
    ASSERT(map->count < map->capacity);
    uint64_t mask = map->capacity - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        struct text_map_slot *slot = &map->slots[i];
        if (slot->tag == 0 || (slot->tag == tag_of(hash) && text_equal(slot->key, key)))
            return slot;
    }
}

bool text_map_find(const struct text_map *map, struct text key, uint32_t *value) {
    if (map->count == 0)
        return false;
    const struct text_map_slot *slot = find_slot(map, key, text_hash(key));
    if (slot->tag == 0)
        return false;
    *value = slot->value;
    return true;
}

static enum status grow(struct text_map *map, struct error *err) {
    struct text_map grown = {.count = map->count};
    TRY(allocate_slots(&grown, map->capacity * 2, err));
    for (uint64_t i = 0; i < map->capacity; i++)
        if (map->slots[i].tag != 0)
            *find_slot(&grown, map->slots[i].key, text_hash(map->slots[i].key)) = map->slots[i];
    memory_free(map->slots);
    *map = grown;
    return STATUS_OK;
}

enum status text_map_add(struct text_map *map, struct text key, uint32_t value, bool *existing, struct error *err) {
    CHECK(map->slots != NULL);
    uint64_t hash = text_hash(key);
    struct text_map_slot *slot = find_slot(map, key, hash);
    bool known = slot->tag != 0;
    if (existing)
        *existing = known;
    if (known)
        return STATUS_OK;
    if (map->count >= map->capacity / 4 * 3) {
        TRY(grow(map, err));
        slot = find_slot(map, key, hash);
    }
    *slot = (struct text_map_slot){.key = key, .tag = tag_of(hash), .value = value};
    map->count++;
    return STATUS_OK;
}
