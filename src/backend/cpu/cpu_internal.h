/*
 * cpu_internal: what the files of the CPU backend share.
 *
 * Memory   one scratch region, cut at create: areas are sized for the largest call (backend_limits).
 */
#pragma once

#include "backend/backend.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernel/kernel.h"

#define CPU_PACKED_CHUNK 128 /* outputs that a thread takes at a time of what is packed by columns: whole cache lines of every input */
#define CPU_MANY_ROWS 32     /* outputs that are unpacked together for many rows: a thread takes a multiple of it */
#define CPU_DOWN_ROWS 64     /* rows of a down product that a thread computes before it adds them */
#define CPU_SPLIT_SHORT 32   /* rows in two parts that are multiplied together meet so many outputs, */
#define CPU_SPLIT_LONG 128   /* and are so many; or, where there are no more than the first of these, the other way round */
#define CPU_PARTS_FLOATS ((size_t)1 << 20) /* of parts of attention, within these bounds of tiles of one row: */
#define CPU_PARTS_LEAST 8
#define CPU_PARTS_MOST 64
#define CPU_HEAD_TOKENS 8 /* rows of a call for which a transposed head is decoded once */

struct cpu_worker {                  /* scratch of one thread */
    float *decode;                   /* [matmul_cols] the oracle's decoded row */
    uint8_t *many;                   /* matmul_many_bytes */
    float *attention;                /* attention_scratch_floats */
    const void **k_tiles, **v_tiles; /* [attention_tiles] */
    struct attention_range *ranges;  /* [ATTENTION_QUERIES] */
    float *router;                   /* [3 * experts] */
    float *head;                     /* [attention_head_dim] un-permuting */
    float *head_lanes;               /* [1 + 16 * CPU_HEAD_TOKENS][transposed_outputs] a decoded row, then lanes of sums */
    float *index_scores;             /* [attention_tiles * ATTENTION_TILE] of one row */
    float *partial;                  /* [pairs][CPU_DOWN_ROWS] */
    float *left;                     /* [matmul_cols] what the first part of a row left */
    float *both;                     /* [2 * CPU_SPLIT_SHORT * CPU_SPLIT_LONG] products with both parts */
};

struct cpu_backend {
    struct backend base;
    struct thread_pool *pool;
    const struct kernel_table *kernels;
    struct backend_limits limits;
    struct memory_region scratch;
    struct cpu_worker *workers;
    uint8_t *inputs;                        /* [rows] quantised inputs of a product */
    unsigned inputs_activation;             /* 0: they hold nothing of the input that same_input speaks of */
    struct activation_layout inputs_layout; /* what `inputs` holds, for same_input */
    uint8_t *expert_inputs[2];              /* [rows] quantised inputs of gate and up */
    uint8_t *gathered[2];                   /* [pairs] inputs of one expert's rows side by side */
    uint8_t *hidden_inputs;                 /* [pairs] quantised inputs of down products */
    float *hidden[2];                       /* [pairs][expert_hidden] gate and up */
    uint32_t *runs;                         /* [rows + 1] first rows of the sequences of a call */
    float *parts;                           /* [parts_floats] what tiles of attention gave, where threads share them out */
    size_t parts_floats;
};

/* Products of rows [row_begin, row_end) of a matrix for inputs as cpu_activation says, in so many parts. */
void cpu_product(const struct cpu_backend *cpu, const struct matmul_args *args, unsigned parts, unsigned worker);
/*
 * How this backend takes activations for a matrix: 0: f32, as always in exact mode; else the block of a quantised row, plus CPU_TWO_PARTS
 * when a second such row follows, which holds what rounding left.
 */
#define CPU_TWO_PARTS 1u
static inline unsigned cpu_activation_parts(unsigned activation) { return activation & CPU_TWO_PARTS ? 2 : 1; }
unsigned cpu_activation_of(unsigned format, uint32_t group_cols);
unsigned cpu_activation(const struct cpu_backend *cpu, const struct matrix *w);
struct activation_layout cpu_activation_layout(unsigned activation, size_t cols);
/* Quantises rows in parallel. x: rows `x_stride` floats apart. */
void cpu_quantize_rows(struct cpu_backend *cpu, const float *x, size_t x_stride, size_t rows, const struct activation_layout *layout,
                       uint8_t *out);

void cpu_run_matmul(struct cpu_backend *cpu, const struct op *op, const struct op_call *call);
void cpu_run_attention(struct cpu_backend *cpu, const struct op *op, const struct op_call *call);
void cpu_run_kv_write(struct cpu_backend *cpu, const struct op *op, const struct op_call *call);
void cpu_run_index(struct cpu_backend *cpu, const struct op *op, const struct op_call *call);
void cpu_run_head_matmul(struct cpu_backend *cpu, const struct op *op, const struct op_call *call);
void cpu_run_copy_heads(struct cpu_backend *cpu, const struct op *op, const struct op_call *call);
void cpu_run_short_conv(struct cpu_backend *cpu, const struct op *op, const struct op_call *call);
void cpu_run_decay(struct cpu_backend *cpu, const struct op *op, const struct op_call *call);
void cpu_run_delta_rule(struct cpu_backend *cpu, const struct op *op, const struct op_call *call);
void cpu_run_experts(struct cpu_backend *cpu, const struct op *op, const struct op_call *call);
void cpu_run_rows(struct cpu_backend *cpu, const struct op *op, const struct op_call *call); /* everything that works row by row */
