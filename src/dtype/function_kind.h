/*
 * function_kind: names of the activation and router functions, shared by kernels, ops and model families. Formulas: docs/ARITHMETIC.md.
 */
#pragma once

enum router_score { ROUTER_SOFTMAX, ROUTER_SIGMOID, ROUTER_SOFTMAX_CHOSEN /* softmax over the chosen only */, ROUTER_SQRT_SOFTPLUS };

enum gate_kind {
    GATE_SILU,           /* silu(g) * u */
    GATE_GELU_TANH,      /* gelu, tanh form */
    GATE_GELU_ERF,       /* gelu, erf form */
    GATE_RELU2,          /* relu(g)^2 (* u where there is one) */
    GATE_SWIGLU_CLAMPED, /* gpt-oss: g = min(g, limit), u = clamp(u, +-limit), g * sigmoid(alpha g) * (u + 1) */
    GATE_SILU_CLAMPED,   /* min(silu(g), limit) * clamp(u, +-limit): step 3.5 */
    GATE_SIGMOID,        /* sigmoid(g) * u: gated attention */
    GATE_XIELU,          /* apertus */
    GATE_KIND_COUNT,
};
