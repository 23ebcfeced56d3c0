/*
 * check_index: the sparse index: scores of each level against ref/ bit for bit and ref/ against double precision, the choice of the best
 * positions against sorting, and attention over chosen positions.
 */
#include <math.h>

#include "check.h"

/* ---- scores ---- */

static const struct index_shape {
    size_t heads, head_dim, count;
    enum dtype dtype;
} shapes[] = {
    {1, 1, 1, DTYPE_F16},    {64, 128, 9, DTYPE_F16}, {3, 24, 5, DTYPE_F16},  {16, 16, 128, DTYPE_F16}, {17, 40, 7, DTYPE_F32},
    {32, 128, 4, DTYPE_F32}, {5, 7, 3, DTYPE_F16},    {20, 64, 6, DTYPE_F16}, {4, 33, 2, DTYPE_F32},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static struct index_args make_index(struct check_memory *memory, const struct index_shape *s, struct check_random *r,
                                    enum check_values values) {
    size_t element = s->dtype == DTYPE_F16 ? 2 : 4, stride = (s->head_dim + check_below(r, 3)) * element;
    uint8_t *keys = check_guarded(memory, (s->count - 1) * stride + s->head_dim * element);
    for (size_t p = 0; p < s->count; p++)
        for (size_t i = 0; i < s->head_dim; i++) {
            float x = check_float(r, values);
            uint16_t half = f16_from_f32(x);
            memcpy(keys + p * stride + i * element, s->dtype == DTYPE_F16 ? (void *)&half : (void *)&x, element);
        }
    return (struct index_args){.q = check_floats(memory, s->heads * s->head_dim, r, values),
                               .weights = check_floats(memory, s->heads, r, values),
                               .heads = s->heads,
                               .head_dim = s->head_dim,
                               .keys = keys,
                               .stride_bytes = stride,
                               .kv_dtype = s->dtype,
                               .count = s->count};
}

static void scores_levels_equal_ref(void **state) {
    (void)state;
    struct check_random r = {61};
    for (size_t s = 0; s < SHAPES * 8; s++) {
        struct check_memory memory = {.count = 0};
        const struct index_shape *shape = &shapes[s % SHAPES];
        struct index_args args = make_index(&memory, shape, &r, (enum check_values)check_below(&r, CHECK_VALUES_COUNT));
        float *want = check_guarded(&memory, shape->count * sizeof(float));
        args.scores = want;
        kernel_table_for(CPU_ISA_REF)->index_scores(&args);
        const struct kernel_table *level;
        for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
            args.scores = check_guarded(&memory, shape->count * sizeof(float));
            level->index_scores(&args);
            check_same(want, args.scores, shape->count, "index scores", level);
            check_untouched_before(args.scores);
        }
        check_release(&memory);
    }
}

static void scores_ref_equals_double(void **state) {
    (void)state;
    struct check_random r = {62};
    for (size_t s = 0; s < SHAPES; s++) {
        struct check_memory memory = {.count = 0};
        struct index_args args = make_index(&memory, &shapes[s], &r, CHECK_PLAIN);
        args.scores = check_guarded(&memory, args.count * sizeof(float));
        kernel_table_for(CPU_ISA_REF)->index_scores(&args);
        for (size_t p = 0; p < args.count; p++) {
            double want = 0, size = 0;
            const uint8_t *key = (const uint8_t *)args.keys + p * args.stride_bytes;
            for (size_t h = 0; h < args.heads; h++) {
                double dot = 0;
                for (size_t i = 0; i < args.head_dim; i++)
                    dot += (double)args.q[h * args.head_dim + i] * (double)(args.kv_dtype == DTYPE_F32
                                                                                ? ((const float *)(const void *)key)[i]
                                                                                : f32_from_f16(((const uint16_t *)(const void *)key)[i]));
                want += dot > 0 ? dot * (double)args.weights[h] : 0;
                size += fabs(dot * (double)args.weights[h]) + 1;
            }
            assert_true(fabs(want - (double)args.scores[p]) <= 1e-5 * size);
        }
        check_release(&memory);
    }
}

/* ---- choice ---- */

static bool comes_before(const float *scores, size_t a, size_t b) {
    bool nan_a = scores[a] != scores[a], nan_b = scores[b] != scores[b];
    if (nan_a || nan_b)
        return nan_a == nan_b ? a < b : nan_b;
    return scores[a] > scores[b] || (!(scores[a] < scores[b]) && a < b);
}

static void top_is_what_sorting_gives(void **state) {
    (void)state;
    struct check_random r = {63};
    for (size_t round = 0; round < 300; round++) {
        struct check_memory memory = {.count = 0};
        size_t count = 1 + check_below(&r, 200), k = 1 + check_below(&r, count), taken = 0;
        float *scores = check_floats(&memory, count, &r, (enum check_values)check_below(&r, CHECK_VALUES_COUNT));
        for (size_t i = 0; i < count && round % 3 == 0; i++) /* many ties */
            scores[i] = (float)check_below(&r, 4) - 1.0f;
        for (size_t i = 0; i < count && round % 3 == 0; i++)
            scores[i] = check_below(&r, 5) == 0 ? -0.0f : scores[i];
        uint32_t *got = check_guarded(&memory, k * sizeof *got);
        kernel_table_for(CPU_ISA_REF)->select_top(scores, count, k, got);
        for (size_t p = 0; p < count; p++) {
            size_t better = 0;
            for (size_t other = 0; other < count; other++)
                better += other != p && comes_before(scores, other, p);
            if (better < k)
                assert_int_equal(got[taken++], p);
        }
        assert_int_equal(taken, k);
        check_release(&memory);
    }
}

/* ---- attention over a choice ---- */

#define TILES 3
#define POSITIONS (TILES * ATTENTION_TILE)

