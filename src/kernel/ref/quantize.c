/*
 * quantize: a row of activations to int8 with one scale per block (docs/ARITHMETIC.md, section 4).
 */
#include <math.h>
#include <string.h>

#include "dtype/scalar_convert.h"
#include "kernel/ref/ref.h"

/* The largest magnitude as bits, so that an infinity or a NaN wins. */
static uint32_t magnitude_bits(const float *x, size_t count) {
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_from_f32(x[i]) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* Returns the scale. A block with an infinity or a NaN gets q 0 and a scale of NaN, which reaches every output. */
static float quantize_block(const float *x, size_t count, int8_t *q) {
    float amax = f32_from_bits(magnitude_bits(x, count));
    if (!(amax >= 0x1p-100f && amax < INFINITY)) {
        memset(q, 0, count);
        return amax < 0x1p-100f ? 0.0f : NAN;
    }
    float inverse = 127.0f / amax;
    for (size_t i = 0; i < count; i++) {
        float v = rintf(x[i] * inverse);
        v = v > 127.0f ? 127.0f : v;
        q[i] = (int8_t)(v < -127.0f ? -127.0f : v);
    }
    return amax / 127.0f;
}

void ref_quantize(const float *x, size_t cols, unsigned block, uint8_t *row) {
    struct activation_layout layout = activation_layout(block, cols);
    memset(row, 0, layout.row_bytes);
    int8_t *q = (int8_t *)row;
    for (size_t begin = 0, b = 0; begin < cols; begin += block, b++) {
        size_t count = cols - begin < block ? cols - begin : block;
        float d = quantize_block(x + begin, count, q + begin);
        memcpy(row + layout.scales_offset_bytes + b * sizeof d, &d, sizeof d);
    }
    for (size_t i = 0; i < cols; i += 16) {
        int16_t sum = 0;
        for (size_t j = i; j < cols && j < i + 16; j++)
            sum = (int16_t)(sum + q[j]);
        memcpy(row + layout.sums_offset_bytes + i / 16 * sizeof sum, &sum, sizeof sum);
    }
}
