/*
 * executor: walks the plan for a batch of rows: takes a lease for each weight, hands the op to the backend, attributes time.
 *
 * Model    A row is {sequence, position, parent, wants logits}: prompts, batches, drafts and trees are all rows. Rows of one sequence come
 *          in increasing position, each the child of the one before (branching trees: refused until a drafter needs them). Weights that
 *          stay in memory are bound at create, and anew when the store gave some of them back; for the others each step asks the store.
 *          Experts: the union of all rows is wanted at once; what is in memory is computed while the rest loads.
 * Result   rows that want logits get them, in row order, in the logits buffer, valid until the next run.
 * Threads  one owner. *cancel may be set from anywhere; it is looked at before every step and while waiting.
 * Memory   all of it at create.
 * Failure  after an error nothing of the pass counts: KV positions of its rows must be written again. The executor and store are clean.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "run/kv_cache.h"
#include "run/pass_costs.h"
#include "run/records.h"
#include "run/recurrent_state.h"
#include "store/weight_store.h"

#define ROW_NO_PARENT (-1)

struct row {
    uint32_t token, sequence, position;
    int32_t parent; /* row of this pass, or ROW_NO_PARENT: the sequence's last committed position */
    bool wants_logits;
};

struct executor_options {
    const struct plan *plan;            /* borrowed */
    uint32_t model;                     /* the plan's place among those of the records */
    const struct record_table *records; /* borrowed */
    struct weight_store *store;         /* borrowed, loaded */
    struct backend *backend;            /* borrowed */
    const struct kv_cache *kv;          /* borrowed */
    const struct kv_cache *target_kv;   /* a drafter: of its target, borrowed; else NULL */
    struct recurrent_state *recurrent;  /* borrowed; NULL where the plan has none */
    uint32_t max_rows, max_logit_rows;
    bool look_ahead;                      /* mixtures are told to the store before their layer, where its cache serves them */
    uint32_t context;                     /* positions that a sequence may have: some rotations depend on it (model/rope.h) */
    const atomic_bool *cancel;            /* or NULL */
    void (*between_steps)(void *context); /* or NULL: when nothing is wanted or leased, many times a pass; may limit the store */
    void *context_pointer;
};

struct executor;

/* Activation memory that create will take. */
uint64_t executor_arena_bytes(const struct plan *plan, uint32_t max_rows, uint32_t max_logit_rows);
/* Limits for a backend that serves all these plans. */
struct backend_limits executor_limits(const struct plan *const *plans, uint32_t plan_count, const struct kv_options *kv, uint32_t max_rows,
                                      bool exact);

/* *out is NULL on failure. Binds the weights that stay: the store must be loaded. */
MUST_CHECK enum status executor_create(const struct executor_options *options, struct executor **out, struct error *err);
void executor_destroy(struct executor *executor);

/* One pass. count in 1..max_rows, rows that want logits at most max_logit_rows. */
MUST_CHECK enum status executor_run(struct executor *executor, const struct row *rows, uint32_t count, struct error *err);
/* The same for a drafter's plan, whose rows come with vectors [count][width of the entry]: of the target, or of the drafter itself. */
struct executor_given {
    const float *vectors;
    bool own;
};
MUST_CHECK enum status executor_run_given(struct executor *executor, const struct row *rows, uint32_t count,
                                          const struct executor_given *given, struct error *err);
/* What a drafter reads of a row of the last pass, [plan->features_width]; the next rows lie behind it. */
const float *executor_features(const struct executor *executor, uint32_t row);
/*
 * Runs the last pass once more, with the same rows, and tells the first step that made a number that is not finite; *step is
 * PLAN_NONE when none did. For errors, and not for a drafter's plan: nothing of the pass counts any more, the sequence must go back.
 */
MUST_CHECK enum status executor_find_not_finite(struct executor *executor, uint32_t *step, struct error *err);
/* A sequence's states go back to `length` tokens, or nothing happens: STATUS_UNSUPPORTED (run/recurrent_state.h). */
MUST_CHECK enum status executor_rewind(struct executor *executor, uint32_t sequence, uint32_t length, struct error *err);
/* Whether windowed layers write over positions that are further back than a pass has rows. */
bool executor_forgets(const struct executor *executor);
/* Logits of the i-th row that wanted them: [vocab]. */
float *executor_logits(struct executor *executor, uint32_t index);

struct executor_stats {
    uint64_t passes, rows;
    uint64_t compute_ns; /* inside the backend */
    uint64_t total_ns;
    uint64_t step_ns[OP_KIND_COUNT];
};
void executor_stats_read(const struct executor *executor, struct executor_stats *out);
/* Of the last passes of one row that gave logits: decode, and the last token of some prompts. */
struct pass_costs *executor_costs(const struct executor *executor);
/* Called for every mixture before its experts are asked for, in the order of the plan, for traces. NULL turns it off. */
struct executor_wanted {
    int32_t layer;
    uint32_t position, rows; /* of the first row; of the pass */
    const uint32_t *experts; /* the union of the rows' choices, increasing */
    uint32_t count;
};
typedef void executor_trace(void *context, const struct executor_wanted *wanted);
void executor_set_trace(struct executor *executor, executor_trace *trace, void *context);
