/*
 * decode_legacy: formats with one scale (and one minimum) per 32 elements.
 */
#include "base/check.h"
#include "dtype/block_layouts.h"
#include "dtype/decode.h"
#include "dtype/scalar_convert.h"

void decode_q4_0(const void *src, float *dst, size_t count) {
    ASSERT(count % 32 == 0);
    const struct block_q4_0 *block = src;
    for (size_t b = 0; b < count / 32; b++, block++, dst += 32) {
        float d = f32_from_f16(block->d);
        for (unsigned i = 0; i < 16; i++) {
            dst[i] = (float)((block->qs[i] & 15) - 8) * d;
            dst[i + 16] = (float)((block->qs[i] >> 4) - 8) * d;
        }
    }
}

void decode_q4_1(const void *src, float *dst, size_t count) {
    ASSERT(count % 32 == 0);
    const struct block_q4_1 *block = src;
    for (size_t b = 0; b < count / 32; b++, block++, dst += 32) {
        float d = f32_from_f16(block->d), m = f32_from_f16(block->m);
        for (unsigned i = 0; i < 16; i++) {
            dst[i] = (float)(block->qs[i] & 15) * d + m;
            dst[i + 16] = (float)(block->qs[i] >> 4) * d + m;
        }
    }
}

/* Code of element i (0-31) of a block with 4 low bits in qs and one high bit in qh. */
static int code_5(const uint8_t qh[4], const uint8_t qs[16], unsigned i) {
    return (int)(bit_field(qs[i % 16], i / 16 * 4, 15) | bit_field(qh[i / 8], i % 8, 1) << 4);
}

void decode_q5_0(const void *src, float *dst, size_t count) {
    ASSERT(count % 32 == 0);
    const struct block_q5_0 *block = src;
    for (size_t b = 0; b < count / 32; b++, block++, dst += 32) {
        float d = f32_from_f16(block->d);
        for (unsigned i = 0; i < 32; i++)
            dst[i] = (float)(code_5(block->qh, block->qs, i) - 16) * d;
    }
}

void decode_q5_1(const void *src, float *dst, size_t count) {
    ASSERT(count % 32 == 0);
    const struct block_q5_1 *block = src;
    for (size_t b = 0; b < count / 32; b++, block++, dst += 32) {
        float d = f32_from_f16(block->d), m = f32_from_f16(block->m);
        for (unsigned i = 0; i < 32; i++)
            dst[i] = (float)code_5(block->qh, block->qs, i) * d + m;
    }
}

void decode_q8_0(const void *src, float *dst, size_t count) {
    ASSERT(count % 32 == 0);
    const struct block_q8_0 *block = src;
    for (size_t b = 0; b < count / 32; b++, block++, dst += 32) {
        float d = f32_from_f16(block->d);
        for (unsigned i = 0; i < 32; i++)
            dst[i] = (float)block->qs[i] * d;
    }
}

void decode_q8_1(const void *src, float *dst, size_t count) {
    ASSERT(count % 32 == 0);
    const struct block_q8_1 *block = src;
    for (size_t b = 0; b < count / 32; b++, block++, dst += 32) {
        float d = f32_from_f16(block->d);
        for (unsigned i = 0; i < 32; i++)
            dst[i] = (float)block->qs[i] * d;
    }
}
