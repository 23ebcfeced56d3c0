/*
 * kernel: pure functions on raw pointers, one table per instruction set, chosen once at start (kernel_select.c).
 *
 * ref/ is the definition of every result (formulas in docs/ARITHMETIC.md) and stays plain C for ever; avx2/, avx512/, amx/, neon/,
 * dotprod/ and i8mm/ fill in faster versions with the same bits. Rows are never summed together and no result depends on how many rows are
 * computed in one call, so that batch, chunk, thread count and instruction set cannot change a byte.
 *
 * Threads   pure; callers split rows, heads or tokens.
 * Memory    nothing is allocated; scratch comes from the caller. Pointers need no alignment unless said. Nothing past the end of an
 *           input is read (tests put inputs flush against a guard page).
 * Alias     outputs may not overlap inputs unless said.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu_info.h"
#include "dtype/dtype.h"
#include "dtype/function_kind.h"
#include "dtype/matrix.h"

/* ---- activations ---- */

/*
 * How a row of activations is handed to a product: f32 as it is, or int8 with one scale per block, quantised once per row:
 *   amax = max |x_i| over the block; amax < 2^-100: q = 0, d = 0; else q_i = clamp(rint(x_i * (127 / amax)), -127, 127), d = amax / 127.
 * block 0 means f32. A quantised row in memory: int8 q[cols rounded up to 64, zero filled], float d[blocks], int16 sums[cols / 16]
 * (sums of 16 q's), each part starting at a multiple of 64 bytes; offsets from activation_layout.
 */
struct activation_layout {
    unsigned block; /* 0 (f32), 32, 64, 128 or 256 */
    unsigned parts; /* rows like this, one after the other, that stand for one row of activations; 1 here, the backend may say 2 */
    size_t cols;
    size_t scales_offset_bytes, sums_offset_bytes, row_bytes; /* row_bytes is a multiple of 64; for f32: cols * 4 rounded up to 64 */
};
struct activation_layout activation_layout(unsigned block, size_t cols);
/* Block that a matrix format wants for its activations (0: f32). group_cols only matters for formats with companions. */
unsigned matrix_activation_block(unsigned format, uint32_t group_cols);
/*
 * How many quantised rows stand for one; with 2 the second holds what rounding left in the first: MATRIX_AFFINE and 4-bit floats.
 * Unpacking these weights costs more than multiplying them, so the second row is cheap.
 */
unsigned matrix_activation_parts(unsigned format);
/* left_i = x_i - q_i * d: what a quantised row (its first part) does not hold. left: [cols]. */
void activation_remainder(const float *x, const uint8_t *row, const struct activation_layout *layout, float *left);

struct matmul_args { /* y[t][r] = W[r] . x[t] for r in [row_begin, row_end), t in [0, tokens) */
    const struct matrix *w;
    size_t row_begin, row_end;
    const uint8_t *x; /* tokens rows in the layout that the format wants, or f32 rows for matmul_f32 */
    size_t x_row_bytes;
    size_t tokens;
    float *y;        /* [tokens][y_stride], element r of a row is output r of the matrix (not relative to row_begin) */
    size_t y_stride; /* elements */
};

#define MATMUL_MANY 5                                    /* rows of activations from which matmul_many is worth its unpacking */
size_t matmul_many_bytes(enum cpu_isa isa, size_t cols); /* of its scratch */

/* ---- attention ---- */

#define ATTENTION_TILE 128 /* key positions per tile, aligned at position 0 */

#define ATTENTION_QUERIES 128 /* query rows times heads that are worth handing over together: they share what is read and converted */

struct attention_range { /* positions that a query row sees: [begin, end), end > begin */
    size_t begin, end;
};

