/*
 * int_groups: codes, zero points and scales of integer formats that keep them in tensors of their own.
 *
 * Row-major: MATRIX_INT_GROUPS (codes from 0, a bit stream) and MATRIX_INT8_GROUPS (signed bytes). Packed by columns, stored [in][out]:
 * MATRIX_AWQ and MATRIX_GPTQ. A value is scale * (code - zero).
 */
#pragma once

#include <string.h>

#include "base/check.h"
#include "kernel/ref/code_read.h"
#include "kernel/ref/scale_read.h"

static inline uint32_t packed_word(const uint8_t *words, size_t index) {
    uint32_t word;
    memcpy(&word, words + 4 * index, sizeof word);
    return word;
}

/* Outputs of the whole tensor that a matrix packed by columns is a row range of. */
static inline size_t packed_columns(const struct matrix *w) { return w->scales_row_bytes / dtype_info(w->scale_dtype)->block_bytes; }

/* Which nibble of a word of AWQ holds neighbour j. */
static inline unsigned awq_nibble(size_t j) { return (unsigned)(j % 8 / 2 + j % 2 * 4); }

/* Code of input `col` for output `column` of the tensor. columns: packed_columns. */
static inline int32_t packed_code(const struct matrix *w, size_t columns, size_t col, size_t column) {
    if (w->format == MATRIX_AWQ)
        return (int32_t)(packed_word(w->data, col * (columns / 8) + column / 8) >> 4 * awq_nibble(column) & 15);
    unsigned per_word = 32 / w->bits;
    return (int32_t)(packed_word(w->data, col / per_word * columns + column) >> col % per_word * w->bits & ((1u << w->bits) - 1));
}

static inline int32_t packed_zero(const struct matrix *w, size_t columns, size_t group, size_t column) {
    if (w->format == MATRIX_AWQ)
        return (int32_t)(packed_word(w->biases, group * (columns / 8) + column / 8) >> 4 * awq_nibble(column) & 15);
    unsigned per_word = 32 / w->bits;
    uint32_t word = packed_word(w->biases, group * (columns / per_word) + column / per_word);
    return (int32_t)(word >> column % per_word * w->bits & ((1u << w->bits) - 1)) + (w->format == MATRIX_GPTQ);
}

static inline float packed_scale(const struct matrix *w, size_t group, size_t column) {
    return scale_read(w->scale_dtype, w->scales + group * w->scales_row_bytes, column);
}

/* Code of a row-major row, less its zero point. */
static inline int32_t int_zero(const struct matrix *w, size_t row, size_t group) {
    if (w->format == MATRIX_INT8_GROUPS)
        return 0;
    if (!w->biases)
        return 1 << (w->bits - 1);
    size_t at = w->group_row_offset + row, groups = w->cols / w->group_cols;
    return (int32_t)(packed_word(w->biases, at / w->group_rows * groups + group) >> at % w->group_rows * w->bits & ((1u << w->bits) - 1));
}

static inline int32_t int_code(const struct matrix *w, const uint8_t *codes, size_t col) {
    return w->format == MATRIX_INT8_GROUPS ? (int8_t)codes[col] : (int32_t)code_read(codes, w->bits, col);
}

static inline float int_scale(const struct matrix *w, size_t row, size_t group) {
    return w->scales ? scale_read(w->scale_dtype, w->scales + row * w->scales_row_bytes, group) : 1.0f;
}
