/*
 * executor_weights: products with weights that stay, weights that stream, and rows of tables that are only on disk.
 */
#include <string.h>

#include "base/check.h"
#include "run/executor_internal.h"

/*
 * While what stays is computed, the disk may run out of reads: where others stream, passes of few rows, which take as long as their reads,
 * look at them every 8 MiB or so. Longer passes compute longer than the disk reads.
 */
#define ROWS_LOOKING 8
#define PARTS_PER_LOOK 4

static uint32_t parts_of_record(const struct bound_weight *bound, uint32_t record) {
    uint32_t left = bound->part_count - record * bound->record_parts;
    return left < bound->record_parts ? left : bound->record_parts;
}

/* The parts that a leased record holds; returns how many. */
static uint32_t record_parts(const struct plan_weight *weight, const struct weight_records *records, const struct bound_weight *bound,
                             uint32_t record, const struct weight_lease *lease, struct matrix_part *out) {
    uint32_t first = record * bound->record_parts, count = parts_of_record(bound, record);
    for (uint32_t i = 0; i < count; i++)
        out[i] = record_part(weight, records, first + i, lease->pieces);
    return count;
}

/* The pin adds nothing: what is resident stays until the store tells of losses. */
static enum status bind_record(struct executor *x, uint32_t w, uint32_t record, struct error *err) {
    const struct weight_records *records = &record_table_weights(x->options.records, x->options.model)[w];
    struct bound_weight *bound = &x->weights[w];
    struct matrix_part *parts = bound->parts + record * bound->record_parts;
    weight_id id = records->first_record + record;
    if (store_life(x->options.store, id) != WEIGHT_RESIDENT) {
        uint32_t count = parts_of_record(bound, record);
        memset(parts, 0, count * sizeof *parts);
        bound->missing += count;
        return STATUS_OK;
    }
    struct weight_lease lease;
    TRY(store_acquire(x->options.store, id, &lease, err));
    (void)record_parts(&x->options.plan->weights[w], records, bound, record, &lease, parts);
    store_release(x->options.store, &lease);
    return STATUS_OK;
}

enum status executor_bind_weights(struct executor *x, struct error *err) {
    const struct plan *plan = x->options.plan;
    const struct record_table *table = x->options.records;
    uint32_t used = 0;
    x->missing = 0;
    for (uint32_t w = 0; w < plan->weight_count; w++) {
        const struct weight_records *records = &record_table_weights(table, x->options.model)[w];
        if (plan->weights[w].experts || records->record_count == 0)
            continue;
        struct bound_weight *bound = &x->weights[w];
        *bound = (struct bound_weight){.parts = x->parts + used,
                                       .part_count = record_part_count(&plan->weights[w], records),
                                       .record_parts = records->parts_per_record};
        used += bound->part_count;
        CHECK(used <= table->part_count);
        for (uint32_t r = 0; r < records->record_count; r++)
            TRY(bind_record(x, w, r, err));
        x->missing += bound->missing;
    }
    x->losses = store_losses(x->options.store);
    return STATUS_OK;
}

/* A record that was streamed when weights were bound, and has come to stay. */
static void bind_late(struct executor *x, struct bound_weight *bound, uint32_t record, const struct matrix_part *parts) {
    uint32_t count = parts_of_record(bound, record);
    memcpy(bound->parts + record * bound->record_parts, parts, count * sizeof *parts);
    bound->missing -= count;
    x->missing -= count;
}

/*
 * One output whose weight is at least partly on disk: runs of resident parts together, streamed parts one by one. Or one of a
 * pass that looks at its reads: then all may be in memory.
 */
