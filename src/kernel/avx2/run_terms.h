/*
 * run_terms: 256-bit pieces of matmul_split_body.inc that AVX2 and AVX-512 share: unpacking codes and scales, the float part of eight
 * terms.
 */
#pragma once

#include <stdbool.h>

#include "dtype/codebooks.h"
#include "dtype/dtype.h"
#include "kernel/avx2/simd.h"

/* Stores 32 codes; with fp4 they are of doubled e2m1 and become bytes 16 above their values. Whole, so that later loads need not wait. */
ALWAYS_INLINE void store_codes(__m256i codes, bool fp4, uint8_t *out) {
    const __m256i table = _mm256_broadcastsi128_si256(_mm_add_epi8(load_128(fp4_doubled_values), _mm_set1_epi8(16)));
    _mm256_storeu_si256((__m256i *)(void *)out, fp4 ? _mm256_shuffle_epi8(table, codes) : codes);
}

/* 16 bytes of nibbles, neighbours in a byte, to 32 bytes. */
ALWAYS_INLINE void spread_nibbles(const uint8_t *codes, bool fp4, uint8_t *out) {
    __m256i words = _mm256_cvtepu8_epi16(load_128(codes));
    store_codes(_mm256_and_si256(_mm256_or_si256(words, _mm256_slli_epi16(words, 4)), _mm256_set1_epi8(15)), fp4, out);
}

/* Two runs of 16 codes of 4-bit floats, each 8 bytes, low nibbles first, to 32 bytes. */
ALWAYS_INLINE void spread_half_nibbles(const uint8_t *codes, uint8_t *out) {
    __m256i twice = _mm256_permute4x64_epi64(_mm256_castsi128_si256(load_128(codes)), 0x50); /* a a b b */
    store_codes(_mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 4, 0, 4)), _mm256_set1_epi8(15)), true, out);
}

/* Eight e4m3 codes as floats: the bits are those of an f16 of 2^-8 the value, NaN apart. */
ALWAYS_INLINE __m256 floats_of_e4m3(__m128i bytes) {
    __m128i bits = _mm_cvtepu8_epi16(bytes), magnitude = _mm_and_si128(bits, _mm_set1_epi16(0x7f));
    __m128i half = _mm_or_si128(_mm_slli_epi16(magnitude, 7), _mm_slli_epi16(_mm_and_si128(bits, _mm_set1_epi16(0x80)), 8));
    half = _mm_blendv_epi8(half, _mm_set1_epi16(0x7e00), _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f)));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f));
}

/* Eight e8m0 codes as floats. */
ALWAYS_INLINE __m256 floats_of_e8m0(__m128i bytes) {
    __m256i e = _mm256_cvtepu8_epi32(bytes), bits = _mm256_slli_epi32(e, 23);
    bits = _mm256_blendv_epi8(bits, _mm256_set1_epi32(0x00400000), _mm256_cmpeq_epi32(e, _mm256_setzero_si256()));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fc00000), _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255))));
}

/* Eight neighbouring scales; dtype is one that scale_read knows. */
ALWAYS_INLINE void read_8_scales(enum dtype dtype, const uint8_t *scales, float out[8]) {
    __m256 x;
    if (dtype == DTYPE_F32)
        x = _mm256_loadu_ps((const float *)(const void *)scales);
    else if (dtype == DTYPE_F16)
        x = _mm256_cvtph_ps(load_128(scales));
    else if (dtype == DTYPE_BF16)
        x = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(scales)), 16));
    else if (dtype == DTYPE_F8_E4M3)
        x = floats_of_e4m3(_mm_loadl_epi64((const __m128i *)(const void *)scales));
    else
        x = floats_of_e8m0(_mm_loadl_epi64((const __m128i *)(const void *)scales));
    _mm256_storeu_ps(out, x);
}

/* Sums over eight runs of 16, 32, 64 or 128 activations from sums over 16. */
ALWAYS_INLINE __m256i sums_of_runs(const int16_t *sums, unsigned run) {
    const __m256i ones = _mm256_set1_epi16(1);
    if (run == 16)
        return _mm256_cvtepi16_epi32(load_128(sums));
    __m256i a = _mm256_madd_epi16(load_256(sums), ones);
    if (run == 32)
        return a;
    a = _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, _mm256_madd_epi16(load_256(sums + 16), ones)), 0xd8);
    if (run == 64)
        return a;
    __m256i b = _mm256_hadd_epi32(_mm256_madd_epi16(load_256(sums + 32), ones), _mm256_madd_epi16(load_256(sums + 48), ones));
    return _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, _mm256_permute4x64_epi64(b, 0xd8)), 0xd8);
}

/* sum -= zero point * sum of the activations, run by run. */
ALWAYS_INLINE void take_off_zeros(int32_t sum[8], const int32_t zeros[8], const int16_t *q_sums, unsigned run) {
    __m256i left = _mm256_sub_epi32(load_256(sum), _mm256_mullo_epi32(load_256(zeros), sums_of_runs(q_sums, run)));
    _mm256_storeu_si256((__m256i *)(void *)sum, left);
}

/* Adds the terms of eight runs to their lanes; runs_per_scale: runs that share an activation scale, 1 or 4. */
ALWAYS_INLINE void add_8_terms(float lane[8], const float d[8], const float m[8], const int32_t sum[8], const int16_t *q_sums,
                               const float *scales, unsigned run, unsigned runs_per_scale, int offset, bool has_bias) {
    __m256 total = _mm256_loadu_ps(lane);
    __m256 scale = runs_per_scale == 1 ? _mm256_loadu_ps(scales) : _mm256_setr_m128(_mm_set1_ps(scales[0]), _mm_set1_ps(scales[1]));
    __m256i dots = load_256(sum), q_sum = offset || has_bias ? sums_of_runs(q_sums, run) : _mm256_setzero_si256();
    if (offset)
        dots = _mm256_sub_epi32(dots, _mm256_mullo_epi32(q_sum, _mm256_set1_epi32(offset)));
    total = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_loadu_ps(d), scale), _mm256_cvtepi32_ps(dots), total);
    if (has_bias)
        total = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_loadu_ps(m), scale), _mm256_cvtepi32_ps(q_sum), total);
    _mm256_storeu_ps(lane, total);
}
