/*
 * vector_body: functions of one row (norms, rope, gates, sums, conversions, sampling), written once for all vector levels.
 *
 * Included by vector.c of a level after its wide.h, with LEVEL(name) giving the level's name of a function. Nothing past an end is touched.
 */
#include <math.h>

#include "kernel/math.h"
#include "kernel/ref/ref.h"
#include "kernel/wide/wide_math.h"

/* Lanes that are there from element i on. */
ALWAYS_INLINE unsigned lanes_from(size_t i, size_t count) { return count - i >= 16 ? 16 : (unsigned)(count - i); }

/* Lanes of the sum of (x - minus)^2, by fma. */
ALWAYS_INLINE wide square_lanes(const float *x, size_t count, wide minus) {
    wide sum = wide_zero();
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = lanes_from(i, count);
        wide d = wide_sub(wide_load_first(x + i, n), minus);
        sum = wide_first(wide_fma(d, d, sum), sum, n);
    }
    return sum;
}

void LEVEL(rms_norm)(const float *x, const float *w, float *y, size_t count, float eps) {
    wide r = wide_set(math_rsqrt(wide_tree(square_lanes(x, count, wide_zero())) / (float)count + eps));
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = lanes_from(i, count);
        wide v = wide_mul(wide_load_first(x + i, n), r);
        wide_store_first(y + i, w ? wide_mul(v, wide_load_first(w + i, n)) : v, n);
    }
}

void LEVEL(layer_norm)(const float *x, const float *w, const float *b, float *y, size_t count, float eps) {
    wide sum = wide_zero();
    for (size_t i = 0; i < count; i += 16)
        sum = wide_first(wide_add(sum, wide_load_first(x + i, lanes_from(i, count))), sum, lanes_from(i, count));
    wide mean = wide_set(wide_tree(sum) / (float)count);
    wide r = wide_set(math_rsqrt(wide_tree(square_lanes(x, count, mean)) / (float)count + eps));
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = lanes_from(i, count);
        wide v = wide_mul(wide_sub(wide_load_first(x + i, n), mean), r);
        v = w ? wide_mul(v, wide_load_first(w + i, n)) : v;
        wide_store_first(y + i, b ? wide_add(v, wide_load_first(b + i, n)) : v, n);
    }
}

void LEVEL(add)(float *y, const float *x, size_t count) {
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = lanes_from(i, count);
        wide_store_first(y + i, wide_add(wide_load_first(y + i, n), wide_load_first(x + i, n)), n);
    }
}

void LEVEL(multiply)(float *y, const float *x, size_t count) {
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = lanes_from(i, count);
        wide_store_first(y + i, wide_mul(wide_load_first(y + i, n), wide_load_first(x + i, n)), n);
    }
}

void LEVEL(scale)(float *y, float factor, size_t count) {
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = lanes_from(i, count);
        wide_store_first(y + i, wide_mul(wide_load_first(y + i, n), wide_set(factor)), n);
    }
}

void LEVEL(add_scaled)(float *y, const float *x, float factor, size_t count) {
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = lanes_from(i, count);
        wide_store_first(y + i, wide_fma(wide_load_first(x + i, n), wide_set(factor), wide_load_first(y + i, n)), n);
    }
}

void LEVEL(softcap)(float *x, size_t count, float cap) {
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = lanes_from(i, count);
        wide_store_first(x + i, wide_mul(wide_set(cap), wide_tanh(wide_div(wide_load_first(x + i, n), wide_set(cap)))), n);
    }
}

void LEVEL(f16_from_f32)(const float *x, uint16_t *y, size_t count) {
    for (size_t i = 0; i < count; i += 16)
        wide_store_f16_first(y + i, wide_load_first(x + i, lanes_from(i, count)), lanes_from(i, count));
}

void LEVEL(f32_from_f16)(const uint16_t *x, float *y, size_t count) {
    for (size_t i = 0; i < count; i += 16)
        wide_store_first(y + i, wide_load_f16((const uint8_t *)(x + i), lanes_from(i, count)), lanes_from(i, count));
}

void LEVEL(rope)(float *x, size_t heads, size_t stride, size_t half, const float *cos, const float *sin, bool pairs) {
    for (float *head = x; head < x + heads * stride; head += stride) {
        for (size_t i = 0; pairs && i < half; i += 8)
            wide_rotate_pairs(head + 2 * i, cos + i, sin + i, half - i < 8 ? (unsigned)(half - i) : 8);
        for (size_t i = 0; !pairs && i < half; i += 16) {
            unsigned n = lanes_from(i, half);
            wide c = wide_load_first(cos + i, n), s = wide_load_first(sin + i, n);
            wide x0 = wide_load_first(head + i, n), x1 = wide_load_first(head + half + i, n);
            wide_store_first(head + i, wide_fms(x0, c, wide_mul(x1, s)), n);
            wide_store_first(head + half + i, wide_fma(x0, s, wide_mul(x1, c)), n);
        }
    }
}

