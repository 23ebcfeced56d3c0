/*
 * pattern: the regular expressions of tokenizer files, which are written for Oniguruma, run by PCRE2.
 *
 * Model      a pattern is immutable; a matcher is the state of one search (match data, JIT stack) and belongs to one thread.
 *            Literal patterns ("String" in the files) need no expression.
 * Limits     neither the compiler's nor the matcher's use of the machine stack depends on the length of the text; the work
 *            of one match is limited to a multiple of the text's length, past which it is an error and not a hang.
 * Failure    an expression that cannot be translated or compiled is STATUS_UNSUPPORTED with the expression and the place.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"

struct pattern;
struct pattern_matcher;

MUST_CHECK enum status pattern_compile(struct text expression, struct pattern **out, struct error *err);
MUST_CHECK enum status pattern_literal(struct text literal, struct pattern **out, struct error *err);
void pattern_destroy(struct pattern *pattern);
/* The literal text; empty for an expression. */
struct text pattern_literal_text(const struct pattern *pattern);

/* The state of a search; one matcher serves any number of patterns, one search at a time. */
MUST_CHECK enum status pattern_matcher_create(struct pattern_matcher **out, struct error *err);
void pattern_matcher_destroy(struct pattern_matcher *matcher);

struct pattern_cursor { /* zeroed: before the first match */
    size_t at, last_end;
    bool matched;
};
struct pattern_match {
    size_t begin, end;
    bool found;
};
/*
 * The next match in subject (valid UTF-8) after the cursor. Matches do not overlap; an empty match right behind another match is
 * passed over, as Oniguruma's iterator does. Text before the cursor stays visible to lookbehind. A literal pattern needs no
 * matcher (NULL).
 */
MUST_CHECK enum status pattern_next(const struct pattern *pattern, struct pattern_matcher *matcher, struct text subject,
                                    struct pattern_cursor *cursor, struct pattern_match *match, struct error *err);

/* Rewrites an Oniguruma (Ruby syntax) expression for PCRE2: pattern_translate.c. */
MUST_CHECK enum status pattern_translate(struct text expression, struct byte_buffer *out, struct error *err);
