/*
 * matrix: a weight matrix as it lies in memory, and the formats that products are written for.
 *
 * Ownership  borrowed bytes; a matrix may be any row range of a weight.
 */
#pragma once

#include <stdbool.h>
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
    MATRIX_F8_E5M2_BLOCK,        /* as F8_BLOCK with e5m2 codes */
    MATRIX_INT_GROUPS,           /* `bits` (4 or 8) per code as a little-endian bit stream, scale * (code - zero); zero is half the range,
                                    or one per group, group_rows rows of them packed into a 32-bit word in `biases` (compressed-tensors) */
    MATRIX_INT8_GROUPS,          /* signed bytes, scale per group_cols or, without scales, tensor_scale alone */
    /* stored [in][out], so that a row range is known by group_row_offset and not by pointers: see matrix_is_packed_by_columns */
    MATRIX_AWQ,     /* 4-bit codes, eight neighbouring outputs 0 2 4 6 1 3 5 7 in a word; zeros alike */
    MATRIX_GPTQ,    /* 4- or 8-bit codes, neighbouring inputs in a word; zeros: neighbouring outputs in a word, stored minus 1 */
    MATRIX_GPTQ_V2, /* the same with zeros as they are */
    MATRIX_FORMAT_COUNT,
};

struct matrix {      /* [rows][cols], borrowed; may be any row range of a weight */
    unsigned format; /* enum matrix_format, or an enum dtype below it */
    size_t rows, cols;
    const uint8_t *data;
    size_t row_bytes; /* from one row to the next */
    /* transposed: from one element of a row to the next (F32, F16, BF16, scaled fp8 only); 0: side by side. Scales lie as stored:
     * group_rows inputs and group_cols outputs share one, group_row_offset is input 0's place in its group. */
    size_t col_bytes;
    /* companions; NULL and 0 for formats without */
    const uint8_t *scales, *biases;
    size_t scales_row_bytes;
    enum dtype scale_dtype;
    uint32_t group_cols, group_rows;
    uint32_t bits;
    uint32_t group_row_offset; /* first row's place inside its group_rows group (row ranges of a weight) */
    float tensor_scale;        /* multiplies the product; 1 for most (set it) */
};

const char *matrix_format_name(unsigned format); /* "Q4_K", "affine": for people */
const char *matrix_format_origin(unsigned format); /* whose files have it, and what it is made of; a format with companions */
/* Rows [first, first + count) of a matrix. */
struct matrix matrix_rows(const struct matrix *w, size_t first, size_t count);

/* Words of several outputs: data, scales and biases always point at output 0, group_row_offset is the output that row 0 is. */
static inline bool matrix_is_packed_by_columns(unsigned format) {
    return format == MATRIX_AWQ || format == MATRIX_GPTQ || format == MATRIX_GPTQ_V2;
}
