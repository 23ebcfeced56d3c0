/*
 * decode_ternary: formats of 1 to 2 bits per weight with one scale per block.
 *
 * tq1_0 stores five base-3 digits in a byte as a fraction of 256: multiplying the byte by 3^n modulo 256 brings digit n to the front,
 * and the upper byte of three times that is the digit.
 */
#include "base/check.h"
#include "dtype/block_layouts.h"
#include "dtype/decode.h"
#include "dtype/scalar_convert.h"

/* Writes digit after digit of `width` bytes: dst[n * width + i] is digit n of byte i. */
static float *decode_digits(const uint8_t *bytes, unsigned width, unsigned digits, float d, float *dst) {
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    ASSERT(digits <= 5);
    for (unsigned n = 0; n < digits; n++)
        for (unsigned i = 0; i < width; i++) {
            unsigned fraction = bytes[i] * powers[n] & 255u;
            *dst++ = (float)((int)(fraction * 3 >> 8) - 1) * d;
        }
    return dst;
}

void decode_tq1_0(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_tq1_0 *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++) {
        float d = f32_from_f16(block->d);
        dst = decode_digits(block->qs, 32, 5, d, dst);
        dst = decode_digits(block->qs + 32, 16, 5, d, dst);
        dst = decode_digits(block->qh, 4, 4, d, dst);
    }
}

void decode_tq2_0(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_tq2_0 *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++, dst += BLOCK_SUPER) {
        float d = f32_from_f16(block->d);
        for (unsigned e = 0; e < BLOCK_SUPER; e++) {
            unsigned code = bit_field(block->qs[e / 128 * 32 + e % 32], e % 128 / 32 * 2, 3);
            dst[e] = (float)((int)code - 1) * d;
        }
    }
}

void decode_q1_0(const void *src, float *dst, size_t count) {
    ASSERT(count % 128 == 0);
    const struct block_q1_0 *block = src;
    for (size_t b = 0; b < count / 128; b++, block++, dst += 128) {
        float d = f32_from_f16(block->d);
        for (unsigned i = 0; i < 128; i++)
            dst[i] = bit_field(block->qs[i / 8], i % 8, 1) ? d : -d;
    }
}

void decode_q2_0(const void *src, float *dst, size_t count) {
    ASSERT(count % 64 == 0);
    const struct block_q2_0 *block = src;
    for (size_t b = 0; b < count / 64; b++, block++, dst += 64) {
        float d = f32_from_f16(block->d);
        for (unsigned i = 0; i < 64; i++)
            dst[i] = (float)((int)bit_field(block->qs[i / 4], i % 4 * 2, 3) - 1) * d;
    }
}
