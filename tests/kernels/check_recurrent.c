/*
 * check_recurrent: short convolution, delta rule and length norm: each level against ref/ bit for bit, and ref/ against double precision.
 */
#include <math.h>

#include "check.h"

/* ---- short convolution ---- */

static const size_t counts[] = {1, 3, 15, 16, 17, 40, 100};
#define COUNTS (sizeof counts / sizeof *counts)

static struct short_conv_args make_conv(struct check_memory *memory, size_t count, struct check_random *r, enum check_values values) {
    struct short_conv_args args = {
        .tap_count = check_below(r, 5), .weight_stride = count + check_below(r, 9), .silu = check_below(r, 2), .count = count};
    size_t weights = args.tap_count ? (args.tap_count - 1) * args.weight_stride + count : 0;
    args.weights = check_floats(memory, weights, r, values);
    args.bias = check_below(r, 2) ? check_floats(memory, count, r, values) : NULL;
    for (size_t t = 0; t < args.tap_count; t++)
        args.taps[t] = check_floats(memory, count, r, values);
    return args;
}

static void convolution_levels_equal_ref(void **state) {
    (void)state;
    struct check_random r = {71};
    for (size_t i = 0; i < 40 * COUNTS; i++) {
        struct check_memory memory = {.count = 0};
        const struct kernel_table *level;
        struct short_conv_args args = make_conv(&memory, counts[i % COUNTS], &r, (enum check_values)check_below(&r, CHECK_VALUES_COUNT));
        float *want = args.y = check_guarded(&memory, args.count * sizeof(float));
        kernel_table_for(CPU_ISA_REF)->short_conv(&args);
        for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
            args.y = check_guarded(&memory, args.count * sizeof(float));
            level->short_conv(&args);
            check_same(want, args.y, args.count, "short_conv", level);
            check_untouched_before(args.y);
        }
        check_release(&memory);
    }
}

static void convolution_ref_equals_double(void **state) {
    (void)state;
    struct check_random r = {72};
    for (size_t i = 0; i < 10 * COUNTS; i++) {
        struct check_memory memory = {.count = 0};
        struct short_conv_args args = make_conv(&memory, counts[i % COUNTS], &r, CHECK_PLAIN);
        args.y = check_guarded(&memory, args.count * sizeof(float));
        kernel_table_for(CPU_ISA_REF)->short_conv(&args);
        for (size_t c = 0; c < args.count; c++) {
            double want = args.bias ? (double)args.bias[c] : 0, size = fabs(want) + 1;
            for (size_t t = 0; t < args.tap_count; t++) {
                double term = (double)args.weights[t * args.weight_stride + c] * (double)args.taps[t][c];
                want += term;
                size += fabs(term);
            }
            want = args.silu ? want / (1 + exp(-want)) : want;
            assert_true(fabs(want - (double)args.y[c]) < 1e-6 * size);
        }
        check_release(&memory);
    }
}

/* ---- delta rule ---- */

static const struct delta_size { size_t rows, key_dim; } sizes[] = {{1, 1}, {12, 8}, {4, 16}, {7, 33}, {128, 128}, {5, 64}, {9, 100}};
#define SIZES (sizeof sizes / sizeof *sizes)

static struct delta_rule_args make_delta(struct check_memory *memory, const struct delta_size *size, struct check_random *r,
                                         enum check_values values) {
    return (struct delta_rule_args){.before = check_floats(memory, size->rows * size->key_dim, r, values),
                                    .q = check_floats(memory, size->key_dim, r, values),
                                    .k = check_floats(memory, size->key_dim, r, values),
                                    .v = check_floats(memory, size->rows, r, values),
                                    .rows = size->rows,
                                    .key_dim = size->key_dim,
                                    .decays = check_below(r, 2) ? check_floats(memory, size->key_dim, r, values) : NULL,
                                    .plain = check_below(r, 3) == 0,
                                    .decay = 0.5f + 0.5f * fabsf(check_uniform(r)),
                                    .beta = fabsf(check_uniform(r)),
                                    .scale = 0.25f};
}

