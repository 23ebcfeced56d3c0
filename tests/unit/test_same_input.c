/*
 * test_same_input: outputs of one product that come in calls of their own, as streamed weights do, give the same bits as together, also
 * where only some of their weights take quantised inputs.
 */
#include "test_support.h"

#include <string.h>

#include "backend/backend.h"
#include "dtype/scalar_convert.h"

enum { COLS = 64, OUT = 6, ROWS = 3, Q8_ROW = COLS / 32 * 34 };

static uint8_t quantised[OUT][Q8_ROW];
static float plain[OUT][COLS], x[2][ROWS][COLS];

static void make_numbers(void) {
    for (int i = 0; i < 2 * ROWS * COLS; i++)
        (&x[0][0][0])[i] = (float)((i * 37 + 11) % 101) / 50 - 1;
    for (int o = 0; o < OUT; o++)
        for (int i = 0; i < COLS; i++) {
            const uint16_t scale = 0x2400; /* 1/64 */
            plain[o][i] = (float)((o * 13 + i * 7) % 29) / 29;
            memcpy(&quantised[o][i / 32 * 34], &scale, sizeof scale);
            quantised[o][i / 32 * 34 + 2 + i % 32] = (uint8_t)(o * 31 + i * 5);
        }
}

static void multiply(struct backend *backend, const float *in, const struct matrix_part *part, bool same_input, float *out) {
    struct error err;
    const struct op op = {.kind = OP_MATMUL, .matmul = {.outputs = 1}};
    struct op_call call = {.rows = ROWS,
                           .in = {(float *)in},
                           .out = {out},
                           .in_width = {COLS},
                           .out_width = {OUT},
                           .weight = {{.parts = part, .part_count = 1}},
                           .same_input = same_input};
    ASSERT_OK(backend_run(backend, &op, &call, &err), err);
}

static void float_weights_first(void **state) {
    (void)state;
    const struct matrix_part q8 = {
        .matrix = {.format = DTYPE_Q8_0, .rows = OUT, .cols = COLS, .data = &quantised[0][0], .row_bytes = Q8_ROW, .tensor_scale = 1}};
    const struct matrix_part f32 = {.matrix = {.format = DTYPE_F32,
                                               .rows = OUT,
                                               .cols = COLS,
                                               .data = (const uint8_t *)&plain[0][0],
                                               .row_bytes = sizeof plain[0],
                                               .tensor_scale = 1}};
    struct cpu_backend_options options = {.threads = 1, .isa = CPU_ISA_REF, .limits = {.rows = ROWS}};
    struct backend *backend;
    struct error err;
    float before[ROWS][OUT], alone[ROWS][OUT], after[ROWS][OUT], unused[ROWS][OUT];
    make_numbers();
    backend_limits_add_weight(&options.limits, WEIGHT_IN_MATMUL, DTYPE_Q8_0, 0, COLS);
    backend_limits_add_weight(&options.limits, WEIGHT_IN_MATMUL, DTYPE_F32, 0, COLS);
    ASSERT_OK(cpu_backend_create(&options, &backend, &err), err);
    multiply(backend, &x[1][0][0], &q8, false, &alone[0][0]);
    multiply(backend, &x[0][0][0], &q8, false, &before[0][0]); /* leaves inputs of another product behind */
    multiply(backend, &x[1][0][0], &f32, false, &unused[0][0]);
    multiply(backend, &x[1][0][0], &q8, true, &after[0][0]);
    backend_destroy(backend);
    assert_memory_not_equal(alone, before, sizeof alone);
    assert_memory_equal(alone, after, sizeof alone);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(float_weights_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