struct attention_args { /* some query rows of a sequence, one key head with the query heads that share it */
    const float *q;     /* [rows], q_stride floats apart: [group][head_dim] */
    size_t rows, q_stride, group, head_dim, v_dim;
    const void *const *k_tiles; /* per tile of the sequence: [128][k_stride bytes apart] keys of this head */
    const void *const *v_tiles;
    size_t k_stride_bytes, v_stride_bytes; /* from one position to the next */
    enum dtype kv_dtype;                   /* F16, or F32 in the oracle mode */
    const struct attention_range *ranges;  /* [rows] */
    const uint32_t *positions; /* NULL: all of these; else, of one row, [position_count] > 0 in increasing order, the others are masked */
    size_t position_count;
    float scale;        /* multiplies q.k */
    float softcap;      /* 0: none; else cap * tanh(s / cap) after the scale */
    const float *sinks; /* [group] or NULL */
    float *out;         /* [rows], out_stride floats apart: [group][v_dim] */
    size_t out_stride;
    float
        *parts; /* NULL: tiles are joined into out; else, with one row, each tile with any position leaves its part here, in their order */
    float *scratch; /* attention_scratch_floats(rows * group, head_dim, v_dim) */
};
size_t attention_scratch_floats(size_t queries, size_t head_dim, size_t v_dim);

/* What one tile gives: weighted values [group][v_dim], largest scores [group], sums [group]. */
size_t attention_part_floats(size_t group, size_t v_dim);

struct attention_join_args { /* parts of one row, in increasing order of their tiles, for the heads [head_begin, head_end) of the group */
    float *parts;            /* [count], count > 0; the first becomes what all give together */
    size_t count, group, v_dim, head_begin, head_end;
    const float *sinks; /* [group] or NULL */
    float *out;         /* [group][v_dim] the row's result; NULL: there are more parts to come */
};

/* ---- sparse index ---- */

struct index_args {       /* one query row against consecutive keys: scores[p] = sum over heads of weights[h] * max(0, q[h] . k[p]) */
    const float *q;       /* [heads][head_dim] */
    const float *weights; /* [heads] */
    size_t heads, head_dim;
    const void *keys; /* [count], stride_bytes apart */
    size_t stride_bytes;
    enum dtype kv_dtype; /* F16 or F32 */
    size_t count;
    float *scores; /* [count] */
};

/* ---- experts' router ---- */

#define ROUTER_EXPERTS_MAX 4096 /* of a row; a model with more is refused when it is opened */

struct router_args {           /* one row */
    const float *logits;       /* [experts] */
    const float *bias;         /* [experts] added for choosing only, or NULL */
    const float *expert_scale; /* [experts] multiplies the weights, last, or NULL */
    size_t experts, top_k;
    enum router_score score;
    size_t groups, top_groups; /* 0: no groups. Else experts are cut into `groups` equal runs and only the best top_groups take part */
    size_t group_score_count;  /* how many best members make a group's score: 1 (deepseek_v2), 2 (v3) */
    bool renormalise;          /* chosen weights are divided by their sum (guard 1e-20) */
    float scale;               /* multiplies the weights, once */
    uint32_t *ids;             /* [top_k] in increasing expert index */
    float *weights;            /* [top_k] */
    float *scratch;            /* [2 * experts + groups] */
};

struct gate_args {
    enum gate_kind kind;
    const float *gate;
    const float *up; /* NULL: the activation alone */
    float *y;        /* may be gate or up */
    size_t count;
    float a, b, c, d; /* SWIGLU_CLAMPED: a = alpha, b = limit. XIELU: a = alpha_p, b = alpha_n, c = beta, d = eps */
};

/* ---- recurrent layers ---- */

#define SHORT_CONV_TAPS_MAX 16

struct short_conv_args { /* one row, consecutive channels: y = f(bias + sum over taps of weights x), taps in the order given */
    const float *taps[SHORT_CONV_TAPS_MAX]; /* [tap_count] inputs, oldest first */
    size_t tap_count;
    const float *weights; /* of tap t at weights + t * weight_stride */
    size_t weight_stride;
    const float *bias; /* or NULL */
    bool silu;
    float *y;
    size_t count;
};

struct delta_rule_args { /* one row, one head: rows of its state, which is [rows][key_dim] */
    const float *before;
    float *after;       /* may be before */
    const float *q, *k; /* [key_dim] */
    const float *v;     /* [rows] */
    size_t rows, key_dim;
    float decay;         /* multiplies the state first, */
    const float *decays; /* [key_dim], or NULL: instead of it, one for each element of a key */
    float beta;          /* how much of the difference between v and what the state holds for k is stored; */
    bool plain;          /* beta times v itself */
    float scale;         /* multiplies what the state gives for q */
    float *out;          /* [rows] */
};

