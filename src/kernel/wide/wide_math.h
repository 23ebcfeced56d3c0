/*
 * wide_math: math_f32.c for 16 numbers at a time, operation by operation the same. Include a level's wide.h first.
 */
#pragma once

ALWAYS_INLINE wide wide_exp(wide x) {
    wide t = wide_max(wide_set(-105.0f), x); /* NaN: the second operand */
    t = wide_min(wide_set(90.0f), t);
    wide shifted = wide_fma(t, wide_set(0x1.715476p+0f), wide_set(0x1.8p+23f));
    wide n = wide_sub(shifted, wide_set(0x1.8p+23f));
    wide r = wide_fma(n, wide_set(-0x1.62e4p-1f), t);
    r = wide_fma(n, wide_set(-0x1.7f7d1cp-20f), r);
    wide p = wide_fma(r, wide_set(0x1.700322p-10f), wide_set(0x1.125e64p-7f));
    p = wide_fma(p, r, wide_set(0x1.5552e6p-5f));
    p = wide_fma(p, r, wide_set(0x1.55545cp-3f));
    p = wide_fma(p, r, wide_set(0.5f));
    p = wide_fma(p, wide_mul(r, r), r);
    p = wide_add(p, wide_set(1.0f));
    return wide_scale_by_power(p, shifted);
}

ALWAYS_INLINE wide wide_tanh(wide x) {
    wide a = wide_abs(x), one = wide_set(1.0f);
    wide e = wide_exp(wide_mul(wide_set(-2.0f), a));
    wide far = wide_with_sign_of(wide_div(wide_sub(one, e), wide_add(one, e)), x);
    wide z = wide_mul(x, x);
    wide p = wide_fma(z, wide_set(0x1.197b98p-9f), wide_set(-0x1.0c214ep-7f));
    p = wide_fma(p, z, wide_set(0x1.6394dap-6f));
    p = wide_fma(p, z, wide_set(-0x1.b9ef7ep-5f));
    p = wide_fma(p, z, wide_set(0x1.11106cp-3f));
    p = wide_fma(p, z, wide_set(-0x1.555554p-2f));
    wide near = wide_fma(wide_mul(p, z), x, x);
    return wide_select(wide_less(a, wide_set(0.625f)), near, far);
}

ALWAYS_INLINE wide wide_sigmoid(wide x) {
    wide one = wide_set(1.0f), e = wide_exp(wide_negative_abs(x));
    return wide_div(wide_select(wide_less(x, wide_zero()), e, one), wide_add(one, e));
}

ALWAYS_INLINE wide wide_erf(wide x) {
    wide a = wide_abs(x), b = wide_min(wide_set(4.0f), a);
    wide q = wide_fma(b, wide_set(-0x1.5d7276p-16f), wide_set(0x1.c4597ap-12f));
    q = wide_fma(q, b, wide_set(-0x1.10626ep-8f));
    q = wide_fma(q, b, wide_set(0x1.9aebc0p-6f));
    q = wide_fma(q, b, wide_set(-0x1.bb454ep-4f));
    q = wide_fma(q, b, wide_set(-0x1.444d1ep-1f));
    q = wide_fma(q, b, wide_set(-0x1.212626p+0f));
    q = wide_fma(q, b, wide_set(0x1.62d97ap-13f));
    wide far = wide_with_sign_of(wide_sub(wide_set(1.0f), wide_exp(q)), x);
    wide z = wide_mul(x, x);
    wide p = wide_fma(z, wide_set(0x1.5f111ep-14f), wide_set(-0x1.aae97ap-11f));
    p = wide_fma(p, z, wide_set(0x1.54dad6p-8f));
    p = wide_fma(p, z, wide_set(-0x1.b8107cp-6f));
    p = wide_fma(p, z, wide_set(0x1.ce2e20p-4f));
    p = wide_fma(p, z, wide_set(-0x1.812744p-2f));
    p = wide_fma(p, z, wide_set(0x1.06eba8p-3f));
    wide near = wide_fma(p, x, x);
    return wide_select(wide_less(a, wide_set(0.921875f)), near, far);
}
