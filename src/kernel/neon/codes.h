/*
 * codes: codes and integer scales of blocks, 32 codes or one block at a time: what vector and matrix products share.
 *
 * Codes are signed numbers, what their format takes off already taken off, so that a product needs no sums of activations for it.
 */
#pragma once

#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "kernel/neon/simd.h"

/* Codes 32 k .. 32 k + 31 of a block. */
typedef codes_32 codes_fn(const uint8_t *block, unsigned k);

ALWAYS_INLINE codes_32 codes_of(uint8x16_t low, uint8x16_t high) {
    return (codes_32){{vreinterpretq_s8_u8(low), vreinterpretq_s8_u8(high)}};
}
ALWAYS_INLINE codes_32 less(codes_32 x, int8_t offset) {
    return (codes_32){{vsubq_s8(x.val[0], vdupq_n_s8(offset)), vsubq_s8(x.val[1], vdupq_n_s8(offset))}};
}
ALWAYS_INLINE codes_32 look_up(const int8_t table[16], codes_32 x) {
    int8x16_t values = vld1q_s8(table);
    return (codes_32){{vqtbl1q_s8(values, vreinterpretq_u8_s8(x.val[0])), vqtbl1q_s8(values, vreinterpretq_u8_s8(x.val[1]))}};
}

/* Sixteen bytes of nibbles: the low ones, then the high ones. */
ALWAYS_INLINE codes_32 nibbles_by_halves(const uint8_t *bytes) {
    uint8x16_t x = vld1q_u8(bytes);
    return codes_of(vandq_u8(x, vdupq_n_u8(15)), vshrq_n_u8(x, 4));
}
/* Neighbours in a byte. */
ALWAYS_INLINE codes_32 nibbles_by_turns(const uint8_t *bytes) {
    codes_32 x = nibbles_by_halves(bytes);
    return (codes_32){{vzip1q_s8(x.val[0], x.val[1]), vzip2q_s8(x.val[0], x.val[1])}};
}
/* Bits [from, from + count) of each of 32 bytes, moved to bits [to, to + count). */
ALWAYS_INLINE codes_32 bits_of(const uint8_t *bytes, unsigned from, unsigned count, unsigned to) {
    int8x16_t shift = vdupq_n_s8((int8_t)((int)to - (int)from));
    uint8x16_t mask = vdupq_n_u8((uint8_t)(((1u << count) - 1) << to));
    return codes_of(vandq_u8(vshlq_u8(vld1q_u8(bytes), shift), mask), vandq_u8(vshlq_u8(vld1q_u8(bytes + 16), shift), mask));
}
ALWAYS_INLINE codes_32 either(codes_32 a, codes_32 b) { return (codes_32){{vorrq_s8(a.val[0], b.val[0]), vorrq_s8(a.val[1], b.val[1])}}; }
/* A byte of ones for every bit that is set. */
typedef uint8x16x2_t bytes_of_32;
ALWAYS_INLINE bytes_of_32 bytes_of_bits(uint32_t bits) {
    static const uint8_t place[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    static const uint8_t select[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t bytes = vreinterpretq_u8_u32(vdupq_n_u32(bits)), first = vld1q_u8(place), mask = vld1q_u8(select);
    return (bytes_of_32){{vtstq_u8(vqtbl1q_u8(bytes, first), mask), vtstq_u8(vqtbl1q_u8(bytes, vaddq_u8(first, vdupq_n_u8(2))), mask)}};
}
/* 32 bits as codes of 16 and 0. */
ALWAYS_INLINE codes_32 fifth_bits(const uint8_t *bits) {
    bytes_of_32 set = bytes_of_bits(load_u32(bits));
    uint8x16_t sixteen = vdupq_n_u8(16);
    return codes_of(vandq_u8(set.val[0], sixteen), vandq_u8(set.val[1], sixteen));
}

/* ---- blocks of 32 ---- */

ALWAYS_INLINE codes_32 q4_0_codes(const uint8_t *block, unsigned k) { return less(nibbles_by_halves(block + 2 + 16 * k), 8); }
ALWAYS_INLINE codes_32 q4_1_codes(const uint8_t *block, unsigned k) { return nibbles_by_halves(block + 4 + 16 * k); }
ALWAYS_INLINE codes_32 q5_0_codes(const uint8_t *block, unsigned k) {
    return less(either(nibbles_by_halves(block + 6 + 16 * k), fifth_bits(block + 2 + 4 * k)), 16);
}
ALWAYS_INLINE codes_32 q5_1_codes(const uint8_t *block, unsigned k) {
    return either(nibbles_by_halves(block + 8 + 16 * k), fifth_bits(block + 4 + 4 * k));
}
ALWAYS_INLINE codes_32 q8_0_codes(const uint8_t *block, unsigned k) { return load_32(block + 2 + 32 * k); }
ALWAYS_INLINE codes_32 iq4_nl_codes(const uint8_t *block, unsigned k) { return look_up(iq4_values, nibbles_by_halves(block + 2 + 16 * k)); }
ALWAYS_INLINE codes_32 mxfp4_codes(const uint8_t *block, unsigned k) {
    return look_up(fp4_doubled_values, nibbles_by_halves(block + 1 + 16 * k));
}

/* 2^(e - 128): half of the e8m0 value, subnormal for 0 and 1, NaN for 255. */
ALWAYS_INLINE float32x4_t half_e8m0(uint32x4_t e) {
    uint32x4_t bits = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    bits = vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e)), bits);
    return vreinterpretq_f32_u32(vbslq_u32(vceqq_u32(e, vdupq_n_u32(255)), vdupq_n_u32(0x7fc00000), bits));
}

/* ---- blocks of 256 ---- */

