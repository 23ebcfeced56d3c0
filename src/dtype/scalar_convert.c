/*
 * scalar_convert: the conversions in integer arithmetic; only exact float operations are used.
 */
#include "dtype/scalar_convert.h"

float f32_from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 31u, fraction = half & 0x3ffu;
    if (exponent == 31)
        return f32_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) { /* fraction * 2^-24, exact */
        float magnitude = (float)fraction * 0x1p-24f;
        return f32_from_bits(sign | bits_from_f32(magnitude));
    }
    return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Shifts right by 1 to 31 bits, rounding to nearest, ties to even. */
static uint32_t shift_right_rounded(uint32_t value, unsigned shift) {
    uint32_t half = 1u << (shift - 1), rest = value & ((half << 1) - 1), kept = value >> shift;
    return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t f16_from_f32(float value) {
    uint32_t bits = bits_from_f32(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
    if (magnitude >= 0x47800000u) /* 2^16 and infinity; what rounds up to 2^16 overflows below by carry */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x33000000u) /* below 2^-25: zero */
        return (uint16_t)sign;
    uint32_t exponent = magnitude >> 23;
    if (exponent < 113) { /* subnormal in f16: units of 2^-24 */
        uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
        return (uint16_t)(sign | shift_right_rounded(significand, 126 - exponent));
    }
    return (uint16_t)(sign | shift_right_rounded(magnitude - (112u << 23), 13));
}

uint16_t bf16_from_f32(float value) {
    uint32_t bits = bits_from_f32(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* Finite value of 1 sign bit, exponent bits above fraction_bits, and the given bias. */
static float small_float(unsigned value, unsigned fraction_bits, unsigned bias) {
    uint32_t sign = (uint32_t)(value & 0x80u) << 24, exponent = (value & 0x7fu) >> fraction_bits;
    uint32_t fraction = value & ((1u << fraction_bits) - 1);
    if (exponent == 0) {
        float unit = f32_from_bits((128 - bias - fraction_bits) << 23);
        return f32_from_bits(sign | bits_from_f32((float)fraction * unit));
    }
    return f32_from_bits(sign | (exponent + 127 - bias) << 23 | fraction << (23 - fraction_bits));
}

float f32_from_f8_e4m3(uint8_t value) {
    if ((value & 0x7f) == 0x7f)
        return f32_from_bits((uint32_t)(value & 0x80u) << 24 | 0x7fc00000u);
    return small_float(value, 3, 7);
}

float f32_from_f8_e5m2(uint8_t value) {
    uint32_t sign = (uint32_t)(value & 0x80u) << 24;
    if ((value & 0x7f) >= 0x7c)
        return f32_from_bits(sign | ((value & 3) ? 0x7fc00000u : 0x7f800000u));
    return small_float(value, 2, 15);
}

float f32_from_f8_e8m0(uint8_t value) {
    if (value == 255)
        return f32_from_bits(0x7fc00000u);
    return f32_from_bits(value == 0 ? 0x00400000u : (uint32_t)value << 23);
}

float f32_from_ue4m3(uint8_t value) {
    return (value & 0x7f) == 0x7f ? 0.0f : small_float(value & 0x7fu, 3, 7);
}

float f32_from_fp4_e2m1(uint8_t nibble) {
    static const float values[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    return f32_from_bits(bits_from_f32(values[nibble & 7]) | (uint32_t)(nibble & 8u) << 28);
}

size_t f32_first_not_finite(const float *values, size_t count) {
    size_t i = 0;
    while (i < count && values[i] - values[i] == 0)
        i++;
    return i;
}
