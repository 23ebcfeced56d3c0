/*
 * codes_iq: codes of the IQ formats with grids, and of those with few bits and no sub-blocks. Codes with signs are 128
 * above their values.
 */
#pragma once

#include "kernel/avx2/codes.h"
#include "kernel/avx2/scales_iq.h"

ALWAYS_INLINE __m256i above_128(__m256i values) { return _mm256_xor_si256(values, _mm256_set1_epi8(-128)); }
ALWAYS_INLINE __m256i with_signs(__m256i magnitudes, uint32_t signs) {
    __m256i mask = bytes_of_bits(signs);
    return above_128(_mm256_sub_epi8(_mm256_xor_si256(magnitudes, mask), mask));
}
/* Four sign indices of 7 bits. */
ALWAYS_INLINE uint32_t signs_of_indices(uint32_t packed) {
    return iq_signs[packed & 127] | (uint32_t)iq_signs[packed >> 7 & 127] << 8 | (uint32_t)iq_signs[packed >> 14 & 127] << 16 |
           (uint32_t)iq_signs[packed >> 21 & 127] << 24;
}
ALWAYS_INLINE __m256i four_of_8(const void *a, const void *b, const void *c, const void *d) {
    __m128i low = _mm_unpacklo_epi64(_mm_loadl_epi64(a), _mm_loadl_epi64(b)),
            high = _mm_unpacklo_epi64(_mm_loadl_epi64(c), _mm_loadl_epi64(d));
    return _mm256_setr_m128i(low, high);
}

ALWAYS_INLINE __m256i iq2_xxs_codes(const uint8_t *block, unsigned k) {
    const uint8_t *qs = ((const struct block_iq2_xxs *)(const void *)block)->qs + 8 * k;
    __m256i grid = four_of_8(iq2_xxs_grid[qs[0]], iq2_xxs_grid[qs[1]], iq2_xxs_grid[qs[2]], iq2_xxs_grid[qs[3]]);
    return with_signs(grid, signs_of_indices(load_u32(qs + 4)));
}
ALWAYS_INLINE __m256i iq2_xs_codes(const uint8_t *block, unsigned k) {
    uint16_t c[4];
    memcpy(c, block + offsetof(struct block_iq2_xs, qs) + 8 * k, sizeof c);
    __m256i grid = four_of_8(iq2_xs_grid[c[0] & 511], iq2_xs_grid[c[1] & 511], iq2_xs_grid[c[2] & 511], iq2_xs_grid[c[3] & 511]);
    return with_signs(grid, iq_signs[c[0] >> 9] | (uint32_t)iq_signs[c[1] >> 9] << 8 | (uint32_t)iq_signs[c[2] >> 9] << 16 |
                                (uint32_t)iq_signs[c[3] >> 9] << 24);
}
ALWAYS_INLINE __m256i iq2_s_codes(const uint8_t *block, unsigned k) {
    const struct block_iq2_s *w = (const void *)block;
    const uint8_t *qs = w->qs + 4 * k;
    unsigned high = w->qh[k];
    __m256i grid = four_of_8(iq2_s_grid[qs[0] | (high << 8 & 0x300)], iq2_s_grid[qs[1] | (high << 6 & 0x300)],
                             iq2_s_grid[qs[2] | (high << 4 & 0x300)], iq2_s_grid[qs[3] | (high << 2 & 0x300)]);
    return with_signs(grid, load_u32(w->signs + 4 * k));
}
/* Eight grid vectors of four, `high` has a ninth bit for each. */
ALWAYS_INLINE __m256i eight_of_4(const uint8_t grid[][4], const uint8_t qs[8], unsigned high) {
    uint32_t four[8];
    for (unsigned j = 0; j < 8; j++)
        four[j] = load_u32(grid[qs[j] | (high >> j & 1u) << 8]);
    return load_256(four);
}
ALWAYS_INLINE __m256i iq3_xxs_codes(const uint8_t *block, unsigned k) {
    const struct block_iq3_xxs *w = (const void *)block;
    return with_signs(eight_of_4(iq3_xxs_grid, w->qs + 8 * k, 0), signs_of_indices(load_u32(w->signs_scales + 4 * k)));
}
ALWAYS_INLINE __m256i iq3_s_codes(const uint8_t *block, unsigned k) {
    const struct block_iq3_s *w = (const void *)block;
    return with_signs(eight_of_4(iq3_s_grid, w->qs + 8 * k, w->qh[k]), load_u32(w->signs + 4 * k));
}

