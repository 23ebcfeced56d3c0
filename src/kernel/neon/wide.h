/*
 * wide: 16 floats as four NEON registers: the vocabulary that the bodies in kernel/wide are written in.
 *
 * "first" operations take n, 1 .. 16, and touch only the first n lanes: loads give zeros above, stores and sums leave the rest as it is.
 */
#pragma once

#include "kernel/neon/simd.h"

#define WIDE_ROWS 2 /* of a float product with several tokens at a time, and these */
#define WIDE_TOKENS 2
#define MANY_ROWS 2 /* for many tokens, with decoded weights */
#define MANY_TOKENS 3
#define MANY_FLOATS 16 /* tokens from which decoding once wins, */
#define MANY_CODES 12  /* and for codes of 8 bits */
#define WIDE_CODES 16  /* codes of 8 bits that become floats together */
#define WIDE_HEADS 1   /* heads, positions and vectors of values of attention at a time */
#define WIDE_VECTORS 4
#define BLOCK_VECTORS 1   /* of queries that share keys, for scores, */
#define BLOCK_POSITIONS 2 /* and keys at a time; */
#define BLOCK_QUERIES 4   /* queries that share values, */
#define BLOCK_VALUES 1    /* and vectors of these at a time */

typedef struct {
    float32x4_t a, b, c, d;
} wide;
typedef struct {
    uint32x4_t a, b, c, d;
} wide_mask;

#define WIDE_UNARY(name, operation) \
    ALWAYS_INLINE wide name(wide x) { return (wide){operation(x.a), operation(x.b), operation(x.c), operation(x.d)}; }
#define WIDE_BINARY(name, operation)                                                                       \
    ALWAYS_INLINE wide name(wide x, wide y) {                                                              \
        return (wide){operation(x.a, y.a), operation(x.b, y.b), operation(x.c, y.c), operation(x.d, y.d)}; \
    }
#define WIDE_COMPARE(name, operation)                                                                           \
    ALWAYS_INLINE wide_mask name(wide x, wide y) {                                                              \
        return (wide_mask){operation(x.a, y.a), operation(x.b, y.b), operation(x.c, y.c), operation(x.d, y.d)}; \
    }

ALWAYS_INLINE wide wide_set(float x) { return (wide){vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x)}; }
ALWAYS_INLINE wide wide_zero(void) { return wide_set(0.0f); }
ALWAYS_INLINE wide wide_load(const float *x) { return (wide){vld1q_f32(x), vld1q_f32(x + 4), vld1q_f32(x + 8), vld1q_f32(x + 12)}; }
ALWAYS_INLINE wide wide_load_first(const float *x, unsigned n) {
    if (n == 16)
        return wide_load(x);
    float padded[16] = {0};
    memcpy(padded, x, n * sizeof *x);
    return wide_load(padded);
}
ALWAYS_INLINE void wide_store_first(float *y, wide x, unsigned n) {
    float padded[16];
    float *to = n == 16 ? y : padded;
    vst1q_f32(to, x.a);
    vst1q_f32(to + 4, x.b);
    vst1q_f32(to + 8, x.c);
    vst1q_f32(to + 12, x.d);
    if (n < 16)
        memcpy(y, padded, n * sizeof *y);
}

