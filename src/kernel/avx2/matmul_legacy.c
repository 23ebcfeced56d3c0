/*
 * matmul_legacy: products of the formats of 32-element blocks with AVX2; see kernel/wide/matmul_legacy_body.inc.
 */
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/simd.h"

#define SIGNED_OFFSET 0

typedef __m256i codes_of_8[8]; /* one block each, elements in their order */

/* Scales of `count` blocks, and zeros; m, unless NULL, lies behind d. */
ALWAYS_INLINE void scales_of(const uint8_t *blocks, size_t block_bytes, unsigned count, __m256 *d, __m256 *m) {
    *d = load_halves_of(blocks, block_bytes, count);
    if (m)
        *m = load_halves_of(blocks + 2, block_bytes, count);
}

/* 16 code bytes per block, low nibbles first. */
ALWAYS_INLINE void nibbles_of(const uint8_t *codes, size_t block_bytes, unsigned count, __m256i out[8]) {
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; k++) {
        __m256i twice = _mm256_broadcastsi128_si256(load_128(codes + k * block_bytes));
        out[k] = _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4)), _mm256_set1_epi8(15));
    }
}

/* Adds the fifth bits, 32 per block in element order. */
ALWAYS_INLINE void add_fifth_bits(const uint8_t *bits, size_t block_bytes, unsigned count, __m256i codes[8]) {
    const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i select = _mm256_set1_epi64x((long long)0x8040201008040201u);
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; k++) {
        __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)load_u32(bits + k * block_bytes)), spread);
        __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, select), select);
        codes[k] = _mm256_or_si256(codes[k], _mm256_and_si256(set, _mm256_set1_epi8(16)));
    }
}

ALWAYS_INLINE void bytes_of(const uint8_t *codes, size_t block_bytes, unsigned count, __m256i out[8]) {
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; k++)
        out[k] = load_256(codes + k * block_bytes);
}

/* Values from a table of 16, moved up by `offset`. */
ALWAYS_INLINE void look_up(const int8_t *table, int offset, unsigned count, __m256i codes[8]) {
    __m256i values = _mm256_broadcastsi128_si256(_mm_add_epi8(load_128(table), _mm_set1_epi8((char)offset)));
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; k++)
        codes[k] = _mm256_shuffle_epi8(values, codes[k]);
}

/* Sums of products by block, of `count` blocks that are there, of those that were unpacked. Signs of signed codes move to the activations.
 */
ALWAYS_INLINE __m256i dot_8(const __m256i codes[8], const int8_t *q, unsigned unpacked, unsigned count, bool is_signed) {
    __m256i dot[8];
#pragma GCC unroll 8
    for (unsigned k = 0; k < 8; k++) {
        if (k >= unpacked) {
            dot[k] = _mm256_setzero_si256();
            continue;
        }
        __m256i x = k < count ? load_256(q + 32 * k) : _mm256_setzero_si256();
        __m256i pairs = is_signed ? dot_pairs(_mm256_abs_epi8(codes[k]), _mm256_sign_epi8(x, codes[k])) : dot_pairs(codes[k], x);
        dot[k] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    return sums_of_8(dot);
}

#define LEVEL(name) avx2_##name
#include "kernel/wide/matmul_legacy_body.inc"
