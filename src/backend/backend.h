/*
 * backend: computes ops. cpu/ is the reference and the only one that is always there; the list of backends is in backend.c.
 *
 * Threads   one owner thread; a backend may use a thread pool of its own.
 * Memory    scratch is allocated at create for the largest call (backend_limits); run allocates nothing.
 * Failure   run fails only for reasons of the world (a device that is gone); on the CPU it cannot fail.
 */
#pragma once

#include <stdbool.h>

#include "base/cpu_info.h"
#include "base/status.h"
#include "op/op.h"

struct backend_limits { /* the largest calls that will be made; 0 where a kind of call never is */
    bool exact;         /* the oracle: decoded f32 weights, f32 activations */
    bool two_parts;     /* set by backend_limits_add_*: some weights take activations in two parts */
    size_t rows;
    size_t matmul_cols;                             /* widest input of a product */
    size_t input_row_bytes, expert_input_row_bytes; /* widest prepared input row of a product, of an experts' product; set by add_weight */
    size_t hidden_row_bytes;                        /* widest prepared input row of an experts' down product; set by add_weight */
    size_t attention_heads, attention_group, attention_head_dim, attention_v_dim,
        attention_tiles;        /* query heads, and of them per key head; tiles of the longest sequence */
    size_t unpermuted_head_dim; /* of a head that is un-permuted */
    size_t transposed_outputs;  /* most outputs of a transposed head */
    bool index;                 /* there are OP_INDEX calls */
    size_t experts, top_k, expert_hidden;
    bool recurrent; /* there are calls that go through sequences */
};
enum weight_use { WEIGHT_IN_MATMUL, WEIGHT_OF_EXPERT_INPUT, WEIGHT_OF_EXPERT_DOWN };
/* Widens the limits for products with a weight of `cols` columns. */
void backend_limits_add_weight(struct backend_limits *limits, enum weight_use use, unsigned format, uint32_t group_cols, size_t cols);
/* The same for products by heads. */
void backend_limits_add_heads(struct backend_limits *limits, const struct op *op, unsigned format, uint32_t group_cols);
/* (row, expert) pairs that one experts call may bring. */
size_t backend_pair_limit(const struct backend_limits *limits);

struct backend;
struct backend_operations {
    const char *name;
    MUST_CHECK enum status (*run)(struct backend *backend, const struct op *op, const struct op_call *call, struct error *err);
    void (*destroy)(struct backend *backend);
};
struct backend {
    const struct backend_operations *operations;
};

struct cpu_backend_options {
    unsigned threads; /* >= 1 */
    enum cpu_isa isa; /* available on this machine */
    struct backend_limits limits;
};
/* False: this machine, or this version, lacks the level. */
bool cpu_backend_available(enum cpu_isa isa);
/* False: the format has no product at this level (exact mode has all that can be decoded). */
bool cpu_backend_supports(enum cpu_isa isa, bool exact, unsigned format);
/* Bytes of scratch that create will take, for the planner. */
size_t cpu_backend_scratch_bytes(const struct cpu_backend_options *options);
MUST_CHECK enum status cpu_backend_create(const struct cpu_backend_options *options, struct backend **out, struct error *err);

static inline enum status backend_run(struct backend *b, const struct op *op, const struct op_call *call, struct error *err) {
    return b->operations->run(b, op, call, err);
}
static inline void backend_destroy(struct backend *b) {
    if (b)
        b->operations->destroy(b);
}
