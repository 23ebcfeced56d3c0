/*
 * matmul_legacy: products of the formats of 32-element blocks with AVX-512; see kernel/wide/matmul_legacy_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/simd.h"

#define SIGNED_OFFSET 128 /* a product of bytes takes one of them unsigned */

typedef __m512i codes_of_8[4]; /* blocks 2 i and 2 i + 1, elements in their order */

/* Where the f16 at `at` of block i is, in two vectors of four blocks. */
#define PLACE(i, at) (short)((i) / 4 * 32 + (i) % 4 * block_bytes / 2 + (at))
#define PLACES_OF_8(at) PLACE(0, at), PLACE(1, at), PLACE(2, at), PLACE(3, at), PLACE(4, at), PLACE(5, at), PLACE(6, at), PLACE(7, at)

/* Scales of `count` blocks, and zeros; m, unless NULL, lies behind d. */
ALWAYS_INLINE void scales_of(const uint8_t *blocks, size_t block_bytes, unsigned count, __m256 *d, __m256 *m) {
    if (block_bytes <= 20) { /* a vector reaches the scales of four blocks */
        __m512i places = _mm512_castsi256_si512(_mm256_setr_epi16(PLACES_OF_8(0), PLACES_OF_8(1)));
        __m512i last = count == 8 ? load_512(blocks + 4 * block_bytes) : _mm512_setzero_si512();
        __m512i halves = _mm512_permutex2var_epi16(load_512(blocks), places, last);
        *d = _mm256_cvtph_ps(_mm512_castsi512_si128(halves));
        if (m)
            *m = _mm256_cvtph_ps(_mm256_extracti128_si256(_mm512_castsi512_si256(halves), 1));
        return;
    }
    *d = load_halves_of(blocks, block_bytes, count);
    if (m)
        *m = load_halves_of(blocks + 2, block_bytes, count);
}

/* Nibbles of two blocks: 16 code bytes each, low nibbles first. */
ALWAYS_INLINE __m512i two_blocks_of_nibbles(const uint8_t *first, const uint8_t *second) {
    __m512i twice = _mm512_mask_broadcast_i64x2(_mm512_broadcast_i64x2(load_128(first)), 0xf0, load_128(second));
    return _mm512_and_si512(_mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)), _mm512_set1_epi8(15));
}

ALWAYS_INLINE void nibbles_of(const uint8_t *codes, size_t block_bytes, unsigned count, __m512i out[4]) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < count / 2; k++)
        out[k] = two_blocks_of_nibbles(codes + 2 * k * block_bytes, codes + (2 * k + 1) * block_bytes);
}

/* Adds the fifth bits, 32 per block in element order. */
ALWAYS_INLINE void add_fifth_bits(const uint8_t *bits, size_t block_bytes, unsigned count, __m512i codes[4]) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < count / 2; k++) {
        uint64_t mask = load_u32(bits + 2 * k * block_bytes) | (uint64_t)load_u32(bits + (2 * k + 1) * block_bytes) << 32;
        codes[k] = _mm512_mask_add_epi8(codes[k], mask, codes[k], _mm512_set1_epi8(16));
    }
}

/* As unsigned bytes, SIGNED_OFFSET more. */
ALWAYS_INLINE void bytes_of(const uint8_t *codes, size_t block_bytes, unsigned count, __m512i out[4]) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < count / 2; k++)
        out[k] = _mm512_xor_si512(join_256(load_256(codes + 2 * k * block_bytes), load_256(codes + (2 * k + 1) * block_bytes)),
                                  _mm512_set1_epi8(-128));
}

/* Values from a table of 16, moved up by `offset`. */
ALWAYS_INLINE void look_up(const int8_t *table, int offset, unsigned count, __m512i codes[4]) {
    __m512i values = _mm512_broadcast_i32x4(_mm_add_epi8(load_128(table), _mm_set1_epi8((char)offset)));
#pragma GCC unroll 4
    for (unsigned k = 0; k < count / 2; k++)
        codes[k] = _mm512_shuffle_epi8(values, codes[k]);
}

/* Sums of products by block, of `count` blocks that are there, of those that were unpacked (an odd one with what stands behind it, times
 * codes of padding whose scale is 0). */
ALWAYS_INLINE __m256i dot_8(const __m512i codes[4], const int8_t *q, unsigned unpacked, unsigned count, bool is_signed) {
    (void)is_signed; /* by SIGNED_OFFSET none is */
    __m512i dot[4];
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        dot[k] = 2 * k < unpacked && 2 * k < count ? _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes[k], load_512(q + 64 * k))
                                                   : _mm512_setzero_si512();
    return sums_of_4_halves(dot);
}

#define LEVEL(name) avx512_##name
#include "kernel/wide/matmul_legacy_body.inc"
