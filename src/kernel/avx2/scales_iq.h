/*
 * scales_iq: integer scales of the IQ formats with grids, 2 s + 1 in 16 bits each: sixteen of a block, or its eight in both halves.
 */
#pragma once

#include "dtype/block_layouts.h"
#include "kernel/avx2/simd.h"

ALWAYS_INLINE __m256i odd(__m256i s) { return _mm256_add_epi16(_mm256_add_epi16(s, s), _mm256_set1_epi16(1)); }
/* Eight in both halves, from 32-bit numbers. */
ALWAYS_INLINE __m256i twice_odd_8(__m256i s) { return odd(_mm256_permute4x64_epi64(_mm256_packs_epi32(s, s), 0x88)); }

/* The second of each two numbers: a scale in the top four bits, four indices of signs below. */
ALWAYS_INLINE __m256i iq2_xxs_packed(const uint8_t *block) {
    const uint8_t *qs = block + offsetof(struct block_iq2_xxs, qs);
    __m256i packed =
        _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(load_256(qs)), _mm256_castsi256_ps(load_256(qs + 32)), 0xdd));
    return _mm256_permute4x64_epi64(packed, 0xd8);
}
ALWAYS_INLINE __m256i iq2_xxs_scales(const uint8_t *block) { return twice_odd_8(_mm256_srli_epi32(iq2_xxs_packed(block), 28)); }
ALWAYS_INLINE __m256i iq3_xxs_scales(const uint8_t *block) {
    return twice_odd_8(_mm256_srli_epi32(load_256(block + offsetof(struct block_iq3_xxs, signs_scales)), 28));
}
ALWAYS_INLINE __m256i iq3_s_scales(const uint8_t *block) {
    __m256i packed = _mm256_set1_epi32((int)load_u32(block + offsetof(struct block_iq3_s, scales)));
    return twice_odd_8(_mm256_and_si256(_mm256_srlv_epi32(packed, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)), _mm256_set1_epi32(15)));
}
ALWAYS_INLINE __m256i iq1_s_scales(const uint8_t *block) {
    __m128i qh = load_128(block + offsetof(struct block_iq1_s, qh));
    return odd(_mm256_broadcastsi128_si256(_mm_and_si128(_mm_srli_epi16(qh, 12), _mm_set1_epi16(7))));
}
/* Sixteen: a nibble each. */
ALWAYS_INLINE __m256i nibble_scales(const uint8_t scales[8]) {
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)scales), low = _mm_and_si128(bytes, _mm_set1_epi8(15));
    __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
    return odd(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(low, high)));
}
ALWAYS_INLINE __m256i iq1_m_scales(const uint8_t *block) {
    __m128i words = _mm_loadl_epi64((const __m128i *)(const void *)(block + offsetof(struct block_iq1_m, scales)));
    __m256i four = _mm256_broadcastsi128_si256(_mm_unpacklo_epi16(words, words)); /* 0 0 1 1 2 2 3 3 */
    __m256i first = _mm256_unpacklo_epi32(four, four), second = _mm256_unpackhi_epi32(four, four);
    __m256i each = _mm256_permute2x128_si256(first, second, 0x20); /* 0 four times, 1 four times; then 2, 3 */
    __m256i shift = _mm256_setr_epi16(512, 64, 8, 1, 512, 64, 8, 1, 512, 64, 8, 1, 512, 64, 8, 1);
    return odd(_mm256_and_si256(_mm256_srli_epi16(_mm256_mullo_epi16(_mm256_and_si256(each, _mm256_set1_epi16(0xfff)), shift), 9),
                                _mm256_set1_epi16(7)));
}
