/*
 * strips: the walk of matrix-vector products of blocks with one float term (matmul_k_body.inc, matmul_iq_body.inc); a level brings its
 * dot.h.
 *
 * Four rows at a time, block after block: the integer sums of a block of four rows are one vector, its float part is one fma into the
 * vector of lane block % 8. Codes are unpacked 32 at a time and used for up to four tokens.
 */
#pragma once

#include "kernel/kernel.h"
#include "kernel/neon/codes_iq.h"

#define STRIP 4
#define TOKENS 4
#define NO_MIN SIZE_MAX

struct activation { /* one token, at one block */
    const int8_t *q;
    const int16_t *sums; /* [16] */
};

/* One block of one row times up to four tokens: vectors whose four numbers add up to the integer sums. bias: of the mins. */
typedef void block_fn(const uint8_t *block, const struct activation *x, unsigned tokens, int32x4_t sum[TOKENS], int32x4_t bias[TOKENS]);

struct strip_format {
    size_t elements, block_bytes; /* of a block; elements: 256, or fewer without scales of sub-blocks */
    size_t d_offset, min_offset;  /* of f16s: the scale, and what multiplies the mins, or NO_MIN */
    float factor;                 /* multiplies the scale, a power of 2 */
};

ALWAYS_INLINE int32x4_t four_of(int16x8_t scales, unsigned first) {
    return first ? vmovl_high_s16(scales) : vmovl_s16(vget_low_s16(scales));
}
/* sum + x * scale[i]; i is known when compiling, after unrolling. */
ALWAYS_INLINE int32x4_t add_scaled(int32x4_t sum, int32x4_t x, int32x4_t scale, unsigned i) {
    return i == 0   ? vmlaq_laneq_s32(sum, x, scale, 0)
           : i == 1 ? vmlaq_laneq_s32(sum, x, scale, 1)
           : i == 2 ? vmlaq_laneq_s32(sum, x, scale, 2)
                    : vmlaq_laneq_s32(sum, x, scale, 3);
}

/* Codes times activations times scales; a scale per 32. */
ALWAYS_INLINE void scaled_dot_32(const uint8_t *block, codes_fn *codes, struct sub_scales scales, const struct activation *x,
                                 unsigned tokens, int32x4_t sum[TOKENS]) {
    for (unsigned t = 0; t < tokens; t++)
        sum[t] = vdupq_n_s32(0);
#pragma GCC unroll 8
    for (unsigned k = 0; k < 8; k++) {
        codes_32 code = codes(block, k);
        int32x4_t scale = four_of(scales.low, k / 4);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++)
            sum[t] = add_scaled(sum[t], dot_32(vdupq_n_s32(0), code, load_32(x[t].q + 32 * k)), scale, k % 4);
    }
}
/* The same with a scale per 16. */
ALWAYS_INLINE void scaled_dot_16(const uint8_t *block, codes_fn *codes, struct sub_scales scales, const struct activation *x,
                                 unsigned tokens, int32x4_t sum[TOKENS]) {
    for (unsigned t = 0; t < tokens; t++)
        sum[t] = vdupq_n_s32(0);
#pragma GCC unroll 8
    for (unsigned k = 0; k < 8; k++) {
        codes_32 code = codes(block, k);
        int32x4_t scale = four_of(k < 4 ? scales.low : scales.high, k / 2 % 2);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++) {
            codes_32 q = load_32(x[t].q + 32 * k);
            sum[t] = add_scaled(sum[t], dot_16(vdupq_n_s32(0), code.val[0], q.val[0]), scale, 2 * k % 4);
            sum[t] = add_scaled(sum[t], dot_16(vdupq_n_s32(0), code.val[1], q.val[1]), scale, 2 * k % 4 + 1);
        }
    }
}

/* Without scales. */
ALWAYS_INLINE void plain_dot(const uint8_t *block, codes_fn *codes, unsigned elements, const struct activation *x, unsigned tokens,
                             int32x4_t sum[TOKENS]) {
    for (unsigned t = 0; t < tokens; t++)
        sum[t] = vdupq_n_s32(0);
#pragma GCC unroll 8
    for (unsigned k = 0; k < elements / 32; k++) {
        codes_32 code = codes(block, k);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++)
            sum[t] = dot_32(sum[t], code, load_32(x[t].q + 32 * k));
    }
}

