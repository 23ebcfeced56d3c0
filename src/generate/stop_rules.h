/*
 * stop_rules: stop strings over a stream of text: holds back what may become one, releases what turned out harmless.
 *
 * Limits    16 strings of 1 to 256 bytes.
 * Memory    a small buffer inside; nothing is allocated per call beyond the text it gives out.
 */
#pragma once

#include <stdbool.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"

#define STOP_STRINGS_MAX 16
#define STOP_STRING_BYTES_MAX 256

struct stop_rules {
    struct text strings[STOP_STRINGS_MAX]; /* borrowed */
    uint32_t count;
    char held[STOP_STRING_BYTES_MAX]; /* end of the text so far that begins a stop string */
    size_t held_bytes;
    bool hit;
};

/* STATUS_INVALID names the string that is empty, too long, or one too many. Zero strings are allowed. */
MUST_CHECK enum status stop_rules_init(struct stop_rules *rules, const char *const *strings, uint32_t count, struct error *err);
/* Appends to out what may be shown of text; after a hit nothing more. final: the stream ends, nothing is held back. */
MUST_CHECK enum status stop_rules_push(struct stop_rules *rules, struct text text, bool final, struct byte_buffer *out, struct error *err);
