/*
 * simd: what the AVX-512 kernels share: lane trees, tails, sums of integers across vectors.
 *
 * Everything is static inline, so that no code compiled with these flags can be taken by the linker for other files.
 */
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Mask of the first `count` lanes, count <= 16. */
ALWAYS_INLINE __mmask16 first_lanes(size_t count) { return (__mmask16)((1u << count) - 1u); }

/* The 16-lane tree: j + (j + 8), + 4, + 2, + 1. */
ALWAYS_INLINE float tree16(__m512 lanes) {
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* The 8-lane tree: j + (j + 4), + 2, + 1. */
ALWAYS_INLINE float tree8(__m256 lanes) {
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

ALWAYS_INLINE __m512i interleave_add_32(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
ALWAYS_INLINE __m512i interleave_add_64(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Element i is the sum of the 16 numbers of v[i]. */
ALWAYS_INLINE __m256i sums_of_8(const __m512i v[8]) {
    __m512i low = interleave_add_64(interleave_add_32(v[0], v[1]), interleave_add_32(v[2], v[3]));
    __m512i high = interleave_add_64(interleave_add_32(v[4], v[5]), interleave_add_32(v[6], v[7]));
    __m512i t = _mm512_add_epi32(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xdd));
    t = _mm512_shuffle_i32x4(t, t, 0xd8);
    return _mm256_add_epi32(_mm512_castsi512_si256(t), _mm512_extracti64x4_epi64(t, 1));
}

/* Elements 2 i and 2 i + 1 are the sums of the lower and upper 8 numbers of v[i]. */
ALWAYS_INLINE __m256i sums_of_4_halves(const __m512i v[4]) {
    __m512i t = interleave_add_64(interleave_add_32(v[0], v[1]), interleave_add_32(v[2], v[3]));
    t = _mm512_add_epi32(_mm512_shuffle_i32x4(t, t, 0x88), _mm512_shuffle_i32x4(t, t, 0xdd));
    return _mm256_permutevar8x32_epi32(_mm512_castsi512_si256(t), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Element i is the sum of the 8 numbers of v[i]. */
ALWAYS_INLINE __m256i sums_of_8_narrow(const __m256i v[8]) {
    __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

ALWAYS_INLINE __m512i join_256(__m256i low, __m256i high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
ALWAYS_INLINE __m256i load_256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
ALWAYS_INLINE __m512i load_512(const void *p) { return _mm512_loadu_si512(p); }
ALWAYS_INLINE __m512i load_twice_256(const void *p) { return _mm512_broadcast_i64x4(load_256(p)); }
ALWAYS_INLINE __m128i load_128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
ALWAYS_INLINE uint16_t load_u16(const void *p) {
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}
ALWAYS_INLINE uint32_t load_u32(const void *p) {
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}
ALWAYS_INLINE float fused_multiply_add(float a, float b, float c) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}
