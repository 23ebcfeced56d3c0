/*
 * pattern_class: character classes of Oniguruma ("[a[bc]&&[^d]]") as PCRE2 writes them.
 *
 * Why separate  classes nest there and have no set operations in PCRE2 10.42; this file is the algebra that removes both.
 * Model         every class becomes something that matches exactly one character: one PCRE2 class where possible, else a group
 *               of alternatives and lookaheads. `[A&&[^B]]` with A made of general categories alone becomes `[^CB]` with C the other
 *               categories, since a group that is repeated a million times would need memory for each round.
 */
#pragma once

#include "base/byte_buffer.h"
#include "base/status.h"
#include "text/pattern_escape.h"

/* Reads the class at the cursor ('[') and appends what matches the same characters. */
MUST_CHECK enum status pattern_class(struct pattern_source *source, struct byte_buffer *out, struct error *err);
