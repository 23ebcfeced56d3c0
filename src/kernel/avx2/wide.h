/*
 * wide: 16 floats as two AVX2 registers: the vocabulary that the bodies in kernel/wide are written in.
 *
 * "first" operations take n, 1 .. 16, and touch only the first n lanes: loads give zeros above, stores and sums leave the rest as it is.
 */
#pragma once

#include "kernel/avx2/simd.h"

#define WIDE_ROWS 2 /* of a float product with several tokens at a time, and these */
#define WIDE_TOKENS 3
#define MANY_ROWS 2 /* for many tokens, with decoded weights */
#define MANY_TOKENS 3
#define MANY_FLOATS 24 /* tokens from which decoding once wins, */
#define MANY_CODES 12  /* and for codes of 8 bits */
#define WIDE_CODES 32  /* codes of 8 bits that become floats together */
#define WIDE_HEADS 2   /* heads, positions and vectors of values of attention at a time */
#define WIDE_VECTORS 2
#define BLOCK_VECTORS 1   /* of queries that share keys, for scores, */
#define BLOCK_POSITIONS 4 /* and keys at a time; */
#define BLOCK_QUERIES 4   /* queries that share values, */
#define BLOCK_VALUES 1    /* and vectors of these at a time */

typedef struct {
    __m256 low, high;
} wide;
typedef wide wide_mask;

#define WIDE_BINARY(name, operation) \
    ALWAYS_INLINE wide name(wide a, wide b) { return (wide){operation(a.low, b.low), operation(a.high, b.high)}; }

/* Lanes from `begin` on of a mask of the first n lanes. */
ALWAYS_INLINE __m256i mask_of_first(unsigned n, int begin) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n),
                              _mm256_add_epi32(_mm256_set1_epi32(begin), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
}

