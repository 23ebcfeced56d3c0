/*
 * test_records: weights cut into records: parts cover every row once with the scales and zero points of just their rows, experts get all
 * their slices, and weights whose rows alternate are read once.
 */
#include "test_support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "run/records.h"

#define FILE_BYTES ((uint64_t)1 << 30)

struct fixture {
    struct file_set *files;
    struct plan plan;
    struct record_table table;
};

static void begin(struct fixture *f) {
    char path[] = "/tmp/sluice-records-XXXXXX";
    struct error err;
    uint32_t number;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)FILE_BYTES) == 0); /* a hole: nothing is read */
    *f = (struct fixture){0};
    ASSERT_OK(file_set_create(&f->files, &err), err);
    ASSERT_OK(file_set_add(f->files, path, &number, &err), err);
    (void)close(fd);
    (void)unlink(path);
}

static void end(struct fixture *f) {
    record_table_deinit(&f->table);
    plan_deinit(&f->plan);
    file_set_destroy(f->files);
}

static uint32_t add_weight(struct fixture *f, struct plan_weight weight, const char *name) {
    struct error err;
    uint32_t index;
    weight.name = memory_copy_text(name, strlen(name));
    weight.tensor_scale = 1;
    ASSERT_OK(plan_add_weight(&f->plan, &weight, &index, &err), err);
    return index;
}

static void cut(struct fixture *f, enum op_kind kind, const uint32_t *weights, int count) {
    struct error err;
    struct plan_step step = plan_step_of(kind, 0);
    memcpy(step.weight, weights, (size_t)count * sizeof *weights);
    ASSERT_OK(plan_add_step(&f->plan, &step, &err), err);
    ASSERT_OK(record_table_build(&(const struct plan *){&f->plan}, 1, f->files, true, &f->table, &err), err);
}

static const struct weight_piece *piece_of(const struct fixture *f, uint32_t record, uint32_t piece) {
    assert_true(record < f->table.record_count && piece < f->table.records[record].piece_count);
    return &f->table.pieces[f->table.records[record].first_piece + piece];
}

/* Parts of a matrix whose slice `grouped` has a row per `group` matrix rows, of which the first `offset` belong to others. */
static void check_parts(uint64_t rows, uint32_t group, uint32_t offset, int grouped) {
    struct fixture f;
    begin(&f);
    struct plan_weight weight = {.format = MATRIX_F8_BLOCK,
                                 .rows = rows,
                                 .cols = 4096,
                                 .group_cols = 128,
                                 .group_rows = group,
                                 .group_row_offset = offset,
                                 .scale_dtype = DTYPE_F32};
    weight.slices[0] = (struct weight_slice){.offset_bytes = 4096, .row_bytes = 4096};
    weight.slices[1] = (struct weight_slice){.offset_bytes = FILE_BYTES / 2, .row_bytes = 128};
    weight.slices[2] = (struct weight_slice){.offset_bytes = FILE_BYTES / 4 * 3, .row_bytes = 64};
    weight.slices[grouped].group_rows = group;
    uint32_t index = add_weight(&f, weight, "w");
    cut(&f, OP_MATMUL, &index, 1);
    const struct weight_records *records = &f.table.weights[index];
    assert_true(records->record_count > 1 && f.table.record_count == records->record_count);
    assert_int_equal(records->rows_per_record % group, 0);
    uint64_t row = 0, bytes = 0;
    for (uint32_t r = 0; r < records->record_count; r++) {
        uint64_t count = piece_of(&f, r, 0)->size_bytes / 4096;
        assert_int_equal(piece_of(&f, r, 0)->offset_bytes, 4096 + row * 4096);
        for (int s = 1; s < 3; s++) {
            uint64_t per = s == grouped ? group : 1, skip = s == grouped ? offset : 0, from = (skip + row) / per;
            uint64_t to = (skip + row + count - 1) / per + 1;
            assert_int_equal(piece_of(&f, r, (uint32_t)s)->offset_bytes, weight.slices[s].offset_bytes + from * weight.slices[s].row_bytes);
            assert_int_equal(piece_of(&f, r, (uint32_t)s)->size_bytes, (to - from) * weight.slices[s].row_bytes);
            bytes += piece_of(&f, r, (uint32_t)s)->size_bytes;
        }
        bytes += count * 4096;
        row += count;
        const uint8_t *at[3] = {(const uint8_t *)"a", (const uint8_t *)"b", (const uint8_t *)"c"};
        struct matrix m = record_matrix(&weight, records, at, count);
        assert_true(m.rows == count && m.data == at[0] && m.scales == at[1] && m.biases == at[2] && m.group_row_offset == offset);
    }
    assert_int_equal(row, rows);
    assert_true(bytes >= plan_weight_bytes(&weight)); /* parts of an offset group may share a row of scales */
    assert_true(offset || bytes == plan_weight_bytes(&weight));
    end(&f);
}

static void parts_are_cut_at_groups(void **state) {
    (void)state;
    check_parts(1000, 128, 0, 1);
    check_parts(1024, 128, 0, 1);
    check_parts(1536, 600, 0, 1); /* a group longer than a part */
    check_parts(1000, 128, 64, 1);
    check_parts(3001, 8, 0, 2);
    check_parts(3000, 8, 4, 2);
}

