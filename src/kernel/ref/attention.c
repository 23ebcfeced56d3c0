/*
 * attention: query rows against the visible positions of one key head (docs/ARITHMETIC.md, section 11).
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

/*
 * Scores and values of a tile for each query head; or, where queries share a tile, packed queries, a tile of keys and values as f32, the
 * scores of 32 queries, and ten numbers for each query. With padding for vectors.
 */
size_t attention_scratch_floats(size_t queries, size_t head_dim, size_t v_dim) {
    size_t together = queries < ATTENTION_QUERIES ? (queries + 15) / 16 * 16 : ATTENTION_QUERIES;
    size_t alone = (queries < 16 ? queries : 16) * (ATTENTION_TILE + v_dim + 64) + 64;
    size_t shared = together * (head_dim + 10) + (ATTENTION_TILE + 16) * ((head_dim + 15) / 16 * 16 + (v_dim + 31) / 32 * 32 + 32) + 64;
    return alone > shared ? alone : shared;
}

size_t attention_part_floats(size_t group, size_t v_dim) { return group * (v_dim + 2); }

static float kv_element(enum dtype dtype, const void *vector, size_t index) {
    if (dtype == DTYPE_F32)
        return ((const float *)vector)[index];
    return f32_from_f16(((const uint16_t *)vector)[index]);
}

/* The i-th of the positions that count. */
static size_t position_at(const struct attention_args *args, size_t i) {
    return args->positions ? args->positions[i] : args->ranges->begin + i;
}

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

/* A sink is a position with score `sink`, sum 1 and no values. */
static void finish(struct part *total, const float *sink, size_t v_dim) {
    if (sink) {
        float max = *sink > total->max ? *sink : total->max, a = math_exp(total->max - max);
        total->sum = fmaf(total->sum, a, math_exp(*sink - max));
        for (size_t i = 0; i < v_dim; i++)
            total->values[i] *= a;
    }
    for (size_t i = 0; i < v_dim; i++)
        total->values[i] = total->values[i] / total->sum;
}

/* One query head of the first row. */
static void attend(const struct attention_args *args, size_t head) {
    const float *q = args->q + head * args->head_dim;
    float *scores = args->scratch, *part = args->parts;
    size_t count = args->positions ? args->position_count : args->ranges->end - args->ranges->begin;
    CHECK(count > 0);
    struct part total = {.values = args->out + head * args->v_dim}, next = {.values = args->scratch + ATTENTION_TILE};
    for (size_t first = 0, taken; first < count; first += taken) {
        taken = in_tile(args, first, count);
        if (part)
            next.values = part + head * args->v_dim;
        tile_part(args, q, first, taken, scores, first == 0 && !part ? &total : &next);
        if (part) {
            part[args->group * args->v_dim + head] = next.max;
            part[args->group * (args->v_dim + 1) + head] = next.sum;
            part += attention_part_floats(args->group, args->v_dim);
        } else if (first > 0) {
            merge(&total, &next, args->v_dim);
        }
    }
    if (!args->parts)
        finish(&total, args->sinks ? &args->sinks[head] : NULL, args->v_dim);
}

void ref_attention(const struct attention_args *args) {
    CHECK(args->kv_dtype == DTYPE_F16 || args->kv_dtype == DTYPE_F32);
    CHECK(args->rows == 1 || (!args->positions && !args->parts));
    for (size_t r = 0; r < args->rows; r++) {
        struct attention_args row = *args;
        row.q += r * args->q_stride;
        row.out += r * args->out_stride;
        row.ranges += r;
        CHECK(row.ranges->end > row.ranges->begin);
        for (size_t head = 0; head < args->group; head++)
            attend(&row, head);
    }
}

/* One head's share of a part. */
static struct part part_of(const struct attention_join_args *args, size_t index, size_t head) {
    float *part = args->parts + index * attention_part_floats(args->group, args->v_dim);
    return (struct part){part[args->group * args->v_dim + head], part[args->group * (args->v_dim + 1) + head], part + head * args->v_dim};
}

void ref_attention_join(const struct attention_join_args *args) {
    CHECK(args->count > 0);
    for (size_t head = args->head_begin; head < args->head_end; head++) {
        struct part total = part_of(args, 0, head);
        for (size_t i = 1; i < args->count; i++) {
            struct part next = part_of(args, i, head);
            merge(&total, &next, args->v_dim);
        }
        args->parts[args->group * args->v_dim + head] = total.max;
        args->parts[args->group * (args->v_dim + 1) + head] = total.sum;
        if (!args->out)
            continue;
        memcpy(args->out + head * args->v_dim, total.values, args->v_dim * sizeof(float));
        total.values = args->out + head * args->v_dim;
        finish(&total, args->sinks ? &args->sinks[head] : NULL, args->v_dim);
    }
}
