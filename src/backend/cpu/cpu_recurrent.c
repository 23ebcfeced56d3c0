/*
 * cpu_recurrent: ops that go through a sequence row by row, each row with what the one before left: short convolutions, the delta rule.
 * Parallel over the sequences of the pass and over channels or heads, which do not meet.
 *
 * Model   a *run* is the rows of one sequence in the pass; they stand side by side (run/recurrent_state.h checks it).
 */
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "base/check.h"
#include "kernel/math.h"

#define BLOCK_CHANNELS 512 /* of a convolution that a thread takes together */
#define PIECE_ROWS 8       /* of a head's state that a thread takes at least */

struct recurrent_job {
    const struct cpu_backend *cpu;
    const struct op *op;
    const struct op_call *call;
    size_t run_count, items;   /* items: of one run */
    size_t pieces, piece_rows; /* delta rule: a head's state is cut into pieces of piece_rows */
};

/* Fills cpu->runs with the first row of each run, and the end; returns how many there are. */
static size_t find_runs(const struct cpu_backend *cpu, const struct op_call *call) {
    size_t count = 0;
    CHECK(cpu->runs && call->rows <= cpu->limits.rows);
    for (size_t r = 0; r < call->rows; r++)
        if (r == 0 || call->row[r].sequence != call->row[r - 1].sequence)
            cpu->runs[count++] = (uint32_t)r;
    cpu->runs[count] = (uint32_t)call->rows;
    return count;
}

/* ---- short convolution ---- */

struct channels {
    size_t in, out, count; /* element of a row of x, channel */
};

static size_t blocks_of(size_t channels) { return (channels + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS; }

static size_t blocks_of_group(const struct op *op) {
    return blocks_of(op->short_conv.parts[0]) + blocks_of(op->short_conv.parts[1]) + blocks_of(op->short_conv.parts[2]);
}

static struct channels channels_of(const struct op *op, size_t item) {
    size_t group = item / blocks_of_group(op), block = item % blocks_of_group(op);
    size_t in = group * op->short_conv.group_stride, out = 0, part = 0;
    for (; block >= blocks_of(op->short_conv.parts[part]); part++) {
        block -= blocks_of(op->short_conv.parts[part]);
        in += op->short_conv.parts[part];
        out += (size_t)op->short_conv.groups * op->short_conv.parts[part];
        ASSERT(part < 2);
    }
    size_t size = op->short_conv.parts[part], first = block * BLOCK_CHANNELS;
    return (struct channels){
        .in = in + first, .out = out + group * size + first, .count = size - first < BLOCK_CHANNELS ? size - first : BLOCK_CHANNELS};
}

/* Input number i of a run, where the first `past` are the state's. NULL: before the sequence began. */
static const float *input_at(const struct recurrent_job *job, size_t first_row, const struct channels *c, size_t i) {
    size_t past = job->op->short_conv.kernel - 1;
    const struct op_row *row = &job->call->row[first_row];
    if (i >= past)
        return job->call->in[0] + (first_row + i - past) * job->call->in_width[0] + c->in;
    return row->position == 0 ? NULL : job->call->recurrent[row->sequence].before + i * job->op->short_conv.channels + c->out;
}

static void convolve(const struct recurrent_job *job, size_t run, const struct channels *c) {
    const struct op *op = job->op;
    size_t first = job->cpu->runs[run], rows = job->cpu->runs[run + 1] - first, kernel = op->short_conv.kernel,
           all = op->short_conv.channels;
    for (size_t r = 0; r < rows; r++) {
        struct short_conv_args args = {.weight_stride = all,
                                       .bias = job->call->constant[1] ? job->call->constant[1] + c->out : NULL,
                                       .silu = op->short_conv.silu,
                                       .y = job->call->out[0] + (first + r) * job->call->out_width[0] + op->short_conv.out_offset + c->out,
                                       .count = c->count};
        for (size_t t = 0; t < kernel; t++) {
            const float *input = input_at(job, first, c, r + t);
            if (input)
                args.taps[args.tap_count++] = input;
        }
        args.weights = job->call->constant[0] + (kernel - args.tap_count) * all + c->out;
        job->cpu->kernels->short_conv(&args);
    }
    float *after = job->call->recurrent[job->call->row[first].sequence].after;
    for (size_t t = 0; t + 1 < kernel; t++) {
        const float *input = input_at(job, first, c, rows + t);
        if (input)
            memcpy(after + t * all + c->out, input, c->count * sizeof(float));
        else
            memset(after + t * all + c->out, 0, c->count * sizeof(float));
    }
}

static void short_conv_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct recurrent_job *job = context;
    (void)worker;
    for (size_t item = begin; item < end; item++) {
        struct channels channels = channels_of(job->op, item % job->items);
        convolve(job, item / job->items, &channels);
    }
}

void cpu_run_short_conv(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct recurrent_job job = {.cpu = cpu, .op = op, .call = call, .run_count = find_runs(cpu, call)};
    job.items = op->short_conv.groups * blocks_of_group(op);
    thread_pool_run(cpu->pool, job.run_count * job.items, call->rows < 8 ? 8 : 1, short_conv_body, &job);
}

/* ---- decay ---- */