ALWAYS_INLINE wide wide_zero(void) { return (wide){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
ALWAYS_INLINE wide wide_set(float x) { return (wide){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
ALWAYS_INLINE wide wide_load(const float *x) { return (wide){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
ALWAYS_INLINE wide wide_load_first(const float *x, unsigned n) {
    if (n == 16)
        return wide_load(x);
    return (wide){_mm256_maskload_ps(x, mask_of_first(n, 0)), _mm256_maskload_ps(x + 8, mask_of_first(n, 8))};
}
ALWAYS_INLINE void wide_store_first(float *y, wide x, unsigned n) {
    if (n == 16) {
        _mm256_storeu_ps(y, x.low);
        _mm256_storeu_ps(y + 8, x.high);
    } else {
        _mm256_maskstore_ps(y, mask_of_first(n, 0), x.low);
        _mm256_maskstore_ps(y + 8, mask_of_first(n, 8), x.high);
    }
}

WIDE_BINARY(wide_add, _mm256_add_ps)
WIDE_BINARY(wide_sub, _mm256_sub_ps)
WIDE_BINARY(wide_mul, _mm256_mul_ps)
WIDE_BINARY(wide_div, _mm256_div_ps)
WIDE_BINARY(wide_min, _mm256_min_ps) /* a < b ? a : b */
WIDE_BINARY(wide_max, _mm256_max_ps) /* a > b ? a : b */
ALWAYS_INLINE wide wide_fma(wide a, wide b, wide c) {
    return (wide){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
/* a b - c */
ALWAYS_INLINE wide wide_fms(wide a, wide b, wide c) {
    return (wide){_mm256_fmsub_ps(a.low, b.low, c.low), _mm256_fmsub_ps(a.high, b.high, c.high)};
}

#define SIGN_BITS _mm256_set1_ps(-0.0f)
ALWAYS_INLINE wide wide_abs(wide x) { return (wide){_mm256_andnot_ps(SIGN_BITS, x.low), _mm256_andnot_ps(SIGN_BITS, x.high)}; }
ALWAYS_INLINE wide wide_negative_abs(wide x) { return (wide){_mm256_or_ps(SIGN_BITS, x.low), _mm256_or_ps(SIGN_BITS, x.high)}; }
ALWAYS_INLINE wide wide_with_sign_of(wide magnitude, wide sign) {
    wide m = wide_abs(magnitude);
    return (wide){_mm256_or_ps(m.low, _mm256_and_ps(SIGN_BITS, sign.low)), _mm256_or_ps(m.high, _mm256_and_ps(SIGN_BITS, sign.high))};
}
ALWAYS_INLINE wide_mask wide_less(wide a, wide b) {
    return (wide){_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)};
}
ALWAYS_INLINE wide wide_select(wide_mask mask, wide yes, wide no) {
    return (wide){_mm256_blendv_ps(no.low, yes.low, mask.low), _mm256_blendv_ps(no.high, yes.high, mask.high)};
}
ALWAYS_INLINE wide wide_first(wide first, wide rest, unsigned n) {
    if (n == 16)
        return first;
    return wide_select((wide){_mm256_castsi256_ps(mask_of_first(n, 0)), _mm256_castsi256_ps(mask_of_first(n, 8))}, first, rest);
}

/* Bit i: lane i is NaN; lane i equals. */
ALWAYS_INLINE unsigned wide_bits(wide_mask mask) {
    return (unsigned)_mm256_movemask_ps(mask.low) | (unsigned)_mm256_movemask_ps(mask.high) << 8;
}
ALWAYS_INLINE unsigned wide_nan_bits(wide x) {
    return wide_bits((wide){_mm256_cmp_ps(x.low, x.low, _CMP_UNORD_Q), _mm256_cmp_ps(x.high, x.high, _CMP_UNORD_Q)});
}
ALWAYS_INLINE unsigned wide_equal_bits(wide a, wide b) {
    return wide_bits((wide){_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ)});
}

ALWAYS_INLINE float wide_tree(wide x) { return tree8(_mm256_add_ps(x.low, x.high)); }
ALWAYS_INLINE float wide_largest(wide x) { /* without NaNs */
    __m256 a = _mm256_max_ps(x.low, x.high);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* Element i is the tree of vector i. */
ALWAYS_INLINE quad wide_trees_of_4(wide a, wide b, wide c, wide d) {
    __m256 a8 = _mm256_add_ps(a.low, a.high), b8 = _mm256_add_ps(b.low, b.high), c8 = _mm256_add_ps(c.low, c.high),
           d8 = _mm256_add_ps(d.low, d.high);
    __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a8, b8, 0x20), _mm256_permute2f128_ps(a8, b8, 0x31)); /* [a | b], 4 lanes each */
    __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c8, d8, 0x20), _mm256_permute2f128_ps(c8, d8, 0x31));
    __m256 t = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee)); /* [a a c c | b b d d] */
    t = _mm256_add_ps(t, _mm256_permute_ps(t, 0xb1));
    return _mm_unpacklo_ps(_mm_permute_ps(_mm256_castps256_ps128(t), 0x08), _mm_permute_ps(_mm256_extractf128_ps(t, 1), 0x08));
}

/* p 2^k in two factors; k is in the low bits of shifted = k + 1.5 2^23. */
ALWAYS_INLINE __m256 scale_by_power(__m256 p, __m256 shifted) {
    const __m256i bias = _mm256_set1_epi32(127);
    __m256i k = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000)), half = _mm256_srai_epi32(k, 1);
    __m256i low = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i high = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(k, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(low)), _mm256_castsi256_ps(high));
}
ALWAYS_INLINE wide wide_scale_by_power(wide p, wide shifted) {
    return (wide){scale_by_power(p.low, shifted.low), scale_by_power(p.high, shifted.high)};
}

/* ---- other number formats ---- */

/* n items of item_bytes at x, zeros above; `padded` holds them where fewer than 16 are there. */
ALWAYS_INLINE const uint8_t *whole_or_padded(const uint8_t *x, unsigned n, size_t item_bytes, uint8_t padded[32]) {
    if (n == 16)
        return x;
    memset(padded, 0, 32);
    memcpy(padded, x, n * item_bytes);
    return padded;
}

