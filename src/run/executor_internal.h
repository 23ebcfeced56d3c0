/*
 * executor_internal: what executor.c (walk), executor_weights.c (leases) and executor_experts.c (mixtures) share.
 */
#pragma once

#include "base/memory.h"
#include "run/executor.h"

struct bound_weight { /* parts of a weight; data is NULL where a lease is needed */
    struct matrix_part *parts;
    uint32_t part_count, record_parts; /* record_parts of them come with each record */
    uint32_t missing;                  /* parts without data */
};

struct experts_scratch {         /* sized for the largest experts step */
    struct expert_work *work;    /* [experts] */
    struct weight_lease *leases; /* [experts] */
    uint32_t *ids;               /* [experts] union, increasing */
    weight_id *wanted;           /* [experts] their records */
    uint32_t *first;             /* [experts + 1] place of an expert's rows in rows, ranks */
    uint32_t *rows, *ranks;      /* [max_rows * top_k] */
    uint32_t *pair_of;           /* [PARK_ROWS * top_k] */
    float *park;                 /* [PARK_ROWS * top_k][hidden] */
    weight_id *expected;         /* [experts] of the next mixture */
    uint32_t *votes;             /* [experts] rows that will probably choose one */
};

struct executor {
    struct executor_options options;
    struct memory_region arena;
    float *row_arena, *selected_arena;
    struct bound_weight *weights; /* [plan->weight_count] */
    struct matrix_part *parts;
    uint64_t losses;             /* of the store, when weights were bound */
    uint32_t missing;            /* of all weights that are no experts */
    struct op_row *rows;         /* [max_rows] */
    uint32_t *tokens, *selected; /* [max_rows] */
    uint32_t *row_numbers;       /* [max_rows] 0, 1, 2 .. */
    uint32_t row_count, selected_count;
    struct experts_scratch experts;
    uint32_t pair_limit;
    double **frequencies;              /* per rope of the plan: [half] for this context; one block of memory behind the pointers */
    uint8_t *table_rows;               /* [max_rows][row bytes] rows of an embedding table that is not in memory */
    struct weight_piece *table_pieces; /* [max_rows * slices] */
    uint8_t **table_targets;
    struct executor_stats stats;
    struct pass_costs *costs;
    bool costs_kept;          /* of the pass at hand */
    uint64_t cost_compute_ns; /* compute so far, at the end of the pass's last mixture */
    uint64_t cost_bytes;      /* missed by its mixtures so far */
    executor_trace *trace;
    void *trace_context;
};

#define PARK_ROWS 8 /* up to this many rows outputs wait for their turn; more rows take the experts in order */

/* Where a buffer of the plan lies; a step's buffers and constants, with their widths, into a call. */
float *executor_buffer(const struct executor *x, uint32_t buffer);
void executor_resolve_buffers(const struct executor *x, const struct plan_step *step, struct op_call *call);
/* Hands an op to the backend and counts its time. */
MUST_CHECK enum status executor_compute(struct executor *x, const struct op *op, const struct op_call *call, struct error *err);
/* Whether the owner asked to stop; and the status that says so. */
bool executor_cancelled(const struct executor *x);
MUST_CHECK enum status executor_was_cancelled(struct error *err);

/* executor_weights.c */
/* Notes where what stays lies; again whenever the store has lost some of it (store_losses). */
MUST_CHECK enum status executor_bind_weights(struct executor *x, struct error *err);
MUST_CHECK enum status executor_run_matmul(struct executor *x, const struct plan_step *step, struct op_call *call, struct error *err);
MUST_CHECK enum status executor_run_embed(struct executor *x, const struct plan_step *step, struct op_call *call, struct error *err);

/* executor_ahead.c: tells the store what the mixture after this one will probably want, where that can be told and pays. */
MUST_CHECK enum status executor_look_ahead(struct executor *x, const struct plan_step *step, struct error *err);

/* executor_experts.c */
/* The rank-th choice of a row, as a router writes it; the record of an expert of a mixture. */
uint32_t executor_routed(const float *routing, size_t width, size_t row, size_t rank);
weight_id executor_expert_record(const struct executor *x, const struct plan_step *step, uint32_t expert);
size_t experts_scratch_bytes(const struct plan *plan, uint32_t max_rows);
void experts_scratch_cut(struct experts_scratch *scratch, const struct plan *plan, uint32_t max_rows, uint8_t *memory);
MUST_CHECK enum status executor_run_experts(struct executor *x, const struct plan_step *step, struct op_call *call, struct error *err);
