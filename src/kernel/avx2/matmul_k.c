/*
 * matmul_k: products of Q2_K .. Q6_K and IQ4_XS.
 *
 * Eight rows at a time, block after block, as in avx512/matmul_k.c: the integer sums of a block of eight rows are one vector, its float
 * part is one fma into the vector of lane block % 8. Codes are unpacked 32 at a time and used for up to four tokens.
 */
#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/codes.h"
#include "kernel/avx2/wide.h"

#define STRIP 8
#define TOKENS 4

struct activation { /* one token, at one block */
    const int8_t *q;
    const int16_t *sums; /* [16] */
};

struct strip_block { /* one block of eight rows times up to four tokens */
    __m256 d, m;     /* by row */
    __m256i sum[TOKENS], bias[TOKENS];
};

/* block[i]: the block of row i. */
typedef void strip_fn(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out);

/* The f16 at `offset` of each row's block. */
ALWAYS_INLINE __m256 load_halves(const uint8_t *const block[STRIP], size_t offset) {
    __m128i h = _mm_cvtsi32_si128(load_u16(block[0] + offset));
    h = _mm_insert_epi16(h, load_u16(block[1] + offset), 1);
    h = _mm_insert_epi16(h, load_u16(block[2] + offset), 2);
    h = _mm_insert_epi16(h, load_u16(block[3] + offset), 3);
    h = _mm_insert_epi16(h, load_u16(block[4] + offset), 4);
    h = _mm_insert_epi16(h, load_u16(block[5] + offset), 5);
    h = _mm_insert_epi16(h, load_u16(block[6] + offset), 6);
    h = _mm_insert_epi16(h, load_u16(block[7] + offset), 7);
    return _mm256_cvtph_ps(h);
}

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

/* ---- the walk ---- */

struct walk {
    const struct matmul_args *args;
    struct activation_layout layout;
    size_t block_bytes;
    bool has_bias;
};

/* The lane tree of eight rows at once, stored for the rows that are there. */
ALWAYS_INLINE void finish_strip(const struct matmul_args *args, const __m256 l[8], size_t row, size_t token, size_t rows) {
    __m256 y = _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(l[0], l[4]), _mm256_add_ps(l[2], l[6])),
                             _mm256_add_ps(_mm256_add_ps(l[1], l[5]), _mm256_add_ps(l[3], l[7])));
    float *to = args->y + token * args->y_stride + row;
    y = _mm256_mul_ps(y, _mm256_set1_ps(args->w->tensor_scale));
    if (rows == STRIP)
        _mm256_storeu_ps(to, y);
    else
        _mm256_maskstore_ps(to, mask_of_first((unsigned)rows, 0), y);
}

/* Rows [row, row + STRIP) up to row_end, tokens [token, token + tokens). */
ALWAYS_INLINE void walk_strip(const struct walk *walk, strip_fn *strip, size_t row, size_t token, unsigned tokens) {
    const struct matmul_args *args = walk->args;
    const struct matrix *w = args->w;
    const uint8_t *block[STRIP], *next = w->data + (row + STRIP) * w->row_bytes; /* the next strip is fetched in the order of memory */
    size_t rows = args->row_end - row < STRIP ? args->row_end - row : STRIP;
    __m256 lane[TOKENS][8];
    for (size_t r = 0; r < STRIP; r++)
        block[r] = w->data + (row + (r < rows ? r : rows - 1)) * w->row_bytes;
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned l = 0; l < 8; l++)
            lane[t][l] = _mm256_setzero_ps();
    for (size_t b = 0; b < w->cols / 256; b++) {
        struct activation x[TOKENS];
        struct strip_block sums;
        for (unsigned t = 0; t < tokens; t++) {
            const uint8_t *x_row = args->x + (token + t) * args->x_row_bytes;
            x[t].q = (const int8_t *)x_row + 256 * b;
            x[t].sums = (const int16_t *)(const void *)(x_row + walk->layout.sums_offset_bytes) + 16 * b;
        }
        for (size_t i = 0; token == 0 && i < STRIP * walk->block_bytes; i += 64)
            _mm_prefetch((const char *)next + i, _MM_HINT_T0);
        next += STRIP * walk->block_bytes;
        strip(block, x, tokens, &sums);
        for (unsigned t = 0; t < tokens; t++) {
            const uint8_t *x_row = args->x + (token + t) * args->x_row_bytes;
            __m256 d = _mm256_broadcast_ss((const float *)(const void *)(x_row + walk->layout.scales_offset_bytes) + b);
            __m256 *total = &lane[t][b % 8];
            *total = _mm256_fmadd_ps(_mm256_mul_ps(sums.d, d), _mm256_cvtepi32_ps(sums.sum[t]), *total);
            if (walk->has_bias)
                *total = _mm256_fnmadd_ps(_mm256_mul_ps(sums.m, d), _mm256_cvtepi32_ps(sums.bias[t]), *total);
        }
        for (unsigned r = 0; r < STRIP; r++)
            block[r] += walk->block_bytes;
    }
    for (unsigned t = 0; t < tokens; t++)
        finish_strip(args, lane[t], row, token + t, rows);
}

ALWAYS_INLINE void walk_matrix(const struct matmul_args *args, strip_fn *strip, size_t block_bytes, bool has_bias) {
    struct walk walk = {args, activation_layout(256, args->w->cols), block_bytes, has_bias};
    for (size_t row = args->row_begin; row < args->row_end; row += STRIP) {
        size_t token = 0;
        for (; token + TOKENS <= args->tokens; token += TOKENS)
            walk_strip(&walk, strip, row, token, TOKENS);
        for (; token + 2 <= args->tokens; token += 2)
            walk_strip(&walk, strip, row, token, 2);
        if (token < args->tokens)
            walk_strip(&walk, strip, row, token, 1);
    }
}

void avx2_matmul_q2_k(const struct matmul_args *args) { walk_matrix(args, q2_k_strip, sizeof(struct block_q2_k), true); }
void avx2_matmul_q3_k(const struct matmul_args *args) { walk_matrix(args, q3_k_strip, sizeof(struct block_q3_k), false); }
void avx2_matmul_q4_k(const struct matmul_args *args) { walk_matrix(args, q4_k_strip, sizeof(struct block_q4_k), true); }
void avx2_matmul_q5_k(const struct matmul_args *args) { walk_matrix(args, q5_k_strip, sizeof(struct block_q5_k), true); }
void avx2_matmul_q6_k(const struct matmul_args *args) { walk_matrix(args, q6_k_strip, sizeof(struct block_q6_k), false); }
void avx2_matmul_iq4_xs(const struct matmul_args *args) { walk_matrix(args, iq4_xs_strip, sizeof(struct block_iq4_xs), false); }
