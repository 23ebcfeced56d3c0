/*
 * op: the instruction set of a pass. An op is a kind and its parameters; a call adds the data: rows, buffers, weights, states.
 *
 * Why separate   the plan (src/model) emits ops, the executor (src/run) resolves their data, a backend (src/backend) computes them. None
 *                of the three knows the others' types.
 * Model          a *buffer* is [rows][width] f32; widths are in the call. What in[] and out[] mean is written beside each kind.
 *                A *weight* is a matrix [out][in], cut into parts of whole rows; a call may bring only some of the parts.
 *                A *constant* is a small f32 vector that stays in memory (norm weights, biases).
 * Result         defined by docs/ARITHMETIC.md; the value for a row never depends on the other rows of the call.
 * Ownership      a call borrows everything until run returns.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "dtype/dtype.h"
#include "dtype/function_kind.h"
#include "dtype/matrix.h"

enum op_kind {
    OP_EMBED,       /* in: -  out: x            weight 0: table. Rows of the table times `scale` */
    OP_NORM,        /* in: x  out: y            constant 0: weight or none, 1: bias or none. In place: a longer row's start */
    OP_MATMUL,      /* in: x  out: y0 y1 y2..   weight i -> out i, constant i: bias or none */
    OP_UNPERMUTE,   /* out: x                   per head, elements stored as pairs (0, h/2), (1, h/2 + 1).. (GGUF llama) go back in order */
    OP_ROPE_TABLE,  /* in: -  out: t            t = [cos half][sin half] of the row's position */
    OP_ROPE,        /* in: t  out: x (in place) */
    OP_KV_WRITE,    /* in: k v                  rounds to the cache type and stores at the row's position; v may be missing */
    OP_ATTENTION,   /* in: q s  out: y          reads the cache of `state`; s: chosen positions or none; constant 0: sinks or none */
    OP_INDEX,       /* in: q w  out: s          the best positions by sum over heads of w max(q.k, 0): s = [count][positions], u32 bits,
                     * increasing; count 0: all */
    OP_HEAD_MATMUL, /* in: x  out: y           weight 0: a matrix for each head, times the head's own piece of x */
    OP_COPY_HEADS,  /* in: x  out: y            a piece of each head's x goes into the head's y */
    OP_GATE,        /* in: g u out: y           y = act(g) * u; u may be missing */
    OP_ADD,         /* in: x  out: y            y += x */
    OP_SCALE,       /* out: x                   x *= factor */
    OP_ADD_GATED,   /* in: x g  out: y          y = fma(x, sigmoid(g0), y), one g for a row (gate of a shared expert) */
    OP_TAKE_WEIGHT, /* in: x r  out: y q        y = x times the row's first routing weight; q = routing with weight 1; top_k 1 */
    OP_SCALE_BY_POSITION, /* out: x               x *= 1 + slope ln(1 + floor((position + offset) / period)) */
    OP_SCALE_VECTOR,      /* out: x                  x *= constant 0, element by element */
    OP_SOFTCAP,           /* out: x                   x = cap tanh(x / cap) */
    OP_ROUTER,        /* in: l  out: r            r = [top_k ids as u32 bits][top_k weights]; constants: bias, scale per expert, or none */
    OP_EXPERTS,       /* in: x r out: y           weights gate, up, down (work list), constants their biases [experts][rows]; y is set */
    OP_ZERO_EXPERTS,  /* in: x r out: y           y = fma(x, w, y) for each chosen expert whose id is `experts` or more */
    OP_MULTIPLY,      /* in: x  out: y            y *= x */
    OP_SHORT_CONV,    /* in: x  out: y            each channel over the row and the positions before it; constant 0: [kernel][channels],
                         oldest first, 1: bias or none; `state` keeps the last kernel - 1 inputs */
    OP_DECAY,         /* in: a  out: y            y = exp(rate softplus(a + bias)); constant 0: rate of each head, 1: bias */
    OP_DELTA_RULE,    /* in: x b a  out: y        x holds q, k, v of all heads; constant 0: decay rate of each head, 1: what is added to a,
                         2: how much of v is added to y, or none. Without b nothing is corrected (state space): what is stored is
                         v times the step */
    OP_KEEP_CLUSTERS, /* in: s  out: x           x holds a value for each token, s one for each cluster of tokens: x stays for the tokens
                        of the best clusters, the others get the smallest of those less 1; constant 0: the tokens, cluster by cluster */
    OP_SELECT_ROWS,   /* in: x  out: y            keeps the rows that want logits; later ops run on those only */
    OP_KIND_COUNT,
};

