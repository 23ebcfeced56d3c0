/*
 * sampling: softmax, sums of exponentials and the largest element of a row (docs/ARITHMETIC.md, sections 9 and 13).
 */
#include "base/check.h"
#include "kernel/math.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"

void ref_softmax(float *x, size_t count) {
    CHECK(count > 0);
    float max = x[0];
    for (size_t i = 1; i < count; i++)
        max = x[i] > max ? x[i] : max;
    float sum = ref_exp_sum(x, x, count, max, 1.0f);
    for (size_t i = 0; i < count; i++)
        x[i] = x[i] / sum;
}

float ref_exp_sum(const float *x, float *y, size_t count, float max, float inverse_temperature) {
    for (size_t i = 0; i < count; i++)
        y[i] = math_exp((x[i] - max) * inverse_temperature);
    return lanes_sum(y, count);
}

size_t ref_argmax(const float *x, size_t count) {
    CHECK(count > 0);
    size_t best = 0;
    for (size_t i = 0; i < count; i++) {
        if (x[i] != x[i])
            return SIZE_MAX;
        best = x[i] > x[best] ? i : best;
    }
    return best;
}
