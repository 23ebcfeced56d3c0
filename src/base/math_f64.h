/*
 * math_f64: elementary functions in double precision, from IEEE operations only: the same bits on every machine and libm.
 *
 * For tables that are computed once or per position (rotary frequencies and angles). Within 2 ulp; f32 functions: kernel/math.h.
 */
#pragma once

double math_exp_f64(double x);
double math_log_f64(double x);
double math_pow_f64(double base, double exponent); /* base > 0 */
double math_sin_f64(double x); /* |x| < 2^40 */
double math_cos_f64(double x);
