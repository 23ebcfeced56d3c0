/*
 * simd: what the AVX-512 kernels have beside avx2/simd.h: the tree of 16 lanes, tails, sums of integers across wide vectors.
 *
 * Everything is static inline, so that no code compiled with these flags can be taken by the linker for other files.
 */
#pragma once

#include "kernel/avx2/simd.h"

/* Mask of the first `count` lanes, count <= 16. */
ALWAYS_INLINE __mmask16 first_lanes(size_t count) { return (__mmask16)((1u << count) - 1u); }

/* The 16-lane tree: j + (j + 8), + 4, + 2, + 1. */
ALWAYS_INLINE float tree16(__m512 lanes) {
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

ALWAYS_INLINE __m512i interleave_add_32_wide(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
ALWAYS_INLINE __m512i interleave_add_64_wide(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Element i is the sum of the 16 numbers of v[i]. */
ALWAYS_INLINE __m256i sums_of_8_wide(const __m512i v[8]) {
    __m512i low = interleave_add_64_wide(interleave_add_32_wide(v[0], v[1]), interleave_add_32_wide(v[2], v[3]));
    __m512i high = interleave_add_64_wide(interleave_add_32_wide(v[4], v[5]), interleave_add_32_wide(v[6], v[7]));
    __m512i t = _mm512_add_epi32(_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xdd));
    t = _mm512_shuffle_i32x4(t, t, 0xd8);
    return _mm256_add_epi32(_mm512_castsi512_si256(t), _mm512_extracti64x4_epi64(t, 1));
}

/* Elements 2 i and 2 i + 1 are the sums of the lower and upper 8 numbers of v[i]. */
ALWAYS_INLINE __m256i sums_of_4_halves(const __m512i v[4]) {
    __m512i t = interleave_add_64_wide(interleave_add_32_wide(v[0], v[1]), interleave_add_32_wide(v[2], v[3]));
    t = _mm512_add_epi32(_mm512_shuffle_i32x4(t, t, 0x88), _mm512_shuffle_i32x4(t, t, 0xdd));
    return _mm256_permutevar8x32_epi32(_mm512_castsi512_si256(t), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

ALWAYS_INLINE __m512i join_256(__m256i low, __m256i high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
ALWAYS_INLINE __m512i load_512(const void *p) { return _mm512_loadu_si512(p); }
ALWAYS_INLINE __m512i load_twice_256(const void *p) { return _mm512_broadcast_i64x4(load_256(p)); }
/* 64 bits of four; i is known when compiling. */
ALWAYS_INLINE uint64_t quarter(__m256i v, unsigned i) {
    __m128i half = i < 2 ? _mm256_castsi256_si128(v) : _mm256_extracti128_si256(v, 1);
    return (uint64_t)(i % 2 ? _mm_extract_epi64(half, 1) : _mm_cvtsi128_si64(half));
}
