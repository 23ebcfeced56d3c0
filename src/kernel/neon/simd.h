/*
 * simd: what the NEON kernels share: sums across vectors, unaligned loads. Dot products of bytes are in the dot.h of a level.
 *
 * Everything is static inline, so that no code compiled with these flags can be taken by the linker for other files.
 */
#pragma once

#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* 32 codes, one byte each. */
typedef int8x16x2_t codes_32;

/* Element i is the sum of the 4 numbers of vector i. */
ALWAYS_INLINE int32x4_t sums_of_4(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
    return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
}

ALWAYS_INLINE codes_32 load_32(const void *p) { return (codes_32){{vld1q_s8(p), vld1q_s8((const int8_t *)p + 16)}}; }
ALWAYS_INLINE uint16_t load_u16(const void *p) {
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}
ALWAYS_INLINE uint32_t load_u32(const void *p) {
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}
ALWAYS_INLINE int16x8_t load_s16(const void *p) { return vreinterpretq_s16_s8(vld1q_s8(p)); }

/* Four f16 as floats. */
ALWAYS_INLINE float32x4_t floats_of_f16(uint16x4_t x) { return vcvt_f32_f16(vreinterpret_f16_u16(x)); }
/* The f16 at `first` and three more, `step` bytes apart. */
ALWAYS_INLINE float32x4_t load_4_halves(const uint8_t *first, size_t step) {
    uint16_t half[4] = {load_u16(first), load_u16(first + step), load_u16(first + 2 * step), load_u16(first + 3 * step)};
    return floats_of_f16(vld1_u16(half));
}

ALWAYS_INLINE float fused_multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/* Four floats. */
typedef float32x4_t quad;
ALWAYS_INLINE quad quad_of(float a, float b, float c, float d) { return (quad){a, b, c, d}; }
ALWAYS_INLINE quad quad_load(const float x[4]) { return vld1q_f32(x); }
ALWAYS_INLINE void quad_store(float y[4], quad x) { vst1q_f32(y, x); }
ALWAYS_INLINE quad quad_mul(quad a, quad b) { return vmulq_f32(a, b); }
ALWAYS_INLINE quad quad_fma(quad a, quad b, quad c) { return vfmaq_f32(c, a, b); }
