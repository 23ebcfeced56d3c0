/*
 * scalar_convert: f16, bf16, fp8, fp4 and e8m0 to and from f32 in portable integer arithmetic, the same bits everywhere.
 *
 * f32 -> f16 and -> bf16 round to nearest even, overflow to infinity, keep NaN (quiet). Subnormals are exact.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float f32_from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline uint32_t bits_from_f32(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
float f32_from_f16(uint16_t half);
uint16_t f16_from_f32(float value);
static inline float f32_from_bf16(uint16_t value) { return f32_from_bits((uint32_t)value << 16); }
uint16_t bf16_from_f32(float value);
float f32_from_f8_e4m3(uint8_t value); /* OCP "fn": no infinities, 0x7f is NaN */
float f32_from_f8_e5m2(uint8_t value);
float f32_from_f8_e8m0(uint8_t value); /* 2^(value - 127), 255 is NaN, 0 is 2^-127 (subnormal) */
float f32_from_ue4m3(uint8_t value);   /* scale of ggml's NVFP4: e4m3 with bit 7 ignored and 0x7f as 0 */
float f32_from_fp4_e2m1(uint8_t nibble); /* {0 .5 1 1.5 2 3 4 6}, bit 3 is the sign */
/* Index of the first of `count` numbers that is infinite or NaN; count: none is. */
size_t f32_first_not_finite(const float *values, size_t count);
