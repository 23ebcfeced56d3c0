/*
 * encode: packing of codes and scales; the fits are in encode_fit.c.
 */
#include "dtype/encode.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "dtype/block_layouts.h"
#include "dtype/encode_fit.h"
#include "dtype/scalar_convert.h"

#define BLOCK_LEGACY 32
#define BLOCK_SUPER 256

/* The f16 nearest to a scale, never infinite. */
static uint16_t scale_f16(float scale) { return f16_from_f32(fit_clamp(scale, -65504.0f, 65504.0f)); }

static float inverse_of(float scale) { return fabsf(scale) > 1e-30f ? 1 / scale : 0; }

static unsigned code_of(float x, float inverse, float low, float high) {
    return (unsigned)(int)(fit_clamp(fit_round(fit_clamp(x * inverse, -1e6f, 1e6f)), low, high) - low);
}

static void encode_f16(const float *src, void *dst, size_t count) {
    uint8_t *out = dst;
    for (size_t i = 0; i < count; i++) {
        uint16_t value = f16_from_f32(src[i]);
        memcpy(out + 2 * i, &value, sizeof value);
    }
}

static void encode_bf16(const float *src, void *dst, size_t count) {
    uint8_t *out = dst;
    for (size_t i = 0; i < count; i++) {
        uint16_t value = bf16_from_f32(src[i]);
        memcpy(out + 2 * i, &value, sizeof value);
    }
}

static void encode_q4_0(const float *src, void *dst, size_t count) {
    struct block_q4_0 *block = dst;
    for (const float *x = src; x < src + count; x += BLOCK_LEGACY, block++) {
        block->d = scale_f16(fit_scale(x, BLOCK_LEGACY, -8, 7));
        float inverse = inverse_of(f32_from_f16(block->d));
        for (unsigned i = 0; i < 16; i++)
            block->qs[i] = (uint8_t)(code_of(x[i], inverse, -8, 7) | code_of(x[i + 16], inverse, -8, 7) << 4);
    }
}

static void encode_q8_0(const float *src, void *dst, size_t count) {
    struct block_q8_0 *block = dst;
    for (const float *x = src; x < src + count; x += BLOCK_LEGACY, block++) {
        block->d = scale_f16(fit_scale(x, BLOCK_LEGACY, -127, 127));
        float inverse = inverse_of(f32_from_f16(block->d));
        for (unsigned i = 0; i < BLOCK_LEGACY; i++)
            block->qs[i] = (int8_t)((int)code_of(x[i], inverse, -127, 127) - 127);
    }
}

/* ---- K ---- */

struct k_scales { /* of a block of q4_k or q5_k */
    uint16_t d, dmin;
    uint8_t scale[8], min[8];
};

/* Of the neighbours of a rounded scale and min, the pair with the smallest error. */
static void refine(const float *x, float high, struct k_scales *s, unsigned j) {
    float d = f32_from_f16(s->d), dmin = f32_from_f16(s->dmin), best = INFINITY;
    int scale = s->scale[j], min = s->min[j];
    for (int a = scale > 0 ? scale - 1 : 0; a <= scale + 1 && a < 64; a++)
        for (int b = min > 0 ? min - 1 : 0; b <= min + 1 && b < 64; b++) {
            struct fit_line line = {.scale = d * (float)a, .offset = -dmin * (float)b};
            float error = fit_line_error(x, 32, high, line);
            if (error < best) {
                best = error;
                s->scale[j] = (uint8_t)a;
                s->min[j] = (uint8_t)b;
            }
        }
}

static struct k_scales k_scales_of(const float *x, float high) {
    struct k_scales s = {0};
    struct fit_line lines[8];
    float largest_scale = 0, largest_min = 0;
    for (unsigned j = 0; j < 8; j++) {
        lines[j] = fit_line(x + (size_t)32 * j, 32, high, true);
        largest_scale = lines[j].scale > largest_scale ? lines[j].scale : largest_scale;
        largest_min = -lines[j].offset > largest_min ? -lines[j].offset : largest_min;
    }
    s.d = scale_f16(largest_scale / 63);
    s.dmin = scale_f16(largest_min / 63);
    float inverse_d = inverse_of(f32_from_f16(s.d)), inverse_min = inverse_of(f32_from_f16(s.dmin));
    for (unsigned j = 0; j < 8; j++) {
        s.scale[j] = (uint8_t)code_of(lines[j].scale, inverse_d, 0, 63);
        s.min[j] = (uint8_t)code_of(-lines[j].offset, inverse_min, 0, 63);
        refine(x + (size_t)32 * j, high, &s, j);
    }
    return s;
}

/* The inverse of k4_scale_min. */
static void put_k_scales(const struct k_scales *s, uint8_t out[12]) {
    for (unsigned j = 0; j < 4; j++) {
        out[j] = (uint8_t)(s->scale[j] | s->scale[j + 4] >> 4 << 6);
        out[j + 4] = (uint8_t)(s->min[j] | s->min[j + 4] >> 4 << 6);
        out[j + 8] = (uint8_t)((s->scale[j + 4] & 15) | (s->min[j + 4] & 15) << 4);
    }
}

/* Code of element e of the block. */
static unsigned k_code(const struct k_scales *s, const float *x, unsigned e, float high) {
    float scale = f32_from_f16(s->d) * (float)s->scale[e / 32], min = f32_from_f16(s->dmin) * (float)s->min[e / 32];
    return code_of(x[e] + min, inverse_of(scale), 0, high);
}