static enum status run_streamed(struct executor *x, const struct plan_step *step, int output, const struct op_call *all, bool *same_input,
                                struct error *err) {
    const struct plan *plan = x->options.plan;
    const struct plan_weight *weight = &plan->weights[step->weight[output]];
    const struct weight_records *records = &record_table_weights(x->options.records, x->options.model)[step->weight[output]];
    struct bound_weight *bound = &x->weights[step->weight[output]];
    struct op op = step->op;
    if (op.kind == OP_MATMUL)
        op.matmul.outputs = 1;
    struct op_call call = *all;
    call.out[0] = all->out[output];
    call.out_width[0] = all->out_width[output];
    call.constant[0] = all->constant[output];
    uint32_t most = all->rows <= ROWS_LOOKING ? PARTS_PER_LOOK : bound->part_count;
    for (uint32_t p = 0; p < bound->part_count;) {
        uint32_t run = p;
        while (run < bound->part_count && run - p < most && bound->parts[run].matrix.data)
            run++;
        struct weight_lease lease = {0};
        struct matrix_part streamed[STORE_PIECES_MAX];
        uint32_t count = run - p;
        if (run > p) {
            call.weight[0] = (struct weight_view){.parts = bound->parts + p, .part_count = run - p};
        } else {
            if (executor_cancelled(x))
                return executor_was_cancelled(err);
            uint32_t record = p / bound->record_parts;
            TRY(store_acquire(x->options.store, records->first_record + record, &lease, err));
            count = record_parts(weight, records, bound, record, &lease, streamed);
            if (store_life(x->options.store, lease.id) == WEIGHT_RESIDENT)
                bind_late(x, bound, record, streamed);
            call.weight[0] = (struct weight_view){.parts = streamed, .part_count = count};
        }
        call.same_input = *same_input;
        enum status status = executor_compute(x, &op, &call, err);
        if (run == p)
            store_release(x->options.store, &lease);
        else
            store_poll(x->options.store);
        TRY(status);
        *same_input = true;
        p += count;
    }
    return STATUS_OK;
}

enum status executor_run_matmul(struct executor *x, const struct plan_step *step, struct op_call *call, struct error *err) {
    uint32_t outputs = step->op.kind == OP_MATMUL ? step->op.matmul.outputs : 1;
    bool resident = true, same_input = false;
    for (uint32_t o = 0; o < outputs; o++) {
        const struct bound_weight *bound = &x->weights[step->weight[o]];
        resident = resident && bound->missing == 0;
        call->weight[o] = (struct weight_view){.parts = bound->parts, .part_count = bound->part_count};
    }
    if (resident && (x->missing == 0 || call->rows > ROWS_LOOKING))
        return executor_compute(x, &step->op, call, err);
    for (uint32_t o = 0; o < outputs; o++)
        TRY(run_streamed(x, step, (int)o, call, &same_input, err));
    return STATUS_OK;
}

/* Reads the rows' slices from disk; *table becomes a matrix with one row per row of the pass. */
static enum status read_table_rows(struct executor *x, uint32_t index, struct matrix_part *table, struct error *err) {
    const struct plan_weight *weight = &x->options.plan->weights[index];
    uint8_t *areas[WEIGHT_SLICES] = {NULL}, *area = x->table_rows;
    uint32_t count = 0;
    for (int s = 0; s < WEIGHT_SLICES; s++) {
        uint64_t row_bytes = weight->slices[s].row_bytes, from, rows;
        if (row_bytes == 0)
            continue;
        areas[s] = area;
        for (uint32_t r = 0; r < x->row_count; r++, area += row_bytes) {
            plan_slice_rows(weight, s, x->tokens[r], 1, &from, &rows);
            x->table_pieces[count] = (struct weight_piece){
                .file = weight->slices[s].file, .size_bytes = row_bytes, .offset_bytes = weight->slices[s].offset_bytes + from * row_bytes};
            x->table_targets[count++] = area;
        }
    }
    TRY(store_read_ranges(x->options.store, x->table_pieces, count, x->table_targets, err));
    struct weight_records place = {.first_piece = 0};
    const uint8_t *pieces[WEIGHT_SLICES];
    uint32_t slices = 0;
    for (int s = 0; s < WEIGHT_SLICES; s++)
        if (areas[s])
            pieces[slices++] = areas[s];
    *table = (struct matrix_part){.matrix = record_matrix(weight, &place, pieces, x->row_count)};
    table->matrix.group_rows = table->matrix.group_rows ? 1 : 0; /* every row came with its own scales */
    table->matrix.group_row_offset = 0;
    return STATUS_OK;
}

enum status executor_run_embed(struct executor *x, const struct plan_step *step, struct op_call *call, struct error *err) {
    const struct bound_weight *bound = &x->weights[step->weight[0]];
    struct matrix_part table;
    if (bound->part_count > 0 && bound->missing == 0) {
        call->selected = x->tokens;
        call->weight[0] = (struct weight_view){.parts = bound->parts, .part_count = bound->part_count};
        return executor_compute(x, &step->op, call, err);
    }
    TRY(read_table_rows(x, step->weight[0], &table, err));
    call->selected = x->row_numbers;
    call->weight[0] = (struct weight_view){.parts = &table, .part_count = 1};
    return executor_compute(x, &step->op, call, err);
}
