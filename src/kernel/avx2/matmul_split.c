/*
 * matmul_split: products of formats with scales in tensors of their own, and of NVFP4; see kernel/wide/matmul_split_body.inc
 * and matmul_int_body.inc.
 */
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/octets.h"
#include "kernel/avx2/run_terms.h"

/* Eight sums of four products. Codes of 8 bits go in two parts, since pairs of products with them exceed 16 bits. */
ALWAYS_INLINE __m256i dot_32(const uint8_t *codes, const int8_t *q, bool wide_codes) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i c = load_256(codes), x = load_256(q);
    if (!wide_codes)
        return _mm256_madd_epi16(dot_pairs(c, x), ones);
    __m256i low = dot_pairs(_mm256_and_si256(c, _mm256_set1_epi8(15)), x);
    __m256i high = dot_pairs(_mm256_and_si256(_mm256_srli_epi16(c, 4), _mm256_set1_epi8(15)), x);
    return _mm256_add_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, _mm256_set1_epi16(16)));
}

/* Integer sums of eight runs of 16, 32, 64 or 128 codes. */
ALWAYS_INLINE void run_dots(const uint8_t *codes, const int8_t *q, unsigned run, bool wide_codes, int32_t sum[8]) {
    __m256i result, v[8];
    if (run == 16) { /* a run is four numbers of a vector */
#pragma GCC unroll 4
        for (unsigned i = 0; i < 4; i++)
            v[i] = dot_32(codes + 32 * i, q + 32 * i, wide_codes);
        result = interleave_add_64(interleave_add_32(v[0], v[1]), interleave_add_32(v[2], v[3])); /* runs 0 2 4 6, 1 3 5 7 */
        result = _mm256_permutevar8x32_epi32(result, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    } else {
#pragma GCC unroll 8
        for (unsigned i = 0; i < 8; i++) {
            v[i] = dot_32(codes + run * i, q + run * i, wide_codes);
            for (unsigned j = 32; j < run; j += 32)
                v[i] = _mm256_add_epi32(v[i], dot_32(codes + run * i + j, q + run * i + j, wide_codes));
        }
        result = sums_of_8(v);
    }
    _mm256_storeu_si256((__m256i *)sum, result);
}

#define LEVEL(name) avx2_##name
#include "kernel/wide/matmul_split_body.inc"
#include "kernel/wide/matmul_int_body.inc"
