/*
 * grammar_chars: sets of Unicode characters, and the UTF-8 bytes that spell them, as they stand in plain text or inside a JSON string.
 */
#pragma once

#include "generate/grammar.h"

#define CHAR_LAST 0x10ffffu
#define CHAR_RANGES_MAX 256

struct char_range {
    uint32_t low, high;
};
struct char_set { /* zeroed is empty */
    struct char_range ranges[CHAR_RANGES_MAX];
    uint32_t count;
};

/* False: the set has too many parts. */
MUST_CHECK bool char_set_add(struct char_set *set, uint32_t low, uint32_t high);
MUST_CHECK bool char_set_add_set(struct char_set *set, const struct char_set *other);
/* All characters that are not in it; surrogates are no characters. */
MUST_CHECK bool char_set_negate(struct char_set *set);
/* Keeps what is within [low, high]. */
void char_set_clip(struct char_set *set, uint32_t low, uint32_t high);

/* Next character of UTF-8 text at *at; false: the bytes are no UTF-8. */
MUST_CHECK bool char_next(struct text text, size_t *at, uint32_t *character);

enum char_spelling {
    CHARS_PLAIN,
    CHARS_JSON, /* as in a JSON string: quotes, backslashes and controls are escaped */
    CHARS_MARKS /* plain, and no '<': text in front of a closing mark */
};

/* One character of the set. */
struct fragment grammar_chars(struct grammar *grammar, const struct char_set *set, enum char_spelling spelling);
/* That very character or text (UTF-8; else the grammar fails). */
struct fragment grammar_text(struct grammar *grammar, struct text text, enum char_spelling spelling);
