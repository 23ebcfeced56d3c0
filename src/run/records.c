/*
 * records: cutting.
 */
#include "run/records.h"

#include "base/check.h"
#include "base/memory.h"

#define PART_BYTES (2u << 20) /* a disk is busy with a few of these; a small ring holds several */

struct cut {
    const struct plan *const *plans;
    uint32_t plan_count;
    const struct plan *plan; /* the one being cut */
    uint32_t model;
    const struct file_set *files;
    bool with_row_tables;
    struct record_table *table; /* arrays are NULL while counting */
    uint32_t records, pieces, streamed, parts;
};

static void add_piece(struct cut *cut, const struct weight_piece *piece) {
    if (cut->table->pieces)
        cut->table->pieces[cut->pieces] = *piece;
    cut->pieces++;
}

/* Pieces of rows [first, first + count) of a weight (of one expert). */
static void add_pieces(struct cut *cut, const struct plan_weight *weight, uint32_t expert, uint64_t first, uint64_t count) {
    for (int s = 0; s < WEIGHT_SLICES; s++) {
        const struct weight_slice *slice = &weight->slices[s];
        if (slice->row_bytes == 0)
            continue;
        uint64_t from = 0, rows;
        plan_slice_rows(weight, s, first, count, &from, &rows);
        struct weight_piece piece = {
            .file = slice->file, .offset_bytes = slice->offset_bytes + expert * slice->expert_bytes, .size_bytes = rows * slice->row_bytes};
        if (slice->region_bytes) {
            CHECK(count == weight->rows);
            piece.size_bytes = slice->region_bytes;
        }
        if (weight->expert_offsets) {
            const uint64_t *place = weight->expert_offsets + 2 * ((uint64_t)expert * WEIGHT_SLICES + (uint64_t)s);
            piece.file = (uint32_t)place[0];
            piece.offset_bytes = place[1];
        }
        piece.offset_bytes += from * slice->row_bytes;
        add_piece(cut, &piece);
    }
}

static void close_record(struct cut *cut, const struct plan_weight *weight, int32_t expert, uint32_t first_piece) {
    if (cut->table->records) {
        struct weight_record *record = &cut->table->records[cut->records];
        CHECK(cut->pieces - first_piece <= STORE_PIECES_MAX);
        *record = (struct weight_record){.model = (uint16_t)cut->model,
                                         .piece_count = (uint16_t)(cut->pieces - first_piece),
                                         .first_piece = first_piece,
                                         .layer = weight->layer,
                                         .expert = expert,
                                         .name = weight->name};
        cut->table->placements[cut->records] = (struct placement_record){
            .memory_bytes = store_record_bytes(cut->files, record, cut->table->pieces), .expert = expert >= 0, .layer = weight->layer};
    }
    cut->records++;
}

static uint64_t rows_per_part(const struct plan_weight *weight) {
    if (weight->slices[0].region_bytes)
        return weight->rows;
    uint64_t rows = PART_BYTES / (weight->slices[0].row_bytes ? weight->slices[0].row_bytes : 1);
    uint64_t group = 1;
    for (int s = 0; s < WEIGHT_SLICES; s++) /* a part shares no slice row with another; one of them at most has groups */
        group = weight->slices[s].group_rows > group ? weight->slices[s].group_rows : group;
    CHECK(group == 1 || weight->group_row_offset % group == weight->group_row_offset);
    rows = rows / group * group;
    return rows < group ? group : rows;
}

static uint32_t slice_count(const struct plan_weight *weight) {
    uint32_t count = 0;
    for (int s = 0; s < WEIGHT_SLICES; s++)
        count += weight->slices[s].row_bytes > 0;
    return count;
}

/* Row of the slices where a run begins. */
static uint64_t run_place(const struct plan_weight *weight, uint64_t run) { return weight->run_first + run * weight->run_step; }

/* As many runs as make a part, and as a record has room for. */
static uint64_t runs_per_record(const struct plan_weight *weight) {
    uint64_t room = STORE_PIECES_MAX / slice_count(weight), runs = PART_BYTES / (weight->run_rows * weight->slices[0].row_bytes);
    CHECK(weight->rows % weight->run_rows == 0 && weight->run_rows <= weight->run_step && !weight->slices[0].region_bytes);
    runs = runs < 1 ? 1 : runs;
    return runs < room ? runs : room;
}

static struct weight_records *records_of(const struct cut *cut, uint32_t model, uint32_t index) {
    return cut->table->weights ? &cut->table->weights[cut->table->first_weight[model] + index] : NULL;
}

/* Whether two plain weights are the same bytes, read in the same way. */
static bool same_bytes(const struct plan_weight *a, const struct plan_weight *b) {
    bool same = !a->experts && !b->experts && a->format == b->format && a->rows == b->rows && a->cols == b->cols && a->bits == b->bits &&
                a->group_cols == b->group_cols && a->group_rows == b->group_rows && a->group_row_offset == b->group_row_offset &&
                a->col_bytes == b->col_bytes && a->run_rows == b->run_rows && a->run_step == b->run_step && a->run_first == b->run_first &&
                a->slices[0].region_bytes == 0 && b->slices[0].region_bytes == 0;
    for (int s = 0; s < WEIGHT_SLICES; s++)
        same = same && a->slices[s].file == b->slices[s].file && a->slices[s].offset_bytes == b->slices[s].offset_bytes &&
               a->slices[s].row_bytes == b->slices[s].row_bytes;
    return same;
}

