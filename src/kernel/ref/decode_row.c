/*
 * decode_row: rows of any matrix as f32, and the product of the oracle mode, which is made from them.
 */
#include <math.h>

#include "base/check.h"
#include "dtype/scalar_convert.h"
#include "kernel/ref/code_read.h"
#include "kernel/ref/int_groups.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"
#include "kernel/ref/scale_read.h"

static void decode_affine(const struct matrix *w, size_t row, float *dst) {
    const uint8_t *codes = w->data + row * w->row_bytes, *scales = w->scales + row * w->scales_row_bytes;
    const uint8_t *biases = w->biases + row * w->scales_row_bytes;
    for (size_t i = 0; i < w->cols; i++)
        dst[i] = fmaf(scale_read(w->scale_dtype, scales, i / w->group_cols), (float)code_read(codes, w->bits, i),
                      scale_read(w->scale_dtype, biases, i / w->group_cols));
}

static void decode_scaled(const struct matrix *w, size_t row, float *dst, float (*element)(const uint8_t *codes, size_t index),
                          size_t group) {
    const uint8_t *codes = w->data + row * w->row_bytes;
    const uint8_t *scales = w->scales + matrix_scale_row(w, row) * w->scales_row_bytes;
    for (size_t i = 0; i < w->cols; i++)
        dst[i] = element(codes, i) * scale_read(matrix_scale_dtype(w), scales, i / group);
}

static float element_e4m3(const uint8_t *codes, size_t index) { return f32_from_f8_e4m3(codes[index]); }
static float element_e5m2(const uint8_t *codes, size_t index) { return f32_from_f8_e5m2(codes[index]); }
static float element_e2m1(const uint8_t *codes, size_t index) { return f32_from_fp4_e2m1((uint8_t)code_read(codes, 4, index)); }

static void decode_int(const struct matrix *w, size_t row, float *dst) {
    const uint8_t *codes = w->data + row * w->row_bytes;
    for (size_t i = 0; i < w->cols; i++)
        dst[i] = (float)(int_code(w, codes, i) - int_zero(w, row, i / w->group_cols)) * int_scale(w, row, i / w->group_cols);
}

static void decode_packed(const struct matrix *w, size_t row, float *dst) {
    size_t columns = packed_columns(w), column = w->group_row_offset + row;
    for (size_t i = 0; i < w->cols; i++)
        dst[i] = (float)(packed_code(w, columns, i, column) - packed_zero(w, columns, i / w->group_cols, column)) *
                 packed_scale(w, i / w->group_cols, column);
}

/* A row of a transposed matrix, element by element. */
static void decode_column(const struct matrix *w, size_t row, float *dst) {
    const struct dtype_info *info = dtype_info((enum dtype)w->format);
    CHECK(w->format < DTYPE_COUNT && info->block_elements == 1);
    for (size_t i = 0; i < w->cols; i++)
        info->decode(w->data + row * w->row_bytes + i * w->col_bytes, dst + i, 1);
}

void ref_decode_row(const struct matrix *w, size_t row, float *dst) {
    CHECK(row < w->rows && w->format < MATRIX_FORMAT_COUNT);
    if (w->col_bytes) {
        decode_column(w, row, dst);
        return;
    }
    switch (w->format) {
    case MATRIX_AFFINE:
        decode_affine(w, row, dst);
        break;
    case MATRIX_F8_BLOCK:
        decode_scaled(w, row, dst, element_e4m3, w->group_cols);
        break;
    case MATRIX_F8_E5M2_BLOCK:
        decode_scaled(w, row, dst, element_e5m2, w->group_cols);
        break;
    case MATRIX_MXFP8_SPLIT:
        decode_scaled(w, row, dst, element_e4m3, 32);
        break;
    case MATRIX_INT_GROUPS:
    case MATRIX_INT8_GROUPS:
        decode_int(w, row, dst);
        break;
    case MATRIX_AWQ:
    case MATRIX_GPTQ:
    case MATRIX_GPTQ_V2:
        decode_packed(w, row, dst);
        break;
    case MATRIX_MXFP4_SPLIT:
        decode_scaled(w, row, dst, element_e2m1, 32);
        break;
    case MATRIX_NVFP4_SPLIT:
        decode_scaled(w, row, dst, element_e2m1, 16);
        break;
    default:
        CHECK(dtype_info((enum dtype)w->format)->decode);
        dtype_info((enum dtype)w->format)->decode(w->data + row * w->row_bytes, dst, w->cols);
    }
    if (w->tensor_scale < 1.0f || w->tensor_scale > 1.0f)
        for (size_t i = 0; i < w->cols; i++)
            dst[i] *= w->tensor_scale;
}

void ref_matmul_decoded(const struct matmul_args *args, float *scratch) {
    CHECK(args->row_end <= args->w->rows && args->x_row_bytes % sizeof(float) == 0);
    for (size_t r = args->row_begin; r < args->row_end; r++) {
        ref_decode_row(args->w, r, scratch);
        for (size_t t = 0; t < args->tokens; t++)
            args->y[t * args->y_stride + r] =
                lanes_dot(scratch, (const float *)(const void *)(args->x + t * args->x_row_bytes), args->w->cols);
    }
}
