/*
 * codes_iq: codes of the IQ formats with grids, and of those with few bits and no sub-blocks. Codes with signs are 128 above their values.
 */
#pragma once

#include "kernel/avx2/codes.h"
#include "kernel/avx2/codes_ternary.h"
#include "kernel/avx2/grids.h"
#include "kernel/avx2/scales_iq.h"

ALWAYS_INLINE __m256i above_128(__m256i values) { return _mm256_xor_si256(values, _mm256_set1_epi8(-128)); }
ALWAYS_INLINE codes_32 with_signs(codes_32 magnitudes, uint32_t signs) {
    __m256i mask = bytes_of_bits(signs);
    return above_128(_mm256_sub_epi8(_mm256_xor_si256(magnitudes, mask), mask));
}
ALWAYS_INLINE codes_32 with_shifts(codes_32 grid, codes_32 minus) {
    __m256i eight = _mm256_and_si256(_mm256_slli_epi16(grid, 3), _mm256_set1_epi8(-8));
    return above_128(_mm256_add_epi8(eight, _mm256_or_si256(minus, _mm256_set1_epi8(1))));
}

#include "kernel/wide/codes_iq_body.inc"

/* ---- few bits, no sub-blocks ---- */

ALWAYS_INLINE __m256i q1_0_codes(const uint8_t *block, unsigned k) {
    return _mm256_and_si256(bytes_of_bits(load_u32(block + offsetof(struct block_q1_0, qs) + 4 * k)), _mm256_set1_epi8(2));
}
/* Two runs of 16 codes of 4-bit floats, 8 bytes each, low nibbles first. */
ALWAYS_INLINE __m256i nvfp4_nibbles(const uint8_t *block, unsigned k) {
    __m256i twice = _mm256_permute4x64_epi64(_mm256_castsi128_si256(load_128(block + offsetof(struct block_nvfp4, qs) + 16 * k)), 0x50);
    return _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 4, 0, 4)), _mm256_set1_epi8(15));
}
