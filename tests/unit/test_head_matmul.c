/*
 * test_head_matmul: products with a matrix for each head: plain and transposed weights give the same bits, whatever the rows, threads and
 * parts; and matrices of single heads that lie in runs of rows of a larger one are cut into records that hold just those rows, scales
 * included.
 */
#include "test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/check.h"
#include "base/memory.h"
#include "dtype/scalar_convert.h"
#include "kernel/kernel.h"
#include "run/records.h"

enum { HEADS = 5, IN = 24, OUT = 40, IN_STRIDE = 28, OUT_STRIDE = 44, STEP = 64, ROWS = 11 };

static uint32_t random_bits(void) {
    static uint64_t state = 7;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}
static float random_float(void) { return (float)(int32_t)(random_bits() << 1) * 0x1p-31f; }
static uint16_t random_bf16(void) { return (uint16_t)(bits_from_f32(random_float()) >> 16); }

static struct op head_op(bool transposed) {
    return (struct op){
        .kind = OP_HEAD_MATMUL,
        .head_matmul = {
            .heads = HEADS, .in_size = IN, .out_size = OUT, .in_stride = IN_STRIDE, .out_stride = OUT_STRIDE, .transposed = transposed}};
}

static void run(const struct op *op, unsigned threads, enum cpu_isa isa, const struct matrix_part *parts, size_t part_count, float *x,
                size_t rows, float *y) {
    struct cpu_backend_options options = {.threads = threads, .isa = isa, .limits = {.rows = ROWS}};
    struct backend *backend;
    struct error err;
    backend_limits_add_heads(&options.limits, op, DTYPE_BF16, 0);
    ASSERT_OK(cpu_backend_create(&options, &backend, &err), err);
    struct op_call call = {.rows = rows,
                           .in = {x},
                           .out = {y},
                           .in_width = {(size_t)HEADS * IN_STRIDE},
                           .out_width = {(size_t)HEADS * OUT_STRIDE},
                           .weight = {{.parts = parts, .part_count = part_count}}};
    ASSERT_OK(backend_run(backend, op, &call, &err), err);
    backend_destroy(backend);
}

struct weights {                          /* the same numbers twice */
    uint16_t plain[HEADS * OUT][IN];      /* [heads * out][in] */
    uint16_t transposed[HEADS * IN][OUT]; /* [heads * in][out] */
};

static struct matrix_part part_of(const void *data, size_t first_row, size_t rows, size_t cols) {
    return (struct matrix_part){
        .matrix =
            {.format = DTYPE_BF16, .rows = rows, .cols = cols, .data = (const uint8_t *)data, .row_bytes = cols * 2, .tensor_scale = 1},
        .first_row = first_row};
}

static void make_weights(struct weights *w) {
    for (size_t h = 0; h < HEADS; h++)
        for (size_t o = 0; o < OUT; o++)
            for (size_t i = 0; i < IN; i++)
                w->plain[h * OUT + o][i] = w->transposed[h * IN + i][o] = random_bf16();
}

static void plain_and_transposed_agree(void **state) {
    (void)state;
    static struct weights w;
    static float x[ROWS * HEADS * IN_STRIDE], want[ROWS * HEADS * OUT_STRIDE], got[ROWS * HEADS * OUT_STRIDE];
    make_weights(&w);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = random_float();
    const struct op plain = head_op(false), transposed = head_op(true);
    const struct matrix_part whole = part_of(w.plain, 0, HEADS * OUT, IN), turned = part_of(w.transposed, 0, HEADS * IN, OUT);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        want[i] = got[i] = -7.0f; /* between the pieces nothing is written */
    run(&plain, 1, CPU_ISA_REF, &whole, 1, x, ROWS, want);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t h = 0; h < HEADS; h++)
            for (size_t o = 0; o < OUT_STRIDE; o++) {
                double sum = o < OUT ? 0 : -7;
                for (size_t i = 0; o < OUT && i < IN; i++)
                    sum += (double)f32_from_bf16(w.plain[h * OUT + o][i]) * (double)x[(r * HEADS + h) * IN_STRIDE + i];
                assert_true(fabs(sum - (double)want[(r * HEADS + h) * OUT_STRIDE + o]) < 1e-5);
            }
    for (unsigned threads = 1; threads <= 3; threads++)
        for (unsigned isa = CPU_ISA_REF; isa < CPU_ISA_COUNT; isa++) {
            if (!cpu_backend_available((enum cpu_isa)isa))
                continue;
            run(&plain, threads, (enum cpu_isa)isa, &whole, 1, x, ROWS, got);
            assert_memory_equal(want, got, sizeof want);
            run(&transposed, threads, (enum cpu_isa)isa, &turned, 1, x, ROWS, got);
            assert_memory_equal(want, got, sizeof want);
        }
}

