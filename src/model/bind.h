/*
 * bind: from roles to tensors: finds them, checks shapes and formats, and puts weights and constants into the plan.
 *
 * Model    every tensor that is used is marked; what was required and is missing is collected, so that one error lists all of it.
 *          Fused tensors (q, k, v in one; gate and up in one) are bound as row ranges, stacked and single experts alike: no copy is made.
 * Errors   shape and format errors come at once and name tensor, found and needed shape; missing ones at bind_finish.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/byte_buffer.h"
#include "model/arch.h"
#include "model/plan.h"

struct binder {
    const struct catalogue *catalogue;
    const struct file_set *files;
    const struct arch_spec *arch;
    const struct params *params;
    struct role_names names;
    struct plan *plan;
    bool *used;                 /* per tensor of the catalogue */
    struct byte_buffer missing; /* names, one a line */
    uint32_t missing_count;
};

MUST_CHECK enum status bind_init(struct binder *binder, const struct catalogue *catalogue, const struct file_set *files,
                                 const struct arch_spec *arch, const struct params *params, struct plan *plan, struct error *err);
/* For the names of a drafter: finding them is the caller's business. */
MUST_CHECK enum status bind_init_named(struct binder *binder, const struct binder *like, const struct role_names *names, struct error *err);
void bind_deinit(struct binder *binder);
/* STATUS_NOT_FOUND with the list of what is missing. */
MUST_CHECK enum status bind_finish(struct binder *binder, struct error *err);
/* Names of tensors nobody uses, up to `limit`, one a line. Returns how many there are. */
MUST_CHECK enum status bind_unused(const struct binder *binder, uint32_t limit, struct byte_buffer *out, uint64_t *count,
                                   struct error *err);

struct bind_matrix_request {
    enum role role;
    uint32_t layer;
    uint64_t rows, cols;
    enum role fused;                      /* ROLE_COUNT: none. Else the tensor that may hold these rows among others */
    uint64_t fused_first_row, fused_rows; /* where they begin there, and how many rows it has in all */
    bool optional;
};
/* *weight is PLAN_NONE when an optional matrix is not there, or a required one is missing (noted for bind_finish). */
MUST_CHECK enum status bind_matrix(struct binder *binder, const struct bind_matrix_request *request, uint32_t *weight, struct error *err);
/* The bias that belongs to a matrix of the same request, or PLAN_NONE. */
MUST_CHECK enum status bind_bias(struct binder *binder, const struct bind_matrix_request *request, uint32_t *constant, struct error *err);

/*
 * A matrix for each head, [rows][cols] each. From a role's stack: [heads][rows][cols] or [heads * rows][cols]; the weight has heads * rows
 * rows. Else from rows [first, first + rows) of each head's `step` rows of another role's matrix [heads * step][cols].
 * *weight is PLAN_NONE when there is no such tensor.
 */
struct bind_heads_request {
    enum role role;
    uint32_t layer, heads;
    uint64_t rows, cols;
    uint32_t first, step; /* step 0: a stack */
};
MUST_CHECK enum status bind_heads(struct binder *binder, const struct bind_heads_request *request, uint32_t *weight, struct error *err);
/* Notes a tensor that is needed and missing, for bind_finish. */
MUST_CHECK enum status bind_missing(struct binder *binder, enum role role, uint32_t layer, struct error *err);

/* One of the three matrices of all experts of a layer: stacked, or a tensor each. fused as above, per expert. */
MUST_CHECK enum status bind_experts(struct binder *binder, const struct bind_matrix_request *request, uint32_t experts, uint32_t *weight,
                                    struct error *err);
/* The biases of the same experts as one constant [experts][rows], or PLAN_NONE. */
MUST_CHECK enum status bind_expert_bias(struct binder *binder, const struct bind_matrix_request *request, uint32_t experts,
                                        uint32_t *constant, struct error *err);
/* Rows of a role's matrix (of its first expert) as its tensor says, 0: there is no such tensor. Marks nothing. */
uint64_t bind_rows(const struct binder *binder, enum role role, uint32_t layer);

/* Whether the norms of layers and of q and k are stored as w - 1. */
bool bind_norm_adds_one(const struct binder *binder);

/* A vector as f32; its size is checked unless 0. add_one for norms of the Hugging Face world that are stored around 0. */
struct bind_vector_request {
    enum role role;
    const char *suffix; /* ".weight", ".bias" */
    uint32_t layer;
    uint64_t size;
    bool optional, add_one;
};
MUST_CHECK enum status bind_vector(struct binder *binder, const struct bind_vector_request *request, uint32_t *constant, struct error *err);
/* Whole numbers of a small tensor, each below `limit` (the caller frees them); as many as it has. STATUS_CORRUPT: a larger or negative one.
 */
MUST_CHECK enum status bind_read_ids(struct binder *binder, enum role role, uint32_t layer, uint64_t size, uint64_t limit, uint32_t **out,
                                     struct error *err);
/* Size of the vector a role has, 0: none. Marks nothing. */
uint64_t bind_vector_size(const struct binder *binder, enum role role, uint32_t layer, const char *suffix);
