/*
 * codes_iq: codes and integer scales of the IQ formats with grids, and of those with few bits and no sub-blocks.
 */
#pragma once

#include "kernel/neon/codes.h"

ALWAYS_INLINE codes_32 with_signs(codes_32 magnitudes, uint32_t signs) {
    bytes_of_32 minus = bytes_of_bits(signs);
    return (codes_32){{vbslq_s8(minus.val[0], vnegq_s8(magnitudes.val[0]), magnitudes.val[0]),
                       vbslq_s8(minus.val[1], vnegq_s8(magnitudes.val[1]), magnitudes.val[1])}};
}
ALWAYS_INLINE codes_32 four_of_8(const void *a, const void *b, const void *c, const void *d) {
    return (codes_32){{vcombine_s8(vld1_s8(a), vld1_s8(b)), vcombine_s8(vld1_s8(c), vld1_s8(d))}};
}
/* Not through memory, where a load would wait for several stores. */
ALWAYS_INLINE int8x16_t four_of_4(const uint8_t grid[][4], const uint16_t index[4]) {
    uint32x4_t all = vdupq_n_u32(load_u32(grid[index[0]]));
    all = vsetq_lane_u32(load_u32(grid[index[1]]), all, 1);
    all = vsetq_lane_u32(load_u32(grid[index[2]]), all, 2);
    return vreinterpretq_s8_u32(vsetq_lane_u32(load_u32(grid[index[3]]), all, 3));
}
ALWAYS_INLINE codes_32 eight_of_4(const uint8_t grid[][4], const uint8_t qs[8], unsigned high) {
    static const uint16_t select[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    uint16x8_t ninth = vandq_u16(vtstq_u16(vdupq_n_u16((uint16_t)high), vld1q_u16(select)), vdupq_n_u16(256));
    uint16_t index[8];
    vst1q_u16(index, vorrq_u16(vmovl_u8(vld1_u8(qs)), ninth));
    return (codes_32){{four_of_4(grid, index), four_of_4(grid, index + 4)}};
}

ALWAYS_INLINE codes_32 with_shifts(codes_32 grid, codes_32 minus) {
    int8x16_t one = vdupq_n_s8(1);
    return (codes_32){{vaddq_s8(vshlq_n_s8(grid.val[0], 3), vorrq_s8(minus.val[0], one)),
                       vaddq_s8(vshlq_n_s8(grid.val[1], 3), vorrq_s8(minus.val[1], one))}};
}
ALWAYS_INLINE codes_32 minus_of_all(unsigned bits) {
    int8x16_t minus = vdupq_n_s8((int8_t)(bits >> 15 ? -1 : 0));
    return (codes_32){{minus, minus}};
}
ALWAYS_INLINE codes_32 minus_of_eights(unsigned bits) {
    static const uint64_t top[4] = {8, 0x80, 0x800, 0x8000};
    uint64x2_t each = vdupq_n_u64(bits);
    return (codes_32){{vreinterpretq_s8_u64(vtstq_u64(each, vld1q_u64(top))), vreinterpretq_s8_u64(vtstq_u64(each, vld1q_u64(top + 2)))}};
}

#include "kernel/wide/codes_iq_body.inc"

/* ---- integer scales: 2 s + 1 ---- */

ALWAYS_INLINE int16x8_t odd(uint16x8_t s) { return vreinterpretq_s16_u16(vorrq_u16(vaddq_u16(s, s), vdupq_n_u16(1))); }
/* Eight, from the top nibbles of 32-bit numbers. */
ALWAYS_INLINE struct sub_scales odd_tops(uint32x4_t low, uint32x4_t high) {
    uint16x8_t s = vcombine_u16(vmovn_u32(vshrq_n_u32(low, 28)), vmovn_u32(vshrq_n_u32(high, 28)));
    return (struct sub_scales){odd(s), vdupq_n_s16(0)};
}
ALWAYS_INLINE struct sub_scales iq2_xxs_scales(const uint8_t *block) {
    const uint8_t *qs = ((const struct block_iq2_xxs *)(const void *)block)->qs;
    uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(qs)), b = vreinterpretq_u32_u8(vld1q_u8(qs + 16));
    uint32x4_t c = vreinterpretq_u32_u8(vld1q_u8(qs + 32)), d = vreinterpretq_u32_u8(vld1q_u8(qs + 48));
    return odd_tops(vuzp2q_u32(a, b), vuzp2q_u32(c, d));
}
ALWAYS_INLINE struct sub_scales iq3_xxs_scales(const uint8_t *block) {
    const uint8_t *packed = block + offsetof(struct block_iq3_xxs, signs_scales);
    return odd_tops(vreinterpretq_u32_u8(vld1q_u8(packed)), vreinterpretq_u32_u8(vld1q_u8(packed + 16)));
}
ALWAYS_INLINE struct sub_scales iq1_s_scales(const uint8_t *block) {
    uint16x8_t qh = vreinterpretq_u16_u8(vld1q_u8(block + offsetof(struct block_iq1_s, qh)));
    return (struct sub_scales){odd(vandq_u16(vshrq_n_u16(qh, 12), vdupq_n_u16(7))), vdupq_n_s16(0)};
}
/* Sixteen: a nibble each. */
ALWAYS_INLINE struct sub_scales nibble_scales(uint8x8_t bytes) {
    uint8x8_t low = vand_u8(bytes, vdup_n_u8(15)), high = vshr_n_u8(bytes, 4);
    return (struct sub_scales){odd(vmovl_u8(vzip1_u8(low, high))), odd(vmovl_u8(vzip2_u8(low, high)))};
}
ALWAYS_INLINE struct sub_scales iq2_xs_scales(const uint8_t *block) {
    return nibble_scales(vld1_u8(block + offsetof(struct block_iq2_xs, scales)));
}
ALWAYS_INLINE struct sub_scales iq2_s_scales(const uint8_t *block) {
    return nibble_scales(vld1_u8(block + offsetof(struct block_iq2_s, scales)));
}
ALWAYS_INLINE struct sub_scales iq3_s_scales(const uint8_t *block) { /* four bytes */
    return nibble_scales(vreinterpret_u8_u32(vdup_n_u32(load_u32(block + offsetof(struct block_iq3_s, scales)))));
}
ALWAYS_INLINE struct sub_scales iq1_m_scales(const uint8_t *block) { /* four of three bits in each word */
    static const int16_t down[8] = {0, -3, -6, -9, 0, -3, -6, -9};
    uint16x4_t words = vreinterpret_u16_u8(vld1_u8(block + offsetof(struct block_iq1_m, scales)));
    uint16x8_t low = vcombine_u16(vdup_lane_u16(words, 0), vdup_lane_u16(words, 1)), seven = vdupq_n_u16(7);
    uint16x8_t high = vcombine_u16(vdup_lane_u16(words, 2), vdup_lane_u16(words, 3));
    int16x8_t by = vld1q_s16(down);
    return (struct sub_scales){odd(vandq_u16(vshlq_u16(low, by), seven)), odd(vandq_u16(vshlq_u16(high, by), seven))};
}

