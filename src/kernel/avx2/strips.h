/*
 * strips: the walk of matrix-vector products of 256-element blocks (matmul_k.c), which AVX2 and AVX-512 share.
 *
 * Eight rows at a time, block after block: the integer sums of a block of eight rows are one vector, its float part is one fma into the
 * vector of lane block % 8. A block's codes are unpacked once for up to four tokens. The last rows of a range are padded by
 * repeating the last row, whose extra results are not stored.
 */
#pragma once

#include "dtype/block_layouts.h"
#include "kernel/avx2/simd.h"
#include "kernel/kernel.h"

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
        _mm256_maskstore_ps(to, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)rows), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)), y);
}

/* Rows [row, row + STRIP) up to row_end, tokens [token, token + tokens). */
ALWAYS_INLINE void walk_strip(const struct walk *walk, strip_fn *strip, size_t row, size_t token, unsigned tokens) {
    const struct matmul_args *args = walk->args;
    const struct matrix *w = args->w;
    const uint8_t *block[STRIP], *next = w->data + (row + STRIP) * w->row_bytes; /* the next strip is fetched in the order of memory */
    size_t rows = args->row_end - row < STRIP ? args->row_end - row : STRIP, blocks = w->cols / 256;
    __m256 lane[TOKENS][8];
    for (size_t r = 0; r < STRIP; r++)
        block[r] = w->data + (row + (r < rows ? r : rows - 1)) * w->row_bytes;
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned l = 0; l < 8; l++)
            lane[t][l] = _mm256_setzero_ps();
    for (size_t b = 0; b < blocks; b++) {
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
#pragma GCC unroll 4
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

/* All rows of args; blocks of block_bytes bytes. has_bias: `m` counts. */
ALWAYS_INLINE void walk_matrix(const struct matmul_args *args, strip_fn *strip, size_t block_bytes, bool has_bias) {
    struct walk walk = {args, activation_layout(256, args->w->cols), block_bytes, has_bias};
    for (size_t row = args->row_begin; row < args->row_end; row += STRIP)
        for (size_t token = 0; token < args->tokens; token += TOKENS)
            switch (args->tokens - token) {
            case 1:
                walk_strip(&walk, strip, row, token, 1);
                break;
            case 2:
                walk_strip(&walk, strip, row, token, 2);
                break;
            case 3:
                walk_strip(&walk, strip, row, token, 3);
                break;
            default:
                walk_strip(&walk, strip, row, token, 4);
            }
}
