/*
 * octets: eight numbers of 32 bits, as two vectors: the vocabulary of matmul_packed_body.inc and matmul_int_body.inc.
 */
#pragma once

#include "kernel/neon/simd.h"

#define CODES_OF_8_BITS_LESS 128 /* what dot_4 and run_dots take off codes of 8 bits */

typedef int32x4x2_t ints_8; /* or 32 bytes */
typedef float32x4x2_t floats_8;

#define BOTH(type, name, operation) \
    ALWAYS_INLINE type name(type a, type b) { return (type){{operation(a.val[0], b.val[0]), operation(a.val[1], b.val[1])}}; }
ALWAYS_INLINE ints_8 ints_load(const void *p) {
    return (ints_8){{vreinterpretq_s32_u8(vld1q_u8(p)), vreinterpretq_s32_u8(vld1q_u8((const uint8_t *)p + 16))}};
}
ALWAYS_INLINE void ints_store(int32_t *p, ints_8 x) { vst1q_s32_x2(p, x); }
ALWAYS_INLINE ints_8 ints_set(int32_t x) { return (ints_8){{vdupq_n_s32(x), vdupq_n_s32(x)}}; }
ALWAYS_INLINE ints_8 ints_of_bytes(const uint8_t *p) {
    int16x8_t words = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p)));
    return (ints_8){{vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words)}};
}
BOTH(ints_8, ints_add, vaddq_s32)
BOTH(ints_8, ints_and, vandq_s32)
ALWAYS_INLINE int32x4_t shift_down(int32x4_t x, int32x4_t by) {
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vnegq_s32(by)));
}
BOTH(ints_8, ints_shift_down, shift_down)
/* c - a b */
ALWAYS_INLINE ints_8 ints_less_product(ints_8 c, ints_8 a, ints_8 b) {
    return (ints_8){{vmlsq_s32(c.val[0], a.val[0], b.val[0]), vmlsq_s32(c.val[1], a.val[1], b.val[1])}};
}
ALWAYS_INLINE ints_8 low_nibbles(ints_8 bytes) { return ints_and(bytes, ints_set(0x0f0f0f0f)); }
ALWAYS_INLINE int32x4_t high_nibbles_of_16(int32x4_t x) { return vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(x), 4)); }
ALWAYS_INLINE ints_8 high_nibbles(ints_8 bytes) { return (ints_8){{high_nibbles_of_16(bytes.val[0]), high_nibbles_of_16(bytes.val[1])}}; }

ALWAYS_INLINE floats_8 floats_load(const float *p) { return vld1q_f32_x2(p); }
ALWAYS_INLINE void floats_store(float *p, floats_8 x) { vst1q_f32_x2(p, x); }
ALWAYS_INLINE floats_8 floats_set(float x) { return (floats_8){{vdupq_n_f32(x), vdupq_n_f32(x)}}; }
ALWAYS_INLINE floats_8 floats_of_ints(ints_8 x) { return (floats_8){{vcvtq_f32_s32(x.val[0]), vcvtq_f32_s32(x.val[1])}}; }
BOTH(floats_8, floats_add, vaddq_f32)
BOTH(floats_8, floats_mul, vmulq_f32)
ALWAYS_INLINE floats_8 floats_fma(floats_8 a, floats_8 b, floats_8 c) {
    return (floats_8){{vfmaq_f32(c.val[0], a.val[0], b.val[0]), vfmaq_f32(c.val[1], a.val[1], b.val[1])}};
}

/* Sixteen bytes, of each eight those with even places first. */
ALWAYS_INLINE void store_by_turns(const uint8_t *from, void *to) {
    static const uint8_t by_turns[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
    vst1q_u8(to, vqtbl1q_u8(vld1q_u8(from), vld1q_u8(by_turns)));
}
/* r[k]: 32 bytes of input k -> r[k]: dwords of the four inputs for bytes 4 k .. of both halves. */
ALWAYS_INLINE void transpose_bytes(ints_8 r[4]) {
#pragma GCC unroll 2
    for (unsigned half = 0; half < 2; half++) {
        int8x16_t x[4];
#pragma GCC unroll 4
        for (unsigned k = 0; k < 4; k++)
            x[k] = vreinterpretq_s8_s32(r[k].val[half]);
        int16x8_t a = vreinterpretq_s16_s8(vzip1q_s8(x[0], x[1])), b = vreinterpretq_s16_s8(vzip2q_s8(x[0], x[1]));
        int16x8_t c = vreinterpretq_s16_s8(vzip1q_s8(x[2], x[3])), d = vreinterpretq_s16_s8(vzip2q_s8(x[2], x[3]));
        r[0].val[half] = vreinterpretq_s32_s16(vzip1q_s16(a, c));
        r[1].val[half] = vreinterpretq_s32_s16(vzip2q_s16(a, c));
        r[2].val[half] = vreinterpretq_s32_s16(vzip1q_s16(b, d));
        r[3].val[half] = vreinterpretq_s32_s16(vzip2q_s16(b, d));
    }
}
