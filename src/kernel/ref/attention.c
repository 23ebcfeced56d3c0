/*
 * attention: one query row against the visible positions of one key head (docs/ARITHMETIC.md, section 11).
 *
 * Each tile of 128 positions alone gives (max, sum, weighted values) of those of its positions that are visible and chosen; tiles with any
 * are merged from left to right, a sink last.
 */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "dtype/scalar_convert.h"
#include "kernel/math.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"

/* Part of a softmax: max of the scores, sum of exp(score - max), values weighted with the same. */
struct part {
    float max, sum;
    float *values; /* [v_dim] */
};

/* Every level keeps, per query head, the scores of a tile and the values of a tile, and padding for vectors. */
size_t attention_scratch_floats(size_t group, size_t v_dim) { return group * (ATTENTION_TILE + v_dim + 64) + 64; }

static float kv_element(enum dtype dtype, const void *vector, size_t index) {
    if (dtype == DTYPE_F32)
        return ((const float *)vector)[index];
    return f32_from_f16(((const uint16_t *)vector)[index]);
}

/* The i-th of the positions that count. */
static size_t position_at(const struct attention_args *args, size_t i) { return args->positions ? args->positions[i] : args->begin + i; }

static float score_of(const struct attention_args *args, const float *q, size_t position) {
    const void *k = (const uint8_t *)args->k_tiles[position / ATTENTION_TILE] + position % ATTENTION_TILE * args->k_stride_bytes;
    float lane[16] = {0};
    for (size_t i = 0; i < args->head_dim; i++)
        lane[i % 16] = fmaf(q[i], kv_element(args->kv_dtype, k, i), lane[i % 16]);
    float score = lanes_tree(lane, 16) * args->scale;
    return args->softcap > 0.0f ? args->softcap * math_tanh(score / args->softcap) : score;
}

/* The i-th .. of the positions, all of one tile. */
static void tile_part(const struct attention_args *args, const float *q, size_t first, size_t count, float *scores, struct part *out) {
    out->max = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        scores[i] = score_of(args, q, position_at(args, first + i));
        out->max = scores[i] > out->max ? scores[i] : out->max;
    }
    out->sum = 0.0f;
    memset(out->values, 0, args->v_dim * sizeof(float));
    for (size_t j = 0; j < count; j++) {
        size_t p = position_at(args, first + j);
        const void *v = (const uint8_t *)args->v_tiles[p / ATTENTION_TILE] + p % ATTENTION_TILE * args->v_stride_bytes;
        float e = math_exp(scores[j] - out->max);
        out->sum += e;
        for (size_t i = 0; i < args->v_dim; i++)
            out->values[i] = fmaf(e, kv_element(args->kv_dtype, v, i), out->values[i]);
    }
}

/* total = total joined with a part to its right. */
static void merge(struct part *total, const struct part *next, size_t v_dim) {
    float max = next->max > total->max ? next->max : total->max;
    float a = math_exp(total->max - max), b = math_exp(next->max - max);
    total->max = max;
    total->sum = fmaf(next->sum, b, total->sum * a);
    for (size_t i = 0; i < v_dim; i++)
        total->values[i] = fmaf(next->values[i], b, total->values[i] * a);
}

/* How many positions from the i-th on lie in its tile. */
static size_t in_tile(const struct attention_args *args, size_t first, size_t count) {
    size_t tile = position_at(args, first) / ATTENTION_TILE, end = first + 1;
    while (end < count && position_at(args, end) / ATTENTION_TILE == tile)
        end++;
    return end - first;
}

void ref_attention(const struct attention_args *args) {
    CHECK(args->end > args->begin && (args->kv_dtype == DTYPE_F16 || args->kv_dtype == DTYPE_F32));
    float *scores = args->scratch;
    size_t count = args->positions ? args->position_count : args->end - args->begin;
    CHECK(count > 0);
    for (size_t g = 0; g < args->group; g++) {
        const float *q = args->q + g * args->head_dim;
        struct part total = {.values = args->out + g * args->v_dim};
        struct part next = {.values = args->scratch + ATTENTION_TILE};
        for (size_t first = 0, taken; first < count; first += taken) {
            taken = in_tile(args, first, count);
            tile_part(args, q, first, taken, scores, first == 0 ? &total : &next);
            if (first > 0)
                merge(&total, &next, args->v_dim);
        }
        if (args->sinks) { /* a position with score `sink`, sum 1 and no values */
            float sink = args->sinks[g], max = sink > total.max ? sink : total.max;
            float a = math_exp(total.max - max);
            total.sum = fmaf(total.sum, a, math_exp(sink - max));
            for (size_t i = 0; i < args->v_dim; i++)
                total.values[i] *= a;
        }
        for (size_t i = 0; i < args->v_dim; i++)
            total.values[i] = total.values[i] / total.sum;
    }
}
