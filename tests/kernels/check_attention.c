/*
 * check_attention: each level against ref/ bit for bit, and ref/ against double precision, over head sizes, groups, visible ranges, masks
 * that start inside a tile, sinks and score caps.
 */
#include <math.h>

#include "check.h"

#define TILES 3

struct attention_case {
    struct check_memory memory;
    struct attention_args args;
    const void *k_tiles[TILES], *v_tiles[TILES];
};

struct attention_shape {
    size_t group, head_dim, v_dim;
    enum dtype dtype;
};

static uint8_t *make_tile(struct check_memory *memory, size_t width, size_t stride_bytes, enum dtype dtype, struct check_random *r,
                          enum check_values values) {
    size_t element = dtype == DTYPE_F16 ? 2 : 4,
           bytes = (ATTENTION_TILE - 1) * stride_bytes + width * element; /* ends with the last vector */
    uint8_t *tile = check_guarded(memory, bytes);
    for (size_t p = 0; p < ATTENTION_TILE; p++)
        for (size_t i = 0; i < width; i++) {
            float x = check_float(r, values);
            uint16_t half = f16_from_f32(x);
            memcpy(tile + p * stride_bytes + i * element, dtype == DTYPE_F16 ? (void *)&half : (void *)&x, element);
        }
    return tile;
}

static void make_case(struct attention_case *c, const struct attention_shape *s, struct check_random *r, enum check_values values) {
    size_t element = s->dtype == DTYPE_F16 ? 2 : 4;
    memset(c, 0, sizeof *c);
    c->args = (struct attention_args){.group = s->group,
                                      .head_dim = s->head_dim,
                                      .v_dim = s->v_dim,
                                      .kv_dtype = s->dtype,
                                      .k_stride_bytes = (s->head_dim + check_below(r, 3)) * element,
                                      .v_stride_bytes = (s->v_dim + check_below(r, 3)) * element,
                                      .scale = 0.3f,
                                      .k_tiles = c->k_tiles,
                                      .v_tiles = c->v_tiles,
                                      .q = check_floats(&c->memory, s->group * s->head_dim, r, values),
                                      .scratch = check_guarded(&c->memory, attention_scratch_floats(s->group, s->v_dim) * sizeof(float))};
    for (unsigned t = 0; t < TILES; t++) {
        c->k_tiles[t] = make_tile(&c->memory, s->head_dim, c->args.k_stride_bytes, s->dtype, r, values);
        c->v_tiles[t] = make_tile(&c->memory, s->v_dim, c->args.v_stride_bytes, s->dtype, r, values);
    }
}

/* Now and then only some positions count. */
static void choose_positions(struct attention_case *c, struct check_random *r, bool some) {
    if (!some)
        return;
    size_t count = 0, every = 1 + check_below(r, 5);
    uint32_t *positions = check_guarded(&c->memory, (c->args.end - c->args.begin) * sizeof *positions);
    for (size_t p = c->args.begin; p < c->args.end; p++)
        if (check_below(r, every) == 0 || p + 1 == c->args.end)
            positions[count++] = (uint32_t)p;
    c->args.positions = positions;
    c->args.position_count = count;
}

static const struct attention_shape shapes[] = {
    {1, 64, 64, DTYPE_F16}, {4, 128, 128, DTYPE_F16}, {3, 24, 16, DTYPE_F16}, {8, 16, 16, DTYPE_F16}, {2, 72, 40, DTYPE_F16},
    {1, 1, 1, DTYPE_F16},   {5, 576, 512, DTYPE_F16}, {7, 27, 33, DTYPE_F32}, {2, 64, 64, DTYPE_F32}, {16, 80, 96, DTYPE_F16},
};
static const size_t ranges[][2] = {{0, 1},     {0, 2},   {0, 17},    {0, 128},   {0, 129},  {5, 128},
                                   {100, 300}, {0, 384}, {127, 128}, {256, 257}, {130, 250}};
#define SHAPES (sizeof shapes / sizeof shapes[0])
#define RANGES (sizeof ranges / sizeof ranges[0])

