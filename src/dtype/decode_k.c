/*
 * decode_k: the K formats, super-blocks of 256 elements whose sub-blocks have integer scales. Layouts: block_layouts.h.
 */
#include "base/check.h"
#include "dtype/block_layouts.h"
#include "dtype/decode.h"
#include "dtype/scalar_convert.h"

/* 2-bit field of element e (0-255) in 64 bytes: 128 elements per 32 bytes, four planes of 32. */
static unsigned field_2(const uint8_t *qs, unsigned e) {
    return bit_field(qs[e / 128 * 32 + e % 32], e % 128 / 32 * 2, 3);
}

/* 4-bit field of element e (0-255) in 128 bytes: 64 elements per 32 bytes, low nibbles first. */
static unsigned field_4(const uint8_t *qs, unsigned e) {
    return bit_field(qs[e / 64 * 32 + e % 32], e % 64 / 32 * 4, 15);
}

void decode_q2_k(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_q2_k *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++, dst += BLOCK_SUPER) {
        float d = f32_from_f16(block->d), dmin = f32_from_f16(block->dmin);
        for (unsigned e = 0; e < BLOCK_SUPER; e++) {
            unsigned scale = block->scales[e / 16];
            float step = d * (float)(scale & 15), low = dmin * (float)(scale >> 4);
            dst[e] = step * (float)field_2(block->qs, e) - low;
        }
    }
}

void decode_q3_k(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_q3_k *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++, dst += BLOCK_SUPER) {
        float d = f32_from_f16(block->d);
        for (unsigned e = 0; e < BLOCK_SUPER; e++) {
            float step = d * (float)k3_scale(block->scales, e / 16);
            unsigned high = bit_field(block->hmask[e % 32], e / 32, 1);
            dst[e] = step * (float)((int)(field_2(block->qs, e) | high << 2) - 4);
        }
    }
}

void decode_q4_k(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_q4_k *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++, dst += BLOCK_SUPER) {
        float d = f32_from_f16(block->d), dmin = f32_from_f16(block->dmin);
        for (unsigned j = 0; j < 8; j++) {
            uint8_t scale, min;
            k4_scale_min(block->scales, j, &scale, &min);
            float step = d * (float)scale, low = dmin * (float)min;
            for (unsigned e = 32 * j; e < 32 * j + 32; e++)
                dst[e] = step * (float)field_4(block->qs, e) - low;
        }
    }
}

void decode_q5_k(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_q5_k *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++, dst += BLOCK_SUPER) {
        float d = f32_from_f16(block->d), dmin = f32_from_f16(block->dmin);
        for (unsigned j = 0; j < 8; j++) {
            uint8_t scale, min;
            k4_scale_min(block->scales, j, &scale, &min);
            float step = d * (float)scale, low = dmin * (float)min;
            for (unsigned e = 32 * j; e < 32 * j + 32; e++) {
                unsigned high = bit_field(block->qh[e % 32], j, 1);
                dst[e] = step * (float)(field_4(block->qs, e) | high << 4) - low;
            }
        }
    }
}

void decode_q6_k(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_q6_k *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++, dst += BLOCK_SUPER) {
        float d = f32_from_f16(block->d);
        for (unsigned e = 0; e < BLOCK_SUPER; e++) {
            unsigned half = e / 128, i = e % 128;
            unsigned low = bit_field(block->ql[half * 64 + i % 64], i / 64 * 4, 15);
            float step = d * (float)block->scales[e / 16];
            dst[e] = step * (float)((int)(low | field_2(block->qh, e) << 4) - 32);
        }
    }
}

void decode_q8_k(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_q8_k *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++, dst += BLOCK_SUPER) {
        float d = block->d;
        for (unsigned e = 0; e < BLOCK_SUPER; e++)
            dst[e] = d * (float)block->qs[e];
    }
}
