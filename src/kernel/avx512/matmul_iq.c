/*
 * matmul_iq: products of the IQ formats with grids and of those with few bits with AVX-512; see kernel/wide/matmul_iq_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/simd.h"

#define LEVEL(name) avx512_##name
#include "kernel/wide/matmul_iq_body.inc"

ALWAYS_INLINE void add_block(const uint8_t *block, grid_fn *codes, const struct iq_format *f, __m256i scales, __m256i signs,
                             const struct activation *x, unsigned tokens, __m256i total[TOKENS]) {
    const __m512i zero = _mm512_setzero_si512(), twice = _mm512_broadcast_i64x4(scales);
    __m512i sum[TOKENS];
    for (unsigned t = 0; t < tokens; t++)
        sum[t] = zero;
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; i++) { /* 64 codes */
        __m512i w = join_256(codes(block, 2 * i), codes(block, 2 * i + 1));
        __m512i places = join_256(_mm256_set1_epi16((short)(0x0100 + 0x0404 * i)), _mm256_set1_epi16((short)(0x0302 + 0x0404 * i)));
        __m512i scale = f->sub ? _mm512_shuffle_epi8(twice, places) : twice;
        __mmask64 minus = quarter(signs, i);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++) {
            __m512i q = load_512(x[t].q + 64 * i);
            q = f->offset ? q : _mm512_mask_sub_epi8(q, minus, zero, q);
            sum[t] = _mm512_dpwssd_epi32(sum[t], _mm512_maddubs_epi16(w, q), scale);
        }
    }
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++)
        total[t] = _mm256_add_epi32(total[t], _mm256_add_epi32(_mm512_castsi512_si256(sum[t]), _mm512_extracti64x4_epi64(sum[t], 1)));
}
