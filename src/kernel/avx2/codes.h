/*
 * codes: codes and integer scales of blocks, 32 codes or one block at a time: what vector and matrix products share.
 */
#pragma once

#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "kernel/avx2/simd.h"

/* Codes 32 k .. 32 k + 31 of a block, unsigned. */
typedef __m256i codes_fn(const uint8_t *block, unsigned k);

/* Sixteen bytes of nibbles: the low ones, then the high ones. */
ALWAYS_INLINE __m256i nibbles_by_halves(const uint8_t *bytes) {
    __m256i twice = _mm256_broadcastsi128_si256(load_128(bytes));
    return _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4)), _mm256_set1_epi8(15));
}

/* Each byte of x moved by `left` bits (right when negative), bits from neighbours included. */
ALWAYS_INLINE __m256i shifted(__m256i x, int left) { return left >= 0 ? _mm256_slli_epi16(x, left) : _mm256_srli_epi16(x, -left); }
ALWAYS_INLINE __m256i masked(__m256i x, char bits) { return _mm256_and_si256(x, _mm256_set1_epi8(bits)); }

ALWAYS_INLINE __m256i q4_k_codes(const uint8_t *block, unsigned k) {
    const struct block_q4_k *w = (const void *)block;
    return masked(shifted(load_256(w->qs + 32 * (k / 2)), k % 2 ? -4 : 0), 15);
}
ALWAYS_INLINE __m256i q5_k_codes(const uint8_t *block, unsigned k) {
    const struct block_q5_k *w = (const void *)block;
    __m256i low = masked(shifted(load_256(w->qs + 32 * (k / 2)), k % 2 ? -4 : 0), 15);
    return _mm256_or_si256(low, masked(shifted(load_256(w->qh), 4 - (int)k), 16));
}

/* Eight scales and eight mins as 16-bit numbers, from the first 16 bytes of a block. */
ALWAYS_INLINE void unpack_k4_scales(const uint8_t *block, __m128i *scales, __m128i *mins) {
    __m128i head =
        load_128(block); /* bytes 4..7 scales 0-3, 8..11 mins 0-3 (6 bits, top 2 bits for 4-7), 12..15 low nibbles of scales and mins 4-7 */
    __m128i low = _mm_shuffle_epi8(head, _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
    __m128i top = _mm_shuffle_epi8(head, _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    low = _mm_and_si128(_mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 0, 4)), _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
    __m128i all = _mm_or_si128(low, _mm_and_si128(_mm_srli_epi32(top, 2), _mm_set1_epi8(0x30)));
    *scales = _mm_cvtepu8_epi16(all);
    *mins = _mm_unpackhi_epi8(all, _mm_setzero_si128());
}

ALWAYS_INLINE __m256i q2_k_codes(const uint8_t *block, unsigned k) {
    const struct block_q2_k *w = (const void *)block;
    return masked(shifted(load_256(w->qs + 32 * (k / 4)), -2 * (int)(k % 4)), 3);
}
ALWAYS_INLINE __m256i q3_k_codes(const uint8_t *block, unsigned k) {
    const struct block_q3_k *w = (const void *)block;
    __m256i low = masked(shifted(load_256(w->qs + 32 * (k / 4)), -2 * (int)(k % 4)), 3);
    return _mm256_or_si256(low, masked(shifted(load_256(w->hmask), 2 - (int)k), 4));
}
ALWAYS_INLINE __m256i q6_k_codes(const uint8_t *block, unsigned k) {
    const struct block_q6_k *w = (const void *)block;
    __m256i low = masked(shifted(load_256(w->ql + 64 * (k / 4) + 32 * (k % 2)), k % 4 < 2 ? 0 : -4), 15);
    return _mm256_or_si256(low, masked(shifted(load_256(w->qh + 32 * (k / 4)), 4 - 2 * (int)(k % 4)), 0x30));
}

/* Sixteen scales, -32 .. 31, from the 16 bytes that end a block: 2 of qs, 12 of scales, d. */
ALWAYS_INLINE __m256i unpack_k3_scales(const struct block_q3_k *w) {
    __m128i tail = load_128((const uint8_t *)(w + 1) - 16);
    __m128i low = _mm_shuffle_epi8(tail, _mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9));
    __m128i top = _mm_shuffle_epi8(tail, _mm_setr_epi8(10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13));
    low = _mm_and_si128(_mm_srlv_epi32(low, _mm_setr_epi32(0, 0, 4, 4)), _mm_set1_epi8(15));
    top = _mm_and_si128(_mm_srlv_epi32(top, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
    return _mm256_cvtepi8_epi16(_mm_sub_epi8(_mm_or_si128(low, _mm_slli_epi16(top, 4)), _mm_set1_epi8(32)));
}

/* Scales of eight sub-blocks, -32 .. 31, as 16-bit numbers in both halves. */
ALWAYS_INLINE __m256i iq4_xs_scales(const struct block_iq4_xs *w) {
    __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32((int)load_u32(w->scales_l)), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    __m256i high = _mm256_srlv_epi32(_mm256_set1_epi32(w->scales_h), _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    low = _mm256_and_si256(low, _mm256_set1_epi32(15));
    high = _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4);
    __m256i scales = _mm256_sub_epi32(_mm256_or_si256(low, high), _mm256_set1_epi32(32));
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(scales, scales), 0x88);
}