/* ---- the table ---- */

struct kernel_table {
    enum cpu_isa isa;

    /* x f32 [cols] -> one quantised row (layout above). cols is a multiple of block. */
    void (*quantize)(const float *x, size_t cols, unsigned block, uint8_t *row);
    /* Products by format; NULL: the format has no product yet. */
    void (*matmul[MATRIX_FORMAT_COUNT])(const struct matmul_args *args);
    /*
     * The same for many rows of activations: weights are unpacked once for all of them. False: nothing better for this matrix and so many
     * rows, nothing is done. scratch: matmul_many_bytes(isa, cols), 64-byte aligned. NULL at levels without.
     */
    bool (*matmul_many)(const struct matmul_args *args, uint8_t *scratch);
    /* Products with a matrix whose columns lie side by side (col_bytes > 0), F32, F16 and BF16; the same bits as from one that does not.
     * Scaled fp8: weights are decoded to f32 first. */
    void (*matmul_columns)(const struct matmul_args *args);
    /* The oracle: weights decoded to f32, f32 activations, 16-lane order; any decodable format. scratch: w->cols floats. */
    void (*matmul_f32)(const struct matmul_args *args, float *scratch);
    /* Row r of a matrix as f32 [cols]: embedding look-up, --dump. */
    void (*decode_row)(const struct matrix *w, size_t row, float *dst);

    /* y = x / sqrt(mean(x^2) + eps) * w; w NULL: no weight. y may be x. */
    void (*rms_norm)(const float *x, const float *w, float *y, size_t count, float eps);
    /* y = (x - mean) / sqrt(var + eps) * w + b; w, b may be NULL. y may be x. */
    void (*layer_norm)(const float *x, const float *w, const float *b, float *y, size_t count, float eps);
    /* y = x / sqrt(sum(x^2) + eps). y may be x. */
    void (*l2_norm)(const float *x, float *y, size_t count, float eps);
    /* Rotates the first 2 * half elements of each of `heads` vectors, `stride` floats apart, in place. pairs: (2i, 2i+1), else (i, i +
     * half). */
    void (*rope)(float *x, size_t heads, size_t stride, size_t half, const float *cos, const float *sin, bool pairs);
    void (*gate)(const struct gate_args *args);
    void (*add)(float *y, const float *x, size_t count);                      /* y += x */
    void (*multiply)(float *y, const float *x, size_t count);                 /* y *= x */
    void (*scale)(float *y, float factor, size_t count);                      /* y *= factor */
    void (*add_scaled)(float *y, const float *x, float factor, size_t count); /* y = fma(x, factor, y) */
    void (*softcap)(float *x, size_t count, float cap);                       /* x = cap * tanh(x / cap) */
    void (*softmax)(float *x, size_t count);                                  /* in place, 16-lane sum */
    void (*router)(const struct router_args *args);
    void (*attention)(const struct attention_args *args);
    void (*attention_join)(const struct attention_join_args *args);
    void (*short_conv)(const struct short_conv_args *args);
    void (*delta_rule)(const struct delta_rule_args *args);
    void (*index_scores)(const struct index_args *args);
    /* Positions of the k largest scores, 0 < k <= count, in increasing order; ties: the lower position. NaN counts as the smallest. */
    void (*select_top)(const float *scores, size_t count, size_t k, uint32_t *positions);
    void (*f16_from_f32)(const float *x, uint16_t *y, size_t count);
    void (*f32_from_f16)(const uint16_t *x, float *y, size_t count);

    /* For sampling. Ties: lowest index. NaN anywhere gives SIZE_MAX. */
    size_t (*argmax)(const float *x, size_t count);
    /* y_i = exp((x_i - max) * inverse_temperature); returns their sum in the 16-lane order. y may be x. */
    float (*exp_sum)(const float *x, float *y, size_t count, float max, float inverse_temperature);
};

/* The table of a level (missing entries filled from the level below). NULL when the machine lacks it. Constant. */
const struct kernel_table *kernel_table_for(enum cpu_isa isa);
