/*
 * matmul_k: products of Q2_K .. Q6_K and IQ4_XS; see strips.h.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/strips.h"

#define LEVEL(name) neon_##name

/* Sums of eight products of 16-bit numbers, in four parts. */
ALWAYS_INLINE int32x4_t dot_8(int32x4_t sum, int16x8_t a, int16x8_t b) {
    return vmlal_high_s16(vmlal_s16(sum, vget_low_s16(a), vget_low_s16(b)), a, b);
}

ALWAYS_INLINE void k4_block(const uint8_t *block, codes_fn *codes, const struct activation *x, unsigned tokens, int32x4_t sum[TOKENS],
                            int32x4_t bias[TOKENS]) {
    struct sub_scales scales = k4_scales_mins(block);
    scaled_dot_32(block, codes, scales, x, tokens, sum);
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++)
        bias[t] = dot_8(vdupq_n_s32(0), scales.high, vpaddq_s16(vld1q_s16(x[t].sums), vld1q_s16(x[t].sums + 8)));
}
ALWAYS_INLINE void q4_k_block(const uint8_t *block, const struct activation *x, unsigned tokens, int32x4_t sum[TOKENS],
                              int32x4_t bias[TOKENS]) {
    k4_block(block, q4_k_codes, x, tokens, sum, bias);
}
ALWAYS_INLINE void q5_k_block(const uint8_t *block, const struct activation *x, unsigned tokens, int32x4_t sum[TOKENS],
                              int32x4_t bias[TOKENS]) {
    k4_block(block, q5_k_codes, x, tokens, sum, bias);
}
ALWAYS_INLINE void q2_k_block(const uint8_t *block, const struct activation *x, unsigned tokens, int32x4_t sum[TOKENS],
                              int32x4_t bias[TOKENS]) {
    struct sub_scales mins = q2_k_mins(block);
    scaled_dot_16(block, q2_k_codes, q2_k_scales(block), x, tokens, sum);
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++)
        bias[t] = dot_8(dot_8(vdupq_n_s32(0), mins.low, vld1q_s16(x[t].sums)), mins.high, vld1q_s16(x[t].sums + 8));
}
ALWAYS_INLINE void q3_k_block(const uint8_t *block, const struct activation *x, unsigned tokens, int32x4_t sum[TOKENS],
                              int32x4_t bias[TOKENS]) {
    (void)bias;
    scaled_dot_16(block, q3_k_codes, q3_k_scales(block), x, tokens, sum);
}
ALWAYS_INLINE void q6_k_block(const uint8_t *block, const struct activation *x, unsigned tokens, int32x4_t sum[TOKENS],
                              int32x4_t bias[TOKENS]) {
    (void)bias;
    scaled_dot_16(block, q6_k_codes, q6_k_scales(block), x, tokens, sum);
}
ALWAYS_INLINE void iq4_xs_block(const uint8_t *block, const struct activation *x, unsigned tokens, int32x4_t sum[TOKENS],
                                int32x4_t bias[TOKENS]) {
    (void)bias;
    scaled_dot_32(block, iq4_xs_codes, iq4_xs_scales(block), x, tokens, sum);
}

#define PRODUCT(name, min_offset) STRIP_PRODUCT(name, 256, offsetof(struct block_##name, d), min_offset, 1)
PRODUCT(q2_k, offsetof(struct block_q2_k, dmin))
PRODUCT(q3_k, NO_MIN)
PRODUCT(q4_k, offsetof(struct block_q4_k, dmin))
PRODUCT(q5_k, offsetof(struct block_q5_k, dmin))
PRODUCT(q6_k, NO_MIN)
PRODUCT(iq4_xs, NO_MIN)
