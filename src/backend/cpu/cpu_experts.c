/*
 * cpu_experts: the experts step, in parts as experts come into memory.
 *
 * Model    a pair is one row at one expert. All pairs of a call share a few parallel regions: gathering rows, gate and up with the
 * activation, quantising, down; all but the last in a call of their own when down is not there yet. With parking, outputs wait in any order
 * and are summed in increasing expert index with the last part; without, experts come in increasing index and each thread adds its rows of
 * every product at once. Both give the same bits.
 */
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "base/check.h"

#define BLOCK_ROWS 16
#define UNPACK_ROWS 16 /* unpacking weights takes about as long as multiplying them by so many rows */

struct experts_job {
    struct cpu_backend *cpu;
    const struct op *op;
    const struct op_call *call;
    struct activation_layout layouts[2]; /* inputs of gate and up; block 0: f32 as they are */
    struct activation_layout hidden_layout;
    const uint8_t *quantised[2];
    size_t pairs;
    size_t block; /* outputs of an expert that a thread takes at least */
};

/* ---- shares of threads ---- */

/* Outputs [begin, end) of expert w of the call, whose rows are pairs from `pair` on. */
typedef void outputs_fn(const struct experts_job *job, size_t w, size_t pair, size_t begin, size_t end, unsigned worker);

static size_t block_cost(const struct expert_work *work) { return work->row_count + UNPACK_ROWS; }

/* All blocks of all experts, each as many items of a loop as it costs: experts have very different numbers of rows. */
static size_t block_items(const struct experts_job *job, size_t width) {
    size_t items = 0;
    for (size_t w = 0; w < job->call->work_count; w++)
        items += ((width - 1) / job->block + 1) * block_cost(&job->call->work[w]);
    return items;
}

/* Runs the blocks that begin among items [begin, end). */
static void run_blocks(const struct experts_job *job, size_t width, size_t begin, size_t end, unsigned worker, outputs_fn *run) {
    for (size_t w = 0, pair = 0, item = 0; w < job->call->work_count && item < end; pair += job->call->work[w++].row_count) {
        size_t cost = block_cost(&job->call->work[w]), blocks = (width - 1) / job->block + 1;
        size_t first = begin > item ? (begin - item + cost - 1) / cost : 0, last = (end - item + cost - 1) / cost;
        last = last < blocks ? last : blocks;
        if (first < last)
            run(job, w, pair, first * job->block, last * job->block < width ? last * job->block : width, worker);
        item += blocks * cost;
    }
}

/* ---- inputs ---- */

static bool alike(const struct activation_layout *a, const struct activation_layout *b) {
    return a->block == b->block && a->parts == b->parts;
}

static const uint8_t *row_input(const struct experts_job *job, int which, size_t row) {
    return job->layouts[which].block ? job->quantised[which] + row * job->layouts[which].row_bytes
                                     : (const uint8_t *)(job->call->in[0] + row * job->call->in_width[0]);
}

static size_t row_input_bytes(const struct experts_job *job, int which) {
    return job->layouts[which].block ? job->layouts[which].row_bytes : job->call->in_width[0] * sizeof(float);
}

/* Quantises the rows of x for gate and up; one area serves both when they want the same. */
static void prepare_inputs(struct experts_job *job) {
    const struct expert_work *work = job->call->work;
    const struct matrix *matrices[2] = {work->gate.data ? &work->gate : &work->up, &work->up};
    for (int i = 0; i < 2; i++) {
        unsigned activation = cpu_activation(job->cpu, matrices[i]);
        job->layouts[i] = cpu_activation_layout(activation, job->op->experts.hidden);
        bool same = i == 1 && alike(&job->layouts[0], &job->layouts[1]);
        job->quantised[i] = same ? job->quantised[0] : job->cpu->expert_inputs[i];
        if (activation && !same && job->call->first_part && job->call->stage != EXPERTS_DOWN)
            cpu_quantize_rows(job->cpu, job->call->in[0], job->call->in_width[0], job->call->rows, &job->layouts[i],
                              job->cpu->expert_inputs[i]);
    }
    job->hidden_layout = cpu_activation_layout(cpu_activation(job->cpu, &work->down), job->op->experts.expert_hidden);
}

