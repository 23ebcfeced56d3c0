/*
 * vocab: token ids and their texts, in both directions, as compactly as a table of 260,000 tokens deserves.
 *
 * Model       id -> text (one pool of bytes, offset and length per id) and text -> id (open addressing over ids). Ids may have
 *             holes; an unused id has flags 0 and an empty text.
 * Invariants  of two ids with one text the later added is found. Texts are at most 65,535 bytes.
 * Threads     immutable after the build; lookups may run together.
 * Memory      per token: its bytes, 7 bytes of tables, 4 / load bytes of index.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

#define VOCAB_IDS_MAX ((1u << 24) - 1)
#define VOCAB_NONE UINT32_MAX

enum vocab_flags {
    VOCAB_MODEL = 1,   /* the model (BPE, unigram) may produce it */
    VOCAB_ADDED = 2,   /* cut out of the text before the model runs */
    VOCAB_SPECIAL = 4, /* skipped when decoding without special tokens */
    VOCAB_BYTE = 8,    /* "<0x0A>" of byte fallback */
    VOCAB_UNUSED = 16, /* has a text, but nothing gives this id */
};

struct vocab {
    char *pool;
    uint32_t *offsets;
    uint16_t *lengths;
    uint8_t *flags;
    uint32_t *slots; /* id + 1 in 24 bits, 8 bits of the hash above; 0 is empty */
    uint64_t pool_bytes, pool_capacity, slot_count;
    uint32_t count, capacity; /* highest id + 1; room */
    uint32_t used, longest_bytes;
};

void vocab_deinit(struct vocab *vocab);
/* Sets the text of an id; an id that has one gets the new text and the union of flags. Before vocab_index nothing can be found. */
MUST_CHECK enum status vocab_set(struct vocab *vocab, uint32_t id, struct text text, unsigned flags, struct error *err);
/* Makes texts findable; ids that are set later are findable at once. */
MUST_CHECK enum status vocab_index(struct vocab *vocab, struct error *err);
/* Gives spare room back. */
void vocab_trim(struct vocab *vocab);

bool vocab_find(const struct vocab *vocab, struct text text, uint32_t *id);
/* Only tokens that the model may produce. */
bool vocab_find_model(const struct vocab *vocab, struct text text, uint32_t *id);
/* The ids of "<0x00>" to "<0xFF>", VOCAB_NONE where there is none. */
void vocab_find_bytes(const struct vocab *vocab, uint32_t ids[256]);

static inline struct text vocab_text(const struct vocab *vocab, uint32_t id) {
    return id < vocab->count ? (struct text){vocab->pool + vocab->offsets[id], vocab->lengths[id]} : (struct text){"", 0};
}
static inline unsigned vocab_flags_of(const struct vocab *vocab, uint32_t id) { return id < vocab->count ? vocab->flags[id] : 0; }
