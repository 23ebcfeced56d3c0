/*
 * matmul_packed: products of AWQ and GPTQ codes; see kernel/wide/matmul_packed_body.inc.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/octets.h"
#include "kernel/neon/run_terms.h"

ALWAYS_INLINE ints_8 dot_4(ints_8 sum, ints_8 codes, ints_8 q, bool wide_codes) {
    const int8x16_t less = vdupq_n_s8((int8_t)(wide_codes ? -CODES_OF_8_BITS_LESS : 0));
#pragma GCC unroll 2
    for (unsigned i = 0; i < 2; i++)
        sum.val[i] = vdotq_s32(sum.val[i], veorq_s8(vreinterpretq_s8_s32(codes.val[i]), less), vreinterpretq_s8_s32(q.val[i]));
    return sum;
}

#define LEVEL(name) neon_##name
#include "kernel/wide/matmul_packed_body.inc"