/* Pairs [begin, end): inputs of an expert's rows side by side. */
static void gather_body(void *context, size_t begin, size_t end, unsigned worker) {
    struct experts_job *job = context;
    (void)worker;
    for (size_t w = 0, first = 0; first < end; first += job->call->work[w++].row_count) {
        const struct expert_work *work = &job->call->work[w];
        for (int which = 0; which < 2 && work->row_count > 1; which++) {
            if (which == 1 && job->quantised[1] == job->quantised[0] && alike(&job->layouts[0], &job->layouts[1]))
                continue;
            size_t bytes = row_input_bytes(job, which);
            for (size_t pair = first > begin ? first : begin; pair < end && pair < first + work->row_count; pair++)
                memcpy(job->cpu->gathered[which] + pair * bytes, row_input(job, which, work->rows[pair - first]), bytes);
        }
    }
}

/* ---- gate and up ---- */

static void product_rows(const struct experts_job *job, size_t w, size_t pair, int which, size_t begin, size_t end, unsigned worker) {
    const struct expert_work *work = &job->call->work[w];
    size_t width = job->op->experts.expert_hidden;
    const struct matrix *matrix = which == 0 ? &work->gate : &work->up;
    const float *bias = which == 0 ? work->gate_bias : work->up_bias;
    int area = which == 1 && alike(&job->layouts[0], &job->layouts[1]) ? 0 : which;
    size_t bytes = row_input_bytes(job, which);
    struct matmul_args args = {.w = matrix,
                               .row_begin = begin,
                               .row_end = end,
                               .tokens = work->row_count,
                               .x_row_bytes = bytes,
                               .x = work->row_count == 1 ? row_input(job, which, work->rows[0]) : job->cpu->gathered[area] + pair * bytes,
                               .y = job->cpu->hidden[which] + pair * width,
                               .y_stride = width};
    cpu_product(job->cpu, &args, job->layouts[which].parts, worker);
    for (uint32_t i = 0; bias && i < work->row_count; i++)
        job->cpu->kernels->add(args.y + i * width + begin, bias + begin, end - begin);
}

static void gate_up_rows(const struct experts_job *job, size_t w, size_t pair, size_t begin, size_t end, unsigned worker) {
    const struct expert_work *work = &job->call->work[w];
    const struct op *op = job->op;
    size_t width = op->experts.expert_hidden;
    product_rows(job, w, pair, 1, begin, end, worker);
    if (work->gate.data)
        product_rows(job, w, pair, 0, begin, end, worker);
    for (uint32_t i = 0; i < work->row_count; i++) {
        float *gate = job->cpu->hidden[0] + (pair + i) * width + begin, *up = job->cpu->hidden[1] + (pair + i) * width + begin;
        struct gate_args args = {.kind = op->experts.gate,
                                 .gate = work->gate.data ? gate : up,
                                 .up = work->gate.data ? up : NULL,
                                 .y = gate,
                                 .count = end - begin,
                                 .a = op->experts.a,
                                 .b = op->experts.b,
                                 .c = op->experts.c,
                                 .d = op->experts.d};
        job->cpu->kernels->gate(&args);
    }
}

static void gate_up_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct experts_job *job = context;
    run_blocks(job, job->op->experts.expert_hidden, begin, end, worker, gate_up_rows);
}

/* ---- down ---- */

static struct matmul_args down_args(const struct experts_job *job, size_t w, size_t pair) {
    bool quantised = job->hidden_layout.block != 0;
    size_t bytes = quantised ? job->hidden_layout.row_bytes : job->op->experts.expert_hidden * sizeof(float);
    const uint8_t *base = quantised ? job->cpu->hidden_inputs : (const uint8_t *)job->cpu->hidden[0];
    return (struct matmul_args){.tokens = job->call->work[w].row_count, .x = base + pair * bytes, .x_row_bytes = bytes};
}

static void down_park_rows(const struct experts_job *job, size_t w, size_t pair, size_t begin, size_t end, unsigned worker) {
    const struct expert_work *work = &job->call->work[w];
    size_t hidden = job->op->experts.hidden;
    struct matmul_args args = down_args(job, w, pair);
    args.w = &work->down;
    args.row_begin = begin;
    args.row_end = end;
    args.y = job->call->park + work->first_pair * hidden;
    args.y_stride = hidden;
    cpu_product(job->cpu, &args, job->hidden_layout.parts, worker);
    for (uint32_t i = 0; work->down_bias && i < work->row_count; i++)
        job->cpu->kernels->add(args.y + i * hidden + begin, work->down_bias + begin, end - begin);
}

static void down_park_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct experts_job *job = context;
    run_blocks(job, job->op->experts.hidden, begin, end, worker, down_park_rows);
}

static float routing_weight(const struct experts_job *job, size_t row, size_t rank) {
    return job->call->in[1][row * job->call->in_width[1] + job->op->experts.top_k + rank];
}