/* Nine pieces: codes, scales and zero points of three matrices, every expert's at places of their own. */
static void single_experts_have_all_slices(void **state) {
    (void)state;
    enum { EXPERTS = 3 };
    struct fixture f;
    uint32_t weights[3];
    begin(&f);
    for (uint32_t w = 0; w < 3; w++) {
        struct plan_weight weight = {.format = MATRIX_INT_GROUPS, .rows = 64, .cols = 256, .experts = EXPERTS, .group_rows = 8};
        for (uint64_t s = 0; s < 3; s++)
            weight.slices[s] = (struct weight_slice){.row_bytes = 128 >> s, .group_rows = s == 2 ? 8 : 1};
        weight.expert_offsets = memory_alloc_array(EXPERTS, 2 * WEIGHT_SLICES * sizeof(uint64_t));
        for (uint64_t e = 0; e < EXPERTS; e++)
            for (uint64_t s = 0; s < 3; s++)
                weight.expert_offsets[2 * (e * WEIGHT_SLICES + s) + 1] = 1000000 * e + 100000 * w + 10000 * s;
        weights[w] = add_weight(&f, weight, "w");
    }
    cut(&f, OP_EXPERTS, weights, 3);
    assert_int_equal(f.table.record_count, EXPERTS);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        assert_int_equal(f.table.records[e].piece_count, 9);
        assert_int_equal(f.table.records[e].expert, e);
        for (uint32_t p = 0; p < 9; p++) {
            assert_int_equal(piece_of(&f, e, p)->offset_bytes, 1000000 * e + 100000 * (p / 3) + 10000 * (p % 3));
            assert_int_equal(piece_of(&f, e, p)->size_bytes, p % 3 == 2 ? 8 * 32 : 64 * (128 >> p % 3));
        }
    }
    for (uint32_t w = 0; w < 3; w++)
        assert_int_equal(f.table.weights[weights[w]].first_piece, 3 * w);
    end(&f);
}

/* Gate and up by turns in one tensor, as in gpt-oss: its bytes are read once and both matrices look into them. */
static void alternating_rows_are_read_once(void **state) {
    (void)state;
    struct fixture f;
    uint32_t weights[3];
    begin(&f);
    struct plan_weight weight = {.format = MATRIX_MXFP4_SPLIT, .rows = 32, .cols = 64, .experts = 2, .region_weights = 2, .group_rows = 1};
    for (uint64_t w = 0; w < 2; w++) {
        weight.slices[0] = (struct weight_slice){.row_bytes = 64, .first_bytes = 32 * w, .region_bytes = 2048, .expert_bytes = 2048};
        weight.slices[1] =
            (struct weight_slice){.offset_bytes = 65536, .row_bytes = 4, .first_bytes = 2 * w, .region_bytes = 128, .expert_bytes = 128};
        weights[w] = add_weight(&f, weight, w ? "up" : "gate");
    }
    struct plan_weight down = {.format = DTYPE_BF16, .rows = 64, .cols = 32, .experts = 2};
    down.slices[0] = (struct weight_slice){.offset_bytes = 131072, .row_bytes = 64, .expert_bytes = 4096};
    weights[2] = add_weight(&f, down, "down");
    cut(&f, OP_EXPERTS, weights, 3);
    assert_int_equal(f.table.records[1].piece_count, 3);
    assert_int_equal(piece_of(&f, 1, 0)->offset_bytes, 2048);
    assert_int_equal(piece_of(&f, 1, 0)->size_bytes, 2048);
    assert_int_equal(piece_of(&f, 1, 1)->offset_bytes, 65536 + 128);
    assert_int_equal(piece_of(&f, 1, 1)->size_bytes, 128);
    assert_int_equal(piece_of(&f, 1, 2)->offset_bytes, 131072 + 4096);
    static const uint8_t codes[2048], scales[128], last[4096];
    const uint8_t *pieces[3] = {codes, scales, last};
    struct matrix gate = record_matrix(&f.plan.weights[weights[0]], &f.table.weights[weights[0]], pieces, 32);
    struct matrix up = record_matrix(&f.plan.weights[weights[1]], &f.table.weights[weights[1]], pieces, 32);
    struct matrix third = record_matrix(&f.plan.weights[weights[2]], &f.table.weights[weights[2]], pieces, 64);
    assert_true(gate.data == codes && gate.scales == scales && gate.row_bytes == 64 && gate.scales_row_bytes == 4);
    assert_true(up.data == codes + 32 && up.scales == scales + 2 && up.row_bytes == 64 && up.scales_row_bytes == 4);
    assert_true(third.data == last && !third.scales);
    assert_int_equal(plan_weight_bytes(&f.plan.weights[weights[0]]) + plan_weight_bytes(&f.plan.weights[weights[1]]), 2048 + 128);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_cut_at_groups),
        cmocka_unit_test(single_experts_have_all_slices),
        cmocka_unit_test(alternating_rows_are_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
