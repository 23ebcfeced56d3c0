/*
 * matmul_packed: products of AWQ and GPTQ codes; see kernel/wide/matmul_packed_body.inc.
 */
#include "kernel/avx2/octets.h"
#include "kernel/avx2/run_terms.h"
#include "kernel/avx2/avx2.h"

/* Codes of 8 bits go in two parts, since pairs of products with them exceed 16 bits. */
ALWAYS_INLINE ints_8 dot_4(ints_8 sum, ints_8 codes, ints_8 q, bool wide_codes) {
    const __m256i ones = _mm256_set1_epi16(1);
    if (!wide_codes)
        return _mm256_add_epi32(sum, _mm256_madd_epi16(dot_pairs(codes, q), ones));
    __m256i low = dot_pairs(low_nibbles(codes), q);
    __m256i high = dot_pairs(high_nibbles(codes), q);
    return _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, _mm256_set1_epi16(16))));
}

#define LEVEL(name) avx2_##name
#include "kernel/wide/matmul_packed_body.inc"
