/* prefix_index: sort once, then binary search byte by byte. */
#include "text/prefix_index.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"

static int compare_ids(const void *a, const void *b, void *context) {
    const struct vocab *vocab = context;
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    int order = text_compare(vocab_text(vocab, left), vocab_text(vocab, right));
    return order != 0 ? order : (left > right) - (left < right);
}

enum status prefix_index_init(struct prefix_index *index, const struct vocab *vocab, unsigned flags, struct error *err) {
    *index = (struct prefix_index){.vocab = vocab};
    index->ids = memory_alloc_array(vocab->count, sizeof(*index->ids));
    if (!index->ids)
        return error_set(err, STATUS_NO_MEMORY, "no memory to sort a vocabulary of %u tokens", vocab->count);
    uint32_t count = 0;
    for (uint32_t id = 0; id < vocab->count; id++)
        if ((vocab->flags[id] & flags) && vocab->lengths[id] > 0)
            index->ids[count++] = id;
    qsort_r(index->ids, count, sizeof(*index->ids), compare_ids, (void *)(uintptr_t)vocab);
    for (uint32_t i = 0; i < count; i++) /* the first of equal texts stays */
        if (index->count == 0 || !text_equal(vocab_text(vocab, index->ids[i]), vocab_text(vocab, index->ids[index->count - 1])))
            index->ids[index->count++] = index->ids[i];
    for (uint32_t i = 0; i < index->count; i++)
        index->starts[(uint8_t)vocab_text(vocab, index->ids[i]).data[0] + 1u] = i + 1;
    for (unsigned byte = 1; byte <= 256; byte++)
        if (index->starts[byte] < index->starts[byte - 1])
            index->starts[byte] = index->starts[byte - 1];
    uint32_t *trimmed = memory_resize(index->ids, index->count + 1u, sizeof(*index->ids));
    if (trimmed)
        index->ids = trimmed;
    ASSERT(index->starts[256] == index->count);
    return STATUS_OK;
}

void prefix_index_deinit(struct prefix_index *index) {
    memory_free(index->ids);
    *index = (struct prefix_index){0};
}

/* Byte of an entry at a depth that its prefix reaches; -1 when it ends there. */
static int byte_of(const struct prefix_index *index, uint32_t entry, size_t depth) {
    struct text text = vocab_text(index->vocab, index->ids[entry]);
    ASSERT(depth <= text.size_bytes);
    return depth < text.size_bytes ? (uint8_t)text.data[depth] : -1;
}

/* First entry of [low, high) whose byte at depth is greater than `byte` (or_equal: not less). */
static uint32_t bound(const struct prefix_index *index, struct prefix_walk range, int byte, bool or_equal) {
    uint32_t low = range.low, high = range.high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int other = byte_of(index, middle, range.depth);
        if (other > byte || (or_equal && other == byte))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool prefix_walk_next(const struct prefix_index *index, struct text text, struct prefix_walk *walk, uint32_t *id) {
    while (walk->depth < text.size_bytes) {
        int byte = (uint8_t)text.data[walk->depth];
        if (walk->depth == 0) {
            walk->low = index->starts[byte];
            walk->high = index->starts[byte + 1];
        } else {
            walk->low = bound(index, *walk, byte, true);
            walk->high = bound(index, *walk, byte, false);
        }
        walk->depth++;
        if (walk->low >= walk->high) {
            walk->depth = SIZE_MAX;
            return false;
        }
        if (byte_of(index, walk->low, walk->depth) < 0) { /* sorts before all longer ones */
            *id = index->ids[walk->low];
            return true;
        }
    }
    return false;
}