/* ---- gates ---- */

ALWAYS_INLINE wide activation(enum gate_kind kind, wide g, const struct gate_args *args) {
    switch (kind) {
    case GATE_SILU:
        return wide_mul(g, wide_sigmoid(g));
    case GATE_GELU_TANH:
        return wide_mul(g, wide_sigmoid(wide_mul(g, wide_fma(wide_mul(g, g), wide_set(0x1.2444f2p-4f), wide_set(0x1.988454p+0f)))));
    case GATE_GELU_ERF:
        return wide_mul(wide_mul(wide_set(0.5f), g), wide_add(wide_set(1.0f), wide_erf(wide_mul(g, wide_set(0x1.6a09e6p-1f)))));
    case GATE_RELU2:
        g = wide_max(wide_zero(), g);
        return wide_mul(g, g);
    case GATE_SWIGLU_CLAMPED:
        g = wide_min(wide_set(args->b), g);
        return wide_mul(g, wide_sigmoid(wide_mul(wide_set(args->a), g)));
    default:
        return wide_sigmoid(g);
    }
}

ALWAYS_INLINE void gate_row(enum gate_kind kind, const struct gate_args *args) {
    for (size_t i = 0; i < args->count; i += 16) {
        unsigned n = lanes_from(i, args->count);
        wide y = activation(kind, wide_load_first(args->gate + i, n), args);
        if (args->up) {
            wide u = wide_load_first(args->up + i, n);
            if (kind == GATE_SWIGLU_CLAMPED)
                u = wide_add(wide_max(wide_set(-args->b), wide_min(wide_set(args->b), u)), wide_set(1.0f));
            y = wide_mul(y, u);
        }
        wide_store_first(args->y + i, y, n);
    }
}

void LEVEL(gate)(const struct gate_args *args) {
    switch (args->kind) {
    case GATE_SILU:
        gate_row(GATE_SILU, args);
        break;
    case GATE_GELU_TANH:
        gate_row(GATE_GELU_TANH, args);
        break;
    case GATE_GELU_ERF:
        gate_row(GATE_GELU_ERF, args);
        break;
    case GATE_RELU2:
        gate_row(GATE_RELU2, args);
        break;
    case GATE_SWIGLU_CLAMPED:
        gate_row(GATE_SWIGLU_CLAMPED, args);
        break;
    case GATE_SIGMOID:
        gate_row(GATE_SIGMOID, args);
        break;
    default:
        ref_gate(args); /* xielu: double precision inside, and rare */
    }
}

/* ---- sampling ---- */

float LEVEL(exp_sum)(const float *x, float *y, size_t count, float max, float inverse_temperature) {
    wide sum = wide_zero();
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = lanes_from(i, count);
        wide e = wide_exp(wide_mul(wide_sub(wide_load_first(x + i, n), wide_set(max)), wide_set(inverse_temperature)));
        wide_store_first(y + i, e, n);
        sum = wide_first(wide_add(sum, e), sum, n);
    }
    return wide_tree(sum);
}

/* The largest number; NaNs are not reliably seen. */
ALWAYS_INLINE float largest(const float *x, size_t count) {
    wide max = wide_set(x[0]);
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = lanes_from(i, count);
        max = wide_first(wide_max(max, wide_load_first(x + i, n)), max, n);
    }
    return wide_largest(max);
}

void LEVEL(softmax)(float *x, size_t count) {
    wide sum = wide_set(LEVEL(exp_sum)(x, x, count, largest(x, count), 1.0f)); /* a NaN makes the sum NaN, and so every result */
    for (size_t i = 0; i < count; i += 16)
        wide_store_first(x + i, wide_div(wide_load_first(x + i, lanes_from(i, count)), sum), lanes_from(i, count));
}

size_t LEVEL(argmax)(const float *x, size_t count) {
    unsigned nan = 0;
    for (size_t i = 0; i < count; i += 16)
        nan |= wide_nan_bits(wide_load_first(x + i, lanes_from(i, count)));
    if (nan)
        return SIZE_MAX;
    wide max = wide_set(largest(x, count));
    for (size_t i = 0;; i += 16) { /* ends: the largest is there */
        unsigned n = lanes_from(i, count), equal = wide_equal_bits(wide_load_first(x + i, n), max) & ((1u << n) - 1u);
        if (equal)
            return i + (size_t)__builtin_ctz(equal);
    }
}
