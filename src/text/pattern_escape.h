/*
 * pattern_escape: escapes, properties and POSIX classes of Oniguruma ("\h", "\p{Han}", "[:alpha:]") as items of a PCRE2 class.
 *
 * Why separate  the same names mean other characters in the two engines; here is the one table of what they mean.
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

struct pattern_source { /* an expression (terminated) and a cursor */
    struct text text;
    size_t at;
};
/* STATUS_UNSUPPORTED with the expression, the place, and what is wrong there. */
enum status pattern_source_fail(const struct pattern_source *source, const char *what, struct error *err);
/* The byte so far ahead of the cursor; 0 past the end. */
char pattern_source_peek(const struct pattern_source *source, size_t ahead);

#define PATTERN_NO_CHARACTER UINT32_MAX
#define PATTERN_CATEGORY_COUNT 30 /* general categories: a partition of all characters */
#define PATTERN_CATEGORY_ALL ((1u << PATTERN_CATEGORY_COUNT) - 1)

struct pattern_meaning { /* of an escape */
    bool negated;        /* everything but the items */
    uint32_t character;  /* or PATTERN_NO_CHARACTER: it stands for many */
    uint32_t categories; /* all members, when general categories say it; else 0 */
};
/* Reads the escape at the cursor and appends its class items. */
MUST_CHECK enum status pattern_read_escape(struct pattern_source *source, struct byte_buffer *items, struct pattern_meaning *meaning,
                                           struct error *err);
/* Items of "[:name:]"; negated is that of the bracket, and may turn round. */
MUST_CHECK enum status pattern_put_posix(const struct pattern_source *source, struct text name, struct byte_buffer *items, bool *negated,
                                         struct error *err);
/* Items of \w as a bracket knows it, of one character, of general categories. */
MUST_CHECK enum status pattern_put_word(struct byte_buffer *items, struct error *err);
MUST_CHECK enum status pattern_put_character(uint32_t character, struct byte_buffer *items, struct error *err);
MUST_CHECK enum status pattern_put_categories(uint32_t mask, struct byte_buffer *items, struct error *err);