/* ---- few bits, no sub-blocks ---- */

ALWAYS_INLINE codes_32 tq2_0_codes(const uint8_t *block, unsigned k) { return less(bits_of(block + 32 * (k / 4), 2 * (k % 4), 2, 0), 1); }

/* Base-3 digits less 1: a byte times a power of 3, kept to 8 bits, times 3 and shifted by 8: how many of 86 and 171 it reaches. */
ALWAYS_INLINE int8x16_t digits(uint8x16_t bytes, uint8x16_t power) {
    uint8x16_t x = vmulq_u8(bytes, power);
    int8x16_t minus = vreinterpretq_s8_u8(vaddq_u8(vcgeq_u8(x, vdupq_n_u8(86)), vcgeq_u8(x, vdupq_n_u8(171))));
    return vsubq_s8(vdupq_n_s8(-1), minus);
}
/* 160 codes in 32 bytes, 80 in 16, 16 in 4. */
ALWAYS_INLINE codes_32 tq1_0_codes(const uint8_t *block, unsigned k) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    static const uint8_t four_powers[16] = {1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27};
    const struct block_tq1_0 *w = (const void *)block;
    if (k < 5)
        return (codes_32){{digits(vld1q_u8(w->qs), vdupq_n_u8(power[k])), digits(vld1q_u8(w->qs + 16), vdupq_n_u8(power[k]))}};
    unsigned first = 2 * (k - 5);
    int8x16_t low = digits(vld1q_u8(w->qs + 32), vdupq_n_u8(power[first]));
    if (k < 7)
        return (codes_32){{low, digits(vld1q_u8(w->qs + 32), vdupq_n_u8(power[first + 1]))}};
    return (codes_32){{low, digits(vreinterpretq_u8_u32(vdupq_n_u32(load_u32(w->qh))), vld1q_u8(four_powers))}};
}
ALWAYS_INLINE codes_32 q1_0_codes(const uint8_t *block, unsigned k) { /* 1 or -1 */
    bytes_of_32 set = bytes_of_bits(load_u32(block + offsetof(struct block_q1_0, qs) + 4 * k));
    uint8x16_t one = vdupq_n_u8(1);
    return codes_of(vornq_u8(one, set.val[0]), vornq_u8(one, set.val[1]));
}
ALWAYS_INLINE codes_32 q2_0_codes(const uint8_t *block, unsigned k) { /* neighbours in a byte */
    static const uint8_t low[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    static const int8_t down[16] = {0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6, 0, -2, -4, -6};
    uint8x8_t eight = vld1_u8(block + offsetof(struct block_q2_0, qs) + 8 * k);
    uint8x16_t bytes = vcombine_u8(eight, eight), first = vld1q_u8(low), three = vdupq_n_u8(3);
    uint8x16_t a = vqtbl1q_u8(bytes, first), b = vqtbl1q_u8(bytes, vaddq_u8(first, vdupq_n_u8(4)));
    int8x16_t by = vld1q_s8(down);
    return less(codes_of(vandq_u8(vshlq_u8(a, by), three), vandq_u8(vshlq_u8(b, by), three)), 1);
}
