/* jinja_dict: Python's dict: insertion order, keys compared by value (1, 1.0 and True are one key), an index once it grows. */
#include <string.h>

#include "base/check.h"
#include "text/jinja_value.h"

#define INDEX_FROM 9 /* entries from which the index pays */

bool jinja_hashable(struct jinja_value v) {
    if (v.kind == JINJA_TUPLE) {
        for (size_t i = 0; i < v.list->count; i++)
            if (!jinja_hashable(v.list->items[i]))
                return false;
        return true;
    }
    return v.kind != JINJA_LIST && v.kind != JINJA_DICT && v.kind != JINJA_VIEW;
}

static uint64_t hash_value(struct jinja_value v) {
    if (v.kind == JINJA_STRING)
        return text_hash(jinja_string_text(v.string));
    if (v.kind == JINJA_BOOL)
        return 0x9E3779B97F4A7C15ull * ((uint64_t)v.boolean + 1);
    if (v.kind == JINJA_INT)
        return 0x9E3779B97F4A7C15ull * ((uint64_t)v.integer + 1);
    if (v.kind == JINJA_FLOAT && v.number >= -9e15 && v.number <= 9e15) {
        int64_t whole = (int64_t)v.number;
        return (double)whole == v.number ? hash_value(jinja_int(whole)) : 7;
    }
    uint64_t h = (uint64_t)v.kind;
    if (v.kind == JINJA_TUPLE)
        for (size_t i = 0; i < v.list->count; i++)
            h = (h ^ hash_value(v.list->items[i])) * 0x9E3779B97F4A7C15ull;
    return h; /* the rare kinds share a few hashes; equality decides */
}

struct jinja_dict *jinja_dict_new(struct jinja_run *run) {
    return jinja_alloc(run, sizeof(struct jinja_dict));
}

struct jinja_value jinja_dict_value(struct jinja_dict *dict) {
    return dict ? (struct jinja_value){.kind = JINJA_DICT, .dict = dict} : JINJA_NOTHING;
}

static bool same_key(struct jinja_run *run, const struct jinja_entry *entry, struct jinja_value key, uint64_t hash) {
    if (entry->removed || entry->hash != hash)
        return false;
    if (entry->key.kind == JINJA_STRING && key.kind == JINJA_STRING)
        return text_equal(jinja_string_text(entry->key.string), jinja_string_text(key.string));
    return run && jinja_equal(run, entry->key, key);
}

static struct jinja_entry *find(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key, uint64_t hash) {
    if (!dict)
        return NULL;
    if (!dict->slots) {
        for (size_t i = 0; i < dict->used; i++)
            if (same_key(run, &dict->entries[i], key, hash))
                return &dict->entries[i];
        return NULL;
    }
    for (size_t slot = hash % dict->slot_count; dict->slots[slot]; slot = (slot + 1) % dict->slot_count)
        if (same_key(run, &dict->entries[dict->slots[slot] - 1], key, hash))
            return &dict->entries[dict->slots[slot] - 1];
    return NULL;
}

static void index_entry(struct jinja_dict *dict, size_t entry) {
    size_t slot = dict->entries[entry].hash % dict->slot_count;
    while (dict->slots[slot])
        slot = (slot + 1) % dict->slot_count;
    dict->slots[slot] = (uint32_t)(entry + 1);
}

/* Room for one more entry, and an index that is at most half full. */
static bool grow(struct jinja_run *run, struct jinja_dict *dict) {
    if (dict->used == dict->capacity) {
        size_t capacity = dict->capacity ? dict->capacity * 2 : 4, size = sizeof *dict->entries;
        void *entries = arena_grow(run->arena, dict->entries, dict->capacity * size, capacity * size);
        if (!entries || capacity > UINT32_MAX / 4) {
            jinja_fail_memory(run);
            return false;
        }
        dict->entries = entries, dict->capacity = capacity;
    }
    if (dict->used + 1 >= INDEX_FROM && (dict->used + 1) * 2 > dict->slot_count) {
        dict->slot_count = dict->capacity * 4;
        dict->slots = jinja_alloc(run, dict->slot_count * sizeof *dict->slots);
        if (!dict->slots)
            return false;
        for (size_t i = 0; i < dict->used; i++)
            index_entry(dict, i);
    }
    return true;
}

void jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value) {
    if (!dict || run->failed)
        return;
    if (!jinja_hashable(key)) {
        jinja_fail(run, JINJA_TYPE, "unhashable type: '%s'", jinja_type_name(key));
        return;
    }
    uint64_t hash = hash_value(key);
    struct jinja_entry *entry = find(run, dict, key, hash);
    if (entry) {
        entry->value = value;
        return;
    }
    if (!grow(run, dict))
        return;
    dict->entries[dict->used] = (struct jinja_entry){.key = key, .value = value, .hash = hash};
    if (dict->slots)
        index_entry(dict, dict->used);
    dict->used++;
    dict->live++;
    ASSERT(dict->live <= dict->used && dict->used <= dict->capacity);
}

struct jinja_value *jinja_dict_get(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key) {
    if (!jinja_hashable(key))
        return NULL;
    struct jinja_entry *entry = find(run, dict, key, hash_value(key));
    return entry ? &entry->value : NULL;
}

struct jinja_value *jinja_dict_get_text(const struct jinja_dict *dict, struct text key) {
    struct jinja_string string = {.data = key.data, .size_bytes = key.size_bytes};
    struct jinja_entry *entry = find(NULL, dict, jinja_string_value(&string), text_hash(key));
    return entry ? &entry->value : NULL;
}

bool jinja_dict_remove(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key) {
    struct jinja_entry *entry = jinja_hashable(key) ? find(run, dict, key, hash_value(key)) : NULL;
    if (!entry)
        return false;
    entry->removed = true; /* its slot stays and matches nothing */
    dict->live--;
    return true;
}
