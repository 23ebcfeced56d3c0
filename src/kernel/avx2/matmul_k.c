/*
 * matmul_k: products of Q2_K .. Q6_K and IQ4_XS with AVX2: codes are unpacked 32 at a time; see kernel/avx2/strips.h for the walk.
 */
#include "dtype/codebooks.h"
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/codes.h"
#include "kernel/avx2/strips.h"

/* ---- Q4_K and Q5_K: a scale and a min per 32 ---- */

ALWAYS_INLINE void k4_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out,
                            codes_fn *codes) {
    __m256i v[TOKENS][STRIP], pair_sums[TOKENS], bias[TOKENS][STRIP / 2];
    __m128i mins[STRIP];
    out->d = load_halves(block, offsetof(struct block_q4_k, d));
    out->m = load_halves(block, offsetof(struct block_q4_k, dmin));
    for (unsigned t = 0; t < tokens; t++) { /* sums of 32 activations, 16 bits, in both halves */
        __m256i sums = _mm256_madd_epi16(load_256(x[t].sums), _mm256_set1_epi16(1));
        pair_sums[t] = _mm256_permute4x64_epi64(_mm256_packs_epi32(sums, sums), 0x88);
    }
#pragma GCC unroll 8
    for (unsigned r = 0; r < STRIP; r++) {
        __m128i scales;
        unpack_k4_scales(block[r], &scales, &mins[r]);
        __m256i both = _mm256_broadcastsi128_si256(scales);
        for (unsigned t = 0; t < tokens; t++)
            v[t][r] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (unsigned k = 0; k < 8; k++) {
            __m256i code = codes(block[r], k), scale = _mm256_shuffle_epi8(both, _mm256_set1_epi16((short)((2 * k) | (2 * k + 1) << 8)));
#pragma GCC unroll 4
            for (unsigned t = 0; t < tokens; t++)
                v[t][r] = _mm256_add_epi32(v[t][r], _mm256_madd_epi16(dot_pairs(code, load_256(x[t].q + 32 * k)), scale));
        }
    }
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++) {
        out->sum[t] = sums_of_8(v[t]);
        for (unsigned r = 0; r < STRIP / 2; r++) /* rows r and r + 4 */
            bias[t][r] = _mm256_madd_epi16(_mm256_setr_m128i(mins[r], mins[r + 4]), pair_sums[t]);
        out->bias[t] = interleave_add_64(interleave_add_32(bias[t][0], bias[t][1]), interleave_add_32(bias[t][2], bias[t][3]));
    }
}

ALWAYS_INLINE void q4_k_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    k4_strip(block, x, tokens, out, q4_k_codes);
}
ALWAYS_INLINE void q5_k_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    k4_strip(block, x, tokens, out, q5_k_codes);
}

/* ---- formats with a scale per 16 ---- */

/* v[t] = sum over the block of codes * activations * scales. */
ALWAYS_INLINE void scaled_dot_16(const uint8_t *block, codes_fn *codes, __m256i scales, const struct activation *x, unsigned tokens,
                                 __m256i v[TOKENS]) {
    __m256i low = _mm256_permute2x128_si256(scales, scales, 0x00), high = _mm256_permute2x128_si256(scales, scales, 0x11);
    for (unsigned t = 0; t < tokens; t++)
        v[t] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (unsigned k = 0; k < 8; k++) {
        short first = (short)((4 * (k % 4)) | (4 * (k % 4) + 1) << 8), second = (short)(first + 0x0202);
        __m256i scale = _mm256_shuffle_epi8(k < 4 ? low : high, _mm256_setr_m128i(_mm_set1_epi16(first), _mm_set1_epi16(second)));
        __m256i code = codes(block, k);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++)
            v[t] = _mm256_add_epi32(v[t], _mm256_madd_epi16(dot_pairs(code, load_256(x[t].q + 32 * k)), scale));
    }
}

/* v - 2^shift * (scales . sums): codes are unsigned, 2^shift above their values. */
ALWAYS_INLINE __m256i take_offset(__m256i v, __m256i scales, const int16_t *sums, int shift) {
    return _mm256_sub_epi32(v, _mm256_slli_epi32(_mm256_madd_epi16(scales, load_256(sums)), shift));
}

