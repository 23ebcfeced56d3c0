/*
 * attention_body: one query row against the positions of one key head, for up to WIDE_HEADS query heads at a time; written once for all
 * vector levels.
 *
 * Per tile: scores of all heads (16 lanes over the head size), their exponentials, then values in registers, WIDE_VECTORS of them at a
 * time, merged into `out` when the tile ends. Scratch: scores [group][128], then running max, sum and the two merge factors of each head.
 */
#include <math.h>

#include "base/check.h"
#include "kernel/math.h"
#include "kernel/wide/wide_math.h"

#define POSITIONS 4

/* The first n elements of a part of a key or value as f32. */
typedef wide load_fn(const uint8_t *x, unsigned n);
ALWAYS_INLINE wide load_f32(const uint8_t *x, unsigned n) { return wide_load_first((const float *)(const void *)x, n); }

struct head_state { /* per head, in scratch */
    float *max, *sum, *keep, *take; /* keep and take: factors of what is there and of the tile */
};

struct tile {
    const struct attention_args *args;
    const uint8_t *k, *v; /* first visible position; the tile's first when positions are chosen */
    const uint32_t *positions; /* the chosen ones of this tile; NULL: all */
    size_t count, element_bytes;
    bool first; /* of the row: there is nothing to merge with */
    struct head_state state;
};

/* Place of the p-th position that counts; chosen: known when compiling, says whether there is a list. */
ALWAYS_INLINE size_t place_of(const struct tile *tile, size_t p, bool chosen) { return chosen ? tile->positions[p] % ATTENTION_TILE : p; }

