/*
 * matmul_legacy: products of the formats of 32-element blocks with one scale each: Q4_0 .. Q8_0, IQ4_NL, MXFP4.
 *
 * Row after row, eight blocks (one per lane of the result) at a time, each unpacked once for up to four tokens. The blocks at the end of
 * a row that are no full eight are copied to a padded buffer first, where scales of 0 keep the other lanes as they are.
 */
#include "kernel/neon/codes.h"
#include "kernel/neon/neon.h"

#define TOKENS 4
#define BLOCK_MAX 34

struct legacy_format {
    size_t block_bytes;
    bool has_bias, is_mxfp4;
};

struct lanes { /* of one token */
    float32x4_t low, high;
};

/* Scales of four blocks. */
ALWAYS_INLINE float32x4_t scales_of_4(const uint8_t *block, const struct legacy_format *f) {
    if (!f->is_mxfp4)
        return load_4_halves(block, f->block_bytes);
    uint32_t e[4] = {block[0], block[f->block_bytes], block[2 * f->block_bytes], block[3 * f->block_bytes]};
    return half_e8m0(vld1q_u32(e));
}

/* Adds the terms of four blocks to their lanes, for some tokens; count: those that are there. */
ALWAYS_INLINE void add_4_blocks(const uint8_t *block, codes_fn *codes, const struct legacy_format *f, const uint8_t *const x[TOKENS],
                                const struct activation_layout *layout, size_t first, unsigned tokens, unsigned count,
                                float32x4_t *const total[TOKENS]) {
    codes_32 code[4];
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        code[k] = codes(block + k * f->block_bytes, 0);
    float32x4_t d = scales_of_4(block, f), m = f->has_bias ? load_4_halves(block + 2, f->block_bytes) : d;
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++) {
        const int8_t *q = (const int8_t *)x[t] + 32 * first;
        const float *scales = (const float *)(const void *)(x[t] + layout->scales_offset_bytes) + first;
        const int16_t *sums = (const int16_t *)(const void *)(x[t] + layout->sums_offset_bytes) + 2 * first;
        int32x4_t dot[4], zero = vdupq_n_s32(0);
#pragma GCC unroll 4
        for (unsigned k = 0; k < 4; k++)
            dot[k] = k < count ? dot_32(zero, code[k], load_32(q + 32 * k)) : zero;
        float32x4_t scale = vld1q_f32(scales), sum = vcvtq_f32_s32(sums_of_4(dot[0], dot[1], dot[2], dot[3]));
        *total[t] = vfmaq_f32(*total[t], vmulq_f32(d, scale), sum);
        if (f->has_bias)
            *total[t] = vfmaq_f32(*total[t], vmulq_f32(m, scale), vcvtq_f32_s32(vpaddlq_s16(vld1q_s16(sums))));
    }
}

ALWAYS_INLINE void walk_row(const struct matmul_args *args, const struct activation_layout *layout, codes_fn *codes,
                            const struct legacy_format *f, size_t row, size_t token, unsigned tokens) {
    const struct matrix *w = args->w;
    const uint8_t *blocks = w->data + row * w->row_bytes, *x[TOKENS];
    size_t count = w->cols / 32, b = 0;
    struct lanes lanes[TOKENS];
    float32x4_t *low[TOKENS], *high[TOKENS];
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++) {
        x[t] = args->x + (token + t) * args->x_row_bytes;
        lanes[t].low = lanes[t].high = vdupq_n_f32(0.0f);
        low[t] = &lanes[t].low;
        high[t] = &lanes[t].high;
    }
    for (; b + 8 <= count; b += 8, blocks += 8 * f->block_bytes) {
        add_4_blocks(blocks, codes, f, x, layout, b, tokens, 4, low);
        add_4_blocks(blocks + 4 * f->block_bytes, codes, f, x, layout, b + 4, tokens, 4, high);
    }
    for (size_t left; b < count; b += left, blocks += left * f->block_bytes) {
        uint8_t padded[4 * BLOCK_MAX] = {0};
        left = count - b < 4 ? count - b : 4;
        memcpy(padded, blocks, left * f->block_bytes);
        add_4_blocks(padded, codes, f, x, layout, b, tokens, (unsigned)left, b % 8 ? high : low);
    }
    for (unsigned t = 0; t < tokens; t++) {
        float32x4_t four = vaddq_f32(lanes[t].low, lanes[t].high);
        args->y[(token + t) * args->y_stride + row] = vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four))) * w->tensor_scale;
    }
}

ALWAYS_INLINE void walk_matrix(const struct matmul_args *args, codes_fn *codes, const struct legacy_format f) {
    struct activation_layout layout = activation_layout(32, args->w->cols);
    for (size_t row = args->row_begin; row < args->row_end; row++) {
        size_t token = 0;
        for (; token + TOKENS <= args->tokens; token += TOKENS)
            walk_row(args, &layout, codes, &f, row, token, TOKENS);
        for (; token + 2 <= args->tokens; token += 2)
            walk_row(args, &layout, codes, &f, row, token, 2);
        if (token < args->tokens)
            walk_row(args, &layout, codes, &f, row, token, 1);
    }
}

void neon_matmul_q4_0(const struct matmul_args *args) { walk_matrix(args, q4_0_codes, (struct legacy_format){18, false, false}); }
void neon_matmul_q4_1(const struct matmul_args *args) { walk_matrix(args, q4_1_codes, (struct legacy_format){20, true, false}); }
void neon_matmul_q5_0(const struct matmul_args *args) { walk_matrix(args, q5_0_codes, (struct legacy_format){22, false, false}); }
void neon_matmul_q5_1(const struct matmul_args *args) { walk_matrix(args, q5_1_codes, (struct legacy_format){24, true, false}); }
void neon_matmul_q8_0(const struct matmul_args *args) { walk_matrix(args, q8_0_codes, (struct legacy_format){34, false, false}); }
void neon_matmul_iq4_nl(const struct matmul_args *args) { walk_matrix(args, iq4_nl_codes, (struct legacy_format){18, false, false}); }
void neon_matmul_mxfp4(const struct matmul_args *args) { walk_matrix(args, mxfp4_codes, (struct legacy_format){17, false, true}); }