static void parts_and_rows_change_nothing(void **state) {
    (void)state;
    static struct weights w;
    static float x[ROWS * HEADS * IN_STRIDE], want[ROWS * HEADS * OUT_STRIDE], got[ROWS * HEADS * OUT_STRIDE];
    make_weights(&w);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = random_float();
    const struct op plain = head_op(false), transposed = head_op(true);
    const struct matrix_part whole = part_of(w.plain, 0, HEADS * OUT, IN);
    run(&plain, 1, CPU_ISA_REF, &whole, 1, x, ROWS, want);
    /* parts that end inside a head, one of them brought by a call of its own */
    const struct matrix_part cut[3] = {part_of(w.plain, 0, 63, IN), part_of(w.plain[63], 63, 9, IN),
                                       part_of(w.plain[72], 72, HEADS * OUT - 72, IN)};
    run(&plain, 2, CPU_ISA_REF, cut, 2, x, ROWS, got);
    run(&plain, 2, CPU_ISA_REF, cut + 2, 1, x, ROWS, got);
    assert_memory_equal(want, got, sizeof want);
    memset(got, 0, sizeof got);
    struct matrix_part heads[HEADS];
    for (size_t h = 0; h < HEADS; h++)
        heads[h] = part_of(w.transposed[h * IN], h * IN, IN, OUT);
    run(&transposed, 2, CPU_ISA_REF, heads, 2, x, ROWS, got);
    run(&transposed, 2, CPU_ISA_REF, heads + 2, HEADS - 2, x, ROWS, got);
    assert_memory_equal(want, got, sizeof want);
    for (size_t r = 0; r < ROWS; r++) { /* row by row */
        float one[HEADS * OUT_STRIDE] = {0};
        run(&transposed, 1, CPU_ISA_REF, heads, HEADS, x + r * HEADS * IN_STRIDE, 1, one);
        assert_memory_equal(want + r * HEADS * OUT_STRIDE, one, sizeof one);
    }
}

/* ---- transposed weights of other formats ---- */

/* What a decoded and transposed matrix gives: input i of a head goes to lane i % 16. */
static float decoded_output(const struct matrix *w, const float *x, size_t head, size_t output) {
    float lane[16] = {0}, row[OUT];
    for (size_t i = 0; i < IN; i++) {
        kernel_table_for(CPU_ISA_REF)->decode_row(w, head * IN + i, row);
        lane[i % 16] = fmaf(row[output], x[head * IN_STRIDE + i], lane[i % 16]);
    }
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t j = 0; j < width; j++)
            lane[j] += lane[j + width];
    return lane[0];
}

