/*
 * matmul_float_body: products of float weights: one accumulator of 16 lanes per output, several rows and tokens at a time to hide
 * latency; written once for all vector levels.
 *
 * Rows beyond the end of a range repeat the last row; their results are not stored. fp8 weights are summed in blocks, each added to
 * the total by one fma with its scale.
 */
#include "base/check.h"
#include "kernel/ref/scale_read.h"

/* The first n elements at x as f32. */
typedef wide load_fn(const uint8_t *x, unsigned n);
ALWAYS_INLINE wide load_f32(const uint8_t *x, unsigned n) { return wide_load_first((const float *)(const void *)x, n); }

struct tile { /* rows x tokens outputs */
    const uint8_t *row[WIDE_ROWS_ALONE];
    const float *x[WIDE_TOKENS];
    wide sum[WIDE_ROWS_ALONE][WIDE_TOKENS];
};

/* sum[r][t] = 16 lanes of elements [begin, end) of row r times token t. */
ALWAYS_INLINE void tile_lanes(struct tile *tile, load_fn *load, size_t element_bytes, unsigned rows, unsigned tokens, size_t begin, size_t end) {
    wide sum[WIDE_ROWS_ALONE][WIDE_TOKENS];
#pragma GCC unroll 8
    for (unsigned r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++)
            sum[r][t] = wide_zero();
    size_t i = begin;
    for (; i + 16 <= end; i += 16) {
        wide x[WIDE_TOKENS];
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++)
            x[t] = wide_load(tile->x[t] + i);
#pragma GCC unroll 8
        for (unsigned r = 0; r < rows; r++) {
            wide w = load(tile->row[r] + i * element_bytes, 16);
#pragma GCC unroll 4
            for (unsigned t = 0; t < tokens; t++)
                sum[r][t] = wide_fma(w, x[t], sum[r][t]);
        }
    }
    unsigned left = (unsigned)(end - i);
#pragma GCC unroll 8
    for (unsigned r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++) {
            if (left > 0) { /* lanes above the end stay as they are */
                wide next = wide_fma(load(tile->row[r] + i * element_bytes, left), wide_load_first(tile->x[t] + i, left), sum[r][t]);
                sum[r][t] = wide_first(next, sum[r][t], left);
            }
            tile->sum[r][t] = sum[r][t];
        }
}

/* block 0: one sum over the row; else sums of `block` elements, with scales when the matrix has them. */
ALWAYS_INLINE void tile_product(const struct matmul_args *args, load_fn *load, size_t element_bytes, size_t block, size_t row, size_t token, unsigned rows,
                                unsigned tokens) {
    const struct matrix *w = args->w;
    struct tile tile;
    size_t valid = args->row_end - row < rows ? args->row_end - row : rows;
    float total[WIDE_ROWS_ALONE][WIDE_TOKENS] = {{0}};
    for (unsigned r = 0; r < rows; r++)
        tile.row[r] = w->data + (row + (r < valid ? r : valid - 1)) * w->row_bytes;
    for (unsigned t = 0; t < tokens; t++)
        tile.x[t] = (const float *)(const void *)(args->x + (token + t) * args->x_row_bytes);
    for (size_t begin = 0; begin < w->cols; begin += block ? block : w->cols) {
        size_t end = block && w->cols - begin > block ? begin + block : w->cols;
        tile_lanes(&tile, load, element_bytes, rows, tokens, begin, end);
        for (unsigned r = 0; r < valid; r++) {
            float scale = 1.0f;
            if (block && w->scales)
                scale = scale_read(matrix_scale_dtype(w), w->scales + matrix_scale_row(w, row + r) * w->scales_row_bytes, begin / block);
            for (unsigned t = 0; t < tokens; t++) {
                float sum = wide_tree(tile.sum[r][t]);
                total[r][t] = block ? fused_multiply_add(scale, sum, total[r][t]) : sum;
            }
        }
    }
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned r = 0; r < valid; r++)
            args->y[(token + t) * args->y_stride + row + r] = total[r][t] * w->tensor_scale;
}

ALWAYS_INLINE void product(const struct matmul_args *args, load_fn *load, size_t element_bytes, size_t block) {
    if (args->tokens == 1) {
        for (size_t row = args->row_begin; row < args->row_end; row += WIDE_ROWS_ALONE)
            tile_product(args, load, element_bytes, block, row, 0, WIDE_ROWS_ALONE, 1);
        return;
    }
    for (size_t row = args->row_begin; row < args->row_end; row += WIDE_ROWS) {
        size_t token = 0;
        for (; token + WIDE_TOKENS <= args->tokens; token += WIDE_TOKENS)
            tile_product(args, load, element_bytes, block, row, token, WIDE_ROWS, WIDE_TOKENS);
        for (; token + 2 <= args->tokens; token += 2)
            tile_product(args, load, element_bytes, block, row, token, WIDE_ROWS, 2);
        if (token < args->tokens)
            tile_product(args, load, element_bytes, block, row, token, WIDE_ROWS, 1);
    }
}

void LEVEL(matmul_f32)(const struct matmul_args *args) { product(args, load_f32, 4, 0); }
void LEVEL(matmul_f16)(const struct matmul_args *args) { product(args, wide_load_f16, 2, 0); }
void LEVEL(matmul_bf16)(const struct matmul_args *args) { product(args, wide_load_bf16, 2, 0); }
void LEVEL(matmul_f8_e4m3)(const struct matmul_args *args) { product(args, wide_load_e4m3, 1, 128); }
void LEVEL(matmul_f8_e5m2)(const struct matmul_args *args) { product(args, wide_load_e5m2, 1, 128); }
void LEVEL(matmul_f8_block)(const struct matmul_args *args) {
    CHECK(args->w->group_cols > 0 && args->w->group_rows > 0 && args->w->scales);
    product(args, wide_load_e4m3, 1, args->w->group_cols);
}
void LEVEL(matmul_mxfp8_split)(const struct matmul_args *args) {
    CHECK(args->w->scales);
    product(args, wide_load_e4m3, 1, 32);
}
