/* vocab: growing tables, and an index of ids that is looked up by the texts the ids have. */
#include "text/vocab.h"

#include <stdio.h>

#include "base/check.h"
#include "base/memory.h"

#define POOL_FIRST 4096u
#define IDS_FIRST 256u
#define SLOT_ID 0xFFFFFFu

void vocab_deinit(struct vocab *vocab) {
    memory_free(vocab->pool);
    memory_free(vocab->offsets);
    memory_free(vocab->lengths);
    memory_free(vocab->flags);
    memory_free(vocab->slots);
    *vocab = (struct vocab){0};
}

/* Replaces *block by one of `count` elements; false leaves it. */
static bool resize(void **block, size_t count, size_t element_bytes) {
    void *moved = memory_resize(*block, count, element_bytes);
    if (moved)
        *block = moved;
    return moved != NULL;
}

static bool resize_ids(struct vocab *vocab, uint32_t capacity) {
    return resize((void **)&vocab->offsets, capacity, sizeof(*vocab->offsets)) &&
           resize((void **)&vocab->lengths, capacity, sizeof(*vocab->lengths)) &&
           resize((void **)&vocab->flags, capacity, sizeof(*vocab->flags));
}

static enum status reserve(struct vocab *vocab, uint32_t id, size_t text_bytes, struct error *err) {
    if (id >= vocab->capacity) {
        uint32_t capacity = vocab->capacity + vocab->capacity / 2 + IDS_FIRST;
        if (capacity <= id)
            capacity = id + 1;
        if (!resize_ids(vocab, capacity))
            return error_set(err, STATUS_NO_MEMORY, "no memory for a vocabulary of %u tokens", capacity);
        vocab->capacity = capacity;
    }
    uint64_t need = vocab->pool_bytes + text_bytes;
    if (need > UINT32_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "the vocabulary's texts have more than 4 GiB");
    if (need > vocab->pool_capacity || !vocab->pool) {
        uint64_t capacity = vocab->pool_capacity + vocab->pool_capacity / 2 + POOL_FIRST;
        if (capacity < need)
            capacity = need;
        if (!resize((void **)&vocab->pool, (size_t)capacity, 1))
            return error_set(err, STATUS_NO_MEMORY, "no memory for the texts of a vocabulary (%llu bytes)", (unsigned long long)capacity);
        vocab->pool_capacity = capacity;
    }
    return STATUS_OK;
}

/*
 * The slot that holds an id with this text, or the empty one where it belongs; *tag is what such a slot has above its id. Most
 * slots of other texts have another tag, and are passed over without a look at their text.
 */
static uint32_t *find_slot(const struct vocab *vocab, struct text text, uint32_t *tag) {
    ASSERT(vocab->used < vocab->slot_count);
    uint64_t hash = text_hash(text), i = (uint64_t)(((unsigned __int128)hash * vocab->slot_count) >> 64);
    *tag = (uint32_t)hash << 24;
    for (;; i = i + 1 == vocab->slot_count ? 0 : i + 1) {
        uint32_t *slot = &vocab->slots[i];
        if (*slot == 0 || ((*slot & ~SLOT_ID) == *tag && text_equal(vocab_text(vocab, (*slot & SLOT_ID) - 1), text)))
            return slot;
    }
}

static void put_id(struct vocab *vocab, uint32_t id) {
    uint32_t tag, *slot = find_slot(vocab, vocab_text(vocab, id), &tag);
    vocab->used += *slot == 0;
    *slot = tag | (id + 1);
}

enum status vocab_index(struct vocab *vocab, struct error *err) {
    memory_free(vocab->slots);
    vocab->used = 0;
    vocab->slot_count = (uint64_t)vocab->count + vocab->count / 2 + 64;
    vocab->slots = memory_alloc_array((size_t)vocab->slot_count, sizeof(*vocab->slots));
    if (!vocab->slots) {
        vocab->slot_count = 0;
        return error_set(err, STATUS_NO_MEMORY, "no memory for the index of a vocabulary of %u tokens", vocab->count);
    }
    for (uint32_t id = 0; id < vocab->count; id++)
        if (vocab->flags[id] != 0)
            put_id(vocab, id);
    return STATUS_OK;
}

static enum status insert(struct vocab *vocab, uint32_t id, struct error *err) {
    if ((uint64_t)(vocab->used + 1) * 5 > vocab->slot_count * 4)
        return vocab_index(vocab, err);
    put_id(vocab, id);
    return STATUS_OK;
}

enum status vocab_set(struct vocab *vocab, uint32_t id, struct text text, unsigned flags, struct error *err) {
    CHECK(flags != 0 && flags <= UINT8_MAX);
    if (id >= VOCAB_IDS_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "token id %u is too large: at most %u are supported", id, VOCAB_IDS_MAX - 1);
    if (text.size_bytes > UINT16_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "the text of token %u has %zu bytes; at most 65535 are supported", id, text.size_bytes);
    if (id < vocab->count && vocab->flags[id] != 0 && text_equal(vocab_text(vocab, id), text)) {
        vocab->flags[id] |= (uint8_t)flags;
        return STATUS_OK;
    }
    TRY(reserve(vocab, id, text.size_bytes, err));
    for (; vocab->count <= id; vocab->count++) { /* a hole until it is set */
        vocab->offsets[vocab->count] = 0;
        vocab->lengths[vocab->count] = 0;
        vocab->flags[vocab->count] = 0;
    }
    if (text.size_bytes > 0)
        memcpy(vocab->pool + vocab->pool_bytes, text.data, text.size_bytes);
    vocab->offsets[id] = (uint32_t)vocab->pool_bytes;
    vocab->lengths[id] = (uint16_t)text.size_bytes;
    vocab->flags[id] |= (uint8_t)flags;
    vocab->pool_bytes += text.size_bytes;
    if (text.size_bytes > vocab->longest_bytes)
        vocab->longest_bytes = (uint32_t)text.size_bytes;
    return vocab->slots ? insert(vocab, id, err) : STATUS_OK;
}

void vocab_trim(struct vocab *vocab) {
    if (vocab->count == 0)
        return;
    if (resize((void **)&vocab->pool, vocab->pool_bytes > 0 ? (size_t)vocab->pool_bytes : 1, 1))
        vocab->pool_capacity = vocab->pool_bytes;
    if (resize_ids(vocab, vocab->count))
        vocab->capacity = vocab->count;
}

bool vocab_find(const struct vocab *vocab, struct text text, uint32_t *id) {
    if (vocab->slot_count == 0)
        return false;
    uint32_t tag, slot = *find_slot(vocab, text, &tag);
    if (slot == 0)
        return false;
    *id = (slot & SLOT_ID) - 1;
    return true;
}

bool vocab_find_model(const struct vocab *vocab, struct text text, uint32_t *id) {
    uint32_t found;
    if (text.size_bytes > vocab->longest_bytes || !vocab_find(vocab, text, &found) || !(vocab->flags[found] & VOCAB_MODEL))
        return false;
    *id = found;
    return true;
}

void vocab_find_bytes(const struct vocab *vocab, uint32_t ids[256]) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        int length = snprintf(name, sizeof(name), "<0x%02X>", byte);
        CHECK(length == 6);
        if (!vocab_find_model(vocab, (struct text){name, 6}, &ids[byte]))
            ids[byte] = VOCAB_NONE;
    }
}