/* Four grid vectors of eight, three high bits of each index in `high`; 8 grid + 1, or - 1 where a byte of minus is ones. */
ALWAYS_INLINE __m256i iq1_codes(const uint8_t qs[4], const unsigned high[4], __m256i minus) {
    __m256i grid = four_of_8(iq1_grid[qs[0] | (high[0] & 7) << 8], iq1_grid[qs[1] | (high[1] & 7) << 8],
                             iq1_grid[qs[2] | (high[2] & 7) << 8], iq1_grid[qs[3] | (high[3] & 7) << 8]);
    __m256i eight = _mm256_and_si256(_mm256_slli_epi16(grid, 3), _mm256_set1_epi8(-8));
    return above_128(_mm256_add_epi8(eight, _mm256_or_si256(minus, _mm256_set1_epi8(1))));
}
ALWAYS_INLINE __m256i iq1_s_codes(const uint8_t *block, unsigned k) {
    const struct block_iq1_s *w = (const void *)block;
    unsigned bits = load_u16(block + offsetof(struct block_iq1_s, qh) + 2 * k);
    return iq1_codes(w->qs + 4 * k, (unsigned[]){bits, bits >> 3, bits >> 6, bits >> 9}, _mm256_set1_epi8((char)(bits >> 15 ? -1 : 0)));
}
ALWAYS_INLINE __m256i iq1_m_codes(const uint8_t *block, unsigned k) {
    const struct block_iq1_m *w = (const void *)block;
    unsigned bits = load_u16(w->qh + 2 * k);
    const __m256i top = _mm256_setr_epi64x(8, 0x80, 0x800, 0x8000);
    __m256i minus = _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(bits), top), top);
    return iq1_codes(w->qs + 4 * k, (unsigned[]){bits, bits >> 4, bits >> 8, bits >> 12}, minus);
}

/* The f16 in the top nibbles of the four words. */
ALWAYS_INLINE uint16_t iq1_m_d(const uint8_t *block) {
    unsigned bits = 0;
    for (unsigned i = 0; i < 4; i++)
        bits |= (unsigned)load_u16(block + offsetof(struct block_iq1_m, scales) + 2 * i) >> 12 << (4 * i);
    return (uint16_t)bits;
}

/* ---- few bits, no sub-blocks ---- */

ALWAYS_INLINE __m256i tq2_0_codes(const uint8_t *block, unsigned k) {
    return masked(shifted(load_256(block + 32 * (k / 4)), -2 * (int)(k % 4)), 3);
}
/* Base-3 digits: byte times a power of 3, kept to 8 bits, times 3, the top. */
ALWAYS_INLINE __m256i tq1_0_codes(const uint8_t *block, unsigned k) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    const struct block_tq1_0 *w = (const void *)block;
    uint8_t out[32];
    for (unsigned i = 0; i < 32; i++) {
        unsigned e = 32 * k + i, rest = e - 160, last = e - 240;
        uint8_t byte = e < 160 ? w->qs[e % 32] : e < 240 ? w->qs[32 + rest % 16] : w->qh[last % 4];
        unsigned n = e < 160 ? e / 32 : e < 240 ? rest / 16 : last / 4;
        out[i] = (uint8_t)((uint8_t)(byte * power[n]) * 3 >> 8);
    }
    return load_256(out);
}
ALWAYS_INLINE __m256i q1_0_codes(const uint8_t *block, unsigned k) {
    return _mm256_and_si256(bytes_of_bits(load_u32(block + offsetof(struct block_q1_0, qs) + 4 * k)), _mm256_set1_epi8(2));
}
/* Two runs of 16 codes of 4-bit floats, 8 bytes each, low nibbles first. */
ALWAYS_INLINE __m256i nvfp4_nibbles(const uint8_t *block, unsigned k) {
    __m256i twice = _mm256_permute4x64_epi64(_mm256_castsi128_si256(load_128(block + offsetof(struct block_nvfp4, qs) + 16 * k)), 0x50);
    return _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 4, 0, 4)), _mm256_set1_epi8(15));
}
