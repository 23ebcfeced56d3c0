/*
 * text_map: open-addressing hash from text to a 32-bit value; keys are borrowed and must outlive the map.
 *
 * Threads   lookups may run together; inserts may not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

struct text_map {
    struct text_map_slot *slots;
    uint64_t capacity, count;
};

/* Room for `expected` keys without growing. */
MUST_CHECK enum status text_map_init(struct text_map *map, uint64_t expected, struct error *err);
void text_map_deinit(struct text_map *map);
bool text_map_find(const struct text_map *map, struct text key, uint32_t *value);
/* Inserts a new key. *existing (may be NULL) tells whether the key was there already; then its value stays as it was. */
MUST_CHECK enum status text_map_add(struct text_map *map, struct text key, uint32_t value, bool *existing, struct error *err);
