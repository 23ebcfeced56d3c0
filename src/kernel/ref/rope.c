/*
 * rope: rotates pairs of elements of each head by the angles of one position (docs/ARITHMETIC.md, section 7).
 */
#include <math.h>

#include "kernel/ref/ref.h"

void ref_rope(float *x, size_t heads, size_t stride, size_t half, const float *cos, const float *sin, bool pairs) {
    for (size_t h = 0; h < heads; h++) {
        float *head = x + h * stride;
        for (size_t i = 0; i < half; i++) {
            float *a = pairs ? head + 2 * i : head + i;
            float *b = pairs ? head + 2 * i + 1 : head + half + i;
            float x0 = *a, x1 = *b;
            *a = fmaf(x0, cos[i], -(x1 * sin[i]));
            *b = fmaf(x0, sin[i], x1 * cos[i]);
        }
    }
}