/* Output rows [begin, end) of all experts of the call, added to y in increasing expert index. */
static void down_add_rows(const struct experts_job *job, size_t begin, size_t end, unsigned worker) {
    float *partial = job->cpu->workers[worker].partial;
    size_t count = end - begin, pair = 0;
    for (size_t w = 0; w < job->call->work_count; pair += job->call->work[w++].row_count) {
        const struct expert_work *work = &job->call->work[w];
        struct matrix rows = matrix_rows(&work->down, begin, count);
        struct matmul_args args = down_args(job, w, pair);
        args.w = &rows;
        args.row_end = count;
        args.y = partial;
        args.y_stride = count;
        cpu_product(job->cpu, &args, job->hidden_layout.parts, worker);
        for (uint32_t i = 0; i < work->row_count; i++) {
            if (work->down_bias)
                job->cpu->kernels->add(partial + i * count, work->down_bias + begin, count);
            job->cpu->kernels->add_scaled(job->call->out[0] + work->rows[i] * job->call->out_width[0] + begin, partial + i * count,
                                          routing_weight(job, work->rows[i], work->ranks[i]), count);
        }
    }
}

static void down_add_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct experts_job *job = context;
    for (; begin < end; begin += CPU_DOWN_ROWS)
        down_add_rows(job, begin, begin + CPU_DOWN_ROWS < end ? begin + CPU_DOWN_ROWS : end, worker);
}

/* ---- sum of what was parked ---- */

static void sum_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct experts_job *job = context;
    size_t hidden = job->op->experts.hidden, top_k = job->op->experts.top_k;
    (void)worker;
    for (size_t r = begin; r < end; r++) {
        float *y = job->call->out[0] + r * job->call->out_width[0];
        memset(y, 0, hidden * sizeof(float));
        for (size_t k = 0; k < top_k; k++) {
            uint32_t pair = job->call->pair_of[r * top_k + k];
            if (pair != UINT32_MAX)
                job->cpu->kernels->add_scaled(y, job->call->park + pair * hidden, routing_weight(job, r, k), hidden);
        }
    }
}

static size_t block_of(const struct matrix *w, size_t usual) { return matrix_is_packed_by_columns(w->format) ? CPU_PACKED_CHUNK : usual; }

static size_t usual_block(const struct experts_job *job) {
    return job->pairs >= job->call->work_count * MATMUL_MANY ? CPU_MANY_ROWS : BLOCK_ROWS;
}

static void gate_up(struct experts_job *job) {
    struct cpu_backend *cpu = job->cpu;
    size_t width = job->op->experts.expert_hidden;
    job->block = block_of(&job->call->work->up, usual_block(job));
    if (job->pairs > job->call->work_count) /* experts of more than one row */
        thread_pool_run(cpu->pool, job->pairs, 1, gather_body, job);
    thread_pool_run(cpu->pool, block_items(job, width), UNPACK_ROWS, gate_up_body, job);
    if (job->hidden_layout.block)
        cpu_quantize_rows(cpu, cpu->hidden[0], width, job->pairs, &job->hidden_layout, cpu->hidden_inputs);
}

static void down(struct experts_job *job) {
    const struct matrix *w = &job->call->work->down;
    size_t hidden = job->op->experts.hidden;
    if (job->call->park) {
        job->block = block_of(w, usual_block(job));
        thread_pool_run(job->cpu->pool, block_items(job, hidden), UNPACK_ROWS, down_park_body, job);
    } else { /* shares that are small at the end: each is a product with every expert */
        thread_pool_run(job->cpu->pool, hidden, block_of(w, BLOCK_ROWS), down_add_body, job);
    }
}

void cpu_run_experts(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct experts_job job = {.cpu = cpu, .op = op, .call = call};
    bool begins = call->stage != EXPERTS_DOWN, ends = call->stage != EXPERTS_GATE_UP;
    for (size_t r = 0; begins && call->first_part && !call->park && r < call->rows; r++)
        memset(call->out[0] + r * call->out_width[0], 0, op->experts.hidden * sizeof(float));
    if (call->work_count > 0) {
        for (size_t w = 0; w < call->work_count; w++)
            job.pairs += call->work[w].row_count;
        CHECK(job.pairs <= backend_pair_limit(&cpu->limits));
        prepare_inputs(&job);
        if (begins)
            gate_up(&job);
        if (ends)
            down(&job);
    }
    if (ends && call->park && call->last_part)
        thread_pool_run(cpu->pool, call->rows, 1, sum_body, &job);
}
