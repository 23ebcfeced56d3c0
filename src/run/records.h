/*
 * records: a plan's weights cut into records for the store, and the order in which a pass streams them.
 *
 * Model    a matrix becomes parts of whole rows of about PART_BYTES, so that the ring stays small and reads are large; all experts of a
 * layer become one record each, with the slices of gate, up and down as pieces. A table that is only read by rows (an embedding that is not
 * the head) has records only when everything is to be resident. Plans that need the same bytes share their records. Only the first plan
 * streams: what others use is resident, or cached where it is experts. Memory   arrays on the heap; the store borrows records and pieces.
 */
#pragma once

#include <stdint.h>

#include "model/plan.h"
#include "store/placement.h"
#include "store/weight_store.h"

#define PLANS_MAX 4 /* of one process: a model and its drafters */

struct weight_records {                  /* per weight of a plan */
    uint32_t first_record, record_count; /* 0 records: rows_only and not resident */
    uint64_t rows_per_record;            /* plain matrices */
    uint32_t parts_per_record;           /* matrices in a record: 1, or several runs of rows */
    uint32_t first_piece;                /* of slice 0 among the pieces of its records */
};

struct record_table {
    struct weight_record *records;
    struct placement_record *placements;
    struct weight_piece *pieces;
    uint32_t record_count, piece_count;
    struct weight_records *weights; /* of all plans, one after the other */
    uint32_t first_weight[PLANS_MAX];
    uint32_t *stream_order; /* records outside of experts, in the order of a pass */
    uint32_t stream_count;
    uint32_t part_count; /* matrices in records of plain weights */
};

/* plans: of a model, then of its drafters; their places here are the records' model numbers. with_row_tables: also for tables that are only
 * read by rows. */
MUST_CHECK enum status record_table_build(const struct plan *const *plans, uint32_t plan_count, const struct file_set *files,
                                          bool with_row_tables, struct record_table *out, struct error *err);
/* [weight_count] of one plan. */
static inline const struct weight_records *record_table_weights(const struct record_table *table, uint32_t plan) {
    return table->weights + table->first_weight[plan];
}
void record_table_deinit(struct record_table *table);
/* How many matrices the records of a plain weight hold. */
uint32_t record_part_count(const struct plan_weight *weight, const struct weight_records *records);
/* The part-th of them; pieces as leased with its record, which is part / parts_per_record. */
struct matrix_part record_part(const struct plan_weight *weight, const struct weight_records *records, uint32_t part,
                               const uint8_t *const *pieces);
/* The matrix of `rows` rows that a leased record holds for a weight; pieces as leased. */
struct matrix record_matrix(const struct plan_weight *weight, const struct weight_records *records, const uint8_t *const *pieces,
                            uint64_t rows);
