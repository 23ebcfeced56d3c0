/*
 * matmul_legacy: reference products of the formats with one scale per block and no sub-blocks.
 */
#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "dtype/scalar_convert.h"
#include "kernel/ref/block_dot.h"
#include "kernel/ref/ref.h"

/* Sum of q * a over 32 elements whose codes have 4 bits, and a fifth in `fifth`. */
static int32_t nibble_dot(const uint8_t *qs, uint32_t fifth, const int8_t *a) {
    int32_t sum = 0;
    for (unsigned i = 0; i < 16; i++) {
        int low = (qs[i] & 15) | (int)(fifth >> i & 1u) << 4;
        int high = qs[i] >> 4 | (int)(fifth >> (i + 16) & 1u) << 4;
        sum += low * a[i] + high * a[i + 16];
    }
    return sum;
}

static uint32_t load_u32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

static void q4_0_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    const struct block_q4_0 *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    out->sum = nibble_dot(w->qs, 0, q) - 8 * (sums[0] + sums[1]);
}

static void q4_1_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    const struct block_q4_1 *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    out->sum = nibble_dot(w->qs, 0, q);
    out->m = f32_from_f16(w->m);
    out->bias_sum = sums[0] + sums[1];
}

static void q5_0_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    const struct block_q5_0 *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    out->sum = nibble_dot(w->qs, load_u32(w->qh), q) - 16 * (sums[0] + sums[1]);
}

static void q5_1_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    const struct block_q5_1 *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    out->sum = nibble_dot(w->qs, load_u32(w->qh), q);
    out->m = f32_from_f16(w->m);
    out->bias_sum = sums[0] + sums[1];
}

static void q8_0_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_q8_0 *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    out->sum = dot_i8(w->qs, q, 32);
}

static void iq4_nl_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_iq4_nl *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    for (unsigned i = 0; i < 16; i++)
        out->sum += iq4_values[w->qs[i] & 15] * q[i] + iq4_values[w->qs[i] >> 4] * q[i + 16];
}

static void q1_0_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_q1_0 *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    for (unsigned i = 0; i < 128; i++)
        out->sum += w->qs[i / 8] >> i % 8 & 1 ? q[i] : -q[i];
}

static void q2_0_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_q2_0 *w = (const void *)block;
    out->d = f32_from_f16(w->d);
    for (unsigned i = 0; i < 64; i++)
        out->sum += ((w->qs[i / 4] >> 2 * (i % 4) & 3) - 1) * q[i];
}

void ref_matmul_q4_0(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){32, 18, false, q4_0_terms}); }
void ref_matmul_q4_1(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){32, 20, true, q4_1_terms}); }
void ref_matmul_q5_0(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){32, 22, false, q5_0_terms}); }
void ref_matmul_q5_1(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){32, 24, true, q5_1_terms}); }
void ref_matmul_q8_0(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){32, 34, false, q8_0_terms}); }
void ref_matmul_iq4_nl(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){32, 18, false, iq4_nl_terms}); }
void ref_matmul_q1_0(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){128, 18, false, q1_0_terms}); }
void ref_matmul_q2_0(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){64, 18, false, q2_0_terms}); }
