/*
 * check_attention: each level against ref/ bit for bit, and ref/ against double precision, over head sizes, groups, rows, visible ranges,
 * masks that start inside a tile, choices, sinks and score caps; and parts of tiles that are joined later.
 */
#include <math.h>

#include "check.h"

#define TILES 3
#define ROWS_MAX 70

struct attention_case {
    struct check_memory memory;
    struct attention_args args;
    const void *k_tiles[TILES], *v_tiles[TILES];
    struct attention_range ranges[ROWS_MAX];
};

struct attention_shape {
    size_t group, head_dim, v_dim;
    enum dtype dtype;
    size_t rows;
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
    size_t q_stride = s->group * s->head_dim + check_below(r, 3), out_stride = s->group * s->v_dim + check_below(r, 3);
    size_t scratch = attention_scratch_floats(s->rows * s->group, s->head_dim, s->v_dim);
    c->args = (struct attention_args){.rows = s->rows,
                                      .q_stride = q_stride,
                                      .group = s->group,
                                      .head_dim = s->head_dim,
                                      .v_dim = s->v_dim,
                                      .kv_dtype = s->dtype,
                                      .k_stride_bytes = (s->head_dim + check_below(r, 3)) * element,
                                      .v_stride_bytes = (s->v_dim + check_below(r, 3)) * element,
                                      .scale = 0.3f,
                                      .k_tiles = c->k_tiles,
                                      .v_tiles = c->v_tiles,
                                      .q = check_floats(&c->memory, (s->rows - 1) * q_stride + s->group * s->head_dim, r, values),
                                      .out_stride = out_stride,
                                      .ranges = c->ranges,
                                      .scratch = check_guarded(&c->memory, scratch * sizeof(float))};
    for (unsigned t = 0; t < TILES; t++) {
        c->k_tiles[t] = make_tile(&c->memory, s->head_dim, c->args.k_stride_bytes, s->dtype, r, values);
        c->v_tiles[t] = make_tile(&c->memory, s->v_dim, c->args.v_stride_bytes, s->dtype, r, values);
    }
}

/* Now and then only some positions of a row count. */
static void choose_positions(struct attention_case *c, struct check_random *r, bool some) {
    if (!some || c->args.rows > 1)
        return;
    size_t count = 0, every = 1 + check_below(r, 5);
    uint32_t *positions = check_guarded(&c->memory, (c->ranges[0].end - c->ranges[0].begin) * sizeof *positions);
    for (size_t p = c->ranges[0].begin; p < c->ranges[0].end; p++)
        if (check_below(r, every) == 0 || p + 1 == c->ranges[0].end)
            positions[count++] = (uint32_t)p;
    c->args.positions = positions;
    c->args.position_count = count;
}

static const struct attention_shape shapes[] = {
    {1, 64, 64, DTYPE_F16, 1},    {4, 128, 128, DTYPE_F16, 1}, {3, 24, 16, DTYPE_F16, 1},   {8, 16, 16, DTYPE_F16, 1},
    {2, 72, 40, DTYPE_F16, 1},    {1, 1, 1, DTYPE_F16, 1},     {5, 576, 512, DTYPE_F16, 1}, {7, 27, 33, DTYPE_F32, 1},
    {2, 64, 64, DTYPE_F32, 1},    {16, 80, 96, DTYPE_F16, 1},  {1, 64, 64, DTYPE_F16, 33},  {3, 27, 33, DTYPE_F32, 7},
    {11, 576, 512, DTYPE_F16, 1}, {70, 40, 24, DTYPE_F16, 1},  {8, 128, 128, DTYPE_F16, 5}, {1, 15, 17, DTYPE_F16, 70},
    {1, 40, 8, DTYPE_F16, 4},     {2, 1, 1, DTYPE_F32, 24},
};
static const size_t ranges[][2] = {{0, 1},     {0, 2},   {0, 17},    {0, 128},   {0, 129},  {5, 128},
                                   {100, 300}, {0, 384}, {127, 128}, {256, 257}, {130, 250}};
#define SHAPES (sizeof shapes / sizeof shapes[0])
#define RANGES (sizeof ranges / sizeof ranges[0])

enum rows_see { ROWS_ONE_MORE, ROWS_WINDOW, ROWS_ANYTHING, ROWS_SEE_COUNT };

/* The last row sees ranges[n]; those before one position less each, windows of its length, or anything. */
static void set_ranges(struct attention_case *c, size_t n, struct check_random *r) {
    enum rows_see kind = (enum rows_see)check_below(r, ROWS_SEE_COUNT);
    for (size_t i = 0; i < c->args.rows; i++) {
        size_t before = c->args.rows - 1 - i, begin = ranges[n][0], end = ranges[n][1], length = end - begin;
        end = end > before ? end - before : 1;
        if (kind == ROWS_WINDOW)
            begin = end > length ? end - length : 0;
        if (kind == ROWS_ANYTHING && before > 0) {
            begin = check_below(r, TILES * ATTENTION_TILE - 1);
            end = begin + 1 + check_below(r, TILES * ATTENTION_TILE - begin);
        }
        c->ranges[i] = (struct attention_range){begin < end ? begin : end - 1, end};
    }
}

static void same_rows(const struct attention_args *args, const float *want, const float *got, const struct kernel_table *level) {
    for (size_t row = 0; row < args->rows; row++)
        check_same(want + row * args->out_stride, got + row * args->out_stride, args->group * args->v_dim, "attention", level);
}

