/*
 * matrix: a weight matrix as it lies in memory, and the formats that products are written for.
 *
 * Ownership  borrowed bytes; a matrix may be any row range of a weight.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "dtype/dtype.h"

/* What a matmul kernel is written for: every dtype that holds weights, then formats whose scales lie in tensors of their own. */
enum matrix_format {
    /* 0 .. DTYPE_COUNT-1: enum dtype, scales (if any) inside the blocks */
    MATRIX_AFFINE = DTYPE_COUNT, /* MLX: `bits` per code as a little-endian bit stream, scale and bias per group_cols */
    MATRIX_F8_BLOCK,             /* fp8 codes, scale per [group_rows][group_cols] */
    MATRIX_MXFP4_SPLIT,          /* e2m1 codes, e8m0 scale per 32 (MLX, and gpt-oss safetensors) */
    MATRIX_NVFP4_SPLIT,          /* e2m1 codes, e4m3 scale per 16, f32 scale per tensor */
    MATRIX_MXFP8_SPLIT,          /* e4m3 codes, e8m0 scale per 32 */
    MATRIX_FORMAT_COUNT,
};

struct matrix {      /* [rows][cols], borrowed; may be any row range of a weight */
    unsigned format; /* enum matrix_format, or an enum dtype below it */
    size_t rows, cols;
    const uint8_t *data;
    size_t row_bytes; /* from one row to the next */
    /* companions; NULL and 0 for formats without */
    const uint8_t *scales, *biases;
    size_t scales_row_bytes;
    enum dtype scale_dtype;
    uint32_t group_cols, group_rows;
    uint32_t bits;
    uint32_t group_row_offset; /* first row's place inside its group_rows group (row ranges of a weight) */
    float tensor_scale;        /* multiplies the product; 1 for most (set it) */
};
