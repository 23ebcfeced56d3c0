/*
 * matmul_legacy: products of the formats of 32-element blocks with AVX-512; see kernel/wide/matmul_legacy_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/simd.h"

#define SIGNED_OFFSET 128 /* a product of bytes takes one of them unsigned */

typedef __m512i codes_of_8[4]; /* blocks 2 i and 2 i + 1, elements in their order */

/* Nibbles of two blocks: 16 code bytes each, low nibbles first. */
ALWAYS_INLINE __m512i two_blocks_of_nibbles(const uint8_t *first, const uint8_t *second) {
    __m512i twice = _mm512_mask_broadcast_i64x2(_mm512_broadcast_i64x2(load_128(first)), 0xf0, load_128(second));
    return _mm512_and_si512(_mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)), _mm512_set1_epi8(15));
}

ALWAYS_INLINE void nibbles_of(const uint8_t *codes, size_t block_bytes, __m512i out[4]) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        out[k] = two_blocks_of_nibbles(codes + 2 * k * block_bytes, codes + (2 * k + 1) * block_bytes);
}

/* Adds the fifth bits, 32 per block in element order. */
ALWAYS_INLINE void add_fifth_bits(const uint8_t *bits, size_t block_bytes, __m512i codes[4]) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++) {
        uint64_t mask = load_u32(bits + 2 * k * block_bytes) | (uint64_t)load_u32(bits + (2 * k + 1) * block_bytes) << 32;
        codes[k] = _mm512_mask_add_epi8(codes[k], mask, codes[k], _mm512_set1_epi8(16));
    }
}

/* As unsigned bytes, SIGNED_OFFSET more. */
ALWAYS_INLINE void bytes_of(const uint8_t *codes, size_t block_bytes, __m512i out[4]) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        out[k] = _mm512_xor_si512(join_256(load_256(codes + 2 * k * block_bytes), load_256(codes + (2 * k + 1) * block_bytes)),
                                  _mm512_set1_epi8(-128));
}

/* Values from a table of 16, moved up by `offset`. */
ALWAYS_INLINE void look_up(const int8_t *table, int offset, __m512i codes[4]) {
    __m512i values = _mm512_broadcast_i32x4(_mm_add_epi8(load_128(table), _mm_set1_epi8((char)offset)));
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        codes[k] = _mm512_shuffle_epi8(values, codes[k]);
}

/* Sums of products by block, of `count` blocks that are there (an odd one with what stands behind it, times codes of padding whose scale is
 * 0). */
ALWAYS_INLINE __m256i dot_8(const __m512i codes[4], const int8_t *q, unsigned count, bool is_signed) {
    (void)is_signed; /* by SIGNED_OFFSET none is */
    __m512i dot[4];
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        dot[k] = 2 * k < count ? _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes[k], load_512(q + 64 * k)) : _mm512_setzero_si512();
    return sums_of_4_halves(dot);
}

#define LEVEL(name) avx512_##name
#include "kernel/wide/matmul_legacy_body.inc"