static void check_transposed(const struct matrix *w) {
    static float x[ROWS * HEADS * IN_STRIDE], got[ROWS * HEADS * OUT_STRIDE];
    const struct op op = head_op(true);
    const struct matrix_part part = {.matrix = *w};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = random_float();
    for (unsigned isa = CPU_ISA_REF; isa < CPU_ISA_COUNT; isa++) {
        if (!cpu_backend_available((enum cpu_isa)isa))
            continue;
        run(&op, 2, (enum cpu_isa)isa, &part, 1, x, ROWS, got);
        for (size_t r = 0; r < ROWS; r += ROWS - 1)
            for (size_t h = 0; h < HEADS; h++)
                for (size_t o = 0; o < OUT; o++) {
                    float want = decoded_output(w, x + r * HEADS * IN_STRIDE, h, o);
                    assert_memory_equal(&want, &got[(r * HEADS + h) * OUT_STRIDE + o], sizeof want);
                }
    }
}

static void transposed_fp8_and_affine_are_decoded(void **state) {
    (void)state;
    static uint8_t codes[HEADS * IN * OUT];
    static float scales[(HEADS * IN + 1) * OUT], biases[HEADS * IN * OUT];
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)(random_bits() % 0x78);
    for (size_t i = 0; i < HEADS * IN * OUT; i++)
        biases[i] = scales[i] = scales[OUT + i] = random_float();
    static const uint32_t groups[][3] = {
        {16, 16, 0}, {16, 16, 8}, {8, 40, 0}, {10, 8, 3}, {48, 16, 16}}; /* inputs, outputs, place of row 0 */
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (unsigned format = MATRIX_F8_BLOCK; format <= MATRIX_F8_E5M2_BLOCK; format += MATRIX_F8_E5M2_BLOCK - MATRIX_F8_BLOCK) {
            const struct matrix w = {.format = format,
                                     .rows = HEADS * IN,
                                     .cols = OUT,
                                     .data = codes,
                                     .row_bytes = OUT,
                                     .scales = (const uint8_t *)scales,
                                     .scales_row_bytes = OUT * sizeof(float),
                                     .scale_dtype = DTYPE_F32,
                                     .group_rows = groups[g][0],
                                     .group_cols = groups[g][1],
                                     .group_row_offset = groups[g][2],
                                     .tensor_scale = 1};
            check_transposed(&w);
        }
    const struct matrix affine = {.format = MATRIX_AFFINE,
                                  .rows = HEADS * IN,
                                  .cols = OUT,
                                  .data = codes,
                                  .row_bytes = OUT / 2,
                                  .bits = 4,
                                  .scales = (const uint8_t *)scales,
                                  .biases = (const uint8_t *)biases,
                                  .scales_row_bytes = OUT * sizeof(float),
                                  .scale_dtype = DTYPE_F32,
                                  .group_cols = 8,
                                  .tensor_scale = 1};
    check_transposed(&affine);
}

/* ---- heads in runs of rows ---- */

enum { GROUP = 10, RUN_FIRST = STEP - OUT }; /* scales for every 10 rows: no head begins with a group */
#define FILE_ROWS ((uint64_t)HEADS * STEP)

static uint32_t write_file(struct file_set *files, const uint8_t *data, size_t size_bytes) {
    char path[] = "/tmp/sluice-heads-XXXXXX";
    struct error err;
    uint32_t number;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, data, size_bytes) == (ssize_t)size_bytes);
    ASSERT_OK(file_set_add(files, path, &number, &err), err);
    (void)close(fd);
    (void)unlink(path);
    return number;
}

