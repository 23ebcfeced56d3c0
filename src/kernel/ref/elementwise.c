/*
 * elementwise: sums, products, conversions of vectors, one IEEE operation per element.
 */
#include <math.h>

#include "dtype/scalar_convert.h"
#include "kernel/math.h"
#include "kernel/ref/ref.h"

void ref_add(float *y, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++)
        y[i] += x[i];
}

void ref_multiply(float *y, const float *x, size_t count) {
    for (size_t i = 0; i < count; i++)
        y[i] *= x[i];
}

void ref_scale(float *y, float factor, size_t count) {
    for (size_t i = 0; i < count; i++)
        y[i] *= factor;
}

void ref_add_scaled(float *y, const float *x, float factor, size_t count) {
    for (size_t i = 0; i < count; i++)
        y[i] = fmaf(x[i], factor, y[i]);
}

void ref_softcap(float *x, size_t count, float cap) {
    for (size_t i = 0; i < count; i++)
        x[i] = cap * math_tanh(x[i] / cap);
}

void ref_f16_from_f32(const float *x, uint16_t *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        y[i] = f16_from_f32(x[i]);
}

void ref_f32_from_f16(const uint16_t *x, float *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        y[i] = f32_from_f16(x[i]);
}
