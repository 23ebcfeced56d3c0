/*
 * run_terms: pieces of split_runs_body.inc: unpacking codes and scales, the float part of eight terms.
 */
#pragma once

#include "dtype/codebooks.h"
#include "dtype/dtype.h"
#include "kernel/neon/codes.h"
#include "kernel/neon/wide.h"

/* Stores 32 codes; with fp4 they are of doubled e2m1 and become bytes 16 above their values. */
ALWAYS_INLINE void store_codes(codes_32 codes, bool fp4, uint8_t *out) {
    vst1q_s8_x2((int8_t *)out, fp4 ? less(look_up(fp4_doubled_values, codes), -16) : codes);
}

/* 16 bytes of nibbles, neighbours in a byte, to 32 bytes. */
ALWAYS_INLINE void spread_nibbles(const uint8_t *codes, bool fp4, uint8_t *out) { store_codes(nibbles_by_turns(codes), fp4, out); }

/* Two runs of 16 codes of 4-bit floats, each 8 bytes, low nibbles first, to 32 bytes. */
ALWAYS_INLINE codes_32 nibbles_by_quarters(const uint8_t *codes) {
    codes_32 x = nibbles_by_halves(codes);
    return (codes_32){
        {vcombine_s8(vget_low_s8(x.val[0]), vget_low_s8(x.val[1])), vcombine_s8(vget_high_s8(x.val[0]), vget_high_s8(x.val[1]))}};
}
ALWAYS_INLINE void spread_half_nibbles(const uint8_t *codes, uint8_t *out) { store_codes(nibbles_by_quarters(codes), true, out); }

/* Eight neighbouring scales; dtype is one that scale_read knows. */
ALWAYS_INLINE void read_8_scales(enum dtype dtype, const uint8_t *scales, float out[8]) {
    if (dtype == DTYPE_F32) {
        memcpy(out, scales, 8 * sizeof *out);
    } else if (dtype == DTYPE_F16 || dtype == DTYPE_BF16) {
        uint16x8_t x = vreinterpretq_u16_u8(vld1q_u8(scales));
        vst1q_f32(out, dtype == DTYPE_F16 ? floats_of_f16(vget_low_u16(x)) : floats_of_bf16(vget_low_u16(x)));
        vst1q_f32(out + 4, dtype == DTYPE_F16 ? floats_of_f16(vget_high_u16(x)) : floats_of_bf16(vget_high_u16(x)));
    } else if (dtype == DTYPE_F8_E4M3) {
        uint16x8_t x = halves_of_e4m3(vld1_u8(scales));
        vst1q_f32(out, vmulq_n_f32(floats_of_f16(vget_low_u16(x)), 256.0f));
        vst1q_f32(out + 4, vmulq_n_f32(floats_of_f16(vget_high_u16(x)), 256.0f));
    } else {
        uint16x8_t x = vmovl_u8(vld1_u8(scales));
        vst1q_f32(out, floats_of_e8m0(vget_low_u16(x)));
        vst1q_f32(out + 4, floats_of_e8m0(vget_high_u16(x)));
    }
}

/* Sums over four runs of 16, 32, 64 or 128 activations from sums over 16. */
ALWAYS_INLINE int32x4_t sums_of_4_runs(const int16_t *sums, unsigned run) {
    if (run == 16)
        return vmovl_s16(vld1_s16(sums));
    if (run == 32)
        return vpaddlq_s16(vld1q_s16(sums));
    int32x4_t a = vpaddq_s32(vpaddlq_s16(vld1q_s16(sums)), vpaddlq_s16(vld1q_s16(sums + 8)));
    if (run == 64)
        return a;
    return vpaddq_s32(a, vpaddq_s32(vpaddlq_s16(vld1q_s16(sums + 16)), vpaddlq_s16(vld1q_s16(sums + 24))));
}

/* sum -= zero point * sum of the activations, run by run. */
ALWAYS_INLINE void take_off_zeros(int32_t sum[8], const int32_t zeros[8], const int16_t *q_sums, unsigned run) {
    for (unsigned i = 0; i < 8; i += 4)
        vst1q_s32(sum + i, vmlsq_s32(vld1q_s32(sum + i), vld1q_s32(zeros + i), sums_of_4_runs(q_sums + i * run / 16, run)));
}

/* Adds the terms of eight runs to their lanes; runs_per_scale: runs that share an activation scale, 1 or 4. */
ALWAYS_INLINE void add_8_terms(float lane[8], const float d[8], const float m[8], const int32_t sum[8], const int16_t *q_sums,
                               const float *scales, unsigned run, unsigned runs_per_scale, int offset, bool has_bias) {
#pragma GCC unroll 2
    for (unsigned i = 0; i < 8; i += 4) {
        float32x4_t total = vld1q_f32(lane + i), scale = runs_per_scale == 1 ? vld1q_f32(scales + i) : vdupq_n_f32(scales[i / 4]);
        int32x4_t dots = vld1q_s32(sum + i), q_sum = offset || has_bias ? sums_of_4_runs(q_sums + i * run / 16, run) : vdupq_n_s32(0);
        if (offset)
            dots = vmlsq_n_s32(dots, q_sum, offset);
        total = vfmaq_f32(total, vmulq_f32(vld1q_f32(d + i), scale), vcvtq_f32_s32(dots));
        if (has_bias)
            total = vfmaq_f32(total, vmulq_f32(vld1q_f32(m + i), scale), vcvtq_f32_s32(q_sum));
        vst1q_f32(lane + i, total);
    }
}
