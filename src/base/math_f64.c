/*
 * math_f64: elementary functions in double precision: RoPE tables, sampling, and the rare single-precision functions.
 *
 * log is computed to about 2^-64 as a sum of two doubles, since pow multiplies its error by the exponent.
 */
#include "base/math_f64.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"

struct double_double {
    double high, low;
};

#define LN2_HIGH 0x1.62e42fefa3p-1 /* 41 bits: k * LN2_HIGH is exact */
#define LN2_LOW 0x1.3de6af278ece6p-42
#define ROUND_SHIFT 0x1.8p+52 /* adding it rounds to an integer, held in the low bits */

static double f64_from_bits(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}
static uint64_t bits_from_f64(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

/* a + b exactly, for any a and b. */
static struct double_double two_sum(double a, double b) {
    double s = a + b;
    double t = s - a;
    return (struct double_double){s, (a - (s - t)) + (b - t)};
}

/* exp(x + low), |low| tiny. */
static double exp_extended(double x, double low) {
    double t = x < -750.0 ? -750.0 : x;
    t = t > 710.0 ? 710.0 : t;
    double shifted = fma(t, 0x1.71547652b82fep+0, ROUND_SHIFT);
    double n = shifted - ROUND_SHIFT;
    double r = fma(n, -LN2_HIGH, t);
    r = fma(n, -LN2_LOW, r);
    static const double c[] = {0x1.af7a382c8fdbap-26, 0x1.27e40bdbe9231p-22, 0x1.71dde7b13c8c7p-19, 0x1.a01a01fc8aca6p-16,
                               0x1.a01a01b6f4ec5p-13, 0x1.6c16c16c07e9ep-10, 0x1.111111110e335p-7,  0x1.555555555556fp-5,
                               0x1.555555555555dp-3,  0.5};
    double p = 0x1.20d18a77ec92ap-29;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++)
        p = fma(p, r, c[i]);
    p = fma(p, r * r, r);
    p = fma(p + 1.0, low, p);
    p = p + 1.0;
    int64_t k = (int64_t)(bits_from_f64(shifted) - bits_from_f64(ROUND_SHIFT));
    int64_t half = k >> 1;
    return p * f64_from_bits((uint64_t)(half + 1023) << 52) * f64_from_bits((uint64_t)(k - half + 1023) << 52);
}

double math_exp_f64(double x) { return exp_extended(x, 0.0); }

/*
 * x = 2^k m, m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1): log(x) = k ln2 + 2 s + 2/3 s^3 + s^5 P(s^2).
 * s and its cube are carried with their rounding errors. x is finite and above 0.
 */
