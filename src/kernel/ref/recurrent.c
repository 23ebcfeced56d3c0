/*
 * recurrent: one row of a short convolution and of the gated delta rule (docs/ARITHMETIC.md, section 16).
 */
#include <math.h>

#include "base/check.h"
#include "kernel/math.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"

void ref_short_conv(const struct short_conv_args *args) {
    CHECK(args->tap_count <= SHORT_CONV_TAPS_MAX);
    for (size_t c = 0; c < args->count; c++) {
        float y = args->bias ? args->bias[c] : 0.0f;
        for (size_t t = 0; t < args->tap_count; t++)
            y = fmaf(args->weights[t * args->weight_stride + c], args->taps[t][c], y);
        args->y[c] = args->silu ? y * math_sigmoid(y) : y;
    }
}

void ref_delta_rule(const struct delta_rule_args *args) {
    for (size_t r = 0; r < args->rows; r++) {
        const float *before = args->before + r * args->key_dim;
        float *after = args->after + r * args->key_dim, held = 0.0f;
        for (size_t i = 0; i < args->key_dim; i++)
            after[i] = before[i] * (args->decays ? args->decays[i] : args->decay);
        if (!args->plain)
            held = lanes_dot(after, args->k, args->key_dim);
        float stored = (args->v[r] - held) * args->beta;
        for (size_t i = 0; i < args->key_dim; i++)
            after[i] = fmaf(args->k[i], stored, after[i]);
        args->out[r] = lanes_dot(after, args->q, args->key_dim) * args->scale;
    }
}