static void decay_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct recurrent_job *job = context;
    size_t heads = job->op->decay.heads, size = job->op->decay.size;
    (void)worker;
    for (size_t item = begin; item < end; item++) {
        size_t head = item % heads, at = head * size;
        const float *a = job->call->in[0] + item / heads * job->call->in_width[0] + at;
        float *y = job->call->out[0] + item / heads * job->call->out_width[0] + at;
        for (size_t i = 0; i < size; i++)
            y[i] = math_exp(job->call->constant[0][head] * math_softplus(a[i] + job->call->constant[1][at + i]));
    }
}

void cpu_run_decay(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct recurrent_job job = {.cpu = cpu, .op = op, .call = call};
    thread_pool_run(cpu->pool, call->rows * op->decay.heads, 1, decay_body, &job);
}

/* ---- delta rule ---- */

/* Strength and decay of one row; decays: room for those of a key's elements. */
static void set_gates(const struct recurrent_job *job, size_t row, size_t head, struct delta_rule_args *args, float *decays) {
    const struct op *op = job->op;
    const struct op_call *call = job->call;
    size_t at = head / op->delta_rule.gate_group * op->delta_rule.gate_stride + head % op->delta_rule.gate_group;
    if (op->delta_rule.steady) {
        args->decay = call->constant[0][head];
        args->beta = 1.0f;
        args->plain = true;
        return;
    }
    const float *a = call->in[2] + row * call->in_width[2];
    if (op->delta_rule.channel_decay) {
        args->decays = a + head * op->delta_rule.key_dim;
    } else {
        float step = math_softplus(a[op->delta_rule.a_offset + at] + call->constant[1][head]);
        step = step < op->delta_rule.least ? op->delta_rule.least : step;
        step = step > op->delta_rule.most ? op->delta_rule.most : step;
        const float *rates = call->constant[0] + head * (op->delta_rule.key_rates ? op->delta_rule.key_dim : 1);
        for (size_t i = 0; op->delta_rule.key_rates && i < op->delta_rule.key_dim; i++)
            decays[i] = math_exp(rates[i] * step);
        args->decays = op->delta_rule.key_rates ? decays : NULL;
        args->decay = op->delta_rule.key_rates ? 1.0f : math_exp(rates[0] * step);
        args->beta = step;
    }
    args->plain = call->in[1] == NULL;
    if (call->in[1])
        args->beta = math_sigmoid(*(call->in[1] + row * call->in_width[1] + op->delta_rule.b_offset + at));
    if (op->delta_rule.doubles)
        args->beta *= 2.0f;
}

/* Rows [begin, end) of a head's state, through all rows of a run. */
static void advance(const struct recurrent_job *job, size_t run, size_t head, size_t begin, size_t end) {
    const struct op *op = job->op;
    const struct op_call *call = job->call;
    size_t key_dim = op->delta_rule.key_dim, key_heads = op->delta_rule.key_heads, first = job->cpu->runs[run];
    size_t key_head = op->delta_rule.tiled ? head % key_heads : head / (op->delta_rule.heads / key_heads);
    size_t value = head * op->delta_rule.value_dim + begin;
    const struct recurrent_view *state = &call->recurrent[call->row[first].sequence];
    float decays[OP_KEY_RATES_MAX];
    struct delta_rule_args args = {.before = state->before + value * key_dim,
                                   .after = state->after + value * key_dim,
                                   .rows = end - begin,
                                   .key_dim = key_dim,
                                   .scale = op->delta_rule.scale};
    if (call->row[first].position == 0) {
        memset(args.after, 0, (end - begin) * key_dim * sizeof(float));
        args.before = args.after;
    }
    for (size_t r = first; r < job->cpu->runs[run + 1]; r++) {
        const float *x = call->in[0] + r * call->in_width[0];
        args.q = x + op->delta_rule.q_offset + key_head * key_dim;
        args.k = x + op->delta_rule.k_offset + key_head * key_dim;
        args.v = x + op->delta_rule.v_offset + value;
        args.out = call->out[0] + r * call->out_width[0] + value;
        set_gates(job, r, head, &args, decays);
        job->cpu->kernels->delta_rule(&args);
        if (call->constant[2])
            job->cpu->kernels->add_scaled(args.out, args.v, call->constant[2][head], args.rows);
        args.before = args.after;
    }
}

static void delta_rule_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct recurrent_job *job = context;
    size_t rows = job->op->delta_rule.value_dim;
    (void)worker;
    for (size_t item = begin; item < end; item++) {
        size_t piece = item % job->pieces, head = item / job->pieces % job->op->delta_rule.heads;
        size_t first = piece * job->piece_rows, last = rows - first < job->piece_rows ? rows : first + job->piece_rows;
        advance(job, item / job->items, head, first, last);
    }
}

void cpu_run_delta_rule(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct recurrent_job job = {.cpu = cpu, .op = op, .call = call, .run_count = find_runs(cpu, call)};
    size_t heads = job.run_count * op->delta_rule.heads, rows = op->delta_rule.value_dim;
    size_t wanted = (2 * (size_t)thread_pool_size(cpu->pool) + heads - 1) / heads, share = (rows + wanted - 1) / wanted;
    job.piece_rows = (share + PIECE_ROWS - 1) / PIECE_ROWS * PIECE_ROWS;
    job.pieces = (rows + job.piece_rows - 1) / job.piece_rows;
    job.items = op->delta_rule.heads * job.pieces;
    thread_pool_run(cpu->pool, job.run_count * job.items, 1, delta_rule_body, &job);
}
