/*
 * added_tokens: tokens that are cut out of the text before normaliser and model see it.
 *
 * Model     two sets: raw ones are looked for in the text, normalised ones (their own texts normalised too) in what the normaliser
 *           gives. The leftmost match wins, of those the longest; flags may then drop it (single_word) or make it take the
 *           white space around it (lstrip, rstrip).
 * Threads   immutable after the build, and not to be moved: the indexes point into it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "text/normalizer.h"
#include "text/prefix_index.h"
#include "text/vocab.h"

enum added_flags {
    ADDED_SPECIAL = 1,
    ADDED_NORMALIZED = 2,
    ADDED_SINGLE_WORD = 4, /* only between characters that are no word characters */
    ADDED_LSTRIP = 8,      /* takes the white space before it */
    ADDED_RSTRIP = 16,     /* and behind it */
    ADDED_BLANK = 32,      /* all white space and not special: stands for itself even in plain text */
};

struct added_token {
    uint32_t id;
    unsigned flags;
};

struct added_set {
    struct vocab texts; /* entry number -> text to look for */
    struct prefix_index index;
};

struct added_tokens {
    struct added_token *tokens;
    uint32_t count, capacity;
    struct added_set raw, normalized;
    uint32_t *respelled; /* entries whose normalised text is another, sorted by id */
    uint32_t respelled_count;
};

void added_tokens_deinit(struct added_tokens *added);
/* Adds a token (its text is already in the vocabulary); an empty text is ignored. Of two with one text the earlier counts. */
MUST_CHECK enum status added_tokens_add(struct added_tokens *added, const struct vocab *vocab, uint32_t id, unsigned flags,
                                        struct error *err);
/* Sorts what was added; call once, before the first search. */
MUST_CHECK enum status added_tokens_build(struct added_tokens *added, const struct vocab *vocab, const struct normalizer *normalizer,
                                          struct error *err);

/* What an added token decodes to: its normalised text, where it has one; else `text`. */
struct text added_tokens_spelling(const struct added_tokens *added, uint32_t id, struct text text);

struct added_cursor { /* zeroed: at the start */
    size_t at;        /* where the search goes on */
    size_t done;      /* end of the last match, with its white space */
};
struct added_match {
    size_t begin, end; /* with the white space that belongs to it; text before begin is not part of a token */
    size_t text_begin; /* of its spelling, which ends at cursor->at */
    uint32_t id;
};
/* The next token in text. plain: only those of white space count. */
bool added_tokens_next(const struct added_tokens *added, bool normalized, bool plain, struct text text, struct added_cursor *cursor,
                       struct added_match *match);