static void encode_q4_k(const float *src, void *dst, size_t count) {
    struct block_q4_k *block = dst;
    for (const float *x = src; x < src + count; x += BLOCK_SUPER, block++) {
        struct k_scales s = k_scales_of(x, 15);
        block->d = s.d;
        block->dmin = s.dmin;
        put_k_scales(&s, block->scales);
        for (unsigned i = 0; i < 128; i++) {
            unsigned e = i / 32 * 64 + i % 32;
            block->qs[i] = (uint8_t)(k_code(&s, x, e, 15) | k_code(&s, x, e + 32, 15) << 4);
        }
    }
}

static void encode_q5_k(const float *src, void *dst, size_t count) {
    struct block_q5_k *block = dst;
    for (const float *x = src; x < src + count; x += BLOCK_SUPER, block++) {
        struct k_scales s = k_scales_of(x, 31);
        block->d = s.d;
        block->dmin = s.dmin;
        put_k_scales(&s, block->scales);
        memset(block->qh, 0, sizeof block->qh);
        for (unsigned i = 0; i < 128; i++) {
            unsigned e = i / 32 * 64 + i % 32, low = k_code(&s, x, e, 31), high = k_code(&s, x, e + 32, 31);
            block->qs[i] = (uint8_t)((low & 15) | (high & 15) << 4);
            block->qh[i % 32] = (uint8_t)(block->qh[i % 32] | low >> 4 << (e / 32) | high >> 4 << (e / 32 + 1));
        }
    }
}

static void encode_q6_k(const float *src, void *dst, size_t count) {
    struct block_q6_k *block = dst;
    for (const float *x = src; x < src + count; x += BLOCK_SUPER, block++) {
        float scales[16], largest = 0;
        for (unsigned j = 0; j < 16; j++) {
            scales[j] = fit_scale(x + (size_t)16 * j, 16, -32, 31);
            largest = fabsf(scales[j]) > fabsf(largest) ? scales[j] : largest;
        }
        block->d = scale_f16(largest / -128);
        float d = f32_from_f16(block->d), inverse = inverse_of(d);
        memset(block->ql, 0, sizeof block->ql);
        memset(block->qh, 0, sizeof block->qh);
        for (unsigned j = 0; j < 16; j++)
            block->scales[j] = (int8_t)((int)code_of(scales[j], inverse, -128, 127) - 128);
        for (unsigned e = 0; e < BLOCK_SUPER; e++) {
            unsigned q = code_of(x[e], inverse_of(d * (float)block->scales[e / 16]), -32, 31), half = e / 128, i = e % 128;
            block->ql[half * 64 + i % 64] = (uint8_t)(block->ql[half * 64 + i % 64] | (q & 15) << (i / 64 * 4));
            block->qh[half * 32 + i % 32] = (uint8_t)(block->qh[half * 32 + i % 32] | q >> 4 << (i / 32 * 2));
        }
    }
}

static void (*const encoders[DTYPE_COUNT])(const float *src, void *dst, size_t count) = {
    [DTYPE_F16] = encode_f16,   [DTYPE_BF16] = encode_bf16, [DTYPE_Q4_0] = encode_q4_0, [DTYPE_Q8_0] = encode_q8_0,
    [DTYPE_Q4_K] = encode_q4_k, [DTYPE_Q5_K] = encode_q5_k, [DTYPE_Q6_K] = encode_q6_k,
};

bool dtype_can_encode(enum dtype dtype) {
    CHECK((unsigned)dtype < DTYPE_COUNT);
    return encoders[dtype] != NULL;
}

void dtype_encode(enum dtype dtype, const float *src, void *dst, size_t count) {
    CHECK(dtype_can_encode(dtype) && count % dtype_info(dtype)->block_elements == 0);
    encoders[dtype](src, dst, count);
}

/* ---- MLX ---- */

/* Stores a scale or bias; returns what was stored. */
static float put_scale(float value, enum dtype dtype, uint8_t *out, size_t index) {
    uint16_t half = dtype == DTYPE_F16 ? scale_f16(value) : bf16_from_f32(value);
    if (dtype == DTYPE_F32) {
        memcpy(out + 4 * index, &value, sizeof value);
        return value;
    }
    memcpy(out + 2 * index, &half, sizeof half);
    return dtype == DTYPE_F16 ? f32_from_f16(half) : f32_from_bf16(half);
}

void encode_affine(const float *src, size_t count, const struct affine_row *row) {
    CHECK(row->group <= FIT_GROUP_MAX && count % row->group == 0 && (row->bits == 4 || row->bits == 8));
    CHECK(row->scale_dtype == DTYPE_F32 || row->scale_dtype == DTYPE_F16 || row->scale_dtype == DTYPE_BF16);
    float high = (float)((1u << row->bits) - 1);
    memset(row->codes, 0, count * row->bits / 8);
    for (size_t g = 0; g < count / row->group; g++) {
        const float *x = src + g * row->group;
        struct fit_line line = fit_line(x, row->group, high, false);
        float scale = put_scale(line.scale, row->scale_dtype, row->scales, g);
        float offset = put_scale(line.offset, row->scale_dtype, row->biases, g), inverse = inverse_of(scale);
        for (size_t i = 0; i < row->group; i++) {
            size_t bit = (g * row->group + i) * row->bits;
            row->codes[bit / 8] = (uint8_t)(row->codes[bit / 8] | code_of(x[i] - offset, inverse, 0, high) << (bit % 8));
        }
    }
}
