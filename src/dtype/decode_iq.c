/*
 * decode_iq: the IQ formats: indices into grids of 8 or 4 neighbouring magnitudes with separate signs, and the 16-value table of iq4.
 */
#include "base/check.h"
#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "dtype/decode.h"
#include "dtype/scalar_convert.h"

#define IQ1_SHIFT 0.125f

static uint32_t load_u32(const uint8_t *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* dst[i] = scale * grid[i], negated where bit i of signs is set. */
static void decode_grid(float *dst, const uint8_t *grid, unsigned count, float scale, unsigned signs) {
    for (unsigned i = 0; i < count; i++) {
        float value = scale * (float)grid[i];
        dst[i] = signs >> i & 1 ? -value : value;
    }
}

void decode_iq2_xxs(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_iq2_xxs *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++) {
        float d = f32_from_f16(block->d);
        for (unsigned j = 0; j < 8; j++) {
            const uint8_t *codes = block->qs + 8 * j;
            uint32_t packed = load_u32(codes + 4);
            float scale = d * (0.5f + (float)(packed >> 28)) * 0.25f;
            for (unsigned k = 0; k < 4; k++, dst += 8)
                decode_grid(dst, iq2_xxs_grid[codes[k]], 8, scale, iq_signs[packed >> (7 * k) & 127]);
        }
    }
}

void decode_iq2_xs(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_iq2_xs *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++) {
        float d = f32_from_f16(block->d);
        for (unsigned k = 0; k < 32; k++, dst += 8) { /* two codes share a scale */
            unsigned code = block->qs[k], scale = bit_field(block->scales[k / 4], k / 2 % 2 * 4, 15);
            decode_grid(dst, iq2_xs_grid[code & 511], 8, d * (0.5f + (float)scale) * 0.25f, iq_signs[code >> 9]);
        }
    }
}

void decode_iq2_s(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_iq2_s *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++) {
        float d = f32_from_f16(block->d);
        for (unsigned k = 0; k < 32; k++, dst += 8) {
            unsigned scale = bit_field(block->scales[k / 4], k / 2 % 2 * 4, 15);
            unsigned code = block->qs[k] | bit_field(block->qh[k / 4], k % 4 * 2, 3) << 8;
            decode_grid(dst, iq2_s_grid[code], 8, d * (0.5f + (float)scale) * 0.25f, block->signs[k]);
        }
    }
}

void decode_iq3_xxs(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_iq3_xxs *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++) {
        float d = f32_from_f16(block->d);
        for (unsigned j = 0; j < 8; j++) {
            uint32_t packed = load_u32(block->signs_scales + 4 * j);
            float scale = d * (0.5f + (float)(packed >> 28)) * 0.5f;
            for (unsigned k = 0; k < 8; k++, dst += 4) {
                unsigned signs = iq_signs[packed >> (k / 2 * 7) & 127];
                decode_grid(dst, iq3_xxs_grid[block->qs[8 * j + k]], 4, scale, signs >> (k % 2 * 4));
            }
        }
    }
}

void decode_iq3_s(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_iq3_s *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++) {
        float d = f32_from_f16(block->d);
        for (unsigned k = 0; k < 64; k++, dst += 4) {
            unsigned scale = bit_field(block->scales[k / 16], k / 8 % 2 * 4, 15);
            unsigned code = block->qs[k] | bit_field(block->qh[k / 8], k % 8, 1) << 8;
            decode_grid(dst, iq3_s_grid[code], 4, d * (float)(1 + 2 * scale), (unsigned)block->signs[k / 2] >> (k % 2 * 4));
        }
    }
}

/* dst[i] = scale * (grid[i] + shift) for 8 elements. */
static void decode_grid_shifted(float *dst, const int8_t *grid, float scale, float shift) {
    for (unsigned i = 0; i < 8; i++)
        dst[i] = scale * ((float)grid[i] + shift);
}

void decode_iq1_s(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_iq1_s *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++) {
        float d = f32_from_f16(block->d);
        for (unsigned k = 0; k < 32; k++, dst += 8) {
            unsigned high = block->qh[k / 4], code = block->qs[k] | bit_field(high, k % 4 * 3, 7) << 8;
            float scale = d * (float)(2 * (high >> 12 & 7) + 1);
            decode_grid_shifted(dst, iq1_grid[code], scale, high & 0x8000 ? -IQ1_SHIFT : IQ1_SHIFT);
        }
    }
}

void decode_iq1_m(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_iq1_m *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++) {
        unsigned bits = 0;
        for (unsigned i = 0; i < 4; i++)
            bits |= (unsigned)block->scales[i] >> 12 << (4 * i);
        float d = f32_from_f16((uint16_t)bits);
        for (unsigned k = 0; k < 32; k++, dst += 8) { /* two codes share a scale */
            unsigned high = bit_field(block->qh[k / 2], k % 2 * 4, 15), code = block->qs[k] | (high & 7) << 8;
            unsigned scale = bit_field(block->scales[k / 8], k / 2 % 4 * 3, 7);
            decode_grid_shifted(dst, iq1_grid[code], d * (float)(2 * scale + 1), high & 8 ? -IQ1_SHIFT : IQ1_SHIFT);
        }
    }
}

void decode_iq4_nl(const void *src, float *dst, size_t count) {
    ASSERT(count % 32 == 0);
    const struct block_iq4_nl *block = src;
    for (size_t b = 0; b < count / 32; b++, block++, dst += 32) {
        float d = f32_from_f16(block->d);
        for (unsigned i = 0; i < 16; i++) {
            dst[i] = d * (float)iq4_values[block->qs[i] & 15];
            dst[i + 16] = d * (float)iq4_values[block->qs[i] >> 4];
        }
    }
}

void decode_iq4_xs(const void *src, float *dst, size_t count) {
    ASSERT(count % BLOCK_SUPER == 0);
    const struct block_iq4_xs *block = src;
    for (size_t b = 0; b < count / BLOCK_SUPER; b++, block++) {
        float d = f32_from_f16(block->d);
        for (unsigned j = 0; j < 8; j++, dst += 32) {
            unsigned scale = bit_field(block->scales_l[j / 2], j % 2 * 4, 15) | bit_field(block->scales_h, 2 * j, 3) << 4;
            float step = d * (float)((int)scale - 32);
            for (unsigned i = 0; i < 16; i++) {
                unsigned code = block->qs[16 * j + i];
                dst[i] = step * (float)iq4_values[code & 15];
                dst[i + 16] = step * (float)iq4_values[code >> 4];
            }
        }
    }
}