ALWAYS_INLINE float32x4_t smaller(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
ALWAYS_INLINE float32x4_t larger(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
ALWAYS_INLINE float32x4_t negative(float32x4_t x) { return vnegq_f32(vabsq_f32(x)); }
ALWAYS_INLINE float32x4_t with_sign_of(float32x4_t magnitude, float32x4_t sign) {
    return vbslq_f32(vdupq_n_u32(0x80000000u), sign, magnitude);
}

WIDE_BINARY(wide_add, vaddq_f32)
WIDE_BINARY(wide_sub, vsubq_f32)
WIDE_BINARY(wide_mul, vmulq_f32)
WIDE_BINARY(wide_div, vdivq_f32)
WIDE_BINARY(wide_min, smaller) /* a < b ? a : b */
WIDE_BINARY(wide_max, larger)  /* a > b ? a : b */
WIDE_BINARY(wide_with_sign_of, with_sign_of)
WIDE_UNARY(wide_abs, vabsq_f32)
WIDE_UNARY(wide_negative_abs, negative)
WIDE_COMPARE(wide_less, vcltq_f32)
WIDE_COMPARE(wide_equal, vceqq_f32)
ALWAYS_INLINE wide wide_fma(wide x, wide y, wide z) {
    return (wide){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d)};
}
/* x y - z */
ALWAYS_INLINE wide wide_fms(wide x, wide y, wide z) {
    return wide_fma(x, y, (wide){vnegq_f32(z.a), vnegq_f32(z.b), vnegq_f32(z.c), vnegq_f32(z.d)});
}
ALWAYS_INLINE wide wide_select(wide_mask mask, wide yes, wide no) {
    return (wide){vbslq_f32(mask.a, yes.a, no.a), vbslq_f32(mask.b, yes.b, no.b), vbslq_f32(mask.c, yes.c, no.c),
                  vbslq_f32(mask.d, yes.d, no.d)};
}
ALWAYS_INLINE wide wide_first(wide first, wide rest, unsigned n) {
    static const uint32_t lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (n == 16)
        return first;
    uint32x4_t count = vdupq_n_u32(n);
    return wide_select((wide_mask){vcltq_u32(vld1q_u32(lane), count), vcltq_u32(vld1q_u32(lane + 4), count),
                                   vcltq_u32(vld1q_u32(lane + 8), count), vcltq_u32(vld1q_u32(lane + 12), count)},
                       first, rest);
}

/* Bit i: lane i is NaN; lane i equals. */
ALWAYS_INLINE unsigned wide_bits(wide_mask mask) {
    static const uint32_t bits[4] = {1, 2, 4, 8};
    uint32x4_t bit = vld1q_u32(bits);
    return vaddvq_u32(vandq_u32(mask.a, bit)) | vaddvq_u32(vandq_u32(mask.b, bit)) << 4 | vaddvq_u32(vandq_u32(mask.c, bit)) << 8 |
           vaddvq_u32(vandq_u32(mask.d, bit)) << 12;
}
ALWAYS_INLINE unsigned wide_equal_bits(wide a, wide b) { return wide_bits(wide_equal(a, b)); }
ALWAYS_INLINE unsigned wide_nan_bits(wide x) { return ~wide_equal_bits(x, x) & 0xffffu; }

/* The 16-lane tree down to four lanes: j + (j + 8), + 4. */
ALWAYS_INLINE float32x4_t four_of_16(wide x) { return vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d)); }
ALWAYS_INLINE float wide_tree(wide x) {
    float32x4_t t = four_of_16(x);
    return vpadds_f32(vadd_f32(vget_low_f32(t), vget_high_f32(t)));
}
ALWAYS_INLINE float wide_largest(wide x) { /* without NaNs */
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.a, x.b), vmaxq_f32(x.c, x.d)));
}

/* j + (j + 2) of two vectors of four lanes. */
ALWAYS_INLINE float32x4_t two_and_two(float32x4_t a, float32x4_t b) {
    return vaddq_f32(vcombine_f32(vget_low_f32(a), vget_low_f32(b)), vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
}
/* Element i is the tree of vector i. */
ALWAYS_INLINE quad wide_trees_of_4(wide a, wide b, wide c, wide d) {
    return vpaddq_f32(two_and_two(four_of_16(a), four_of_16(b)), two_and_two(four_of_16(c), four_of_16(d)));
}

/* p 2^k in two factors; k is in the low bits of shifted = k + 1.5 2^23. */
ALWAYS_INLINE float32x4_t scale_by_power(float32x4_t p, float32x4_t shifted) {
    const int32x4_t bias = vdupq_n_s32(127);
    int32x4_t k = vsubq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32(0x4b400000)), half = vshrq_n_s32(k, 1);
    int32x4_t low = vshlq_n_s32(vaddq_s32(half, bias), 23), high = vshlq_n_s32(vaddq_s32(vsubq_s32(k, half), bias), 23);
    return vmulq_f32(vmulq_f32(p, vreinterpretq_f32_s32(low)), vreinterpretq_f32_s32(high));
}
WIDE_BINARY(wide_scale_by_power, scale_by_power)

/* ---- other number formats ---- */

/* n items of item_bytes at x, zeros above; `padded` holds them where fewer than 16 are there. */
ALWAYS_INLINE const uint8_t *whole_or_padded(const uint8_t *x, unsigned n, size_t item_bytes, uint8_t padded[32]) {
    if (n == 16)
        return x;
    memset(padded, 0, 32);
    memcpy(padded, x, n * item_bytes);
    return padded;
}

ALWAYS_INLINE wide wide_from_halves(uint16x8_t low, uint16x8_t high) {
    return (wide){floats_of_f16(vget_low_u16(low)), floats_of_f16(vget_high_u16(low)), floats_of_f16(vget_low_u16(high)),
                  floats_of_f16(vget_high_u16(high))};
}
ALWAYS_INLINE wide wide_load_f16(const uint8_t *x, unsigned n) {
    uint8_t padded[32];
    const uint8_t *p = whole_or_padded(x, n, 2, padded);
    return wide_from_halves(vreinterpretq_u16_u8(vld1q_u8(p)), vreinterpretq_u16_u8(vld1q_u8(p + 16)));
}
ALWAYS_INLINE float32x4_t floats_of_bf16(uint16x4_t x) { return vreinterpretq_f32_u32(vshll_n_u16(x, 16)); }
ALWAYS_INLINE wide wide_load_bf16(const uint8_t *x, unsigned n) {
    uint8_t padded[32];
    const uint8_t *p = whole_or_padded(x, n, 2, padded);
    uint16x8_t low = vreinterpretq_u16_u8(vld1q_u8(p)), high = vreinterpretq_u16_u8(vld1q_u8(p + 16));
    return (wide){floats_of_bf16(vget_low_u16(low)), floats_of_bf16(vget_high_u16(low)), floats_of_bf16(vget_low_u16(high)),
                  floats_of_bf16(vget_high_u16(high))};
}
ALWAYS_INLINE wide wide_load_e5m2(const uint8_t *x, unsigned n) {
    uint8_t padded[32];
    uint8x16_t bytes = vld1q_u8(whole_or_padded(x, n, 1, padded));
    return wide_from_halves(vshll_n_u8(vget_low_u8(bytes), 8), vshll_high_n_u8(bytes, 8));
}
/*
 * The bits of e4m3 are those of an f16 of 2^-8 the value, but for NaNs: codes that one more would give another sign, and bits that all
 * are set. So the code and the sign of one more, as signed bytes, are added and shifted: -1, a NaN, where it was one.
 */
