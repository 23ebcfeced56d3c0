/*
 * planner: splits a budget for the whole process into what the process itself needs, keys and values, activations, and weights in their
 * three lives; refuses what cannot work and says what would.
 *
 * Model     process = resident size now (tokenizer, catalogue and record table are there) + what is known to come (tables, stacks, rings).
 *           The prompt chunk is as large as memory allows: every chunk costs one pass over the weights. KV and activations come
 *           before weights; what is left goes to store/placement.h.
 */
#pragma once

#include "backend/backend.h"
#include "io/read_queue.h"
#include "model/model.h"
#include "run/executor.h"
#include "sluice.h"

struct memory_plan {
    sluice_plan plan;
    struct record_table records;
    struct placement placement;
    struct kv_options kv;
    struct cpu_backend_options backend;
    uint32_t max_rows, logit_rows;
    uint64_t reserve_bytes; /* --ram auto: what should stay free, so that pressure.h can watch it; 0: nothing is watched */
};

struct memory_request {                /* all borrowed */
    const struct model *const *models; /* the model, then its drafters: all share budget, records and backend */
    uint32_t model_count;
    uint32_t sequences; /* that have keys and values at a time, each options->context positions; >= 1 */
    const struct file_set *files;
    const sluice_load_options *options;
};
/* Fills *out (memory_plan_deinit, also after a failure). STATUS_OVER_BUDGET: out->plan.minimum_bytes is set. */
MUST_CHECK enum status memory_plan_make(const struct memory_request *request, struct memory_plan *out, struct error *err);
void memory_plan_deinit(struct memory_plan *plan);
