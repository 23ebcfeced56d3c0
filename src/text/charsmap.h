/*
 * charsmap: SentencePiece's precompiled map of character sequences to replacements (a double array of prefixes, and their texts).
 *
 * Behaviour  as Hugging Face reads it: a grapheme of at most 5 bytes is replaced whole by the text of its shortest mapped
 *            prefix; else each of its characters by itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"

struct charsmap;

/* Copies bytes: 4 bytes with the array's length, the array, the replacements, each ended by a 0. */
MUST_CHECK enum status charsmap_create(struct text bytes, struct charsmap **out, struct error *err);
void charsmap_destroy(struct charsmap *map);
/* Appends text (valid UTF-8) with its replacements. *front_removed: the first grapheme became nothing. */
MUST_CHECK enum status charsmap_append(const struct charsmap *map, struct text text, struct byte_buffer *out, bool *front_removed,
                                       struct error *err);
