/*
 * matmul_fp4: reference products of 4-bit floats (e2m1) with small-float scales, inside blocks or in a tensor of their own.
 *
 * Codes are taken doubled, so that they are integers, and the scale is halved, which is exact. NVFP4 has one scale, and therefore one
 * float term, per 16 elements; its activations have one scale per 64.
 */
#include <math.h>

#include "base/check.h"
#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "dtype/scalar_convert.h"
#include "kernel/ref/block_dot.h"
#include "kernel/ref/code_read.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"

/* Element i in the low nibble of codes[i], element i + half in the high one. */
static int32_t halves_dot(const uint8_t *codes, const int8_t *q, unsigned half) {
    int32_t sum = 0;
    for (unsigned i = 0; i < half; i++)
        sum += fp4_doubled_values[codes[i] & 15] * q[i] + fp4_doubled_values[codes[i] >> 4] * q[i + half];
    return sum;
}

/* Element i in nibble i of the stream. */
static int32_t neighbours_dot(const uint8_t *codes, const int8_t *q, unsigned count) {
    int32_t sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += fp4_doubled_values[code_read(codes, 4, i)] * q[i];
    return sum;
}

static void mxfp4_terms(const uint8_t *block, const int8_t *q, const int16_t *sums, struct block_terms *out) {
    (void)sums;
    const struct block_mxfp4 *w = (const void *)block;
    out->d = 0.5f * f32_from_f8_e8m0(w->e);
    out->sum = halves_dot(w->qs, q, 16);
}

void ref_matmul_mxfp4(const struct matmul_args *args) { ref_matmul_blocks(args, &(struct block_format){32, 17, false, mxfp4_terms}); }

/* Scale and integer sum of run number `run` (`run_elements` long) of a row. */
typedef float run_terms_fn(const struct matrix *w, size_t row, size_t run, const int8_t *q, int32_t *sum);

static void matmul_runs(const struct matmul_args *args, run_terms_fn *terms, unsigned run_elements, unsigned block) {
    const struct matrix *w = args->w;
    CHECK(w->cols % run_elements == 0 && args->row_end <= w->rows);
    for (size_t t = 0; t < args->tokens; t++) {
        struct activation_row x = activation_row_of(args, t, block);
        for (size_t r = args->row_begin; r < args->row_end; r++) {
            float lane[8] = {0};
            for (size_t run = 0; run < w->cols / run_elements; run++) {
                int32_t sum = 0;
                float d = terms(w, r, run, x.q + run * run_elements, &sum) * x.scales[run * run_elements / block];
                lane[run % 8] = fmaf(d, (float)sum, lane[run % 8]);
            }
            args->y[t * args->y_stride + r] = lanes_tree(lane, 8) * w->tensor_scale;
        }
    }
}

static float nvfp4_terms(const struct matrix *w, size_t row, size_t run, const int8_t *q, int32_t *sum) {
    const struct block_nvfp4 *block = (const void *)(w->data + row * w->row_bytes + run / 4 * sizeof *block);
    *sum = halves_dot(block->qs + run % 4 * 8, q, 8);
    return 0.5f * f32_from_ue4m3(block->d[run % 4]);
}

static float nvfp4_split_terms(const struct matrix *w, size_t row, size_t run, const int8_t *q, int32_t *sum) {
    *sum = neighbours_dot(w->data + row * w->row_bytes + 8 * run, q, 16);
    return 0.5f * f32_from_f8_e4m3(w->scales[row * w->scales_row_bytes + run]);
}

static float mxfp4_split_terms(const struct matrix *w, size_t row, size_t run, const int8_t *q, int32_t *sum) {
    *sum = neighbours_dot(w->data + row * w->row_bytes + 16 * run, q, 32);
    return 0.5f * f32_from_f8_e8m0(w->scales[row * w->scales_row_bytes + run]);
}

void ref_matmul_nvfp4(const struct matmul_args *args) { matmul_runs(args, nvfp4_terms, 16, 64); }
void ref_matmul_nvfp4_split(const struct matmul_args *args) { matmul_runs(args, nvfp4_split_terms, 16, 64); }
void ref_matmul_mxfp4_split(const struct matmul_args *args) { matmul_runs(args, mxfp4_split_terms, 32, 32); }
