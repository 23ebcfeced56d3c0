/*
 * matmul_iq: reference products of the IQ formats with 256-element blocks.
 *
 * Grid values are integers and sub-block scales are d times an odd integer over a power of two, so a whole block is one exact integer:
 * the power of two goes into d, where it is exact.
 */
#include <string.h>

#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "dtype/scalar_convert.h"
#include "kernel/ref/block_dot.h"
#include "kernel/ref/ref.h"

static uint32_t load_u32(const uint8_t *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Sum of +-grid[i] * q[i], minus where bit i of signs is set. */
static int32_t grid_dot(const uint8_t *grid, unsigned count, unsigned signs, const int8_t *q) {
    int32_t sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += signs >> i & 1 ? -(grid[i] * q[i]) : grid[i] * q[i];
    return sum;
}

/* d (2 s + 1) / 8 times the grid */
static void iq2_xxs_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_iq2_xxs *w = (const void *)block;
    out->d = f32_from_f16(w->d) * 0.125f;
    for (unsigned k = 0; k < 32; k++) {
        uint32_t packed = load_u32(w->qs + k / 4 * 8 + 4);
        int scale = 2 * (int)(packed >> 28) + 1;
        out->sum += scale * grid_dot(iq2_xxs_grid[w->qs[k / 4 * 8 + k % 4]], 8, iq_signs[packed >> (k % 4 * 7) & 127], q + 8 * k);
    }
}

static void iq2_xs_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_iq2_xs *w = (const void *)block;
    out->d = f32_from_f16(w->d) * 0.125f;
    for (unsigned k = 0; k < 32; k++) {
        unsigned code = w->qs[k];
        int scale = 2 * (w->scales[k / 4] >> (k / 2 % 2 * 4) & 15) + 1;
        out->sum += scale * grid_dot(iq2_xs_grid[code & 511], 8, iq_signs[code >> 9], q + 8 * k);
    }
}

static void iq2_s_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_iq2_s *w = (const void *)block;
    out->d = f32_from_f16(w->d) * 0.125f;
    for (unsigned k = 0; k < 32; k++) {
        unsigned code = w->qs[k] | (w->qh[k / 4] >> (k % 4 * 2) & 3u) << 8;
        int scale = 2 * (w->scales[k / 4] >> (k / 2 % 2 * 4) & 15) + 1;
        out->sum += scale * grid_dot(iq2_s_grid[code], 8, w->signs[k], q + 8 * k);
    }
}

/* d (2 s + 1) / 4 times the grid */
static void iq3_xxs_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_iq3_xxs *w = (const void *)block;
    out->d = f32_from_f16(w->d) * 0.25f;
    for (unsigned k = 0; k < 64; k++) {
        uint32_t packed = load_u32(w->signs_scales + k / 8 * 4);
        unsigned signs = iq_signs[packed >> (k / 2 % 4 * 7) & 127];
        int scale = 2 * (int)(packed >> 28) + 1;
        out->sum += scale * grid_dot(iq3_xxs_grid[w->qs[k]], 4, signs >> (k % 2 * 4), q + 4 * k);
    }
}

static void iq3_s_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_iq3_s *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    for (unsigned k = 0; k < 64; k++) {
        unsigned code = w->qs[k] | (w->qh[k / 8] >> k % 8 & 1u) << 8;
        int scale = 2 * (w->scales[k / 16] >> (k / 8 % 2 * 4) & 15) + 1;
        out->sum += scale * grid_dot(iq3_s_grid[code], 4, (unsigned)w->signs[k / 2] >> (k % 2 * 4), q + 4 * k);
    }
}

/* Sum of (8 grid[i] + shift) * q[i], shift +-1: eight times the value. */
static int32_t shifted_grid_dot(const int8_t *grid, int shift, const int8_t *q) {
    int32_t sum = 0;
    for (unsigned i = 0; i < 8; i++)
        sum += (8 * grid[i] + shift) * q[i];
    return sum;
}

static void iq1_s_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_iq1_s *w = (const void *)block;
    out->d = f32_from_f16(w->d) * 0.125f;
    for (unsigned k = 0; k < 32; k++) {
        unsigned high = w->qh[k / 4], code = w->qs[k] | (high >> (k % 4 * 3) & 7u) << 8;
        int scale = 2 * (int)(high >> 12 & 7) + 1;
        out->sum += scale * shifted_grid_dot(iq1_grid[code], high & 0x8000u ? -1 : 1, q + 8 * k);
    }
}

static void iq1_m_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_iq1_m *w = (const void *)block;
    unsigned bits = 0;
    for (unsigned i = 0; i < 4; i++)
        bits |= (unsigned)w->scales[i] >> 12 << (4 * i);
    out->d = f32_from_f16((uint16_t)bits) * 0.125f;
    for (unsigned k = 0; k < 32; k++) {
        unsigned high = (unsigned)w->qh[k / 2] >> (k % 2 * 4) & 15u, code = w->qs[k] | (high & 7) << 8;
        int scale = 2 * (w->scales[k / 8] >> (k / 2 % 4 * 3) & 7) + 1;
        out->sum += scale * shifted_grid_dot(iq1_grid[code], high & 8 ? -1 : 1, q + 8 * k);
    }
}

static void iq4_xs_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_iq4_xs *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    for (unsigned s = 0; s < 8; s++) {
        int scale = ((w->scales_l[s / 2] >> (s % 2 * 4) & 15) | (w->scales_h >> (2 * s) & 3) << 4) - 32;
        int32_t dot = 0;
        for (unsigned i = 0; i < 16; i++) {
            unsigned code = w->qs[16 * s + i];
            dot += iq4_values[code & 15] * q[32 * s + i] + iq4_values[code >> 4] * q[32 * s + 16 + i];
        }
        out->sum += scale * dot;
    }
}

void ref_matmul_iq2_xxs(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 66, false, iq2_xxs_terms}); }
void ref_matmul_iq2_xs(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 74, false, iq2_xs_terms}); }
void ref_matmul_iq2_s(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 82, false, iq2_s_terms}); }
void ref_matmul_iq3_xxs(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 98, false, iq3_xxs_terms}); }
void ref_matmul_iq3_s(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 110, false, iq3_s_terms}); }
void ref_matmul_iq1_s(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 50, false, iq1_s_terms}); }
void ref_matmul_iq1_m(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 56, false, iq1_m_terms}); }
void ref_matmul_iq4_xs(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 136, false, iq4_xs_terms}); }
