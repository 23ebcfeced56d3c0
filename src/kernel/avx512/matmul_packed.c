/*
 * matmul_packed: products of AWQ and GPTQ codes; see kernel/wide/matmul_packed_body.inc.
 */
#include "kernel/avx2/octets.h"
#include "kernel/avx2/run_terms.h"
#include "kernel/avx512/avx512.h"

ALWAYS_INLINE ints_8 dot_4(ints_8 sum, ints_8 codes, ints_8 q, bool wide_codes) {
    (void)wide_codes;
    return _mm256_dpbusd_epi32(sum, codes, q);
}

#define LEVEL(name) avx512_##name
#include "kernel/wide/matmul_packed_body.inc"