/* The first plan's weight that is the same bytes; PLAN_NONE: none. */
static uint32_t first_with(const struct cut *cut, const struct plan_weight *weight) {
    for (uint32_t w = 0; w < cut->plans[0]->weight_count; w++)
        if (same_bytes(&cut->plans[0]->weights[w], weight))
            return w;
    return PLAN_NONE;
}

/* Whether a drafter uses a weight of the first plan too: then it must not stream, for their passes have no common order. */
static bool is_shared(const struct cut *cut, const struct plan_weight *weight) {
    for (uint32_t p = 1; p < cut->plan_count; p++)
        for (uint32_t w = 0; w < cut->plans[p]->weight_count; w++)
            if (same_bytes(&cut->plans[p]->weights[w], weight))
                return true;
    return false;
}

/* True: a weight of a drafter has the records of the same weight of its target. */
static bool take_over(struct cut *cut, uint32_t index) {
    const struct plan_weight *weight = &cut->plan->weights[index];
    struct weight_records *out = records_of(cut, cut->model, index);
    uint32_t same = cut->model > 0 ? first_with(cut, weight) : PLAN_NONE;
    if (!out || same == PLAN_NONE || records_of(cut, 0, same)->record_count == 0)
        return false;
    *out = *records_of(cut, 0, same);
    cut->parts += record_part_count(weight, out);
    return true;
}

static void cut_matrix(struct cut *cut, uint32_t index) {
    const struct plan_weight *weight = &cut->plan->weights[index];
    struct weight_records *out = records_of(cut, cut->model, index);
    bool streams = cut->model == 0 && !is_shared(cut, weight);
    uint64_t step = weight->run_rows ? (uint64_t)weight->run_rows * runs_per_record(weight) : rows_per_part(weight);
    if ((out && out->record_count > 0) || take_over(cut, index))
        return; /* used by an earlier step of the pass already, or by the target */
    if (out)
        *out = (struct weight_records){.first_record = cut->records,
                                       .record_count = (uint32_t)((weight->rows + step - 1) / step),
                                       .rows_per_record = step,
                                       .parts_per_record = weight->run_rows ? (uint32_t)(step / weight->run_rows) : 1};
    for (uint64_t row = 0; row < weight->rows; row += step) {
        uint32_t first_piece = cut->pieces;
        uint64_t end = row + step < weight->rows ? row + step : weight->rows;
        if (!weight->run_rows)
            add_pieces(cut, weight, 0, row, end - row);
        for (uint64_t at = row; weight->run_rows && at < end; at += weight->run_rows)
            add_pieces(cut, weight, 0, run_place(weight, at / weight->run_rows), weight->run_rows);
        if (streams && cut->table->stream_order)
            cut->table->stream_order[cut->streamed] = cut->records;
        cut->streamed += streams;
        cut->parts += weight->run_rows ? (uint32_t)((end - row) / weight->run_rows) : 1;
        close_record(cut, weight, -1, first_piece);
    }
}

/* Whether two weights are read as one. */
static bool same_region(const struct plan_weight *a, const struct plan_weight *b) {
    const struct weight_slice *x = &a->slices[0], *y = &b->slices[0];
    return x->region_bytes && x->region_bytes == y->region_bytes && x->file == y->file && x->offset_bytes == y->offset_bytes &&
           !a->expert_offsets == !b->expert_offsets;
}

static void cut_experts(struct cut *cut, const struct plan_step *step) {
    uint32_t experts = 0, first_record = cut->records;
    for (int w = 0; w < 3; w++)
        if (step->weight[w] != PLAN_NONE)
            experts = cut->plan->weights[step->weight[w]].experts;
    for (uint32_t e = 0; e < experts; e++) {
        uint32_t first_piece = cut->pieces, weight_piece = cut->pieces;
        const struct plan_weight *named = NULL, *before = NULL;
        for (int w = 0; w < 3; w++) {
            if (step->weight[w] == PLAN_NONE)
                continue;
            const struct plan_weight *weight = &cut->plan->weights[step->weight[w]];
            named = named ? named : weight;
            bool shared = before && same_region(before, weight);
            weight_piece = shared ? weight_piece : cut->pieces;
            if (cut->table->weights)
                *records_of(cut, cut->model, step->weight[w]) = (struct weight_records){.first_record = first_record,
                                                                                        .record_count = experts,
                                                                                        .rows_per_record = weight->rows,
                                                                                        .first_piece = weight_piece - first_piece};
            if (!shared)
                add_pieces(cut, weight, e, 0, weight->rows);
            before = weight;
        }
        close_record(cut, named, (int32_t)e, first_piece);
    }
}

