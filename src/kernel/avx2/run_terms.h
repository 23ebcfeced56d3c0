/*
 * run_terms: scales and sums of eight runs as 256-bit vectors, which AVX2 and AVX-512 share.
 */
#pragma once

#include <stdbool.h>

#include "dtype/codebooks.h"
#include "dtype/dtype.h"
#include "kernel/avx2/simd.h"

/* Eight e4m3 codes as floats. */
ALWAYS_INLINE __m256 floats_of_e4m3(__m128i codes) {
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(halves_of_e4m3(codes))), _mm256_set1_ps(256.0f));
}

/* Eight neighbouring scales; dtype is one that scale_read knows. */
ALWAYS_INLINE __m256 load_8_scales(enum dtype dtype, const uint8_t *scales) {
    if (dtype == DTYPE_F32)
        return _mm256_loadu_ps((const float *)(const void *)scales);
    if (dtype == DTYPE_F16)
        return _mm256_cvtph_ps(load_128(scales));
    if (dtype == DTYPE_BF16)
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(scales)), 16));
    __m128i codes = _mm_loadl_epi64((const __m128i *)(const void *)scales);
    return dtype == DTYPE_F8_E4M3 ? floats_of_e4m3(codes) : floats_of_e8m0(codes);
}
ALWAYS_INLINE void read_8_scales(enum dtype dtype, const uint8_t *scales, float out[8]) {
    _mm256_storeu_ps(out, load_8_scales(dtype, scales));
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