static void levels_equal_ref(void **state) {
    (void)state;
    struct check_random r = {21};
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t n = 0; n < RANGES * 4; n++) {
            struct attention_case c;
            make_case(&c, &shapes[s], &r, (enum check_values)(check_below(&r, CHECK_VALUES_COUNT)));
            size_t count = (shapes[s].rows - 1) * c.args.out_stride + shapes[s].group * shapes[s].v_dim;
            set_ranges(&c, n / 4, &r);
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
                same_rows(&c.args, want, got, level);
                check_untouched_before(got);
                check_untouched_before(c.args.scratch);
            }
            check_release(&c.memory);
        }
}

/* Parts of one call, or of a call for the first tiles and one for the others; joined at once, or those behind the first tile later. */
static void join_parts(struct attention_case *c, const struct kernel_table *level, const float *want, struct check_random *r) {
    size_t group = c->args.group, part = attention_part_floats(group, c->args.v_dim), tiles = 0, cut = check_below(r, TILES);
    float *parts = check_guarded(&c->memory, TILES * part * sizeof(float)), *got = check_guarded(&c->memory, group * c->args.v_dim * 4);
    struct attention_range whole = c->ranges[0];
    for (size_t t = 0; t < TILES; t++)
        tiles += whole.begin < (t + 1) * ATTENTION_TILE && whole.end > t * ATTENTION_TILE;
    c->args.out = NULL;
    size_t middle = (whole.begin / ATTENTION_TILE + cut) * ATTENTION_TILE;
    cut = middle > whole.begin && middle < whole.end ? cut : 0;
    c->args.parts = parts;
    for (unsigned half = cut ? 0 : 1; half < 2; half++) {
        c->ranges[0] = (struct attention_range){half && cut ? middle : whole.begin, half ? whole.end : middle};
        level->attention(&c->args);
        c->args.parts += cut * part;
    }
    c->ranges[0] = whole;
    struct attention_join_args join = {
        .parts = parts, .count = tiles, .group = group, .v_dim = c->args.v_dim, .head_end = group, .sinks = c->args.sinks, .out = got};
    if (tiles == TILES && check_below(r, 2)) {
        join.count = 2;
        join.out = NULL;
        level->attention_join(&join);
        memcpy(parts + part, parts + 2 * part, part * sizeof(float));
        join.out = got;
    }
    join.head_end = check_below(r, group);
    float *first = check_guarded(&c->memory, part * sizeof(float));
    memcpy(first, parts, part * sizeof(float));
    level->attention_join(&join);
    join.head_begin = join.head_end;
    join.head_end = group;
    level->attention_join(&join);
    check_same(want, got, group * c->args.v_dim, "attention in parts", level);
    check_untouched_before(got);
    check_untouched_before(parts);
    c->args.parts = NULL;
}

static void joined_parts_equal_the_whole(void **state) {
    (void)state;
    struct check_random r = {23};
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t n = 0; n < RANGES * 2 && shapes[s].rows == 1; n++) {
            struct attention_case c;
            make_case(&c, &shapes[s], &r, (enum check_values)(check_below(&r, CHECK_VALUES_COUNT)));
            set_ranges(&c, n / 2, &r);
            c.args.sinks = n & 1 ? check_floats(&c.memory, shapes[s].group, &r, CHECK_PLAIN) : NULL;
            float *want = c.args.out = check_guarded(&c.memory, shapes[s].group * shapes[s].v_dim * sizeof(float));
            kernel_table_for(CPU_ISA_REF)->attention(&c.args);
            join_parts(&c, kernel_table_for(CPU_ISA_REF), want, &r);
            const struct kernel_table *level;
            for (unsigned l = 0; (level = check_level(l)) != NULL; l++)
                join_parts(&c, level, want, &r);
            check_release(&c.memory);
        }
}

static float element(const void *vector, enum dtype dtype, size_t i) {
    return dtype == DTYPE_F32 ? ((const float *)vector)[i] : f32_from_f16(((const uint16_t *)vector)[i]);
}

/* softmax(scale q.k) v in double, one query head of a row. */
static void attention_in_double(const struct attention_args *a, size_t row, size_t g, double *out) {
    size_t begin = a->ranges[row].begin, end = a->ranges[row].end;
    double score[TILES * ATTENTION_TILE], max = a->sinks ? (double)a->sinks[g] : -1e300, sum = 0;
    size_t chosen = 0;
    for (size_t p = begin; p < end; p++) {
        score[p] = 0;
        for (size_t i = 0; i < a->head_dim; i++)
            score[p] +=
                (double)a->q[row * a->q_stride + g * a->head_dim + i] *
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
    for (size_t p = begin; p < end; p++) {
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
            set_ranges(&c, n / 4, &r);
            c.args.softcap = n & 2 ? 3.0f : 0.0f;
            c.args.sinks = n & 1 ? check_floats(&c.memory, shapes[s].group, &r, CHECK_PLAIN) : NULL;
            choose_positions(&c, &r, n % 5 == 4);
            float *out = c.args.out = check_guarded(&c.memory, shapes[s].rows * c.args.out_stride * sizeof *out);
            double want[512];
            kernel_table_for(CPU_ISA_REF)->attention(&c.args);
            for (size_t i = 0; i < shapes[s].rows * shapes[s].group; i++) {
                size_t row = i / shapes[s].group, g = i % shapes[s].group;
                attention_in_double(&c.args, row, g, want);
                for (size_t j = 0; j < shapes[s].v_dim; j++)
                    assert_true(fabs(want[j] - (double)out[row * c.args.out_stride + g * shapes[s].v_dim + j]) <= 2e-5);
            }
            check_release(&c.memory);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ref_equals_double), cmocka_unit_test(levels_equal_ref),
                                       cmocka_unit_test(joined_parts_equal_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