static void levels_equal_ref(void **state) {
    (void)state;
    struct check_random r = {21};
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t n = 0; n < RANGES * 2; n++) {
            struct attention_case c;
            make_case(&c, &shapes[s], &r, (enum check_values)(check_below(&r, CHECK_VALUES_COUNT)));
            size_t count = shapes[s].group * shapes[s].v_dim;
            c.args.begin = ranges[n / 2][0];
            c.args.end = ranges[n / 2][1];
            c.args.softcap = check_below(&r, 3) == 0 ? 20.0f : 0.0f;
            c.args.sinks = n & 1 ? check_floats(&c.memory, shapes[s].group, &r, CHECK_PLAIN) : NULL;
            choose_positions(&c, &r, n % 5 == 4);
            float *want = check_guarded(&c.memory, count * 4);
            c.args.out = want;
            kernel_table_for(CPU_ISA_REF)->attention(&c.args);
            const struct kernel_table *level;
            for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
                float *got = check_guarded(&c.memory, count * 4);
                c.args.out = got;
                level->attention(&c.args);
                check_same(want, got, count, "attention", level);
                check_untouched_before(got);
                check_untouched_before(c.args.scratch);
            }
            check_release(&c.memory);
        }
}

static float element(const void *vector, enum dtype dtype, size_t i) {
    return dtype == DTYPE_F32 ? ((const float *)vector)[i] : f32_from_f16(((const uint16_t *)vector)[i]);
}

/* softmax(scale q.k) v in double, one query head. */
static void attention_in_double(const struct attention_args *a, size_t g, double *out) {
    double score[TILES * ATTENTION_TILE], max = a->sinks ? (double)a->sinks[g] : -1e300, sum = 0;
    size_t chosen = 0;
    for (size_t p = a->begin; p < a->end; p++) {
        score[p] = 0;
        for (size_t i = 0; i < a->head_dim; i++)
            score[p] +=
                (double)a->q[g * a->head_dim + i] *
                (double)element((const uint8_t *)a->k_tiles[p / ATTENTION_TILE] + p % ATTENTION_TILE * a->k_stride_bytes, a->kv_dtype, i);
        score[p] *= (double)a->scale;
        if (a->softcap > 0)
            score[p] = (double)a->softcap * tanh(score[p] / (double)a->softcap);
        if (a->positions && (chosen == a->position_count || a->positions[chosen] != p))
            score[p] = -(double)INFINITY;
        else
            chosen++;
        max = score[p] > max ? score[p] : max;
    }
    if (a->sinks)
        sum = exp((double)a->sinks[g] - max);
    memset(out, 0, a->v_dim * sizeof *out);
    for (size_t p = a->begin; p < a->end; p++) {
        double e = exp(score[p] - max);
        sum += e;
        for (size_t i = 0; i < a->v_dim; i++)
            out[i] += e * (double)element((const uint8_t *)a->v_tiles[p / ATTENTION_TILE] + p % ATTENTION_TILE * a->v_stride_bytes,
                                          a->kv_dtype, i);
    }
    for (size_t i = 0; i < a->v_dim; i++)
        out[i] /= sum;
}

static void ref_equals_double(void **state) {
    (void)state;
    struct check_random r = {22};
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t n = 0; n < RANGES * 4; n++) {
            struct attention_case c;
            make_case(&c, &shapes[s], &r, CHECK_PLAIN);
            c.args.begin = ranges[n / 4][0];
            c.args.end = ranges[n / 4][1];
            c.args.softcap = n & 2 ? 3.0f : 0.0f;
            c.args.sinks = n & 1 ? check_floats(&c.memory, shapes[s].group, &r, CHECK_PLAIN) : NULL;
            choose_positions(&c, &r, n % 5 == 4);
            float out[5 * 512];
            double want[512];
            c.args.out = out;
            kernel_table_for(CPU_ISA_REF)->attention(&c.args);
            for (size_t g = 0; g < shapes[s].group; g++) {
                attention_in_double(&c.args, g, want);
                for (size_t i = 0; i < shapes[s].v_dim; i++)
                    assert_true(fabs(want[i] - (double)out[g * shapes[s].v_dim + i]) <= 2e-5);
            }
            check_release(&c.memory);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ref_equals_double), cmocka_unit_test(levels_equal_ref)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
