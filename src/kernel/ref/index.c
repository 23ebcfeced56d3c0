/*
 * index: scores of the sparse index and the choice of the best positions (docs/ARITHMETIC.md, section 15).
 */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "dtype/scalar_convert.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"

static float key_element(enum dtype dtype, const void *key, size_t index) {
    return dtype == DTYPE_F32 ? ((const float *)key)[index] : f32_from_f16(((const uint16_t *)key)[index]);
}

void ref_index_scores(const struct index_args *args) {
    CHECK(args->kv_dtype == DTYPE_F16 || args->kv_dtype == DTYPE_F32);
    for (size_t p = 0; p < args->count; p++) {
        const void *key = (const uint8_t *)args->keys + p * args->stride_bytes;
        float sum[16] = {0};
        for (size_t h = 0; h < args->heads; h++) {
            const float *q = args->q + h * args->head_dim;
            float lane[16] = {0};
            for (size_t i = 0; i < args->head_dim; i++)
                lane[i % 16] = fmaf(q[i], key_element(args->kv_dtype, key, i), lane[i % 16]);
            float score = lanes_tree(lane, 16);
            sum[h % 16] = fmaf(args->weights[h], score > 0.0f ? score : 0.0f, sum[h % 16]);
        }
        args->scores[p] = lanes_tree(sum, 16);
    }
}

/* Order of floats as order of integers: -0 counts as 0, NaN as the smallest. */
static uint32_t order_key(float score) {
    uint32_t bits;
    if (score != score)
        return 0;
    score += 0.0f;
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The k-th largest key, byte by byte from the top; *above gets how many are larger. */
static uint32_t find_threshold(const float *scores, size_t count, size_t k, size_t *above) {
    uint32_t known = 0, mask = 0;
    *above = 0;
    for (unsigned shift = 24;; shift -= 8) {
        size_t histogram[256] = {0};
        for (size_t p = 0; p < count; p++) {
            uint32_t key = order_key(scores[p]);
            if ((key & mask) == known)
                histogram[key >> shift & 255]++;
        }
        uint32_t byte = 255;
        for (; *above + histogram[byte] < k; byte--)
            *above += histogram[byte];
        known |= byte << shift;
        mask |= 255u << shift;
        if (shift == 0)
            return known;
    }
}

void ref_select_top(const float *scores, size_t count, size_t k, uint32_t *positions) {
    CHECK(k > 0 && k <= count && count <= UINT32_MAX);
    size_t above, taken = 0;
    uint32_t threshold = find_threshold(scores, count, k, &above);
    size_t equal = k - above;
    for (size_t p = 0; p < count && taken < k; p++) {
        uint32_t key = order_key(scores[p]);
        if (key < threshold || (key == threshold && equal == 0))
            continue;
        equal -= key == threshold;
        positions[taken++] = (uint32_t)p;
    }
    CHECK(taken == k);
}