/* "matmul": for plans, timings and messages. Never NULL. */
const char *op_kind_name(enum op_kind kind);

enum norm_kind { NORM_RMS, NORM_LAYER, NORM_L2 /* by the sum of squares, no weight */ };

#define OP_BUFFERS_MAX 4
#define OP_WEIGHTS_MAX 4
#define OP_KEY_RATES_MAX 256 /* elements of a key with rates of their own */
#define OP_KERNEL_MAX 16 /* positions that a short convolution sees; kernel.h has the same limit */

struct op {
    enum op_kind kind;
    union {
        struct {
            float scale;
        } embed;
        struct {
            enum norm_kind norm;
            float epsilon;
            uint32_t vectors, size; /* a row is `vectors` vectors of `size`, each normalised alone with the same weight */
        } norm;
        struct {
            uint32_t outputs;
        } matmul;
        struct {
            uint32_t heads, head_dim;
        } unpermute;
        struct {
            uint32_t rope; /* index of the plan's rope specification */
            uint32_t half;
            uint32_t offset; /* added to the row's position */
        } rope_table;
        struct {
            uint32_t heads, head_dim, half;
            uint32_t offset; /* first rotated element of each head */
            bool pairs;      /* rotate (2i, 2i+1), else (i, i + half) */
        } rope;
        struct {
            uint32_t state, kv_heads, head_dim, v_dim; /* v_dim 0: keys alone */
        } kv_write;
        struct {
            uint32_t state, heads, kv_heads, head_dim, v_dim;
            uint32_t window; /* 0: all earlier positions */
            bool chunks;     /* positions fall into chunks of `window`; a row sees its own chunk up to itself */
            float scale, softcap;
            bool values_in_keys; /* a value is the first v_dim elements of its key */
        } attention;
        struct {
            uint32_t state, heads, head_dim, top_k;
        } index;
        struct {
            uint32_t heads, in_size, out_size; /* of one head's product */
            uint32_t in_stride, out_stride;    /* from one head's piece to the next */
            bool transposed; /* the weight is [heads * in_size][out_size], decoded to f32; else [heads * out_size][in_size] */
        } head_matmul;
        struct {
            uint32_t heads, size, in_offset, in_stride, out_offset, out_stride;
        } copy_heads;
        struct {
            enum gate_kind gate;
            float a, b, c, d;
            uint32_t u_offset; /* first element of u's row that is used */
            uint32_t repeat;   /* n > 1: each g serves n elements of u, in place, by its sigmoid */
        } gate;
        struct {
            float factor;
        } scale;
        struct {
            float slope;
            uint32_t offset, period;
        } scale_by_position;
        struct {
            float cap;
        } softcap;
        struct {
            uint32_t experts, top_k;
        } zero_experts;
        struct {
            uint32_t clusters, kept; /* all of one size */
        } keep_clusters;
        struct {
            uint32_t state, kernel, channels;
            /* x is `groups` groups, group_stride apart, each beginning with parts[0] + parts[1] + parts[2] channels; y, the constants and
             * the state hold part 0 of all groups, then part 1, then part 2 */
            uint32_t groups, group_stride, parts[3];
            uint32_t out_offset; /* first element of a row of y that is written */
            bool silu;
        } short_conv;
        struct {
            uint32_t state, heads, key_heads, key_dim, value_dim;
            uint32_t q_offset, k_offset, v_offset; /* in x: [key_heads][key_dim] twice, [heads][value_dim] */
            bool tiled;                            /* head h reads key head h % key_heads; else h / (heads / key_heads) */
            /* b and a of head h lie at offset + h / gate_group * gate_stride + h % gate_group */
            uint32_t gate_group, gate_stride, b_offset, a_offset;
            bool key_rates;     /* constant 0 has a rate for each element of a head's key, [heads][key_dim] */
            bool doubles;       /* b's sigmoid counts twice */
            bool steady;        /* there is no a: constant 0 is each head's decay itself, and v is stored as it is */
            bool channel_decay; /* a is the decay itself, [heads][key_dim]; constants 0 and 1 are not used */
            float least, most;  /* bounds of the step softplus(a + bias) */
            float scale;        /* multiplies what the state gives */
        } delta_rule;
        struct {
            uint32_t heads, size;
        } decay;
        struct {
            uint32_t experts, top_k;
            enum router_score score;
            uint32_t groups, top_groups, group_score_count;
            bool renormalise;
            float scale;
        } router;
        struct {
            uint32_t experts, top_k, hidden, expert_hidden;
            uint32_t zero_experts; /* ids from `experts` on that are not computed here */
            enum gate_kind gate;
            float a, b, c, d;
        } experts;
    };
};

