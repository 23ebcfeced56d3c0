/*
 * math_f32: elementary functions in single precision (docs/ARITHMETIC.md, section 2).
 *
 * exp, tanh, sigmoid and erf are short float formulas, since vector kernels repeat them bit for bit; log, softplus and expm1 are rare
 * and go through the double-precision functions.
 */
#include "kernel/math.h"

#include <math.h>
#include <stdint.h>

#include "dtype/scalar_convert.h"

/*
 * x = k ln2 + r, |r| <= ln2 / 2 (a little more by rounding); exp(x) = 2^k (1 + r + r^2 / 2 + r^3 P(r)).
 * k is read from the low bits of x log2(e) + 1.5 * 2^23. 2^k is applied in two factors, so that subnormal results are rounded once.
 */
float math_exp(float x) {
    float t = x < -105.0f ? -105.0f : x;
    t = t > 90.0f ? 90.0f : t; /* NaN stays */
    float shifted = fmaf(t, 0x1.715476p+0f, 0x1.8p+23f);
    int32_t k = (int32_t)(bits_from_f32(shifted) - 0x4b400000u);
    float n = shifted - 0x1.8p+23f;
    float r = fmaf(n, -0x1.62e4p-1f, t);
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = fmaf(r, 0x1.700322p-10f, 0x1.125e64p-7f);
    p = fmaf(p, r, 0x1.5552e6p-5f);
    p = fmaf(p, r, 0x1.55545cp-3f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r * r, r);
    p = p + 1.0f;
    int32_t half = k >> 1;
    float low = f32_from_bits((uint32_t)(half + 127) << 23);
    float high = f32_from_bits((uint32_t)(k - half + 127) << 23);
    return p * low * high;
}

float math_log(float x) { return (float)math_log_f64((double)x); }

/* Below 0.625 an odd polynomial; above it (1 - e) / (1 + e) with e = exp(-2 |x|). */
float math_tanh(float x) {
    float a = fabsf(x);
    float e = math_exp(-2.0f * a);
    float far = copysignf((1.0f - e) / (1.0f + e), x);
    float z = x * x;
    float p = fmaf(z, 0x1.197b98p-9f, -0x1.0c214ep-7f);
    p = fmaf(p, z, 0x1.6394dap-6f);
    p = fmaf(p, z, -0x1.b9ef7ep-5f);
    p = fmaf(p, z, 0x1.11106cp-3f);
    p = fmaf(p, z, -0x1.555554p-2f);
    float near = fmaf(p * z, x, x);
    return a < 0.625f ? near : far;
}

float math_sigmoid(float x) {
    float e = math_exp(-fabsf(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* max(x, 0) + log(1 + exp(-|x|)), where log(1 + e) = log(u) + (e - (u - 1)) / u with u = 1 + e rounded. */
float math_softplus(float x) {
    double d = (double)x;
    double e = math_exp_f64(-fabs(d));
    double u = 1.0 + e;
    double tail = math_log_f64(u) + (e - (u - 1.0)) / u;
    return (float)((d < 0.0 ? 0.0 : d) + tail);
}

/* exp(x) - 1. Below 2^-5 a Taylor polynomial (the next term is below 2^-60), above it the difference in double precision. */
float math_expm1(float x) {
    double d = (double)x;
    if (fabs(d) > 0x1p-5)
        return (float)(math_exp_f64(d) - 1.0);
    double p = fma(d, 1.0 / 5040.0, 1.0 / 720.0);
    p = fma(p, d, 1.0 / 120.0);
    p = fma(p, d, 1.0 / 24.0);
    p = fma(p, d, 1.0 / 6.0);
    p = fma(p, d, 0.5);
    return (float)fma(p * d, d, d);
}

/* Below 0.921875 an odd polynomial; above it 1 - exp(Q(|x|)), Q = log(erfc), constant from 4 on. */
float math_erf(float x) {
    float a = fabsf(x);
    float b = a > 4.0f ? 4.0f : a;
    float q = fmaf(b, -0x1.5d7276p-16f, 0x1.c4597ap-12f);
    q = fmaf(q, b, -0x1.10626ep-8f);
    q = fmaf(q, b, 0x1.9aebc0p-6f);
    q = fmaf(q, b, -0x1.bb454ep-4f);
    q = fmaf(q, b, -0x1.444d1ep-1f);
    q = fmaf(q, b, -0x1.212626p+0f);
    q = fmaf(q, b, 0x1.62d97ap-13f);
    float far = copysignf(1.0f - math_exp(q), x);
    float z = x * x;
    float p = fmaf(z, 0x1.5f111ep-14f, -0x1.aae97ap-11f);
    p = fmaf(p, z, 0x1.54dad6p-8f);
    p = fmaf(p, z, -0x1.b8107cp-6f);
    p = fmaf(p, z, 0x1.ce2e20p-4f);
    p = fmaf(p, z, -0x1.812744p-2f);
    p = fmaf(p, z, 0x1.06eba8p-3f);
    float near = fmaf(p, x, x);
    return a < 0.921875f ? near : far;
}

float math_rsqrt(float x) { return 1.0f / sqrtf(x); }
