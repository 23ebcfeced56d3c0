/*
 * scale_read: scales and biases of formats that keep them in tensors of their own.
 */
#pragma once

#include "kernel/kernel.h"

/* Element `index` of a row of scales. F32, F16, BF16, F8_E8M0 and F8_E4M3; other types are a programmer error. */
float scale_read(enum dtype dtype, const uint8_t *row, size_t index);

/* Row of the scales that row r of the matrix uses. */
static inline size_t matrix_scale_row(const struct matrix *w, size_t r) {
    return w->group_rows > 1 ? (w->group_row_offset + r) / w->group_rows : r;
}

/* Type of the scales: MXFP4, MXFP8 and NVFP4 fix it, others name it. */
static inline enum dtype matrix_scale_dtype(const struct matrix *w) {
    if (w->format == MATRIX_MXFP4_SPLIT || w->format == MATRIX_MXFP8_SPLIT)
        return DTYPE_F8_E8M0;
    return w->format == MATRIX_NVFP4_SPLIT ? DTYPE_F8_E4M3 : w->scale_dtype;
}
