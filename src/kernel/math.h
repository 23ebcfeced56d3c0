/*
 * math: elementary functions of our own, from IEEE operations only, the same bits on every machine and libm.
 *
 * f32: within 2 ulp over the whole range (sigmoid 2.5), exact at 0 and infinities, NaN stays NaN; vector versions in avx2/, avx512/, neon/
 * compute the same formula. f64: within 2 ulp, for RoPE tables and the like.
 */
#pragma once

#include "base/math_f64.h"

float math_exp(float x);
float math_log(float x);
float math_tanh(float x);
float math_sigmoid(float x);  /* 1 / (1 + exp(-x)), no overflow */
float math_softplus(float x); /* log(1 + exp(x)) */
float math_expm1(float x);
float math_erf(float x);
float math_rsqrt(float x); /* 1 / sqrt(x): correctly rounded sqrt, then division */