/* Rows [row, row + STRIP) of some tokens; the last row fills the places behind row_end. */
ALWAYS_INLINE void walk_strip(const struct matmul_args *args, const struct activation_layout *layout, block_fn *block,
                              const struct strip_format *f, size_t row, size_t token, unsigned tokens) {
    const struct matrix *w = args->w;
    size_t rows = args->row_end - row < STRIP ? args->row_end - row : STRIP;
    const uint8_t *at[STRIP];
    float32x4_t lane[TOKENS][8];
    for (unsigned r = 0; r < STRIP; r++)
        at[r] = w->data + (row + (r < rows ? r : rows - 1)) * w->row_bytes;
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned l = 0; l < 8; l++)
            lane[t][l] = vdupq_n_f32(0.0f);
    for (size_t b = 0; b < w->cols / f->elements; b++) {
        struct activation x[TOKENS];
        int32x4_t sum[STRIP][TOKENS], bias[STRIP][TOKENS];
        uint16_t d[STRIP], m[STRIP];
        for (unsigned t = 0; t < tokens; t++) {
            const uint8_t *x_row = args->x + (token + t) * args->x_row_bytes;
            x[t].q = (const int8_t *)x_row + f->elements * b;
            x[t].sums = (const int16_t *)(const void *)(x_row + layout->sums_offset_bytes) + f->elements / 16 * b;
        }
#pragma GCC unroll 4
        for (unsigned r = 0; r < STRIP; r++) {
            block(at[r], x, tokens, sum[r], bias[r]);
            d[r] = load_d(at[r], f->d_offset);
            m[r] = f->min_offset == NO_MIN ? 0 : load_u16(at[r] + f->min_offset);
            at[r] += f->block_bytes;
        }
        float32x4_t d_rows = vmulq_n_f32(floats_of_f16(vld1_u16(d)), f->factor), m_rows = floats_of_f16(vld1_u16(m));
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++) {
            float scale = ((const float *)(const void *)(args->x + (token + t) * args->x_row_bytes + layout->scales_offset_bytes))[b];
            float32x4_t *total = &lane[t][b % 8];
            int32x4_t sums = sums_of_4(sum[0][t], sum[1][t], sum[2][t], sum[3][t]);
            *total = vfmaq_f32(*total, vmulq_n_f32(d_rows, scale), vcvtq_f32_s32(sums));
            if (f->min_offset != NO_MIN) {
                int32x4_t mins = sums_of_4(bias[0][t], bias[1][t], bias[2][t], bias[3][t]);
                *total = vfmsq_f32(*total, vmulq_n_f32(m_rows, scale), vcvtq_f32_s32(mins));
            }
        }
    }
    for (unsigned t = 0; t < tokens; t++) {
        const float32x4_t *l = lane[t];
        float32x4_t even = vaddq_f32(vaddq_f32(l[0], l[4]), vaddq_f32(l[2], l[6]));
        float32x4_t odd = vaddq_f32(vaddq_f32(l[1], l[5]), vaddq_f32(l[3], l[7]));
        float y[STRIP];
        vst1q_f32(y, vmulq_n_f32(vaddq_f32(even, odd), w->tensor_scale));
        memcpy(args->y + (token + t) * args->y_stride + row, y, rows * sizeof *y);
    }
}

ALWAYS_INLINE void walk_matrix(const struct matmul_args *args, block_fn *block, const struct strip_format f) {
    struct activation_layout layout = activation_layout((unsigned)f.elements, args->w->cols);
    for (size_t row = args->row_begin; row < args->row_end; row += STRIP) {
        size_t token = 0;
        for (; token + TOKENS <= args->tokens; token += TOKENS)
            walk_strip(args, &layout, block, &f, row, token, TOKENS);
        for (; token + 2 <= args->tokens; token += 2)
            walk_strip(args, &layout, block, &f, row, token, 2);
        if (token < args->tokens)
            walk_strip(args, &layout, block, &f, row, token, 1);
    }
}

/* What is summed stays in registers; `tokens` is a constant of each copy. */
ALWAYS_INLINE void block_of_tokens(block_fn *f, const uint8_t *block, const struct activation *x, unsigned tokens, int32x4_t sum[TOKENS],
                                   int32x4_t bias[TOKENS]) {
    int32x4_t own_sum[TOKENS], own_bias[TOKENS];
    for (unsigned t = 0; t < tokens; t++)
        own_bias[t] = vdupq_n_s32(0);
    f(block, x, tokens, own_sum, own_bias);
    memcpy(sum, own_sum, tokens * sizeof *sum);
    memcpy(bias, own_bias, tokens * sizeof *bias);
}

/* A product from name##_block, which is out of line, since unpacking is long. */
#define STRIP_PRODUCT(name, elements, d_offset, min_offset, factor)                                                           \
    static __attribute__((noinline)) void name##_of_tokens(const uint8_t *block, const struct activation *x, unsigned tokens, \
                                                           int32x4_t sum[TOKENS], int32x4_t bias[TOKENS]) {                   \
        if (tokens == 1)                                                                                                      \
            block_of_tokens(name##_block, block, x, 1, sum, bias);                                                            \
        else if (tokens == 2)                                                                                                 \
            block_of_tokens(name##_block, block, x, 2, sum, bias);                                                            \
        else                                                                                                                  \
            block_of_tokens(name##_block, block, x, TOKENS, sum, bias);                                                       \
    }                                                                                                                         \
    void LEVEL(matmul_##name)(const struct matmul_args *args) {                                                               \
        const struct strip_format f = {elements, sizeof(struct block_##name), d_offset, min_offset, factor};                  \
        walk_matrix(args, name##_of_tokens, f);                                                                               \
    }