static void delta_levels_equal_ref(void **state) {
    (void)state;
    struct check_random r = {73};
    for (size_t i = 0; i < 24 * SIZES; i++) {
        struct check_memory memory = {.count = 0};
        const struct kernel_table *level;
        const struct delta_size *size = &sizes[i % SIZES];
        size_t elements = size->rows * size->key_dim;
        struct delta_rule_args args = make_delta(&memory, size, &r, (enum check_values)check_below(&r, CHECK_VALUES_COUNT));
        float *want = args.out = check_guarded(&memory, size->rows * sizeof(float));
        float *after = args.after = check_guarded(&memory, elements * sizeof(float));
        kernel_table_for(CPU_ISA_REF)->delta_rule(&args);
        const float *before = args.before;
        for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
            args.out = check_guarded(&memory, size->rows * sizeof(float));
            args.after = check_guarded(&memory, elements * sizeof(float));
            bool in_place = check_below(&r, 2);
            if (in_place)
                memcpy(args.after, before, elements * sizeof(float));
            args.before = in_place ? args.after : before;
            level->delta_rule(&args);
            check_same(want, args.out, size->rows, "delta_rule", level);
            check_same(after, args.after, elements, "state of delta_rule", level);
            check_untouched_before(args.out);
            check_untouched_before(args.after);
        }
        check_release(&memory);
    }
}

static void delta_ref_equals_double(void **state) {
    (void)state;
    struct check_random r = {74};
    for (size_t i = 0; i < 4 * SIZES; i++) {
        struct check_memory memory = {.count = 0};
        const struct delta_size *size = &sizes[i % SIZES];
        struct delta_rule_args args = make_delta(&memory, size, &r, CHECK_PLAIN);
        args.out = check_guarded(&memory, size->rows * sizeof(float));
        args.after = check_guarded(&memory, size->rows * size->key_dim * sizeof(float));
        kernel_table_for(CPU_ISA_REF)->delta_rule(&args);
        for (size_t row = 0; row < size->rows; row++) {
            double held = 0, out = 0, scale = 1, faded[128];
            for (size_t k = 0; k < size->key_dim; k++) {
                faded[k] = (double)args.before[row * size->key_dim + k] * (double)(args.decays ? args.decays[k] : args.decay);
                held += faded[k] * (double)args.k[k];
            }
            double stored = ((double)args.v[row] - (args.plain ? 0 : held)) * (double)args.beta;
            for (size_t k = 0; k < size->key_dim; k++) {
                double s = faded[k] + (double)args.k[k] * stored;
                assert_true(fabs(s - (double)args.after[row * size->key_dim + k]) < 1e-4 * (1 + fabs(stored)));
                out += s * (double)args.q[k];
                scale += fabs(s * (double)args.q[k]);
            }
            assert_true(fabs(out * (double)args.scale - (double)args.out[row]) < 1e-5 * scale * (double)size->key_dim);
        }
        check_release(&memory);
    }
}

/* ---- length norm ---- */

static void length_levels_equal_ref(void **state) {
    (void)state;
    struct check_random r = {75};
    for (size_t i = 0; i < 6 * COUNTS; i++) {
        struct check_memory memory = {.count = 0};
        const struct kernel_table *level;
        size_t count = counts[i % COUNTS];
        enum check_values values = (enum check_values)check_below(&r, CHECK_VALUES_COUNT);
        const float *x = check_floats(&memory, count, &r, values);
        float *want = check_guarded(&memory, count * sizeof(float));
        kernel_table_for(CPU_ISA_REF)->l2_norm(x, want, count, 1e-6f);
        double sum = 1e-6;
        for (size_t k = 0; k < count; k++)
            sum += (double)x[k] * (double)x[k];
        for (size_t k = 0; values == CHECK_PLAIN && k < count; k++)
            assert_true(fabs((double)x[k] / sqrt(sum) - (double)want[k]) < 1e-6);
        for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
            float *y = check_guarded(&memory, count * sizeof(float));
            level->l2_norm(x, y, count, 1e-6f);
            check_same(want, y, count, "l2_norm", level);
            check_untouched_before(y);
        }
        check_release(&memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_levels_equal_ref), cmocka_unit_test(convolution_ref_equals_double),
        cmocka_unit_test(delta_levels_equal_ref),       cmocka_unit_test(delta_ref_equals_double),
        cmocka_unit_test(length_levels_equal_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