/* Scores of `heads` heads at `positions` positions from the first-th on. */
ALWAYS_INLINE void score_block(const struct tile *tile, load_fn *load, const float *q, size_t first, float *scores, unsigned heads, unsigned positions,
                               bool chosen) {
    const struct attention_args *args = tile->args;
    const uint8_t *k[POSITIONS];
#pragma GCC unroll 4
    for (unsigned p = 0; p < positions; p++)
        k[p] = tile->k + place_of(tile, first + p, chosen) * args->k_stride_bytes;
    wide sum[WIDE_HEADS][POSITIONS];
#pragma GCC unroll 4
    for (unsigned h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (unsigned p = 0; p < POSITIONS; p++)
            sum[h][p] = wide_zero();
    size_t i = 0;
    for (; i + 16 <= args->head_dim; i += 16) {
        wide key[POSITIONS];
#pragma GCC unroll 4
        for (unsigned p = 0; p < positions; p++)
            key[p] = load(k[p] + i * tile->element_bytes, 16);
#pragma GCC unroll 4
        for (unsigned h = 0; h < heads; h++) {
            wide query = wide_load(q + h * args->head_dim + i);
#pragma GCC unroll 4
            for (unsigned p = 0; p < positions; p++)
                sum[h][p] = wide_fma(query, key[p], sum[h][p]);
        }
    }
    unsigned left = (unsigned)(args->head_dim - i);
    for (unsigned h = 0; left > 0 && h < heads; h++) {
        wide query = wide_load_first(q + h * args->head_dim + i, left);
        for (unsigned p = 0; p < positions; p++) {
            wide key = load(k[p] + i * tile->element_bytes, left);
            sum[h][p] = wide_first(wide_fma(query, key, sum[h][p]), sum[h][p], left);
        }
    }
#pragma GCC unroll 4
    for (unsigned h = 0; h < heads; h++) {
        if (positions == POSITIONS)
            wide_store_trees_of_4(scores + h * ATTENTION_TILE, sum[h][0], sum[h][1], sum[h][2], sum[h][3]);
        else
            scores[h * ATTENTION_TILE] = wide_tree(sum[h][0]);
    }
}

/* Scales and caps the scores of one head, turns them into exponentials, and finds the merge factors. */
ALWAYS_INLINE void exponentials(const struct tile *tile, float *scores, size_t head) {
    const struct attention_args *args = tile->args;
    const struct head_state *state = &tile->state;
    wide max = wide_set(-INFINITY), cap = wide_set(args->softcap);
    for (size_t i = 0; i < tile->count; i += 16) {
        unsigned n = tile->count - i >= 16 ? 16 : (unsigned)(tile->count - i);
        wide s = wide_mul(wide_load_first(scores + i, n), wide_set(args->scale));
        if (args->softcap > 0.0f)
            s = wide_mul(cap, wide_tanh(wide_div(s, cap)));
        wide_store_first(scores + i, s, n);
        max = wide_first(wide_max(s, max), max, n); /* NaN: the second operand */
    }
    float tile_max = wide_largest(max);
    for (size_t i = 0; i < tile->count; i += 16) {
        unsigned n = tile->count - i >= 16 ? 16 : (unsigned)(tile->count - i);
        wide_store_first(scores + i, wide_exp(wide_sub(wide_load_first(scores + i, n), wide_set(tile_max))), n);
    }
    float total = tile->first ? tile_max : state->max[head], merged = tile_max > total ? tile_max : total;
    state->keep[head] = math_exp(total - merged);
    state->take[head] = math_exp(tile_max - merged);
    state->max[head] = merged;
}

/* Values [i, i + 16 vectors) of `heads` heads over the tile, merged into out; with i = 0 also the sums of the exponentials. */
ALWAYS_INLINE void value_block(const struct tile *tile, load_fn *load, const float *e, size_t head, size_t i, unsigned heads, unsigned vectors,
                               bool chosen) {
    const struct attention_args *args = tile->args;
    const struct head_state *state = &tile->state;
    unsigned n = args->v_dim - i < 16 ? (unsigned)(args->v_dim - i) : 16; /* below 16 only with one vector */
    wide value[WIDE_HEADS][WIDE_VECTORS];
    float sum[WIDE_HEADS] = {0};
#pragma GCC unroll 4
    for (unsigned h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (unsigned k = 0; k < vectors; k++)
            value[h][k] = wide_zero();
    for (size_t p = 0; p < tile->count; p++) {
        const uint8_t *v = tile->v + place_of(tile, p, chosen) * args->v_stride_bytes;
        wide x[WIDE_VECTORS];
#pragma GCC unroll 4
        for (unsigned k = 0; k < vectors; k++)
            x[k] = load(v + (i + 16 * k) * tile->element_bytes, vectors == 1 ? n : 16);
#pragma GCC unroll 4
        for (unsigned h = 0; h < heads; h++) {
            float factor = e[h * ATTENTION_TILE + p];
            sum[h] += factor;
#pragma GCC unroll 4
            for (unsigned k = 0; k < vectors; k++)
                value[h][k] = wide_fma(wide_set(factor), x[k], value[h][k]);
        }
    }
#pragma GCC unroll 4
    for (unsigned h = 0; h < heads; h++) {
        float keep = state->keep[head + h], take = state->take[head + h];
        if (i == 0)
            state->sum[head + h] = tile->first ? sum[h] : fused_multiply_add(sum[h], take, state->sum[head + h] * keep);
#pragma GCC unroll 4
        for (unsigned k = 0; k < vectors; k++) {
            float *out = args->out + (head + h) * args->v_dim + i + 16 * k;
            wide merged = value[h][k];
            if (!tile->first)
                merged = wide_fma(merged, wide_set(take), wide_mul(wide_load_first(out, n), wide_set(keep)));
            wide_store_first(out, merged, n);
        }
    }
}

ALWAYS_INLINE void tile_heads(const struct tile *tile, load_fn *load, size_t head, unsigned heads, bool chosen) {
    const struct attention_args *args = tile->args;
    float *scores = args->scratch + head * ATTENTION_TILE;
    const float *q = args->q + head * args->head_dim;
    size_t p = 0, i = 0;
    for (; p + POSITIONS <= tile->count; p += POSITIONS)
        score_block(tile, load, q, p, scores + p, heads, POSITIONS, chosen);
    for (; p < tile->count; p++)
        score_block(tile, load, q, p, scores + p, heads, 1, chosen);
    for (unsigned h = 0; h < heads; h++)
        exponentials(tile, scores + h * ATTENTION_TILE, head + h);
    for (; i + 16 * WIDE_VECTORS <= args->v_dim; i += 16 * WIDE_VECTORS)
        value_block(tile, load, scores, head, i, heads, WIDE_VECTORS, chosen);
    for (; i < args->v_dim; i += 16)
        value_block(tile, load, scores, head, i, heads, 1, chosen);
}

/* A sink is a position with score `sink`, sum 1 and no values; then the division by the sum. */
ALWAYS_INLINE void finish_head(const struct attention_args *args, const struct head_state *state, size_t head) {
    float *out = args->out + head * args->v_dim, keep = 1.0f, sum = state->sum[head];
    if (args->sinks) {
        float sink = args->sinks[head], total = state->max[head], max = sink > total ? sink : total;
        keep = math_exp(total - max);
        sum = fused_multiply_add(sum, keep, math_exp(sink - max));
    }
    for (size_t i = 0; i < args->v_dim; i += 16) {
        unsigned n = args->v_dim - i >= 16 ? 16 : (unsigned)(args->v_dim - i);
        wide_store_first(out + i, wide_div(wide_mul(wide_load_first(out + i, n), wide_set(keep)), wide_set(sum)), n);
    }
}

/* The tile that the first-th position that counts lies in, from that position on. */
ALWAYS_INLINE void next_tile(struct tile *tile, size_t first, size_t count, bool chosen) {
    const struct attention_args *args = tile->args;
    size_t position = chosen ? args->positions[first] : args->begin + first, index = position / ATTENTION_TILE;
    tile->k = args->k_tiles[index];
    tile->v = args->v_tiles[index];
    if (!chosen) {
        size_t left = ATTENTION_TILE - position % ATTENTION_TILE;
        tile->k += position % ATTENTION_TILE * args->k_stride_bytes;
        tile->v += position % ATTENTION_TILE * args->v_stride_bytes;
        tile->count = left < count - first ? left : count - first;
        return;
    }
    tile->positions = args->positions + first;
    for (tile->count = 1; first + tile->count < count && tile->positions[tile->count] / ATTENTION_TILE == index;)
        tile->count++;
}

ALWAYS_INLINE void attention(const struct attention_args *args, load_fn *load, size_t element_bytes, bool chosen) {
    float *numbers = args->scratch + args->group * ATTENTION_TILE;
    struct tile tile = {.args = args, .element_bytes = element_bytes, .first = true,
                        .state = {numbers, numbers + args->group, numbers + 2 * args->group, numbers + 3 * args->group}};
    size_t count = chosen ? args->position_count : args->end - args->begin;
    CHECK(count > 0);
    for (size_t first = 0, head; first < count; first += tile.count) {
        next_tile(&tile, first, count, chosen);
        for (head = 0; head + WIDE_HEADS <= args->group; head += WIDE_HEADS)
            tile_heads(&tile, load, head, WIDE_HEADS, chosen);
        for (; head < args->group; head++)
            tile_heads(&tile, load, head, 1, chosen);
        tile.first = false;
    }
    for (size_t head = 0; head < args->group; head++)
        finish_head(args, &tile.state, head);
}

void LEVEL(attention)(const struct attention_args *args) {
    CHECK(args->end > args->begin && (args->kv_dtype == DTYPE_F16 || args->kv_dtype == DTYPE_F32));
    if (args->positions && args->kv_dtype == DTYPE_F16)
        attention(args, wide_load_f16, 2, true);
    else if (args->positions)
        attention(args, load_f32, 4, true);
    else if (args->kv_dtype == DTYPE_F16)
        attention(args, wide_load_f16, 2, false);
    else
        attention(args, load_f32, 4, false);
}
