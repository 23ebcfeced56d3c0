/*
 * matmul_int: reference products of integer codes whose scales and zero points lie in tensors of their own: compressed-tensors, AWQ, GPTQ.
 *
 * The zero point is taken off inside the integer sum of a block, so that a block has one float term in all of them, and the same values
 * give the same bits however they are packed.
 */
#include <math.h>

#include "kernel/ref/block_dot.h"
#include "kernel/ref/int_groups.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"

#define TILE 16 /* outputs packed by columns that are computed together */

static size_t block_end(const struct matrix *w, size_t begin, size_t block) { return w->cols - begin < block ? w->cols : begin + block; }

static float int_row_dot(const struct matrix *w, size_t row, const struct activation_row *x, size_t block) {
    const uint8_t *codes = w->data + row * w->row_bytes;
    float lane[8] = {0};
    for (size_t begin = 0, b = 0; begin < w->cols; begin += block, b++) {
        size_t end = block_end(w, begin, block), group = begin / w->group_cols;
        int32_t sum = 0, zero = int_zero(w, row, group);
        for (size_t i = begin; i < end; i++)
            sum += (int_code(w, codes, i) - zero) * x->q[i];
        lane[b % 8] = fmaf(int_scale(w, row, group) * x->scales[b], (float)sum, lane[b % 8]);
    }
    return lanes_tree(lane, 8);
}

void ref_matmul_int_groups(const struct matmul_args *args) {
    const struct matrix *w = args->w;
    unsigned block = matrix_activation_block(w->format, w->group_cols);
    CHECK((w->bits == 4 || w->bits == 8) && w->cols % w->group_cols == 0 && args->row_end <= w->rows);
    for (size_t t = 0; t < args->tokens; t++) {
        struct activation_row x = activation_row_of(args, t, block);
        for (size_t r = args->row_begin; r < args->row_end; r++)
            args->y[t * args->y_stride + r] = int_row_dot(w, r, &x, block) * w->tensor_scale;
    }
}

/* Outputs [column, column + count) of the tensor. */
static void packed_tile(const struct matrix *w, const struct activation_row *x, size_t block, size_t column, size_t count, float *y) {
    float lane[TILE][8] = {{0}};
    size_t columns = packed_columns(w);
    for (size_t begin = 0, b = 0; begin < w->cols; begin += block, b++) {
        size_t end = block_end(w, begin, block), group = begin / w->group_cols;
        int32_t sum[TILE] = {0}, total = 0;
        for (size_t i = begin; i < end; i++) {
            total += x->q[i];
            for (size_t j = 0; j < count; j++)
                sum[j] += packed_code(w, columns, i, column + j) * x->q[i];
        }
        for (size_t j = 0; j < count; j++) {
            int32_t without_zero = sum[j] - packed_zero(w, columns, group, column + j) * total;
            lane[j][b % 8] = fmaf(packed_scale(w, group, column + j) * x->scales[b], (float)without_zero, lane[j][b % 8]);
        }
    }
    for (size_t j = 0; j < count; j++)
        y[j] = lanes_tree(lane[j], 8) * w->tensor_scale;
}

void ref_matmul_packed(const struct matmul_args *args) {
    const struct matrix *w = args->w;
    unsigned block = matrix_activation_block(w->format, w->group_cols);
    CHECK((w->bits == 4 || w->bits == 8) && w->biases && w->cols % w->group_cols == 0 && args->row_end <= w->rows);
    for (size_t t = 0; t < args->tokens; t++) {
        struct activation_row x = activation_row_of(args, t, block);
        for (size_t r = args->row_begin; r < args->row_end; r += TILE) {
            size_t count = args->row_end - r < TILE ? args->row_end - r : TILE;
            packed_tile(w, &x, block, w->group_row_offset + r, count, args->y + t * args->y_stride + r);
        }
    }
}
