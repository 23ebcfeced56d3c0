/*
 * pattern_class: character classes of Oniguruma ("[a[bc]&&[^d]]", "[:alpha:]", "\h", "\p{Han}") as PCRE2 writes them.
 *
 * Why separate  classes nest there and have no set operations in PCRE2 10.42; this file is the algebra that removes both.
 * Model         every class becomes something that matches exactly one character: one PCRE2 class where possible, else a group
 *               of alternatives and lookaheads. `[A&&[^B]]` with A made of general categories alone becomes `[^CB]` with C the other
 *               categories, since a group that is repeated a million times would need memory for each round.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"

/* Characters that the library's Oniguruma counts to a property and PCRE2 10.42 does not: generated/pattern_additions.c. */
struct pattern_addition {
    const char *name;  /* a general category of two letters; else lower case without '_' */
    const char *items; /* of a PCRE2 class */
};
extern const struct pattern_addition pattern_additions[];
extern const size_t pattern_additions_count;

struct pattern_source { /* an expression and a cursor */
    struct text text;
    size_t at;
};
enum status pattern_source_fail(const struct pattern_source *source, const char *what, struct error *err);

/* Appends the class items of \w as a bracket knows it. */
MUST_CHECK enum status pattern_put_word(struct byte_buffer *items, struct error *err);
/*
 * Reads the escape at the cursor and appends class items for PCRE2. *negated: the escape means everything but those.
 * character (may be NULL) is set when it stands for one character, else to UINT32_MAX.
 */
MUST_CHECK enum status pattern_escape(struct pattern_source *source, struct byte_buffer *items, bool *negated, uint32_t *character,
                                      struct error *err);
/* Reads the class at the cursor ('[') and appends what matches the same characters. */
MUST_CHECK enum status pattern_class(struct pattern_source *source, struct byte_buffer *out, struct error *err);
