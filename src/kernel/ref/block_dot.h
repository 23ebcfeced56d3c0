/*
 * block_dot: what the reference products of block-quantised formats share (docs/ARITHMETIC.md, section 5).
 *
 * A format gives, for one of its blocks and the int8 activations under it, up to two exact integer sums with the factor that the
 * block's own scale contributes; the walk over rows, tokens and blocks and the float part are the same for all.
 */
#pragma once

#include "kernel/kernel.h"

struct block_terms { /* value of the block: (d * d_a) * sum + (m * d_a) * bias_sum */
    float d, m;
    int32_t sum, bias_sum;
};

/* q and sums are those of the block: sums[i] is the sum of q[16 i .. 16 i + 15]. */
typedef void block_terms_fn(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out);

struct block_format {
    unsigned elements, bytes; /* of a block; the activation block is as long */
    bool has_bias;            /* the format has the second term */
    block_terms_fn *terms;
};

/* Rows, tokens and blocks of a product, with the format's terms. */
void ref_matmul_blocks(const struct matmul_args *args, const struct block_format *format);

/* The parts of a quantised activation row. */
struct activation_row {
    const int8_t *q;
    const float *scales;
    const int16_t *sums;
};
struct activation_row activation_row_of(const struct matmul_args *args, size_t token, unsigned block);

static inline int32_t dot_i8(const int8_t *a, const int8_t *b, size_t count) {
    int32_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}
