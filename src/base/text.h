/*
 * text: pointer and length, not terminated, and strict parsing of numbers and sizes.
 *
 * Ownership  a text borrows its bytes. Bytes may be anything, also 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

struct text {
    const char *data;
    size_t size_bytes;
};

#define TEXT(literal) ((struct text){(literal), sizeof(literal) - 1})
/* For printf: "%.*s", TEXT_ARGUMENTS(t) */
#define TEXT_ARGUMENTS(t) ((int)((t).size_bytes > 4096 ? 4096 : (t).size_bytes)), ((t).data ? (t).data : "")

static inline struct text text_of(const char *terminated) {
    return (struct text){terminated, terminated ? strlen(terminated) : 0};
}
bool text_equal(struct text a, struct text b);
bool text_is(struct text a, const char *terminated);
bool text_starts_with(struct text a, struct text prefix);
bool text_ends_with(struct text a, struct text suffix);
int text_compare(struct text a, struct text b); /* memcmp order, then length */
uint64_t text_hash(struct text a);              /* xxh3 */

/* Whole text must be the number: no spaces, no suffix, no overflow. False leaves *out unchanged. */
bool text_parse_u64(struct text a, uint64_t *out);
bool text_parse_i64(struct text a, int64_t *out);
bool text_parse_f64(struct text a, double *out); /* finite only, locale-independent */
/* "1536M", "8G", "512k", "1.5GiB", "100": K, M, G, T are powers of 1024, an optional "B"/"iB" may follow; plain numbers are bytes. */
bool text_parse_size(struct text a, uint64_t *size_bytes);

/* "1.5 GiB", "640 KiB", "12 B" into buffer (at least 32 bytes); returns buffer. */
const char *text_format_size(uint64_t size_bytes, char *buffer, size_t buffer_bytes);

/* Edit distance for "did you mean", capped at 64 characters. */
unsigned text_distance(struct text a, struct text b);