struct chosen_case {
    struct check_memory memory;
    struct attention_args args;
    const void *k_tiles[TILES];
    struct attention_range range;
    uint32_t positions[POSITIONS];
};

static const size_t widths[][3] = {{1, 16, 16}, {5, 576, 512}, {18, 24, 16}, {3, 27, 20}}; /* heads, key, value: the first of the key */

static void make_chosen(struct chosen_case *c, const size_t *width, enum dtype dtype, struct check_random *r) {
    size_t element = dtype == DTYPE_F16 ? 2 : 4;
    memset(c, 0, sizeof *c);
    for (size_t t = 0; t < TILES; t++) {
        uint8_t *tile = check_guarded(&c->memory, ATTENTION_TILE * width[1] * element);
        for (size_t i = 0; i < ATTENTION_TILE * width[1]; i++) {
            float x = check_uniform(r);
            uint16_t half = f16_from_f32(x);
            memcpy(tile + i * element, dtype == DTYPE_F16 ? (void *)&half : (void *)&x, element);
        }
        c->k_tiles[t] = tile;
    }
    c->range.end = 1 + check_below(r, POSITIONS);
    c->args = (struct attention_args){.rows = 1,
                                      .q = check_floats(&c->memory, width[0] * width[1], r, CHECK_PLAIN),
                                      .group = width[0],
                                      .head_dim = width[1],
                                      .v_dim = width[2],
                                      .k_tiles = c->k_tiles,
                                      .v_tiles = c->k_tiles,
                                      .k_stride_bytes = width[1] * element,
                                      .v_stride_bytes = width[1] * element,
                                      .kv_dtype = dtype,
                                      .ranges = &c->range,
                                      .scale = 0.2f,
                                      .scratch =
                                          check_guarded(&c->memory, attention_scratch_floats(width[0], width[1], width[2]) * sizeof(float)),
                                      .positions = c->positions};
}

/* About one of `one_in` positions, the last always: as many as there are when one_in is 1. */
static void choose(struct chosen_case *c, size_t one_in, struct check_random *r) {
    c->args.position_count = 0;
    for (size_t p = 0; p < c->range.end; p++)
        if (p + 1 == c->range.end || check_below(r, one_in) == 0)
            c->positions[c->args.position_count++] = (uint32_t)p;
}

static void chosen_levels_equal_ref(void **state) {
    (void)state;
    struct check_random r = {64};
    for (size_t round = 0; round < 60; round++) {
        struct chosen_case c;
        const size_t *width = widths[round % 4];
        size_t count = width[0] * width[2];
        make_chosen(&c, width, round & 4 ? DTYPE_F32 : DTYPE_F16, &r);
        choose(&c, 1 + check_below(&r, 200), &r);
        float *want = c.args.out = check_guarded(&c.memory, count * sizeof(float));
        kernel_table_for(CPU_ISA_REF)->attention(&c.args);
        const struct kernel_table *level;
        for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
            c.args.out = check_guarded(&c.memory, count * sizeof(float));
            level->attention(&c.args);
            check_same(want, c.args.out, count, "attention over chosen positions", level);
            check_untouched_before(c.args.out);
            check_untouched_before(c.args.scratch);
        }
        check_release(&c.memory);
    }
}

static void all_chosen_is_dense(void **state) {
    (void)state;
    struct check_random r = {65};
    for (size_t round = 0; round < 24; round++) {
        struct chosen_case c;
        const size_t *width = widths[round % 4];
        size_t count = width[0] * width[2];
        make_chosen(&c, width, DTYPE_F16, &r);
        choose(&c, 1, &r);
        float *want = c.args.out = check_guarded(&c.memory, count * sizeof(float)), *got = check_guarded(&c.memory, count * sizeof(float));
        kernel_table_for(CPU_ISA_REF)->attention(&c.args);
        c.args.positions = NULL;
        c.args.out = got;
        kernel_table_for(CPU_ISA_REF)->attention(&c.args);
        assert_memory_equal(want, got, count * sizeof(float));
        check_release(&c.memory);
    }
}

static void chosen_ref_equals_double(void **state) {
    (void)state;
    struct check_random r = {66};
    for (size_t round = 0; round < 24; round++) {
        struct chosen_case c;
        const size_t *width = widths[round % 4];
        make_chosen(&c, width, DTYPE_F32, &r);
        choose(&c, 1 + check_below(&r, 40), &r);
        c.args.out = check_guarded(&c.memory, width[0] * width[2] * sizeof(float));
        kernel_table_for(CPU_ISA_REF)->attention(&c.args);
        for (size_t g = 0; g < width[0]; g++) {
            double sum = 0, want[512] = {0};
            for (size_t n = 0; n < c.args.position_count; n++) {
                const float *key = (const float *)c.k_tiles[c.positions[n] / ATTENTION_TILE] + c.positions[n] % ATTENTION_TILE * width[1];
                double dot = 0;
                for (size_t i = 0; i < width[1]; i++)
                    dot += (double)c.args.q[g * width[1] + i] * (double)key[i];
                double e = exp(dot * (double)c.args.scale);
                sum += e;
                for (size_t i = 0; i < width[2]; i++)
                    want[i] += e * (double)key[i];
            }
            for (size_t i = 0; i < width[2]; i++)
                assert_true(fabs(want[i] / sum - (double)c.args.out[g * width[2] + i]) <= 2e-5);
        }
        check_release(&c.memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_ref_equals_double), cmocka_unit_test(scores_levels_equal_ref), cmocka_unit_test(top_is_what_sorting_gives),
        cmocka_unit_test(chosen_ref_equals_double), cmocka_unit_test(chosen_levels_equal_ref), cmocka_unit_test(all_chosen_is_dense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
