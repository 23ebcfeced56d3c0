/*
 * matmul_k: reference products of the formats with 256-element blocks and integer scales of sub-blocks, IQ ones apart.
 */
#include "dtype/block_layouts.h"
#include "dtype/scalar_convert.h"
#include "kernel/ref/block_dot.h"
#include "kernel/ref/ref.h"

static void q2_k_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    const struct block_q2_k *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    out->m = -f32_from_f16(w->dmin);
    for (unsigned s = 0; s < 16; s++) {
        int32_t dot = 0;
        for (unsigned e = 16 * s; e < 16 * s + 16; e++)
            dot += (w->qs[e / 128 * 32 + e % 32] >> 2 * (e / 32 % 4) & 3) * q[e];
        out->sum += (w->scales[s] & 15) * dot;
        out->bias_sum += (w->scales[s] >> 4) * sums[s];
    }
}

static void q3_k_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_q3_k *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    for (unsigned s = 0; s < 16; s++) {
        int32_t dot = 0;
        for (unsigned e = 16 * s; e < 16 * s + 16; e++) {
            int low = w->qs[e / 128 * 32 + e % 32] >> 2 * (e / 32 % 4) & 3;
            int high = w->hmask[e % 32] >> e / 32 & 1;
            dot += (low + 4 * high - 4) * q[e];
        }
        out->sum += k3_scale(w->scales, s) * dot;
    }
}

static void q4_k_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    const struct block_q4_k *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    out->m = -f32_from_f16(w->dmin);
    for (unsigned s = 0; s < 8; s++) {
        uint8_t scale, min;
        k4_scale_min(w->scales, s, &scale, &min);
        int32_t dot = 0;
        for (unsigned i = 0; i < 32; i++)
            dot += (w->qs[s / 2 * 32 + i] >> 4 * (s % 2) & 15) * q[32 * s + i];
        out->sum += scale * dot;
        out->bias_sum += min * (sums[2 * s] + sums[2 * s + 1]);
    }
}

static void q5_k_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    const struct block_q5_k *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    out->m = -f32_from_f16(w->dmin);
    for (unsigned s = 0; s < 8; s++) {
        uint8_t scale, min;
        k4_scale_min(w->scales, s, &scale, &min);
        int32_t dot = 0;
        for (unsigned i = 0; i < 32; i++)
            dot += ((w->qs[s / 2 * 32 + i] >> 4 * (s % 2) & 15) + 16 * (w->qh[i] >> s & 1)) * q[32 * s + i];
        out->sum += scale * dot;
        out->bias_sum += min * (sums[2 * s] + sums[2 * s + 1]);
    }
}

static void q6_k_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_q6_k *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    for (unsigned s = 0; s < 16; s++) {
        int32_t dot = 0;
        for (unsigned e = 16 * s; e < 16 * s + 16; e++) {
            unsigned half = e / 128, i = e % 128;
            int low = w->ql[64 * half + i % 64] >> 4 * (i / 64) & 15;
            int high = w->qh[32 * half + i % 32] >> 2 * (i / 32) & 3;
            dot += (low + 16 * high - 32) * q[e];
        }
        out->sum += w->scales[s] * dot;
    }
}

static void tq2_0_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_tq2_0 *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    for (unsigned e = 0; e < 256; e++)
        out->sum += ((w->qs[e / 128 * 32 + e % 32] >> 2 * (e / 32 % 4) & 3) - 1) * q[e];
}

/* Base-3 digit number n of a byte, most significant first, less 1. */
static int ternary_digit(uint8_t byte, unsigned n) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    return ((uint8_t)(byte * power[n]) * 3 >> 8) - 1;
}

/* Elements 0-159: digit e / 32 of byte e % 32; 160-239: digit (e - 160) / 16 of byte 32 + e % 16; the last 16: digit of 4 bytes. */
static void tq1_0_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_tq1_0 *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    for (unsigned e = 0; e < 160; e++)
        out->sum += ternary_digit(w->qs[e % 32], e / 32) * q[e];
    for (unsigned e = 0; e < 80; e++)
        out->sum += ternary_digit(w->qs[32 + e % 16], e / 16) * q[160 + e];
    for (unsigned e = 0; e < 16; e++)
        out->sum += ternary_digit(w->qh[e % 4], e / 4) * q[240 + e];
}

void ref_matmul_q2_k(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 84, true, q2_k_terms}); }
void ref_matmul_q3_k(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 110, false, q3_k_terms}); }
void ref_matmul_q4_k(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 144, true, q4_k_terms}); }
void ref_matmul_q5_k(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 176, true, q5_k_terms}); }
void ref_matmul_q6_k(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 210, false, q6_k_terms}); }
void ref_matmul_tq1_0(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 54, false, tq1_0_terms}); }
void ref_matmul_tq2_0(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){256, 66, false, tq2_0_terms}); }