/* Walks a plan in the order of a pass. */
static void cut_plan(struct cut *cut, uint32_t model) {
    cut->plan = cut->plans[model];
    cut->model = model;
    for (uint32_t s = 0; s < cut->plan->step_count; s++) {
        const struct plan_step *step = &cut->plan->steps[s];
        if (step->op.kind == OP_EXPERTS) {
            cut_experts(cut, step);
            continue;
        }
        for (int w = 0; w < OP_WEIGHTS_MAX; w++) {
            if (step->weight[w] == PLAN_NONE)
                continue;
            bool table = step->op.kind == OP_EMBED;
            if (!table || (cut->plan->weights[step->weight[w]].rows_only && cut->with_row_tables))
                cut_matrix(cut, step->weight[w]);
        }
    }
}

static void cut_all(struct cut *cut) {
    cut->records = cut->pieces = cut->streamed = cut->parts = 0;
    for (uint32_t model = 0; model < cut->plan_count; model++)
        cut_plan(cut, model);
}

enum status record_table_build(const struct plan *const *plans, uint32_t plan_count, const struct file_set *files, bool with_row_tables,
                               struct record_table *out, struct error *err) {
    *out = (struct record_table){0};
    struct cut cut = {.plans = plans, .plan_count = plan_count, .files = files, .with_row_tables = with_row_tables, .table = out};
    uint32_t weights = 0;
    CHECK(plan_count > 0 && plan_count <= PLANS_MAX);
    for (uint32_t model = 0; model < plan_count; weights += plans[model++]->weight_count)
        out->first_weight[model] = weights;
    cut_all(&cut);
    out->records = memory_alloc_array(cut.records + 1, sizeof *out->records);
    out->placements = memory_alloc_array(cut.records + 1, sizeof *out->placements);
    out->pieces = memory_alloc_array(cut.pieces + 1, sizeof *out->pieces);
    out->weights = memory_alloc_array(weights + 1, sizeof *out->weights);
    out->stream_order = memory_alloc_array(cut.streamed + 1, sizeof *out->stream_order);
    if (!out->records || !out->placements || !out->pieces || !out->weights || !out->stream_order) {
        record_table_deinit(out);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the table of %u weight records", cut.records);
    }
    cut_all(&cut);
    out->record_count = cut.records;
    out->piece_count = cut.pieces;
    out->stream_count = cut.streamed;
    out->part_count = cut.parts;
    return STATUS_OK;
}

void record_table_deinit(struct record_table *table) {
    memory_free(table->records);
    memory_free(table->placements);
    memory_free(table->pieces);
    memory_free(table->weights);
    memory_free(table->stream_order);
    *table = (struct record_table){0};
}

struct matrix record_matrix(const struct plan_weight *weight, const struct weight_records *records, const uint8_t *const *pieces,
                            uint64_t rows) {
    const uint8_t *at[WEIGHT_SLICES] = {NULL};
    for (uint32_t s = 0, piece = records->first_piece; s < WEIGHT_SLICES; s++)
        if (weight->slices[s].row_bytes)
            at[s] = pieces[piece++] + weight->slices[s].first_bytes;
    return (struct matrix){.format = weight->format,
                           .rows = rows,
                           .cols = weight->cols,
                           .data = at[0],
                           .row_bytes = weight->slices[0].row_bytes,
                           .col_bytes = weight->col_bytes,
                           .scales = at[1],
                           .biases = at[2],
                           .scales_row_bytes = weight->slices[1].row_bytes,
                           .scale_dtype = weight->scale_dtype,
                           .group_cols = weight->group_cols,
                           .group_rows = weight->group_rows,
                           .group_row_offset = weight->group_row_offset,
                           .bits = weight->bits,
                           .tensor_scale = weight->tensor_scale};
}

uint32_t record_part_count(const struct plan_weight *weight, const struct weight_records *records) {
    return weight->run_rows ? (uint32_t)(weight->rows / weight->run_rows) : records->record_count;
}

struct matrix_part record_part(const struct plan_weight *weight, const struct weight_records *records, uint32_t part,
                               const uint8_t *const *pieces) {
    if (!weight->run_rows) {
        uint64_t first = part * records->rows_per_record, left = weight->rows - first;
        uint64_t rows = left < records->rows_per_record ? left : records->rows_per_record;
        return (struct matrix_part){.matrix = record_matrix(weight, records, pieces, rows), .first_row = first};
    }
    uint32_t slices = slice_count(weight), run = part % records->parts_per_record;
    struct matrix_part result = {.matrix = record_matrix(weight, records, pieces + (size_t)run * slices, weight->run_rows),
                                 .first_row = (size_t)part * weight->run_rows};
    for (int s = 0; s < WEIGHT_SLICES; s++)
        if (weight->slices[s].group_rows > 1)
            result.matrix.group_row_offset = (uint32_t)(run_place(weight, part) % weight->slices[s].group_rows);
    return result;
}
