/*
 * index_body: scores of the sparse index, written once for all vector levels.
 *
 * Included by index.c of a level after its wide.h. For each position the products with 16 heads at a time become one vector, which joins
 * the sum over heads lane by lane.
 */
#include "base/check.h"
#include "kernel/kernel.h"

#define INDEX_HEADS 4                              /* heads whose products are summed side by side */
#define INDEX_POSITIONS (WIDE_HEADS == 4 ? 4u : 1u) /* and positions */

typedef wide load_fn(const uint8_t *x, unsigned n);
ALWAYS_INLINE wide load_f32(const uint8_t *x, unsigned n) { return wide_load_first((const float *)(const void *)x, n); }

/* q . k of `heads` heads (1 or INDEX_HEADS) at `positions` positions; the p-th position's go to scores[16 p ..]. */
ALWAYS_INLINE void index_block(const struct index_args *args, load_fn *load, size_t element_bytes, const float *q, const uint8_t *keys, float *scores,
                               unsigned heads, unsigned positions) {
    wide sum[INDEX_HEADS][4];
#pragma GCC unroll 4
    for (unsigned h = 0; h < heads; h++)
#pragma GCC unroll 4
        for (unsigned p = 0; p < positions; p++)
            sum[h][p] = wide_zero();
    size_t i = 0;
    for (; i + 16 <= args->head_dim; i += 16) {
        wide key[4];
#pragma GCC unroll 4
        for (unsigned p = 0; p < positions; p++)
            key[p] = load(keys + p * args->stride_bytes + i * element_bytes, 16);
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
            wide key = load(keys + p * args->stride_bytes + i * element_bytes, left);
            sum[h][p] = wide_first(wide_fma(query, key, sum[h][p]), sum[h][p], left);
        }
    }
#pragma GCC unroll 4
    for (unsigned p = 0; p < positions; p++) {
        if (heads == INDEX_HEADS)
            wide_store_trees_of_4(scores + 16 * p, sum[0][p], sum[1][p], sum[2][p], sum[3][p]);
        else
            scores[16 * p] = wide_tree(sum[0][p]);
    }
}

/* The scores of `positions` positions from `first` on. */
ALWAYS_INLINE void index_positions(const struct index_args *args, load_fn *load, size_t element_bytes, size_t first, unsigned positions) {
    const uint8_t *keys = (const uint8_t *)args->keys + first * args->stride_bytes;
    float scores[4 * 16];
    wide total[4];
#pragma GCC unroll 4
    for (unsigned p = 0; p < positions; p++)
        total[p] = wide_zero();
    for (size_t head = 0; head < args->heads; head += 16) {
        unsigned n = args->heads - head >= 16 ? 16 : (unsigned)(args->heads - head), h = 0;
        const float *q = args->q + head * args->head_dim;
        for (; h + INDEX_HEADS <= n; h += INDEX_HEADS)
            index_block(args, load, element_bytes, q + h * args->head_dim, keys, scores + h, INDEX_HEADS, positions);
        for (; h < n; h++)
            index_block(args, load, element_bytes, q + h * args->head_dim, keys, scores + h, 1, positions);
        wide weights = wide_load_first(args->weights + head, n);
#pragma GCC unroll 4
        for (unsigned p = 0; p < positions; p++) {
            wide positive = wide_max(wide_load_first(scores + 16 * p, n), wide_zero()); /* NaN: 0 */
            total[p] = wide_first(wide_fma(weights, positive, total[p]), total[p], n);
        }
    }
#pragma GCC unroll 4
    for (unsigned p = 0; p < positions; p++)
        args->scores[first + p] = wide_tree(total[p]);
}

ALWAYS_INLINE void index_scores(const struct index_args *args, load_fn *load, size_t element_bytes) {
    size_t p = 0;
    for (; p + INDEX_POSITIONS <= args->count; p += INDEX_POSITIONS)
        index_positions(args, load, element_bytes, p, INDEX_POSITIONS);
    for (; p < args->count; p++)
        index_positions(args, load, element_bytes, p, 1);
}

void LEVEL(index_scores)(const struct index_args *args) {
    CHECK(args->kv_dtype == DTYPE_F16 || args->kv_dtype == DTYPE_F32);
    if (args->kv_dtype == DTYPE_F16)
        index_scores(args, wide_load_f16, 2);
    else
        index_scores(args, load_f32, 4);
}
