/*
 * dot: dot products of signed bytes, an instruction each.
 */
#pragma once

#include "kernel/neon/simd.h"

/* Adds sixteen products to the four sums, in no particular order. */
ALWAYS_INLINE int32x4_t dot_16(int32x4_t sum, int8x16_t codes, int8x16_t x) { return vdotq_s32(sum, codes, x); }
ALWAYS_INLINE int32x4_t dot_32(int32x4_t sum, codes_32 codes, codes_32 x) {
    return dot_16(dot_16(sum, codes.val[0], x.val[0]), codes.val[1], x.val[1]);
}
/* Adds to each sum the products of its own four bytes. */
ALWAYS_INLINE int32x4_t dot_fours(int32x4_t sum, int8x16_t codes, int8x16_t x) { return vdotq_s32(sum, codes, x); }
/* The same, all with four bytes of x; lane is known when compiling. */
#define dot_fours_lane(sum, codes, x, lane) vdotq_laneq_s32(sum, codes, x, lane)
