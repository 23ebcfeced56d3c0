/*
 * norm: RMS, layer and length norm of one row (docs/ARITHMETIC.md, section 6).
 */
#include "kernel/math.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"

void ref_rms_norm(const float *x, const float *w, float *y, size_t count, float eps) {
    float r = math_rsqrt(lanes_dot(x, x, count) / (float)count + eps);
    for (size_t i = 0; i < count; i++) {
        float v = x[i] * r;
        y[i] = w ? v * w[i] : v;
    }
}

void ref_l2_norm(const float *x, float *y, size_t count, float eps) {
    float r = math_rsqrt(lanes_dot(x, x, count) + eps);
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] * r;
}

void ref_layer_norm(const float *x, const float *w, const float *b, float *y, size_t count, float eps) {
    float mean = lanes_sum(x, count) / (float)count;
    float lane[16] = {0};
    for (size_t i = 0; i < count; i++)
        lane[i % 16] = fmaf(x[i] - mean, x[i] - mean, lane[i % 16]);
    float r = math_rsqrt(lanes_tree(lane, 16) / (float)count + eps);
    for (size_t i = 0; i < count; i++) {
        float v = (x[i] - mean) * r;
        v = w ? v * w[i] : v;
        y[i] = b ? v + b[i] : v;
    }
}
