/*
 * octets: eight numbers of 32 bits, as one vector: the vocabulary of matmul_packed_body.inc.
 */
#pragma once

#include "kernel/avx2/simd.h"

#define CODES_OF_8_BITS_LESS 0 /* what dot_4 takes off codes of 8 bits */

typedef __m256i ints_8; /* or 32 bytes */
typedef __m256 floats_8;

ALWAYS_INLINE ints_8 ints_load(const void *p) { return load_256(p); }
ALWAYS_INLINE void ints_store(int32_t *p, ints_8 x) { _mm256_storeu_si256((__m256i *)(void *)p, x); }
ALWAYS_INLINE ints_8 ints_set(int32_t x) { return _mm256_set1_epi32(x); }
ALWAYS_INLINE ints_8 ints_of_bytes(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)); }
ALWAYS_INLINE ints_8 ints_add(ints_8 a, ints_8 b) { return _mm256_add_epi32(a, b); }
ALWAYS_INLINE ints_8 ints_and(ints_8 a, ints_8 b) { return _mm256_and_si256(a, b); }
ALWAYS_INLINE ints_8 ints_shift_down(ints_8 x, ints_8 by) { return _mm256_srlv_epi32(x, by); }
/* c - a b */
ALWAYS_INLINE ints_8 ints_less_product(ints_8 c, ints_8 a, ints_8 b) { return _mm256_sub_epi32(c, _mm256_mullo_epi32(a, b)); }
ALWAYS_INLINE ints_8 low_nibbles(ints_8 bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }
ALWAYS_INLINE ints_8 high_nibbles(ints_8 bytes) { return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15)); }

ALWAYS_INLINE floats_8 floats_load(const float *p) { return _mm256_loadu_ps(p); }
ALWAYS_INLINE void floats_store(float *p, floats_8 x) { _mm256_storeu_ps(p, x); }
ALWAYS_INLINE floats_8 floats_set(float x) { return _mm256_set1_ps(x); }
ALWAYS_INLINE floats_8 floats_of_ints(ints_8 x) { return _mm256_cvtepi32_ps(x); }
ALWAYS_INLINE floats_8 floats_add(floats_8 a, floats_8 b) { return _mm256_add_ps(a, b); }
ALWAYS_INLINE floats_8 floats_mul(floats_8 a, floats_8 b) { return _mm256_mul_ps(a, b); }
ALWAYS_INLINE floats_8 floats_fma(floats_8 a, floats_8 b, floats_8 c) { return _mm256_fmadd_ps(a, b, c); }

/* Sixteen bytes, of each eight those with even places first. */
ALWAYS_INLINE void store_by_turns(const uint8_t *from, void *to) {
    const __m128i by_turns = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    _mm_storeu_si128(to, _mm_shuffle_epi8(load_128(from), by_turns));
}
/* r[k]: 32 bytes of input k -> r[k]: dwords of the four inputs for bytes 4 k .. of both halves. */
ALWAYS_INLINE void transpose_bytes(ints_8 r[4]) {
    __m256i a = _mm256_unpacklo_epi8(r[0], r[1]), b = _mm256_unpackhi_epi8(r[0], r[1]);
    __m256i c = _mm256_unpacklo_epi8(r[2], r[3]), d = _mm256_unpackhi_epi8(r[2], r[3]);
    r[0] = _mm256_unpacklo_epi16(a, c);
    r[1] = _mm256_unpackhi_epi16(a, c);
    r[2] = _mm256_unpacklo_epi16(b, d);
    r[3] = _mm256_unpackhi_epi16(b, d);
}
