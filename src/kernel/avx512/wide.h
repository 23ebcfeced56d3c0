/*
 * wide: 16 floats as one AVX-512 register: the vocabulary that the bodies in kernel/wide are written in.
 *
 * "first" operations take n, 1 .. 16, and touch only the first n lanes: loads give zeros above, stores and sums leave the rest as it is.
 */
#pragma once

#include "kernel/avx512/simd.h"

#define WIDE_ROWS 4 /* of a float product with several tokens at a time, and these */
#define WIDE_TOKENS 4
#define MANY_ROWS 4 /* for many tokens, with decoded weights */
#define MANY_TOKENS 6
#define MANY_FLOATS 24 /* tokens from which decoding once wins, */
#define MANY_CODES 24  /* and for codes of 8 bits */
#define WIDE_CODES 64  /* codes of 8 bits that become floats together */
#define WIDE_HEADS 4   /* heads, positions and vectors of values of attention at a time */
#define WIDE_VECTORS 4
#define BLOCK_VECTORS 2   /* of queries that share keys, for scores, */
#define BLOCK_POSITIONS 4 /* and keys at a time; */
#define BLOCK_QUERIES 8   /* queries that share values, */
#define BLOCK_VALUES 2    /* and vectors of these at a time */

typedef __m512 wide;
typedef __mmask16 wide_mask;

ALWAYS_INLINE wide wide_zero(void) { return _mm512_setzero_ps(); }
ALWAYS_INLINE wide wide_set(float x) { return _mm512_set1_ps(x); }
ALWAYS_INLINE wide wide_load(const float *x) { return _mm512_loadu_ps(x); }
ALWAYS_INLINE wide wide_load_first(const float *x, unsigned n) { return n == 16 ? wide_load(x) : _mm512_maskz_loadu_ps(first_lanes(n), x); }
ALWAYS_INLINE void wide_store_first(float *y, wide x, unsigned n) {
    if (n == 16)
        _mm512_storeu_ps(y, x);
    else
        _mm512_mask_storeu_ps(y, first_lanes(n), x);
}

ALWAYS_INLINE wide wide_add(wide a, wide b) { return _mm512_add_ps(a, b); }
ALWAYS_INLINE wide wide_sub(wide a, wide b) { return _mm512_sub_ps(a, b); }
ALWAYS_INLINE wide wide_mul(wide a, wide b) { return _mm512_mul_ps(a, b); }
ALWAYS_INLINE wide wide_div(wide a, wide b) { return _mm512_div_ps(a, b); }
ALWAYS_INLINE wide wide_fma(wide a, wide b, wide c) { return _mm512_fmadd_ps(a, b, c); }
ALWAYS_INLINE wide wide_fms(wide a, wide b, wide c) { return _mm512_fmsub_ps(a, b, c); } /* a b - c */
ALWAYS_INLINE wide wide_min(wide a, wide b) { return _mm512_min_ps(a, b); }              /* a < b ? a : b */
ALWAYS_INLINE wide wide_max(wide a, wide b) { return _mm512_max_ps(a, b); }              /* a > b ? a : b */
ALWAYS_INLINE wide wide_abs(wide x) { return _mm512_abs_ps(x); }
ALWAYS_INLINE wide wide_negative_abs(wide x) { return _mm512_or_ps(x, _mm512_set1_ps(-0.0f)); }
ALWAYS_INLINE wide wide_with_sign_of(wide magnitude, wide sign) {
    return _mm512_or_ps(_mm512_andnot_ps(_mm512_set1_ps(-0.0f), magnitude), _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}
ALWAYS_INLINE wide_mask wide_less(wide a, wide b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
ALWAYS_INLINE wide wide_select(wide_mask mask, wide yes, wide no) { return _mm512_mask_mov_ps(no, mask, yes); }
ALWAYS_INLINE wide wide_first(wide first, wide rest, unsigned n) { return _mm512_mask_mov_ps(rest, first_lanes(n), first); }

/* Bit i: lane i is NaN; lane i equals. */
ALWAYS_INLINE unsigned wide_nan_bits(wide x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
ALWAYS_INLINE unsigned wide_equal_bits(wide a, wide b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }

ALWAYS_INLINE float wide_tree(wide x) { return tree16(x); }
ALWAYS_INLINE float wide_largest(wide x) { return _mm512_reduce_max_ps(x); } /* without NaNs */

/* Element i is the tree of vector i. */
ALWAYS_INLINE quad wide_trees_of_4(wide a, wide b, wide c, wide d) {
    const __mmask16 upper = 0xff00, odd = 0xf0f0;                                               /* eights and fours of lanes */
    wide ac = _mm512_add_ps(_mm512_mask_mov_ps(a, upper, c), _mm512_shuffle_f32x4(a, c, 0x4e)); /* eight of a, eight of c */
    wide bd = _mm512_add_ps(_mm512_mask_mov_ps(b, upper, d), _mm512_shuffle_f32x4(b, d, 0x4e));
    wide other = _mm512_mask_mov_ps(bd, odd, ac);
    wide t = _mm512_add_ps(_mm512_mask_mov_ps(ac, odd, bd), _mm512_shuffle_f32x4(other, other, 0xb1)); /* four of each */
    t = _mm512_add_ps(t, _mm512_permute_ps(t, 0x4e));
    t = _mm512_add_ps(t, _mm512_permute_ps(t, 0xb1));
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), t));
}