ALWAYS_INLINE wide wide_from_halves(__m128i low, __m128i high) { return (wide){_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)}; }
ALWAYS_INLINE wide wide_load_f16(const uint8_t *x, unsigned n) {
    uint8_t padded[32];
    const uint8_t *p = whole_or_padded(x, n, 2, padded);
    return wide_from_halves(load_128(p), load_128(p + 16));
}
ALWAYS_INLINE __m256 floats_of_bf16(__m128i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)); }
ALWAYS_INLINE wide wide_load_bf16(const uint8_t *x, unsigned n) {
    uint8_t padded[32];
    const uint8_t *p = whole_or_padded(x, n, 2, padded);
    return (wide){floats_of_bf16(load_128(p)), floats_of_bf16(load_128(p + 16))};
}
ALWAYS_INLINE wide wide_load_e5m2(const uint8_t *x, unsigned n) {
    uint8_t padded[32];
    __m128i bytes = load_128(whole_or_padded(x, n, 1, padded)), zero = _mm_setzero_si128();
    return wide_from_halves(_mm_unpacklo_epi8(zero, bytes), _mm_unpackhi_epi8(zero, bytes));
}
ALWAYS_INLINE wide wide_of_halves(__m256i halves) {
    return wide_from_halves(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}
ALWAYS_INLINE wide wide_load_e4m3(const uint8_t *x, unsigned n) {
    uint8_t padded[32];
    return wide_mul(wide_of_halves(halves_of_e4m3(load_128(whole_or_padded(x, n, 1, padded)))), wide_set(256.0f));
}
/* WIDE_CODES at a time; of e4m3, as halves_of_e4m3, 2^-8 of each. */
ALWAYS_INLINE void wide_load_small_e4m3(const uint8_t *x, wide w[2]) {
    const __m256i sign = _mm256_set1_epi8((char)0x80); /* and 128 */
    __m256i codes = _mm256_permute4x64_epi64(load_256(x), 0xd8);
    __m256i signs = _mm256_and_si256(_mm256_add_epi8(codes, _mm256_set1_epi8(1)), sign);
    w[0] = wide_of_halves(_mm256_maddubs_epi16(sign, _mm256_unpacklo_epi8(codes, signs)));
    w[1] = wide_of_halves(_mm256_maddubs_epi16(sign, _mm256_unpackhi_epi8(codes, signs)));
}
ALWAYS_INLINE void wide_load_codes_e5m2(const uint8_t *x, wide w[2]) {
    w[0] = wide_load_e5m2(x, 16);
    w[1] = wide_load_e5m2(x + 16, 16);
}
ALWAYS_INLINE wide wide_load_e8m0(const uint8_t *x, unsigned n) {
    uint8_t padded[32];
    __m128i codes = load_128(whole_or_padded(x, n, 1, padded));
    return (wide){floats_of_e8m0(codes), floats_of_e8m0(_mm_unpackhi_epi64(codes, codes))};
}
ALWAYS_INLINE void wide_store_f16_first(uint16_t *y, wide x, unsigned n) {
    uint16_t halves[16];
    uint16_t *to = n == 16 ? y : halves;
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(x.low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(to + 8), _mm256_cvtps_ph(x.high, _MM_FROUND_TO_NEAREST_INT));
    if (n < 16)
        memcpy(y, halves, n * sizeof *y);
}

/* Rotates 4 neighbours in v: (x0 cos - x1 sin, x0 sin + x1 cos), the products with x1 rounded first. */
ALWAYS_INLINE __m256 rotate_4_pairs(__m256 v, __m128 cos, __m128 sin) {
    __m256 cos_sin = _mm256_setr_m128(_mm_unpacklo_ps(cos, sin), _mm_unpackhi_ps(cos, sin));
    __m256 right = _mm256_mul_ps(_mm256_movehdup_ps(v), _mm256_permute_ps(cos_sin, 0xb1));
    return _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), cos_sin, right);
}
ALWAYS_INLINE void wide_rotate_pairs(float *x, const float *cos, const float *sin, unsigned pairs) {
    __m256i mask = mask_of_first(pairs, 0);
    __m256 c = _mm256_maskload_ps(cos, mask), s = _mm256_maskload_ps(sin, mask);
    wide v = wide_load_first(x, 2 * pairs);
    v.low = rotate_4_pairs(v.low, _mm256_castps256_ps128(c), _mm256_castps256_ps128(s));
    v.high = rotate_4_pairs(v.high, _mm256_extractf128_ps(c, 1), _mm256_extractf128_ps(s, 1));
    wide_store_first(x, v, 2 * pairs);
}
