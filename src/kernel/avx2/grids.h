/*
 * grids: 32 codes from grids of the IQ formats, and which of them are shifted down: what wide/codes_iq_body.inc asks of AVX2 and AVX-512
 * alike.
 */
#pragma once

#include "kernel/avx2/simd.h"

typedef __m256i codes_32;

ALWAYS_INLINE codes_32 four_of_8(const void *a, const void *b, const void *c, const void *d) {
    __m128i low = _mm_unpacklo_epi64(_mm_loadl_epi64(a), _mm_loadl_epi64(b)),
            high = _mm_unpacklo_epi64(_mm_loadl_epi64(c), _mm_loadl_epi64(d));
    return _mm256_setr_m128i(low, high);
}
/* Eight grid vectors of four; `high` has a ninth bit for each index. */
ALWAYS_INLINE codes_32 eight_of_4(const uint8_t grid[][4], const uint8_t qs[8], unsigned high) {
    uint32_t four[8];
    for (unsigned j = 0; j < 8; j++)
        four[j] = load_u32(grid[qs[j] | (high >> j & 1u) << 8]);
    return load_256(four);
}

/* Bytes of ones where bit 15 is set; where bits 3, 7, 11 and 15 are, for eight codes each. */
ALWAYS_INLINE codes_32 minus_of_all(unsigned bits) { return _mm256_set1_epi8((char)(bits >> 15 ? -1 : 0)); }
ALWAYS_INLINE codes_32 minus_of_eights(unsigned bits) {
    const __m256i top = _mm256_setr_epi64x(8, 0x80, 0x800, 0x8000);
    return _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(bits), top), top);
}