static void check_runs(uint32_t cols) {
    size_t scale_rows = (size_t)(FILE_ROWS + GROUP - 1) / GROUP, codes_bytes = (size_t)FILE_ROWS * cols;
    uint8_t *data = memory_alloc(codes_bytes + scale_rows * sizeof(float));
    struct plan plan = {0};
    struct record_table table;
    struct file_set *files;
    struct error err;
    uint32_t index;
    assert_non_null(data);
    ASSERT_OK(file_set_create(&files, &err), err);
    for (size_t i = 0; i < codes_bytes; i++)
        data[i] = (uint8_t)(random_bits() % 0x78); /* finite e4m3 */
    for (size_t i = 0; i < scale_rows; i++) {
        float scale = random_float();
        memcpy(data + codes_bytes + i * sizeof scale, &scale, sizeof scale);
    }
    struct plan_weight weight = {.name = memory_copy_text("w", 1),
                                 .format = MATRIX_F8_BLOCK,
                                 .rows = HEADS * OUT,
                                 .cols = cols,
                                 .scale_dtype = DTYPE_F32,
                                 .group_cols = cols,
                                 .group_rows = GROUP,
                                 .run_rows = OUT,
                                 .run_step = STEP,
                                 .run_first = RUN_FIRST,
                                 .tensor_scale = 1};
    weight.slices[0] = (struct weight_slice){.file = write_file(files, data, codes_bytes + scale_rows * sizeof(float)), .row_bytes = cols};
    weight.slices[1] = (struct weight_slice){.offset_bytes = codes_bytes, .row_bytes = sizeof(float), .group_rows = GROUP};
    ASSERT_OK(plan_add_weight(&plan, &weight, &index, &err), err);
    struct plan_step step = plan_step_of(OP_HEAD_MATMUL, 0);
    step.weight[0] = index;
    ASSERT_OK(plan_add_step(&plan, &step, &err), err);
    ASSERT_OK(record_table_build(&(const struct plan *){&plan}, 1, files, false, &table, &err), err);

    const struct weight_records *records = &table.weights[index];
    const struct matrix whole = {.format = MATRIX_F8_BLOCK,
                                 .rows = (size_t)FILE_ROWS,
                                 .cols = cols,
                                 .data = data,
                                 .row_bytes = cols,
                                 .scales = data + codes_bytes,
                                 .scales_row_bytes = sizeof(float),
                                 .scale_dtype = DTYPE_F32,
                                 .group_cols = cols,
                                 .group_rows = GROUP,
                                 .tensor_scale = 1};
    float *want = memory_alloc_array(cols, sizeof(float)), *got = memory_alloc_array(cols, sizeof(float));
    assert_int_equal(record_part_count(&weight, records), HEADS);
    assert_int_equal(table.part_count, HEADS);
    assert_int_equal(records->record_count, (HEADS + records->parts_per_record - 1) / records->parts_per_record);
    for (uint32_t p = 0; p < HEADS; p++) {
        const struct weight_record *record = &table.records[records->first_record + p / records->parts_per_record];
        const uint8_t *pieces[STORE_PIECES_MAX];
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < record->piece_count; i++) {
            const struct weight_piece *piece = &table.pieces[record->first_piece + i];
            assert_true(piece->offset_bytes + piece->size_bytes <= codes_bytes + scale_rows * sizeof(float));
            pieces[i] = data + piece->offset_bytes;
            bytes += piece->size_bytes;
        }
        assert_true(bytes <=
                    (uint64_t)records->parts_per_record * (OUT * cols + (OUT / GROUP + 2) * sizeof(float))); /* nothing of other runs */
        struct matrix_part part = record_part(&weight, records, p, pieces);
        assert_int_equal(part.first_row, p * OUT);
        assert_int_equal(part.matrix.rows, OUT);
        for (size_t r = 0; r < OUT; r++) {
            kernel_table_for(CPU_ISA_REF)->decode_row(&whole, (size_t)p * STEP + RUN_FIRST + r, want);
            kernel_table_for(CPU_ISA_REF)->decode_row(&part.matrix, r, got);
            assert_memory_equal(want, got, cols * sizeof(float));
        }
    }
    memory_free(want);
    memory_free(got);
    memory_free(data);
    record_table_deinit(&table);
    plan_deinit(&plan);
    file_set_destroy(files);
}

static void runs_of_rows_become_records(void **state) {
    (void)state;
    check_runs(16);            /* several heads in a record */
    check_runs(2u << 20 >> 5); /* one */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_transposed_agree),
        cmocka_unit_test(parts_and_rows_change_nothing),
        cmocka_unit_test(transposed_fp8_and_affine_are_decoded),
        cmocka_unit_test(runs_of_rows_become_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
