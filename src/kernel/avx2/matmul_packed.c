/*
 * matmul_packed: products of AWQ and GPTQ codes; see kernel/wide/matmul_packed_body.inc.
 */
#include "kernel/avx2/run_terms.h"
#include "kernel/avx2/avx2.h"

/* Codes of 8 bits go in two parts, since pairs of products with them exceed 16 bits. */
ALWAYS_INLINE __m256i dot_4(__m256i sum, __m256i codes, __m256i q, bool wide_codes) {
    const __m256i ones = _mm256_set1_epi16(1), mask = _mm256_set1_epi8(15);
    if (!wide_codes)
        return _mm256_add_epi32(sum, _mm256_madd_epi16(dot_pairs(codes, q), ones));
    __m256i low = dot_pairs(_mm256_and_si256(codes, mask), q);
    __m256i high = dot_pairs(_mm256_and_si256(_mm256_srli_epi16(codes, 4), mask), q);
    return _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, _mm256_set1_epi16(16))));
}

#define LEVEL(name) avx2_##name
#include "kernel/wide/matmul_packed_body.inc"