/* Some consecutive rows of a weight, in memory. */
struct matrix_part {
    struct matrix matrix;
    size_t first_row; /* row of the whole weight */
};
struct weight_view {
    const struct matrix_part *parts; /* increasing first_row */
    size_t part_count;
};

/* One row of a pass. */
struct op_row {
    uint32_t token, position;
    uint32_t sequence;
};

/* Where one sequence's keys and values of one layer lie: tile pointers per key head, see run/kv_cache.h. */
struct kv_view {
    uint8_t *const *k_tiles; /* [tile]: [kv_heads][ATTENTION_TILE][head_dim] of kv_dtype */
    uint8_t *const *v_tiles; /* [tile]: [kv_heads][ATTENTION_TILE][v_dim]; the keys' where values are in the keys */
    enum dtype kv_dtype;
    /* a windowed layer's tiles wrap around: tile t lies at index t % tile_count when tile_count > 0 */
    uint32_t tile_count;
};

/* What one sequence's recurrent layer keeps: the copy that earlier passes left, which is only read, and the one that this pass leaves. At
 * position 0 the former is not read either: the state begins with zeros. */
struct recurrent_view {
    float *before, *after;
};

/* EXPERTS: all of a part at once; or gate and up, and then in the next call, with the same work, down. */
enum experts_stage { EXPERTS_WHOLE, EXPERTS_GATE_UP, EXPERTS_DOWN };

/* One expert of an experts call: which rows it serves and where its outputs go. */
struct expert_work {
    uint32_t expert;
    uint32_t row_count;
    const uint32_t *rows;                         /* [row_count] increasing row numbers of the call */
    const uint32_t *ranks;                        /* [row_count] place of this expert among the row's ids */
    uint32_t first_pair;                          /* its outputs are parked at park[first_pair ..), one per row; unused without parking */
    struct matrix gate, up, down;                 /* gate.data NULL: no gate (activation of up alone) */
    const float *gate_bias, *up_bias, *down_bias; /* NULL: none */
};

struct op_call {
    size_t rows;
    const struct op_row *row;
    float *in[OP_BUFFERS_MAX], *out[OP_BUFFERS_MAX];
    size_t in_width[OP_BUFFERS_MAX], out_width[OP_BUFFERS_MAX]; /* elements from one row to the next */
    struct weight_view weight[OP_WEIGHTS_MAX];
    const float *constant[OP_WEIGHTS_MAX];
    const double *inverse_frequencies;      /* ROPE_TABLE: [half] */
    float rope_magnitude;                   /* ROPE_TABLE: multiplies cos and sin */
    const struct kv_view *kv;               /* KV_WRITE, ATTENTION, INDEX: by sequence */
    const struct recurrent_view *recurrent; /* SHORT_CONV, DELTA_RULE: by sequence. A sequence's rows stand side by side */
    const uint32_t *selected;               /* SELECT_ROWS: [rows] row numbers of the input. EMBED: [rows] rows of the table */
    bool same_input;                        /* MATMUL, HEAD_MATMUL: in[0] holds what it held in the call before this one */
    /* EXPERTS: done in parts, each call brings the experts that are in memory */
    const struct expert_work *work;
    size_t work_count;
    float *park; /* [pairs][hidden]: outputs wait here, in any order, and are summed with the last part; NULL: experts come in increasing
                    index over all calls of the op and are added to y at once */
    const uint32_t *pair_of; /* with park: [rows][top_k], where the output of a row's k-th expert is parked; UINT32_MAX: it has none */
    bool first_part, last_part;
    enum experts_stage stage;
};

/* Checks parameters against the call's widths and weight shapes. Programmer errors; used by tests and debug builds. */
void op_check(const struct op *op, const struct op_call *call);