static struct double_double log_extended(double x) {
    int64_t k = 0;
    if (x < DBL_MIN) {
        x *= 0x1p+54;
        k = -54;
    }
    uint64_t bits = bits_from_f64(x);
    uint64_t above = bits - 0x3fe6a09e667f3bcdu; /* bits of sqrt(1/2) */
    k += (int64_t)above >> 52;
    double m = f64_from_bits((above & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double f = m - 1.0;
    struct double_double sum = two_sum(m, 1.0);
    double s = f / sum.high;
    double s_low = (fma(-s, sum.high, f) - s * sum.low) / sum.high;
    double z = s * s;
    double z_low = fma(s, s, -z) + 2.0 * s * s_low;
    double cube = z * s;
    double cube_low = fma(z, s, -cube) + (z * s_low + z_low * s);
    double third = 0x1.5555555555555p-1 * cube;
    double third_low = fma(0x1.5555555555555p-1, cube, -third) + (0x1.5555555555555p-55 * cube + 0x1.5555555555555p-1 * cube_low);
    static const double c[] = {0x1.814978c32fff3p-4, 0x1.af5e0d9d1525ep-4, 0x1.e1e06bf362b17p-4, 0x1.111114613ecc5p-3, 0x1.3b13b1313ebc2p-3,
                               0x1.745d1745e419dp-3, 0x1.c71c71c71c5c7p-3, 0x1.2492492492493p-2, 0x1.999999999999ap-2};
    double p = 0x1.a23c4d4b91f85p-4;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++)
        p = fma(p, z, c[i]);
    double rest = cube * z * p;
    double n = (double)k;
    struct double_double a = two_sum(n * LN2_HIGH, 2.0 * s);
    struct double_double b = two_sum(a.high, third);
    double low = a.low + b.low + (n * LN2_LOW + (2.0 * s_low + third_low)) + rest;
    return two_sum(b.high, low);
}

double math_log_f64(double x) {
    if (!(x > 0.0)) /* negative, 0, NaN */
        return x == 0.0 ? -(double)INFINITY : x < 0.0 ? (double)NAN : x;
    if (x > DBL_MAX)
        return x;
    return log_extended(x).high;
}

double math_pow_f64(double base, double exponent) {
    if (!(base > 0.0) || base > DBL_MAX || exponent != exponent)
        return base > 0.0 ? exp_extended(exponent * math_log_f64(base), 0.0) : (double)NAN;
    struct double_double log = log_extended(base);
    double p = exponent * log.high;
    if (!(fabs(p) < 800.0))
        return exp_extended(p, 0.0);
    return exp_extended(p, fma(exponent, log.high, -p) + exponent * log.low);
}

/* sin or cos of high + low, |high| <= pi / 4. */
static double sin_near(double x, double low) {
    double z = x * x;
    static const double c[] = {0x1.612092b2af72cp-33, -0x1.ae64529842cf2p-26, 0x1.71de3a53396f4p-19, -0x1.a01a01a018ae3p-13,
                               0x1.111111111110bp-7,  -0x1.5555555555555p-3};
    double p = -0x1.aaa544fff4fc5p-41;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++)
        p = fma(p, z, c[i]);
    return x + fma(z * x, p, fma(-0.5 * z, low, low));
}
static double cos_near(double x, double low) {
    double z = x * x;
    static const double c[] = {-0x1.9393383a5546bp-37, 0x1.1eed8ca3a2cfdp-29, -0x1.27e4fb75fd6f4p-22, 0x1.a01a01a018de9p-16,
                               -0x1.6c16c16c16c10p-10, 0x1.5555555555555p-5};
    double p = 0x1.aac5a9f848325p-45;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++)
        p = fma(p, z, c[i]);
    double half = 0.5 * z;
    double one = 1.0 - half;
    return one + (((1.0 - one) - half) + fma(z * z, p, -x * low));
}

/* x = n pi/2 + high + low; quarter turns n modulo 4 are returned. pi/2 in three parts: the error is below 2^-110 n. */
static unsigned reduce_quarter(double x, double *high, double *low) {
    CHECK(fabs(x) < 0x1p+40);
    double shifted = fma(x, 0x1.45f306dc9c883p-1, ROUND_SHIFT);
    double n = shifted - ROUND_SHIFT;
    double a = fma(n, -0x1.921fb54442d18p+0, x); /* exact for n != 0: the terms nearly cancel */
    double product = n * 0x1.1a62633145c07p-54;
    double product_low = fma(n, 0x1.1a62633145c07p-54, -product);
    struct double_double b = two_sum(a, -product);
    double rest = b.low - product_low + n * 0x1.f1976b7ed8fbcp-110;
    *high = b.high + rest;
    *low = (b.high - *high) + rest;
    return (unsigned)(bits_from_f64(shifted) & 3u);
}

double math_sin_f64(double x) {
    double high, low;
    unsigned quarter = reduce_quarter(x, &high, &low);
    double y = quarter & 1u ? cos_near(high, low) : sin_near(high, low);
    return quarter & 2u ? -y : y;
}

double math_cos_f64(double x) {
    double high, low;
    unsigned quarter = reduce_quarter(x, &high, &low) + 1u;
    double y = quarter & 1u ? cos_near(high, low) : sin_near(high, low);
    return quarter & 2u ? -y : y;
}
