/*
 * encode: f32 to the formats that `sluice pack --type` writes.
 *
 * Method   least squares: for a group with one scale (or scale and offset) a row of trial scales is rounded to codes, the best scale for
 *          those codes is computed, and the pair with the smallest squared error is kept. Scales are then rounded to what the format can
 *          hold, and codes chosen for the rounded ones.
 * Result   a function of the input alone: the same bytes on every machine (docs/ARITHMETIC.md's rules: no contraction, fixed order).
 * Input    finite numbers; the caller checks. Values too large for a format's f16 scale saturate to its largest finite one.
 * Threads  pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype/dtype.h"

/* F16, BF16, Q4_0, Q8_0, Q4_K, Q5_K, Q6_K. */
bool dtype_can_encode(enum dtype dtype);
/* Encodes `count` elements, a multiple of the format's block, of a format that can be; dst needs no alignment. */
void dtype_encode(enum dtype dtype, const float *src, void *dst, size_t count);

/*
 * One row of MLX's affine format: `count` elements (a multiple of `group`; group 32, 64 or 128) as codes of 4 or 8 bits, and count / group
 * scales and biases in scale_dtype (F32, F16 or BF16). element = scale * code + bias.
 */
struct affine_row {
    uint8_t *codes, *scales, *biases;
    unsigned bits;
    enum dtype scale_dtype;
    size_t group;
};
void encode_affine(const float *src, size_t count, const struct affine_row *row);
