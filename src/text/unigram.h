/*
 * unigram: the tokens of a piece whose scores have the greatest sum (Viterbi), as SentencePiece's unigram models choose them.
 *
 * Model      scores are log probabilities. A character that is no token by itself may be the unknown token at the lowest score
 *            minus 10; neighbouring unknown characters are one token, or the tokens of their bytes.
 * Time       O(n * longest token), n in bytes.
 * Threads    immutable after the build; a run needs its own unigram_work.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "text/cancel.h"
#include "text/prefix_index.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

struct unigram {
    const struct vocab *vocab;
    struct prefix_index index;
    double *scores; /* [vocab->count] */
    double unknown_score;
    uint32_t unknown; /* VOCAB_NONE: a text with unknown characters is an error */
    bool byte_fallback;
    uint32_t byte_ids[256];
};

/* scores: [vocab->count], moves to the unigram (also on failure). The vocabulary must be indexed, and outlive it. */
MUST_CHECK enum status unigram_init(struct unigram *unigram, const struct vocab *vocab, double *scores, uint32_t unknown,
                                    bool byte_fallback, struct error *err);
void unigram_deinit(struct unigram *unigram);

struct unigram_work { /* kept between runs for its memory */
    struct unigram_node *nodes;
    size_t node_capacity;
    struct cancel_poll *cancel;
    bool plain; /* special tokens do not come out of the text, whatever it spells */
};
void unigram_work_deinit(struct unigram_work *work);
/* Appends the ids of a piece (valid UTF-8, not empty). */
MUST_CHECK enum status unigram_encode(const struct unigram *unigram, struct unigram_work *work, struct text piece, struct token_list *out,
                                      struct error *err);
