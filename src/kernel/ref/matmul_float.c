/*
 * matmul_float: reference products of float weights with f32 activations (docs/ARITHMETIC.md, section 3).
 */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "dtype/scalar_convert.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"
#include "kernel/ref/scale_read.h"

typedef float element_fn(const uint8_t *row, size_t index);

static float element_f32(const uint8_t *row, size_t index) {
    float value;
    memcpy(&value, row + index * sizeof value, sizeof value);
    return value;
}
static float element_f16(const uint8_t *row, size_t index) { return f32_from_f16((uint16_t)(row[2 * index] | row[2 * index + 1] << 8)); }
static float element_bf16(const uint8_t *row, size_t index) { return f32_from_bf16((uint16_t)(row[2 * index] | row[2 * index + 1] << 8)); }
static float element_e4m3(const uint8_t *row, size_t index) { return f32_from_f8_e4m3(row[index]); }
static float element_e5m2(const uint8_t *row, size_t index) { return f32_from_f8_e5m2(row[index]); }

static const float *activations_of(const struct matmul_args *args, size_t token) {
    CHECK(args->row_end <= args->w->rows && args->x_row_bytes % sizeof(float) == 0);
    return (const float *)(const void *)(args->x + token * args->x_row_bytes);
}

/* One 16-lane sum over elements [begin, end); lanes count from `begin`. */
static float element_dot(element_fn *element, const uint8_t *row, const float *x, size_t begin, size_t end) {
    float lane[16] = {0};
    for (size_t i = begin; i < end; i++)
        lane[(i - begin) % 16] = fmaf(element(row, i), x[i], lane[(i - begin) % 16]);
    return lanes_tree(lane, 16);
}

static void matmul_plain(const struct matmul_args *args, element_fn *element) {
    const struct matrix *w = args->w;
    for (size_t t = 0; t < args->tokens; t++)
        for (size_t r = args->row_begin; r < args->row_end; r++)
            args->y[t * args->y_stride + r] =
                element_dot(element, w->data + r * w->row_bytes, activations_of(args, t), 0, w->cols) * w->tensor_scale;
}

/* Cut into blocks of `block` elements, each added by one fma with its scale; a NULL scales row means 1. */
static void matmul_scaled(const struct matmul_args *args, element_fn *element, size_t block) {
    const struct matrix *w = args->w;
    for (size_t t = 0; t < args->tokens; t++) {
        const float *x = activations_of(args, t);
        for (size_t r = args->row_begin; r < args->row_end; r++) {
            const uint8_t *scales = w->scales ? w->scales + matrix_scale_row(w, r) * w->scales_row_bytes : NULL;
            float total = 0;
            for (size_t begin = 0; begin < w->cols; begin += block) {
                size_t end = w->cols - begin < block ? w->cols : begin + block;
                float scale = scales ? scale_read(matrix_scale_dtype(w), scales, begin / block) : 1.0f;
                total = fmaf(scale, element_dot(element, w->data + r * w->row_bytes, x, begin, end), total);
            }
            args->y[t * args->y_stride + r] = total * w->tensor_scale;
        }
    }
}

void ref_matmul_f32(const struct matmul_args *args) { matmul_plain(args, element_f32); }
void ref_matmul_f16(const struct matmul_args *args) { matmul_plain(args, element_f16); }
void ref_matmul_bf16(const struct matmul_args *args) { matmul_plain(args, element_bf16); }
void ref_matmul_f8_e4m3(const struct matmul_args *args) { matmul_scaled(args, element_e4m3, 128); }
void ref_matmul_f8_e5m2(const struct matmul_args *args) { matmul_scaled(args, element_e5m2, 128); }
void ref_matmul_f8_block(const struct matmul_args *args) {
    CHECK(args->w->group_cols > 0 && args->w->group_rows > 0 && args->w->scales);
    matmul_scaled(args, element_e4m3, args->w->group_cols);
}
void ref_matmul_f8_e5m2_block(const struct matmul_args *args) {
    CHECK(args->w->group_cols > 0 && args->w->group_rows > 0 && args->w->scales);
    matmul_scaled(args, element_e5m2, args->w->group_cols);
}
void ref_matmul_mxfp8_split(const struct matmul_args *args) {
    CHECK(args->w->scales);
    matmul_scaled(args, element_e4m3, 32);
}

/* Scaled fp8, stored transposed: decoded, then as other floats. */
static void matmul_scaled_columns(const struct matmul_args *args, element_fn *element) {
    const struct matrix *w = args->w;
    CHECK(w->scales && w->group_cols > 0 && w->row_bytes == 1);
    for (size_t t = 0; t < args->tokens; t++) {
        const float *x = activations_of(args, t);
        for (size_t r = args->row_begin; r < args->row_end; r++) {
            float lane[16] = {0};
            for (size_t i = 0; i < w->cols; i++) {
                const uint8_t *scales = w->scales + matrix_scale_row(w, i) * w->scales_row_bytes;
                float weight = element(w->data + i * w->col_bytes, r) * scale_read(w->scale_dtype, scales, r / w->group_cols);
                lane[i % 16] = fmaf(weight, x[i], lane[i % 16]);
            }
            args->y[t * args->y_stride + r] = lanes_tree(lane, 16) * w->tensor_scale;
        }
    }
}

void ref_matmul_columns(const struct matmul_args *args) {
    const struct matrix *w = args->w;
    if (w->format == MATRIX_F8_BLOCK || w->format == MATRIX_F8_E5M2_BLOCK) {
        matmul_scaled_columns(args, w->format == MATRIX_F8_BLOCK ? element_e4m3 : element_e5m2);
        return;
    }
    element_fn *element = w->format == DTYPE_F32 ? element_f32 : w->format == DTYPE_F16 ? element_f16 : element_bf16;
    CHECK(w->col_bytes > 0 && (w->format == DTYPE_F32 || w->format == DTYPE_F16 || w->format == DTYPE_BF16));
    for (size_t t = 0; t < args->tokens; t++) {
        const float *x = activations_of(args, t);
        for (size_t r = args->row_begin; r < args->row_end; r++) {
            const uint8_t *row = w->data + r * w->row_bytes;
            float lane[16] = {0};
            for (size_t i = 0; i < w->cols; i++)
                lane[i % 16] = fmaf(element(row + i * w->col_bytes, 0), x[i], lane[i % 16]);
            args->y[t * args->y_stride + r] = lanes_tree(lane, 16) * w->tensor_scale;
        }
    }
}
