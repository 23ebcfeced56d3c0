/*
 * codes_ternary: codes of TQ1_0 and TQ2_0, 0 .. 2 (3).
 */
#pragma once

#include "dtype/block_layouts.h"
#include "kernel/avx2/simd.h"

ALWAYS_INLINE __m256i tq2_0_codes(const uint8_t *block, unsigned k) {
    __m256i bytes = _mm256_srli_epi16(load_256(block + offsetof(struct block_tq2_0, qs) + 32 * (k / 4)), 2 * (int)(k % 4));
    return _mm256_and_si256(bytes, _mm256_set1_epi8(3));
}

/* Digit n of sixteen bytes, as power = 3^n picks it: byte times power, kept to 8 bits, times 3, the top. */
ALWAYS_INLINE __m256i digits(__m128i bytes, __m256i power) {
    __m256i rest = _mm256_slli_epi16(_mm256_mullo_epi16(_mm256_cvtepu8_epi16(bytes), power), 8);
    return _mm256_mulhi_epu16(rest, _mm256_set1_epi16(3));
}
ALWAYS_INLINE __m256i tq1_0_codes(const uint8_t *block, unsigned k) {
    static const short powers[5] = {1, 3, 9, 27, 81};
    const struct block_tq1_0 *w = (const void *)block;
    __m128i first = load_128(w->qs + (k < 5 ? 0 : 32)), second = k < 5 ? load_128(w->qs + 16) : first;
    __m256i power[2] = {_mm256_set1_epi16(powers[k < 5 ? k : 2 * k % 5]), _mm256_set1_epi16(powers[k < 5 ? k : (2 * k + 1) % 5])};
    if (k == 7) { /* sixteen of the last bytes, whose four digits each follow by the byte's place */
        second = _mm_set1_epi32((int)load_u32(w->qh));
        power[1] = _mm256_setr_epi16(1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27);
    }
    __m256i both = _mm256_packus_epi16(digits(first, power[0]), digits(second, power[1]));
    return _mm256_permute4x64_epi64(both, 0xd8);
}
