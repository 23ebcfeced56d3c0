/*
 * matmul_iq: products of the IQ formats with grids and of those with few bits with AVX2; see kernel/wide/matmul_iq_body.inc.
 */
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/simd.h"

#define LEVEL(name) avx2_##name
#include "kernel/wide/matmul_iq_body.inc"

ALWAYS_INLINE void add_block(const uint8_t *block, grid_fn *codes, const struct iq_format *f, __m256i scales, __m256i signs,
                             const struct activation *x, unsigned tokens, __m256i total[TOKENS]) {
    uint32_t bits[8];
    _mm256_storeu_si256((__m256i *)(void *)bits, signs);
#pragma GCC unroll 8
    for (unsigned k = 0; k < 8; k++) {
        __m256i w = codes(block, k), minus = f->offset ? signs : bytes_of_bits(bits[k]);
        __m256i scale = f->sub ? _mm256_shuffle_epi8(scales, _mm256_set1_epi16((short)(0x0100 + 0x0202 * k))) : scales;
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++) {
            __m256i q = load_256(x[t].q + 32 * k);
            q = f->offset ? q : _mm256_sub_epi8(_mm256_xor_si256(q, minus), minus);
            total[t] = _mm256_add_epi32(total[t], _mm256_madd_epi16(dot_pairs(w, q), scale));
        }
    }
}
