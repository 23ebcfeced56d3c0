/*
 * dot: dot products of signed bytes from multiplications, for processors that have no instruction for them. Activations are never -128, so
 * that two products fit in 16 bits.
 */
#pragma once

#include "kernel/neon/simd.h"

/* Adds sixteen products to the four sums, in no particular order. */
ALWAYS_INLINE int32x4_t dot_16(int32x4_t sum, int8x16_t codes, int8x16_t x) {
    return vpadalq_s16(sum, vmlal_high_s8(vmull_s8(vget_low_s8(codes), vget_low_s8(x)), codes, x));
}
ALWAYS_INLINE int32x4_t dot_32(int32x4_t sum, codes_32 codes, codes_32 x) {
    return dot_16(dot_16(sum, codes.val[0], x.val[0]), codes.val[1], x.val[1]);
}
/* Adds to each sum the products of its own four bytes. */
ALWAYS_INLINE int32x4_t dot_fours(int32x4_t sum, int8x16_t codes, int8x16_t x) {
    return vpadalq_s16(sum, vpaddq_s16(vmull_s8(vget_low_s8(codes), vget_low_s8(x)), vmull_high_s8(codes, x)));
}
/* The same, all with four bytes of x; lane is known when compiling. */
#define dot_fours_lane(sum, codes, x, lane) dot_fours(sum, codes, vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(x), lane)))
