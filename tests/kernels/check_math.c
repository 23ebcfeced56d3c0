/*
 * check_math: elementary functions against long double, in units of the last place, over the whole range and at special values.
 */
#include <math.h>

#include "check.h"
#include "kernel/math.h"

/* Distance in units of the last place of the exact value, subnormals included; 1e9 for a wrong kind of number. */
static double error_f32(float got, long double want) {
    if (got != got || want != want)
        return got != got && want != want ? 0 : 1e9;
    float rounded = (float)want;
    if (isinf(got) || isinf(rounded))
        return got == rounded || (fabsl(want) > 0x1.fffffcp+127L && fabsf(got) > 0x1.fffffap+127f) ? 0 : 1e9;
    int exponent;
    (void)frexpl(want, &exponent);
    return (double)(fabsl((long double)got - want) / ldexpl(1, (exponent < -125 ? -125 : exponent) - 24));
}
static double error_f64(double got, long double want) {
    int exponent;
    (void)frexpl(want, &exponent);
    if (got != got)
        return 1e9;
    return (double)(fabsl((long double)got - want) / ldexpl(1, (exponent < -1021 ? -1021 : exponent) - 53));
}

static long double exact_sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double exact_softplus(long double x) { return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x))); }
static long double exact_rsqrt(long double x) { return 1 / sqrtl(x); }

static void f32_functions_are_within_their_bounds(void **state) {
    (void)state;
    static const struct {
        const char *name;
        float (*got)(float);
        long double (*want)(long double);
        double limit;
    } f[] = {{"exp", math_exp, expl, 1.0},
             {"log", math_log, logl, 0.501},
             {"tanh", math_tanh, tanhl, 1.6},
             {"sigmoid", math_sigmoid, exact_sigmoid, 2.5},
             {"softplus", math_softplus, exact_softplus, 0.501},
             {"expm1", math_expm1, expm1l, 0.501},
             {"erf", math_erf, erfl, 1.5},
             {"rsqrt", math_rsqrt, exact_rsqrt, 1.5}};
    for (unsigned k = 0; k < sizeof f / sizeof f[0]; k++)
        for (uint64_t bits = 0; bits < 0x100000000u; bits += 7919) {
            float x = f32_from_bits((uint32_t)bits);
            double error = error_f32(f[k].got(x), f[k].want((long double)x));
            if (error > f[k].limit)
                fail_msg("%s(%a) is %a: %g ulp", f[k].name, (double)x, (double)f[k].got(x), error);
        }
}

static void f64_functions_are_within_2_ulp(void **state) {
    (void)state;
    struct check_random r = {31};
    for (unsigned i = 0; i < 200000; i++) {
        double u = (double)check_uniform(&r) + (double)check_uniform(&r) * 0x1p-30, v = (double)check_uniform(&r);
        double x = u * 700, small = ldexp(u, (int)check_below(&r, 41) - 1), base = exp(v * (i & 1 ? 16 : 0.01)), exponent = u * 20;
        assert_true(error_f64(math_exp_f64(x), expl((long double)x)) <= 1);
        assert_true(error_f64(math_log_f64(base), logl((long double)base)) <= 0.51);
        assert_true(error_f64(math_pow_f64(base, exponent), powl((long double)base, (long double)exponent)) <= 1.5);
        assert_true(error_f64(math_sin_f64(small), sinl((long double)small)) <= 1);
        assert_true(error_f64(math_cos_f64(small), cosl((long double)small)) <= 1);
    }
    for (unsigned n = 1; n < 100000; n += 7) { /* near multiples of pi / 2, where the reduction cancels most */
        double x = (double)n * 1.5707963267948966;
        assert_true(error_f64(math_sin_f64(x), sinl((long double)x)) <= 1.2);
        assert_true(error_f64(math_cos_f64(x), cosl((long double)x)) <= 1.2);
    }
}

static void special_values(void **state) {
    (void)state;
    assert_true(math_exp(0.0f) == 1.0f && math_exp(-0.0f) == 1.0f && math_exp(-INFINITY) == 0.0f && isinf(math_exp(INFINITY)));
    assert_true(math_log(1.0f) == 0.0f && math_log(0.0f) == -INFINITY && isinf(math_log(INFINITY)) && isnan(math_log(-1.0f)));
    assert_true(math_tanh(INFINITY) == 1.0f && math_tanh(-INFINITY) == -1.0f && math_tanh(-0.0f) == 0.0f);
    assert_true(math_sigmoid(0.0f) == 0.5f && math_sigmoid(INFINITY) == 1.0f && math_sigmoid(-INFINITY) == 0.0f);
    assert_true(math_erf(INFINITY) == 1.0f && math_erf(-INFINITY) == -1.0f && math_erf(0.0f) == 0.0f && signbit(math_erf(-0.0f)));
    assert_true(isinf(math_softplus(INFINITY)) && math_softplus(-INFINITY) == 0.0f && math_expm1(-INFINITY) == -1.0f);
    assert_true(isnan(math_exp(NAN)) && isnan(math_log(NAN)) && isnan(math_tanh(NAN)) && isnan(math_sigmoid(NAN)) && isnan(math_erf(NAN)));
    assert_true(isnan(math_softplus(NAN)) && isnan(math_expm1(NAN)) && isinf(math_rsqrt(0.0f)) && math_rsqrt(INFINITY) == 0.0f);
    assert_true(math_exp_f64(0) == 1 && math_exp_f64(-(double)INFINITY) == 0 && isinf(math_exp_f64(711)) &&
                isnan(math_exp_f64((double)NAN)));
    assert_true(math_exp_f64(-745.1) > 0 && math_exp_f64(-746) == 0);
    assert_true(math_log_f64(1) == 0 && isinf(math_log_f64(0)) && isnan(math_log_f64(-1)) && isnan(math_log_f64((double)NAN)));
    assert_true(math_pow_f64(10000, 0) == 1 && math_pow_f64(2, 10) == 1024 && isnan(math_pow_f64(-1, 2)) && isinf(math_pow_f64(10, 400)));
    assert_true(math_sin_f64(0) == 0 && math_cos_f64(0) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_functions_are_within_their_bounds),
        cmocka_unit_test(f64_functions_are_within_2_ulp),
        cmocka_unit_test(special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
