/*
 * quantize: a row of activations to int8 with one scale per block.
 */
#include <math.h>

#include "dtype/scalar_convert.h"
#include "kernel/neon/neon.h"
#include "kernel/neon/wide.h"

ALWAYS_INLINE int16x4_t rounded(float32x4_t x, float inverse) { return vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(x, inverse))); }
ALWAYS_INLINE uint32x4_t magnitude(float32x4_t x) { return vreinterpretq_u32_f32(vabsq_f32(x)); }

/* |x * (127 / amax)| is at most 127 (1 + 2^-22), so that rounding needs no clamp. Returns the scale. */
ALWAYS_INLINE float quantize_block(const float *x, size_t count, int8_t *q, int16_t *sums) {
    uint32x4_t largest = vdupq_n_u32(0); /* as bits, so that an infinity or a NaN wins */
    for (size_t i = 0; i < count; i += 16) {
        wide v = wide_load_first(x + i, count - i >= 16 ? 16 : (unsigned)(count - i));
        largest = vmaxq_u32(vmaxq_u32(largest, magnitude(v.a)), magnitude(v.b));
        largest = vmaxq_u32(vmaxq_u32(largest, magnitude(v.c)), magnitude(v.d));
    }
    float amax = f32_from_bits(vmaxvq_u32(largest));
    if (!(amax >= 0x1p-100f && amax < INFINITY)) /* q and sums are zero already */
        return amax < 0x1p-100f ? 0.0f : NAN;
    float inverse = 127.0f / amax;
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = count - i >= 16 ? 16 : (unsigned)(count - i);
        wide v = wide_load_first(x + i, n);
        int16x8_t low = vcombine_s16(rounded(v.a, inverse), rounded(v.b, inverse));
        int16x8_t high = vcombine_s16(rounded(v.c, inverse), rounded(v.d, inverse));
        int8x16_t bytes = vcombine_s8(vqmovn_s16(low), vqmovn_s16(high));
        int8_t whole[16];
        vst1q_s8(whole, bytes);
        memcpy(q + i, whole, n);
        sums[i / 16] = vaddlvq_s8(bytes);
    }
    return amax / 127.0f;
}

void neon_quantize(const float *x, size_t cols, unsigned block, uint8_t *row) {
    struct activation_layout layout = activation_layout(block, cols);
    memset(row, 0, layout.row_bytes);
    float *scales = (float *)(void *)(row + layout.scales_offset_bytes);
    int16_t *sums = (int16_t *)(void *)(row + layout.sums_offset_bytes);
    for (size_t begin = 0; begin < cols; begin += block)
        scales[begin / block] =
            quantize_block(x + begin, cols - begin < block ? cols - begin : block, (int8_t *)row + begin, sums + begin / 16);
}
