/*
 * block_dot: the shared walk of block-quantised reference products.
 */
#include "kernel/ref/block_dot.h"

#include <math.h>

#include "base/check.h"
#include "kernel/ref/lanes.h"

struct activation_row activation_row_of(const struct matmul_args *args, size_t token, unsigned block) {
    struct activation_layout layout = activation_layout(block, args->w->cols);
    const uint8_t *row = args->x + token * args->x_row_bytes;
    CHECK(((uintptr_t)row & 3) == 0 && args->x_row_bytes >= layout.row_bytes);
    return (struct activation_row){
        .q = (const int8_t *)row,
        .scales = (const float *)(const void *)(row + layout.scales_offset_bytes),
        .sums = (const int16_t *)(const void *)(row + layout.sums_offset_bytes),
    };
}

static float block_row_dot(const struct block_format *format, const uint8_t *weights, const struct activation_row *x, size_t blocks) {
    float lane[8] = {0};
    for (size_t b = 0; b < blocks; b++) {
        struct block_terms t = {0};
        format->terms(weights + b * format->bytes, x->q + b * format->elements, x->sums + b * format->elements / 16, &t);
        lane[b % 8] = fmaf(t.d * x->scales[b], (float)t.sum, lane[b % 8]);
        if (format->has_bias)
            lane[b % 8] = fmaf(t.m * x->scales[b], (float)t.bias_sum, lane[b % 8]);
    }
    return lanes_tree(lane, 8);
}

void ref_matmul_blocks(const struct matmul_args *args, const struct block_format *format) {
    const struct matrix *w = args->w;
    CHECK(w->cols % format->elements == 0 && args->row_end <= w->rows);
    for (size_t t = 0; t < args->tokens; t++) {
        struct activation_row x = activation_row_of(args, t, format->elements);
        for (size_t r = args->row_begin; r < args->row_end; r++)
            args->y[t * args->y_stride + r] =
                block_row_dot(format, w->data + r * w->row_bytes, &x, w->cols / format->elements) * w->tensor_scale;
    }
}
