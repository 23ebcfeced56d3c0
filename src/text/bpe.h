/*
 * bpe: byte pair encoding of one piece: start from characters, merge the best neighbouring pair until none is left.
 *
 * Model      "Best" is the lowest rank; of equal ranks the leftmost. Ranks come from a list of merges (tokenizer.json, GGUF), or
 *            from the scores of the merged tokens (SentencePiece files, which have no list): then a pair may merge when
 *            both parts and the whole are tokens, the higher score first, of equal scores the longer left part.
 * Time       O(n log n): a heap of candidate pairs over a linked list of symbols.
 * Threads    immutable after the build; a run needs its own bpe_work.
 * Memory     8 bytes per merge and 4 per merge for its result, sorted by (left, right); 4 per token with scores.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "text/cancel.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

#define BPE_AFFIX_BYTES_MAX 64u

struct bpe_pair { /* one merge, found by its left token */
    uint32_t right, rank;
};

struct bpe_options {
    bool byte_fallback;                      /* a character that is no token becomes the tokens of its bytes */
    bool fuse_unknown;                       /* neighbouring unknown characters become one unknown token */
    bool ignore_merges;                      /* a piece that is a token is that token */
    uint32_t unknown;                        /* VOCAB_NONE: unknown characters vanish */
    struct text subword_prefix, word_suffix; /* on all characters but the first; on the last. At most BPE_AFFIX_BYTES_MAX each */
};

struct bpe {
    const struct vocab *vocab;
    struct bpe_options options;
    char *affixes; /* bytes of prefix and suffix */
    /* merges by list */
    uint32_t *starts; /* by left token: its pairs are pairs[starts[left]..starts[left + 1]) */
    struct bpe_pair *pairs;
    uint32_t *results; /* by rank */
    uint32_t merge_count;
    /* merges by score: 0 is best, VOCAB_NONE never merges; NULL with a list */
    uint32_t *score_ranks;
    /* a cut before this character cannot change the result, unless the byte before it is marked; empty: never cut */
    struct text mark;
    bool mark_joins[256];
    uint32_t byte_ids[256];
    uint32_t character_ids[0x180]; /* first characters by code point, with neither prefix nor suffix */
};

/* Starts a build; the vocabulary must be indexed, and outlive it. */
MUST_CHECK enum status bpe_init(struct bpe *bpe, const struct vocab *vocab, const struct bpe_options *options, struct error *err);
void bpe_deinit(struct bpe *bpe);

struct bpe_merges { /* a list while it is read: 12 bytes per merge */
    uint32_t *left, *right, *result;
    uint32_t count, capacity;
    char *whole; /* room for a result's text */
};
void bpe_merges_deinit(struct bpe_merges *merges);
/* Adds the next merge by its parts. A part or result that is no token is STATUS_CORRUPT naming the merge's index. */
MUST_CHECK enum status bpe_merges_add(struct bpe_merges *merges, const struct vocab *vocab, struct text left, struct text right,
                                      struct text subword_prefix, struct error *err);
/* The same for the spelling "left right". */
MUST_CHECK enum status bpe_merges_add_line(struct bpe_merges *merges, const struct vocab *vocab, struct text line,
                                           struct text subword_prefix, struct error *err);
/* Sorts the list into the tables and frees it. */
MUST_CHECK enum status bpe_set_merges(struct bpe *bpe, struct bpe_merges *merges, struct error *err);
/* Merges by score. scores: [vocab->count]; not finite: this token never merges; +infinity merges first of all. */
MUST_CHECK enum status bpe_set_scores(struct bpe *bpe, const float *scores, struct error *err);

struct bpe_work { /* kept between runs for its memory */
    struct bpe_symbol *symbols;
    struct bpe_candidate *heap;
    size_t symbol_capacity, heap_count, heap_capacity;
    struct cancel_poll *cancel;
    bool plain; /* special tokens do not come out of the text, whatever it spells */
};
void bpe_work_deinit(struct bpe_work *work);
/* Appends the ids of a piece (valid UTF-8, not empty). */
MUST_CHECK enum status bpe_encode(const struct bpe *bpe, struct bpe_work *work, struct text piece, struct token_list *out,
                                  struct error *err);
