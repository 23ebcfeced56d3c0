/*
 * matmul_split: products of formats with scales in tensors of their own, and of NVFP4; see kernel/wide/matmul_split_body.inc
 * and matmul_int_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/simd.h"
#include "kernel/avx2/octets.h"
#include "kernel/avx2/run_terms.h"

/* Codes were stored 32 at a time; a load of 64 would wait for both stores to reach the cache. */
ALWAYS_INLINE __m512i load_codes(const uint8_t *codes) { return join_256(load_256(codes), load_256(codes + 32)); }
ALWAYS_INLINE __m512i dot_64(const uint8_t *codes, const int8_t *q) {
    return _mm512_dpbusd_epi32(_mm512_setzero_si512(), load_codes(codes), load_512(q));
}

/* Integer sums of eight runs of 16, 32, 64 or 128 codes. */
ALWAYS_INLINE void run_dots(const uint8_t *codes, const int8_t *q, unsigned run, bool wide_codes, int32_t sum[8]) {
    __m256i result;
    (void)wide_codes;
    if (run == 16) { /* a run is four numbers of a vector */
        __m512i v = interleave_add_32_wide(dot_64(codes, q), dot_64(codes + 64, q + 64));
        v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC));
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
        result = _mm512_castsi512_si256(_mm512_permutexvar_epi32(order, v));
    } else if (run == 32) {
        __m512i v[4];
#pragma GCC unroll 4
        for (unsigned i = 0; i < 4; i++)
            v[i] = dot_64(codes + 64 * i, q + 64 * i);
        result = sums_of_4_halves(v);
    } else {
        __m512i v[8];
#pragma GCC unroll 8
        for (unsigned i = 0; i < 8; i++) {
            v[i] = dot_64(codes + run * i, q + run * i);
            if (run == 128)
                v[i] = _mm512_dpbusd_epi32(v[i], load_codes(codes + run * i + 64), load_512(q + run * i + 64));
        }
        result = sums_of_8_wide(v);
    }
    _mm256_storeu_si256((__m256i *)sum, result);
}

#define LEVEL(name) avx512_##name
#include "kernel/wide/matmul_split_body.inc"
#include "kernel/wide/matmul_int_body.inc"
