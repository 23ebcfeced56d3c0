/*
 * plan: one pass of a model as an array of steps {op, buffers, weights, cost}, built once at load.
 *
 * The executor walks it, the streamer reads its future in it, memory is laid out from buffer lifetimes, --print-plan shows it. After
 * plan_finish nothing changes.
 *
 * Model      buffers are virtual registers of `width` f32 per row; plan_finish gives each an offset in one arena row by its lifetime.
 *            weights are matrices in files; run/records.h cuts them into records for the store. constants are small f32 vectors in
 *            memory. states are what a sequence keeps between passes, one per layer that has any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/byte_buffer.h"
#include "base/memory.h"
#include "base/status.h"
#include "dtype/matrix.h"
#include "model/rope.h"
#include "op/op.h"

#define PLAN_NONE UINT32_MAX
#define WEIGHT_SLICES 3    /* codes, scales, biases */
#define PLAN_AHEAD_STEPS 3 /* norm, product, router */

struct weight_slice {
    uint32_t file;
    uint64_t offset_bytes; /* of the first row (of expert 0) */
    uint64_t row_bytes;    /* per matrix row (per group_rows of them); 0: no such slice */
    uint64_t expert_bytes; /* from one expert to the next when stacked */
    /* Where rows of several weights lie mixed (gate and up by turns), or columns side by side: the bytes that are read for all of them.
     * offset_bytes is the region's, first_bytes the place of row 0 in it. 0: the rows alone. Weights of a step that name the same
     * region share one piece of the record. */
    uint64_t region_bytes, first_bytes;
    uint32_t group_rows; /* matrix rows that share a row of this slice; 0: 1 */
};

struct plan_weight {  /* [rows][cols], or `experts` of them */
    const char *name; /* "blk.3.attn_q", owned by the plan */
    int32_t layer;
    unsigned format; /* enum matrix_format */
    uint64_t rows, cols;
    struct weight_slice slices[WEIGHT_SLICES];
    enum dtype scale_dtype;
    uint32_t group_cols, group_rows, bits;
    uint32_t group_row_offset; /* row 0's place inside its group of slice rows */
    uint32_t col_bytes;        /* from one element of a row to the next when the file holds the matrix transposed; 0: side by side */
    uint32_t region_weights;   /* how many weights share the region */
    /* Rows that do not lie together (one half of a matrix for each head): runs of run_rows, run_step apart, from row run_first of the
     * slices on. run_rows 0: they lie together, row 0 is the slices' first. */
    uint32_t run_rows, run_step, run_first;
    float tensor_scale;
    uint32_t experts;         /* 0: a plain matrix */
    uint64_t *expert_offsets; /* [experts][WEIGHT_SLICES][2] {file, offset}: every expert is a tensor of its own; owned; NULL: stacked */
    float *expert_scales;     /* [experts] tensor scales when they differ, owned; NULL: tensor_scale for all */
    bool rows_only;           /* only single rows are needed (an embedding table that is not also the head) */
};

struct plan_buffer {
    const char *name;               /* literal */
    uint32_t width;                 /* f32 per row */
    uint32_t first_step, last_step; /* lifetime */
    uint64_t offset;                /* f32, within an arena row; set by plan_finish */
    bool selected_rows;             /* lives after SELECT_ROWS: one row per wanted logits row */
};

struct plan_step {
    struct op op;
    int32_t layer;
    uint32_t in[OP_BUFFERS_MAX], out[OP_BUFFERS_MAX];          /* buffers or PLAN_NONE */
    uint32_t weight[OP_WEIGHTS_MAX], constant[OP_WEIGHTS_MAX]; /* or PLAN_NONE */
    uint32_t ahead;                                            /* of a mixture: in aheads, or PLAN_NONE */
};

/* The router of the next mixture, asked at this one: its steps once more, where out[i] takes the place of their results. */
struct plan_ahead {
    uint32_t mixture; /* step whose experts it tells */
    uint32_t steps[PLAN_AHEAD_STEPS], out[PLAN_AHEAD_STEPS];
};

enum state_kind { STATE_KV, STATE_RECURRENT };

