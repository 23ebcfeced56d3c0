/*
 * byte_reader: bounds-checked little-endian cursor over untrusted bytes.
 *
 * Every read returns false past the end and leaves cursor and output unchanged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct byte_reader {
    const uint8_t *data;
    uint64_t size_bytes, position;
};

static inline uint64_t byte_reader_left(const struct byte_reader *r) {
    return r->size_bytes - r->position;
}
bool byte_reader_skip(struct byte_reader *r, uint64_t count);
bool byte_reader_u8(struct byte_reader *r, uint8_t *out);
bool byte_reader_u16(struct byte_reader *r, uint16_t *out);
bool byte_reader_u32(struct byte_reader *r, uint32_t *out);
bool byte_reader_u64(struct byte_reader *r, uint64_t *out);
/* Borrows `count` bytes. */
bool byte_reader_bytes(struct byte_reader *r, uint64_t count, struct text *out);
