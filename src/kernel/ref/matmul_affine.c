/*
 * matmul_affine: reference product of MLX's affine codes: scale * code + bias per group, scales and biases in tensors of their own.
 *
 * A group of up to 128 elements is one activation block and one pair of float terms; longer groups are cut into runs of 128.
 */
#include <math.h>

#include "base/check.h"
#include "kernel/ref/block_dot.h"
#include "kernel/ref/code_read.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"
#include "kernel/ref/scale_read.h"

static float affine_row_dot(const struct matrix *w, size_t row, const struct activation_row *x, size_t block) {
    const uint8_t *codes = w->data + row * w->row_bytes;
    const uint8_t *scales = w->scales + row * w->scales_row_bytes, *biases = w->biases + row * w->scales_row_bytes;
    float lane[8] = {0};
    for (size_t b = 0; b < w->cols / block; b++) {
        int32_t sum = 0, bias_sum = 0;
        for (size_t i = b * block; i < (b + 1) * block; i++)
            sum += (int32_t)code_read(codes, w->bits, i) * x->q[i];
        for (size_t i = b * block / 16; i < (b + 1) * block / 16; i++)
            bias_sum += x->sums[i];
        size_t group = b * block / w->group_cols;
        float d = scale_read(w->scale_dtype, scales, group), m = scale_read(w->scale_dtype, biases, group);
        lane[b % 8] = fmaf(d * x->scales[b], (float)sum, lane[b % 8]);
        lane[b % 8] = fmaf(m * x->scales[b], (float)bias_sum, lane[b % 8]);
    }
    return lanes_tree(lane, 8);
}

void ref_matmul_affine(const struct matmul_args *args) {
    const struct matrix *w = args->w;
    unsigned block = matrix_activation_block(MATRIX_AFFINE, w->group_cols);
    CHECK(w->bits >= 1 && w->bits <= 8 && w->scales && w->biases && w->cols % w->group_cols == 0 && args->row_end <= w->rows);
    for (size_t t = 0; t < args->tokens; t++) {
        struct activation_row x = activation_row_of(args, t, block);
        for (size_t r = args->row_begin; r < args->row_end; r++)
            args->y[t * args->y_stride + r] = affine_row_dot(w, r, &x, block) * w->tensor_scale;
    }
}
