/*
 * lanes: the fixed orders of summation of the reference kernels (docs/ARITHMETIC.md, section 1).
 *
 * Element i of a sum over a row belongs to lane i % 16; lanes are added as a tree, j and j + 8 first. Sums over blocks use eight lanes.
 */
#pragma once

#include <math.h>
#include <stddef.h>

static inline float lanes_tree(float *lane, size_t lanes) {
    for (size_t width = lanes / 2; width > 0; width /= 2)
        for (size_t j = 0; j < width; j++)
            lane[j] += lane[j + width];
    return lane[0];
}

static inline float lanes_dot(const float *a, const float *b, size_t count) {
    float lane[16] = {0};
    for (size_t i = 0; i < count; i++)
        lane[i % 16] = fmaf(a[i], b[i], lane[i % 16]);
    return lanes_tree(lane, 16);
}

static inline float lanes_sum(const float *x, size_t count) {
    float lane[16] = {0};
    for (size_t i = 0; i < count; i++)
        lane[i % 16] += x[i];
    return lanes_tree(lane, 16);
}
