/*
 * code_read: codes of 1 to 8 bits from a little-endian bit stream.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Reads only the bytes that hold the code. */
static inline unsigned code_read(const uint8_t *codes, unsigned bits, size_t index) {
    size_t position = index * bits;
    unsigned shift = position % 8, word = codes[position / 8];
    if (shift + bits > 8)
        word |= (unsigned)codes[position / 8 + 1] << 8;
    return word >> shift & ((1u << bits) - 1u);
}