ALWAYS_INLINE uint16x8_t halves_of_e4m3(uint8x8_t codes) {
    uint8x8_t signs = vand_u8(vadd_u8(codes, vdup_n_u8(1)), vdup_n_u8(0x80));
    return vreinterpretq_u16_s16(vshlq_n_s16(vaddl_s8(vreinterpret_s8_u8(codes), vreinterpret_s8_u8(signs)), 7));
}
ALWAYS_INLINE wide wide_of_small_e4m3(uint8x16_t codes) {
    return wide_from_halves(halves_of_e4m3(vget_low_u8(codes)), halves_of_e4m3(vget_high_u8(codes)));
}
ALWAYS_INLINE wide wide_load_e4m3(const uint8_t *x, unsigned n) {
    uint8_t padded[32];
    return wide_mul(wide_of_small_e4m3(vld1q_u8(whole_or_padded(x, n, 1, padded))), wide_set(256.0f));
}
/* WIDE_CODES at a time; of e4m3 2^-8 of each. */
ALWAYS_INLINE void wide_load_small_e4m3(const uint8_t *x, wide w[1]) { w[0] = wide_of_small_e4m3(vld1q_u8(x)); }
ALWAYS_INLINE void wide_load_codes_e5m2(const uint8_t *x, wide w[1]) { w[0] = wide_load_e5m2(x, 16); }
/* Four e8m0 codes as floats. */
ALWAYS_INLINE float32x4_t floats_of_e8m0(uint16x4_t codes) {
    uint32x4_t e = vmovl_u16(codes), bits = vshlq_n_u32(e, 23);
    bits = vbslq_u32(vceqq_u32(e, vdupq_n_u32(0)), vdupq_n_u32(0x00400000), bits);
    return vreinterpretq_f32_u32(vbslq_u32(vceqq_u32(e, vdupq_n_u32(255)), vdupq_n_u32(0x7fc00000), bits));
}
ALWAYS_INLINE wide wide_load_e8m0(const uint8_t *x, unsigned n) {
    uint8_t padded[32];
    uint8x16_t bytes = vld1q_u8(whole_or_padded(x, n, 1, padded));
    uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
    return (wide){floats_of_e8m0(vget_low_u16(low)), floats_of_e8m0(vget_high_u16(low)), floats_of_e8m0(vget_low_u16(high)),
                  floats_of_e8m0(vget_high_u16(high))};
}
ALWAYS_INLINE void wide_store_f16_first(uint16_t *y, wide x, unsigned n) {
    uint16_t halves[16];
    uint16_t *to = n == 16 ? y : halves;
    vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(x.a)));
    vst1_u16(to + 4, vreinterpret_u16_f16(vcvt_f16_f32(x.b)));
    vst1_u16(to + 8, vreinterpret_u16_f16(vcvt_f16_f32(x.c)));
    vst1_u16(to + 12, vreinterpret_u16_f16(vcvt_f16_f32(x.d)));
    if (n < 16)
        memcpy(y, halves, n * sizeof *y);
}

/* Rotates `pairs` (1 .. 8) neighbours: (x0 cos - x1 sin, x0 sin + x1 cos), the products with x1 rounded first. */
ALWAYS_INLINE void wide_rotate_pairs(float *x, const float *cos, const float *sin, unsigned pairs) {
    float v[16] = {0}, c[8] = {0}, s[8] = {0};
    memcpy(v, x, 2 * pairs * sizeof *x);
    memcpy(c, cos, pairs * sizeof *c);
    memcpy(s, sin, pairs * sizeof *s);
    for (unsigned i = 0; i < 8; i += 4) {
        float32x4x2_t in = vld2q_f32(v + 2 * i), out;
        float32x4_t cos4 = vld1q_f32(c + i), sin4 = vld1q_f32(s + i);
        out.val[0] = vfmaq_f32(vnegq_f32(vmulq_f32(in.val[1], sin4)), in.val[0], cos4);
        out.val[1] = vfmaq_f32(vmulq_f32(in.val[1], cos4), in.val[0], sin4);
        vst2q_f32(v + 2 * i, out);
    }
    memcpy(x, v, 2 * pairs * sizeof *x);
}