ALWAYS_INLINE codes_32 q2_k_codes(const uint8_t *block, unsigned k) {
    const struct block_q2_k *w = (const void *)block;
    return bits_of(w->qs + 32 * (k / 4), 2 * (k % 4), 2, 0);
}
ALWAYS_INLINE codes_32 q3_k_codes(const uint8_t *block, unsigned k) {
    const struct block_q3_k *w = (const void *)block;
    return less(either(bits_of(w->qs + 32 * (k / 4), 2 * (k % 4), 2, 0), bits_of(w->hmask, k, 1, 2)), 4);
}
ALWAYS_INLINE codes_32 q4_k_codes(const uint8_t *block, unsigned k) {
    const struct block_q4_k *w = (const void *)block;
    return bits_of(w->qs + 32 * (k / 2), 4 * (k % 2), 4, 0);
}
ALWAYS_INLINE codes_32 q5_k_codes(const uint8_t *block, unsigned k) {
    const struct block_q5_k *w = (const void *)block;
    return either(bits_of(w->qs + 32 * (k / 2), 4 * (k % 2), 4, 0), bits_of(w->qh, k, 1, 4));
}
ALWAYS_INLINE codes_32 q6_k_codes(const uint8_t *block, unsigned k) {
    const struct block_q6_k *w = (const void *)block;
    codes_32 low = bits_of(w->ql + 64 * (k / 4) + 32 * (k % 2), k % 4 < 2 ? 0 : 4, 4, 0);
    return less(either(low, bits_of(w->qh + 32 * (k / 4), 2 * (k % 4), 2, 4)), 32);
}
ALWAYS_INLINE codes_32 iq4_xs_codes(const uint8_t *block, unsigned k) {
    return look_up(iq4_values, nibbles_by_halves(block + offsetof(struct block_iq4_xs, qs) + 16 * k));
}

/* Integer scales of a block, 16 bits each: of sixteen sub-blocks, or of eight in `low`. */
struct sub_scales {
    int16x8_t low, high;
};
ALWAYS_INLINE struct sub_scales sixteen_scales(int8x16_t x) { return (struct sub_scales){vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x)}; }

/* Eight scales in low and eight mins in high, from the first 16 bytes of a block. */
ALWAYS_INLINE struct sub_scales k4_scales_mins(const uint8_t *block) {
    /* bytes 4..7 scales 0-3, 8..11 mins 0-3 (6 bits, top 2 bits for 4-7), 12..15 low nibbles of scales and mins 4-7 */
    uint32_t scales = load_u32(block + 4), mins = load_u32(block + 8), rest = load_u32(block + 12);
    uint64_t all[2] = {(scales & 0x3f3f3f3f) | (uint64_t)((rest & 0x0f0f0f0f) | (scales >> 2 & 0x30303030)) << 32,
                       (mins & 0x3f3f3f3f) | (uint64_t)((rest >> 4 & 0x0f0f0f0f) | (mins >> 2 & 0x30303030)) << 32};
    return sixteen_scales(vreinterpretq_s8_u64(vld1q_u64(all)));
}
/* -32 .. 31 */
ALWAYS_INLINE struct sub_scales q3_k_scales(const uint8_t *block) {
    const uint8_t *bytes = ((const struct block_q3_k *)(const void *)block)->scales;
    uint64_t low, top = load_u32(bytes + 8), all[2]; /* of each pair of scales a nibble in 8 bytes, then 2 bits in 4 */
    memcpy(&low, bytes, sizeof low);
    for (unsigned half = 0; half < 2; half++) {
        uint64_t high = (top >> 4 * half & 0x03030303) | (top >> (4 * half + 2) & 0x03030303) << 32;
        all[half] = (low >> 4 * half & 0x0f0f0f0f0f0f0f0f) | high << 4;
    }
    return sixteen_scales(vsubq_s8(vreinterpretq_s8_u64(vld1q_u64(all)), vdupq_n_s8(32)));
}
ALWAYS_INLINE struct sub_scales q6_k_scales(const uint8_t *block) {
    return sixteen_scales(vld1q_s8(((const struct block_q6_k *)(const void *)block)->scales));
}
ALWAYS_INLINE struct sub_scales q2_k_scales(const uint8_t *block) {
    return sixteen_scales(vreinterpretq_s8_u8(vandq_u8(vld1q_u8(block), vdupq_n_u8(15))));
}
ALWAYS_INLINE struct sub_scales q2_k_mins(const uint8_t *block) {
    return sixteen_scales(vreinterpretq_s8_u8(vshrq_n_u8(vld1q_u8(block), 4)));
}
/* -32 .. 31, eight of them */
ALWAYS_INLINE struct sub_scales iq4_xs_scales(const uint8_t *block) {
    static const int16_t by_four[8] = {0, -4, -8, -12, 0, -4, -8, -12}, by_two[8] = {0, -2, -4, -6, -8, -10, -12, -14};
    const struct block_iq4_xs *w = (const void *)block;
    uint16x8_t low = vcombine_u16(vdup_n_u16(load_u16(w->scales_l)), vdup_n_u16(load_u16(w->scales_l + 2)));
    low = vandq_u16(vshlq_u16(low, vld1q_s16(by_four)), vdupq_n_u16(15));
    uint16x8_t high = vandq_u16(vshlq_u16(vdupq_n_u16(w->scales_h), vld1q_s16(by_two)), vdupq_n_u16(3));
    int16x8_t scales = vreinterpretq_s16_u16(vorrq_u16(low, vshlq_n_u16(high, 4)));
    return (struct sub_scales){vsubq_s16(scales, vdupq_n_s16(32)), vdupq_n_s16(0)};
}