/* p 2^k in two factors; k is in the low bits of shifted = k + 1.5 2^23. */
ALWAYS_INLINE wide wide_scale_by_power(wide p, wide shifted) {
    const __m512i bias = _mm512_set1_epi32(127);
    __m512i k = _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32(0x4b400000)), half = _mm512_srai_epi32(k, 1);
    __m512i low = _mm512_slli_epi32(_mm512_add_epi32(half, bias), 23);
    __m512i high = _mm512_slli_epi32(_mm512_add_epi32(_mm512_sub_epi32(k, half), bias), 23);
    return _mm512_mul_ps(_mm512_mul_ps(p, _mm512_castsi512_ps(low)), _mm512_castsi512_ps(high));
}

/* ---- other number formats ---- */

ALWAYS_INLINE __m256i load_16_bits(const uint8_t *x, unsigned n) {
    return n == 16 ? load_256(x) : _mm256_maskz_loadu_epi16(first_lanes(n), x);
}
ALWAYS_INLINE __m256i load_8_bits(const uint8_t *x, unsigned n) {
    return _mm256_cvtepu8_epi16(n == 16 ? load_128(x) : _mm_maskz_loadu_epi8(first_lanes(n), x));
}
ALWAYS_INLINE wide wide_load_f16(const uint8_t *x, unsigned n) { return _mm512_cvtph_ps(load_16_bits(x, n)); }
ALWAYS_INLINE wide wide_load_bf16(const uint8_t *x, unsigned n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_16_bits(x, n)), 16));
}
ALWAYS_INLINE wide wide_load_e5m2(const uint8_t *x, unsigned n) { return _mm512_cvtph_ps(_mm256_slli_epi16(load_8_bits(x, n), 8)); }
ALWAYS_INLINE wide wide_load_e4m3(const uint8_t *x, unsigned n) {
    __m128i codes = n == 16 ? load_128(x) : _mm_maskz_loadu_epi8(first_lanes(n), x);
    return _mm512_mul_ps(_mm512_cvtph_ps(halves_of_e4m3(codes)), _mm512_set1_ps(256.0f));
}
/* WIDE_CODES at a time; of e4m3 2^-8 of each. */
ALWAYS_INLINE void wides_of_halves(__m512i even, __m512i odd, wide w[4]) {
    w[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(even));
    w[1] = _mm512_cvtph_ps(_mm512_castsi512_si256(odd));
    w[2] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(even, 1));
    w[3] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(odd, 1));
}
/* As halves_of_e4m3. */
ALWAYS_INLINE void wide_load_small_e4m3(const uint8_t *x, wide w[4]) {
    const __m512i sign = _mm512_set1_epi8((char)0x80); /* and 128 */
    __m512i codes = _mm512_permutex_epi64(load_512(x), 0xd8);
    __m512i signs = _mm512_and_si512(_mm512_add_epi8(codes, _mm512_set1_epi8(1)), sign);
    wides_of_halves(_mm512_maddubs_epi16(sign, _mm512_unpacklo_epi8(codes, signs)),
                    _mm512_maddubs_epi16(sign, _mm512_unpackhi_epi8(codes, signs)), w);
}
ALWAYS_INLINE void wide_load_codes_e5m2(const uint8_t *x, wide w[4]) {
    __m512i codes = _mm512_permutex_epi64(load_512(x), 0xd8), zero = _mm512_setzero_si512();
    wides_of_halves(_mm512_unpacklo_epi8(zero, codes), _mm512_unpackhi_epi8(zero, codes), w);
}
/* 0 is subnormal, 255 is NaN. */
ALWAYS_INLINE wide wide_load_e8m0(const uint8_t *x, unsigned n) {
    __m512i codes = _mm512_cvtepu8_epi32(n == 16 ? load_128(x) : _mm_maskz_loadu_epi8(first_lanes(n), x));
    __m512i bits = _mm512_slli_epi32(codes, 23), half = _mm512_set1_epi32(0x400000);
    __mmask16 ends = _mm512_testn_epi32_mask(_mm512_add_epi32(codes, _mm512_set1_epi32(1)), _mm512_set1_epi32(0xfe));
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, ends, bits, half));
}
ALWAYS_INLINE void wide_store_f16_first(uint16_t *y, wide x, unsigned n) {
    _mm256_mask_storeu_epi16(y, first_lanes(n), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* Rotates `pairs` (1 .. 8) neighbours: (x0 cos - x1 sin, x0 sin + x1 cos), the products with x1 rounded first. */
ALWAYS_INLINE void wide_rotate_pairs(float *x, const float *cos, const float *sin, unsigned pairs) {
    const __m512i cos_first = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    const __m512i sin_first = _mm512_setr_epi32(8, 0, 9, 1, 10, 2, 11, 3, 12, 4, 13, 5, 14, 6, 15, 7);
    __mmask8 mask = (__mmask8)first_lanes(pairs);
    wide both = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_maskz_loadu_ps(mask, cos)), _mm256_maskz_loadu_ps(mask, sin), 1);
    wide v = wide_load_first(x, 2 * pairs);
    wide right = _mm512_mul_ps(_mm512_movehdup_ps(v), _mm512_permutexvar_ps(sin_first, both));
    wide_store_first(x, _mm512_fmaddsub_ps(_mm512_moveldup_ps(v), _mm512_permutexvar_ps(cos_first, both), right), 2 * pairs);
}
