/*
 * check_columns: products with transposed matrices, whose outputs lie side by side or alternate with another matrix's, give the bits of the
 * same matrix stored row by row, at every level; rows decode alike. Inputs end at a forbidden page.
 */
#include "check.h"

#include "kernel/ref/ref.h"

struct column_case {
    enum dtype dtype;
    size_t rows, cols, step; /* step 2: the other matrix's elements stand between */
    size_t tokens;
};

static void put_element(enum dtype dtype, uint8_t *at, float value) {
    uint16_t half = dtype == DTYPE_F16 ? f16_from_f32(value) : bf16_from_f32(value);
    if (dtype == DTYPE_F32)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &half, sizeof half);
}

static void compare(const struct column_case *c, struct check_random *random) {
    struct check_memory memory = {0};
    size_t element = c->dtype == DTYPE_F32 ? 4 : 2, all_rows = c->rows * c->step;
    uint8_t *straight = check_guarded(&memory, c->rows * c->cols * element);
    uint8_t *turned = check_guarded(&memory, c->cols * all_rows * element);
    float *x = check_floats(&memory, c->tokens * c->cols, random, CHECK_AWKWARD);
    float *want = check_guarded(&memory, c->tokens * c->rows * sizeof(float)),
          *got = check_guarded(&memory, c->tokens * c->rows * sizeof(float));
    for (size_t i = 0; i < c->cols * all_rows; i++)
        put_element(c->dtype, turned + i * element, 1e4f); /* what the other matrix has */
    size_t first = c->step - 1;
    for (size_t r = 0; r < c->rows; r++)
        for (size_t k = 0; k < c->cols; k++) {
            float value = check_float(random, CHECK_PLAIN);
            put_element(c->dtype, straight + (r * c->cols + k) * element, value);
            put_element(c->dtype, turned + (k * all_rows + r * c->step + first) * element, value);
        }
    const struct matrix rows = {.format = (unsigned)c->dtype,
                                .rows = c->rows,
                                .cols = c->cols,
                                .data = straight,
                                .row_bytes = c->cols * element,
                                .tensor_scale = 1};
    struct matrix columns = rows;
    columns.data = turned + first * element;
    columns.row_bytes = c->step * element;
    columns.col_bytes = all_rows * element;
    struct matmul_args args = {.w = &rows,
                               .row_end = c->rows,
                               .x = (const uint8_t *)x,
                               .x_row_bytes = c->cols * sizeof(float),
                               .tokens = c->tokens,
                               .y = want,
                               .y_stride = c->rows};
    kernel_table_for(CPU_ISA_REF)->matmul[c->dtype](&args);
    args.w = &columns;
    args.y = got;
    const struct kernel_table *level = kernel_table_for(CPU_ISA_REF);
    for (unsigned l = 0; level; level = check_level(l++)) {
        memset(got, 0xff, c->tokens * c->rows * sizeof(float));
        level->matmul_columns(&args);
        check_same(want, got, c->tokens * c->rows, "columns", level);
        args.row_begin = c->rows / 3; /* part of the rows: the rest stays */
        level->matmul_columns(&args);
        args.row_begin = 0;
        check_same(want, got, c->tokens * c->rows, "columns, some rows", level);
        check_untouched_before(got);
    }
    float *a = check_guarded(&memory, c->cols * sizeof(float)), *b = check_guarded(&memory, c->cols * sizeof(float));
    ref_decode_row(&rows, c->rows - 1, a);
    ref_decode_row(&columns, c->rows - 1, b);
    assert_memory_equal(a, b, c->cols * sizeof(float));
    check_release(&memory);
}

static void same_bits_as_rows(void **state) {
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    struct check_random random = {7};
    (void)state;
    for (size_t d = 0; d < 3; d++)
        for (size_t step = 1; step <= 3; step++) /* 3: the way that has no fast version */
            for (size_t n = 0; n < 12; n++) {
                const struct column_case c = {dtypes[d], 1 + check_below(&random, 40), 1 + check_below(&random, 70), step,
                                              1 + check_below(&random, 3)};
                compare(&c, &random);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits_as_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