struct plan_state {
    enum state_kind kind;
    int32_t layer;
    uint32_t kv_heads, head_dim, v_dim; /* v_dim 0: keys alone */
    uint32_t window;                    /* 0: keeps everything */
    bool values_in_keys;                /* a value is the first v_dim elements of its key, and is not stored again */
    bool unrounded;                     /* f32 whatever the cache's type: another position or expert chosen costs more than memory */
    bool of_target;                     /* a drafter's: keys and values are the target's, in the state target_state of its plan */
    uint32_t target_state;
    uint64_t floats; /* RECURRENT: of one copy; the fields above are those of KV */
};

/* Vectors that come with a pass's rows and were computed by another pass: where they go, and the step that is then the first. */
struct plan_entry {
    uint32_t width; /* of a row; 0: there is no such entry */
    uint32_t buffer, first_step;
};

struct plan_constant {
    uint64_t offset; /* f32 in constants */
    uint32_t size;
};

struct plan {
    struct plan_step *steps;
    uint32_t step_count, step_capacity;
    struct plan_buffer *buffers;
    uint32_t buffer_count, buffer_capacity;
    struct plan_weight *weights;
    uint32_t weight_count, weight_capacity;
    struct plan_constant *constants;
    uint32_t constant_count, constant_capacity;
    float *constant_data; /* heap, grows while building */
    uint64_t constant_floats, constant_capacity_floats;
    struct plan_state *states;
    uint32_t state_count, state_capacity;
    struct rope_spec *ropes;
    uint32_t rope_count, rope_capacity;
    struct plan_ahead *aheads; /* set by plan_finish */
    uint32_t ahead_count;
    uint32_t logits;                          /* the output buffer, width vocab */
    uint32_t features, features_width;        /* what a drafter's next row reads, kept to the end of a pass; width 0: nobody does */
    struct plan_entry given, own;             /* a drafter: features of its target; of its own row before */
    uint32_t *target_tokens;                  /* a drafter with a vocabulary of its own: [vocab] ids of the target; owned; NULL: the same */
    uint32_t embedded;                        /* rows of the embedding table: ids that may come in */
    uint64_t row_floats, selected_row_floats; /* arena floats per row, set by plan_finish */
    uint32_t layers, hidden, vocab, top_k, experts, expert_layers;
};

void plan_deinit(struct plan *plan);

/* Building. All append and return the index in *out. */
MUST_CHECK enum status plan_add_buffer(struct plan *plan, const char *name, uint32_t width, uint32_t *out, struct error *err);
MUST_CHECK enum status plan_add_step(struct plan *plan, const struct plan_step *step, struct error *err);
MUST_CHECK enum status plan_add_weight(struct plan *plan, const struct plan_weight *weight, uint32_t *out,
                                       struct error *err); /* takes name, expert_offsets, expert_scales */
MUST_CHECK enum status plan_add_constant(struct plan *plan, const float *data, uint32_t size, uint32_t *out,
                                         struct error *err); /* copies */
MUST_CHECK enum status plan_add_state(struct plan *plan, const struct plan_state *state, uint32_t *out, struct error *err);
MUST_CHECK enum status plan_add_rope(struct plan *plan, const struct rope_spec *rope, uint32_t *out,
                                     struct error *err); /* takes its frequencies */

/* A step with everything set to PLAN_NONE. */
struct plan_step plan_step_of(enum op_kind kind, int32_t layer);
static inline const float *plan_constant_data(const struct plan *plan, uint32_t constant) {
    return constant == PLAN_NONE ? NULL : plan->constant_data + plan->constants[constant].offset;
}

/* Part of plan_finish (plan_ahead.c): finds the routers that can be asked early; lifetimes of the other buffers must be known. */
MUST_CHECK enum status plan_look_ahead(struct plan *plan, struct error *err);
/* Lifetimes -> offsets, checks that every buffer is written before it is read. */
MUST_CHECK enum status plan_finish(struct plan *plan, struct error *err);
/* Bytes that one token needs of a weight (experts: top_k of them) and in all. */
uint64_t plan_weight_bytes(const struct plan_weight *weight);
uint64_t plan_weight_total_bytes(const struct plan_weight *weight);
/* Rows of a slice that hold matrix rows [first, first + count). */
void plan_slice_rows(const struct plan_weight *weight, int slice, uint64_t first, uint64_t count, uint64_t *from, uint64_t *rows);
/* One line per step. */
MUST_CHECK enum status plan_print(const struct plan *plan, struct byte_buffer *out, struct error *err);
