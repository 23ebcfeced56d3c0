/*
 * gate: activation functions of feed-forward blocks (docs/ARITHMETIC.md, section 8).
 */
#include <math.h>

#include "base/check.h"
#include "kernel/math.h"
#include "kernel/ref/ref.h"

/* sqrt(2 / pi) (g + 0.044715 g^3) doubled, since (1 + tanh(z)) / 2 = sigmoid(2 z): nothing cancels for negative g. */
static float gelu_tanh(float g) { return g * math_sigmoid(g * fmaf(g * g, 0x1.2444f2p-4f, 0x1.988454p+0f)); }

static float xielu(float g, const struct gate_args *args) {
    float linear = args->c * g;
    if (g > 0.0f)
        return fmaf(args->a * g, g, linear);
    return fmaf(math_expm1(g < args->d ? g : args->d) - g, args->b, linear);
}

static float activation(float g, const struct gate_args *args) {
    switch (args->kind) {
    case GATE_SILU:
        return g * math_sigmoid(g);
    case GATE_GELU_TANH:
        return gelu_tanh(g);
    case GATE_GELU_ERF:
        return 0.5f * g * (1.0f + math_erf(g * 0x1.6a09e6p-1f));
    case GATE_RELU2:
        g = g < 0.0f ? 0.0f : g;
        return g * g;
    case GATE_SWIGLU_CLAMPED:
        g = g > args->b ? args->b : g;
        return g * math_sigmoid(args->a * g);
    case GATE_SILU_CLAMPED:
        g = g * math_sigmoid(g);
        return g > args->b ? args->b : g;
    case GATE_SIGMOID:
        return math_sigmoid(g);
    case GATE_XIELU:
        return xielu(g, args);
    default:
        check_failed("gate kind", __FILE__, __LINE__);
    }
}

void ref_gate(const struct gate_args *args) {
    for (size_t i = 0; i < args->count; i++) {
        float y = activation(args->gate[i], args);
        if (args->up) {
            float u = args->up[i];
            if (args->kind == GATE_SWIGLU_CLAMPED || args->kind == GATE_SILU_CLAMPED) {
                u = u > args->b ? args->b : u;
                u = u < -args->b ? -args->b : u;
            }
            u = args->kind == GATE_SWIGLU_CLAMPED ? u + 1.0f : u;
            y *= u;
        }
        args->y[i] = y;
    }
}
