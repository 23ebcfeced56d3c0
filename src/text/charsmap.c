/* charsmap: bounds-checked walks in the double array; every index comes from the file. */
#include "text/charsmap.h"

#include <utf8proc.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/unicode.h"

#define GRAPHEME_BYTES_MAX 5u

struct charsmap {
    uint32_t *units;
    size_t unit_count;
    char *texts; /* a 0 follows */
    size_t texts_bytes;
};

enum status charsmap_create(struct text bytes, struct charsmap **out, struct error *err) {
    *out = NULL;
    const uint8_t *head = (const uint8_t *)bytes.data;
    if (bytes.size_bytes < 4)
        return error_set(err, STATUS_CORRUPT, "the precompiled character map has %zu bytes and cannot be one", bytes.size_bytes);
    uint32_t array_bytes = (uint32_t)head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 24;
    if (array_bytes % 4 != 0 || array_bytes > bytes.size_bytes - 4)
        return error_set(err, STATUS_CORRUPT, "the precompiled character map says its array has %u bytes, of %zu", array_bytes,
                         bytes.size_bytes - 4);
    struct charsmap *map = memory_alloc(sizeof(*map));
    if (!map)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a character map");
    map->unit_count = array_bytes / 4;
    map->texts_bytes = bytes.size_bytes - 4 - array_bytes;
    map->units = memory_alloc_array(map->unit_count, sizeof(*map->units));
    map->texts = memory_copy_text(bytes.data + 4 + array_bytes, map->texts_bytes);
    if (!map->units || !map->texts) {
        charsmap_destroy(map);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a character map of %zu bytes", bytes.size_bytes);
    }
    for (size_t i = 0; i < map->unit_count; i++) {
        const uint8_t *b = head + 4 + 4 * i;
        map->units[i] = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    }
    *out = map;
    return STATUS_OK;
}

void charsmap_destroy(struct charsmap *map) {
    if (!map)
        return;
    memory_free(map->units);
    memory_free(map->texts);
    memory_free(map);
}

/* Distance to a unit's children: 21 bits, in units of 1 or 256. */
static size_t unit_offset(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6); }

/* The text of the shortest mapped prefix of key. */
static bool find_shortest(const struct charsmap *map, struct text key, struct text *found) {
    if (map->unit_count == 0)
        return false;
    size_t at = unit_offset(map->units[0]);
    for (size_t i = 0; i < key.size_bytes && key.data[i] != 0; i++) {
        uint8_t byte = (uint8_t)key.data[i];
        at ^= byte;
        if (at >= map->unit_count || (map->units[at] & 0x800000FFu) != byte)
            return false;
        bool leaf = map->units[at] >> 8 & 1;
        at ^= unit_offset(map->units[at]);
        if (!leaf)
            continue;
        size_t text_at = at < map->unit_count ? map->units[at] & 0x7FFFFFFFu : SIZE_MAX;
        if (text_at > map->texts_bytes)
            return false;
        *found = text_of(map->texts + text_at); /* the copy ends with a 0 */
        return true;
    }
    return false;
}

/* End of the grapheme cluster that begins at `at`. */
static size_t grapheme_end(struct text text, size_t at) {
    utf8proc_int32_t state = 0;
    size_t length;
    uint32_t previous = utf8_at(text, at, &length);
    for (at += length; at < text.size_bytes; at += length) {
        uint32_t next = utf8_at(text, at, &length);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)previous, (utf8proc_int32_t)next, &state))
            break;
        previous = next;
    }
    return at;
}

enum status charsmap_append(const struct charsmap *map, struct text text, struct byte_buffer *out, bool *front_removed, struct error *err) {
    size_t before = out->size_bytes;
    *front_removed = false;
    for (size_t at = 0; at < text.size_bytes;) {
        size_t end = grapheme_end(text, at), length;
        struct text found;
        ASSERT(end > at);
        if (end - at <= GRAPHEME_BYTES_MAX && find_shortest(map, (struct text){text.data + at, end - at}, &found)) {
            TRY(utf8_repair(found, out, err));
        } else {
            for (size_t part = at; part < end; part += length) {
                (void)utf8_at(text, part, &length);
                bool mapped = find_shortest(map, (struct text){text.data + part, length}, &found);
                TRY(utf8_repair(mapped ? found : (struct text){text.data + part, length}, out, err));
            }
        }
        *front_removed = *front_removed || (at == 0 && out->size_bytes == before);
        at = end;
    }
    return STATUS_OK;
}