ALWAYS_INLINE void q2_k_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    __m256i v[TOKENS][STRIP], bias[TOKENS][STRIP], dot[TOKENS];
    out->d = load_halves(block, offsetof(struct block_q2_k, d));
    out->m = load_halves(block, offsetof(struct block_q2_k, dmin));
    for (unsigned r = 0; r < STRIP; r++) {
        const struct block_q2_k *w = (const void *)block[r];
        __m256i packed = _mm256_cvtepu8_epi16(load_128(w->scales)), mins = _mm256_srli_epi16(packed, 4);
        scaled_dot_16(block[r], q2_k_codes, _mm256_and_si256(packed, _mm256_set1_epi16(15)), x, tokens, dot);
        for (unsigned t = 0; t < tokens; t++) {
            v[t][r] = dot[t];
            bias[t][r] = _mm256_madd_epi16(mins, load_256(x[t].sums));
        }
    }
    for (unsigned t = 0; t < tokens; t++) {
        out->sum[t] = sums_of_8(v[t]);
        out->bias[t] = sums_of_8(bias[t]);
    }
}

ALWAYS_INLINE void q3_k_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    __m256i v[TOKENS][STRIP], dot[TOKENS];
    out->d = load_halves(block, offsetof(struct block_q3_k, d));
    for (unsigned r = 0; r < STRIP; r++) {
        __m256i scales = unpack_k3_scales((const void *)block[r]);
        scaled_dot_16(block[r], q3_k_codes, scales, x, tokens, dot);
        for (unsigned t = 0; t < tokens; t++)
            v[t][r] = take_offset(dot[t], scales, x[t].sums, 2);
    }
    for (unsigned t = 0; t < tokens; t++)
        out->sum[t] = sums_of_8(v[t]);
}

ALWAYS_INLINE void q6_k_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    __m256i v[TOKENS][STRIP], dot[TOKENS];
    out->d = load_halves(block, offsetof(struct block_q6_k, d));
    for (unsigned r = 0; r < STRIP; r++) {
        __m256i scales = _mm256_cvtepi8_epi16(load_128(((const struct block_q6_k *)(const void *)block[r])->scales));
        scaled_dot_16(block[r], q6_k_codes, scales, x, tokens, dot);
        for (unsigned t = 0; t < tokens; t++)
            v[t][r] = take_offset(dot[t], scales, x[t].sums, 5);
    }
    for (unsigned t = 0; t < tokens; t++)
        out->sum[t] = sums_of_8(v[t]);
}

/* ---- IQ4_XS ---- */

ALWAYS_INLINE void iq4_xs_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    const __m256i table = _mm256_broadcastsi128_si256(load_128(iq4_values));
    __m256i v[TOKENS][STRIP];
    out->d = load_halves(block, offsetof(struct block_iq4_xs, d));
    for (unsigned r = 0; r < STRIP; r++) {
        const struct block_iq4_xs *w = (const void *)block[r];
        __m256i scales = iq4_xs_scales(w);
        for (unsigned t = 0; t < tokens; t++)
            v[t][r] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (unsigned k = 0; k < 8; k++) {
            __m256i values = _mm256_shuffle_epi8(table, nibbles_by_halves(w->qs + 16 * k));
            __m256i scale = _mm256_shuffle_epi8(scales, _mm256_set1_epi16((short)((2 * k) | (2 * k + 1) << 8)));
#pragma GCC unroll 4
            for (unsigned t = 0; t < tokens; t++) { /* signs move to the activations */
                __m256i pairs = dot_pairs(_mm256_abs_epi8(values), _mm256_sign_epi8(load_256(x[t].q + 32 * k), values));
                v[t][r] = _mm256_add_epi32(v[t][r], _mm256_madd_epi16(pairs, scale));
            }
        }
    }
    for (unsigned t = 0; t < tokens; t++)
        out->sum[t] = sums_of_8(v[t]);
}

void avx2_matmul_q2_k(const struct matmul_args *args) { walk_matrix(args, q2_k_strip, sizeof(struct block_q2_k), true); }
void avx2_matmul_q3_k(const struct matmul_args *args) { walk_matrix(args, q3_k_strip, sizeof(struct block_q3_k), false); }
void avx2_matmul_q4_k(const struct matmul_args *args) { walk_matrix(args, q4_k_strip, sizeof(struct block_q4_k), true); }
void avx2_matmul_q5_k(const struct matmul_args *args) { walk_matrix(args, q5_k_strip, sizeof(struct block_q5_k), true); }
void avx2_matmul_q6_k(const struct matmul_args *args) { walk_matrix(args, q6_k_strip, sizeof(struct block_q6_k), false); }
void avx2_matmul_iq4_xs(const struct matmul_args *args) { walk_matrix(args, iq4_xs_strip, sizeof(struct block_iq4_xs), false); }
