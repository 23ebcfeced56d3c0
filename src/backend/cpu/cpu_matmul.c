/*
 * cpu_matmul: matrix products: inputs are quantised once, then threads take ranges of output rows over all outputs and parts.
 */
#include "backend/cpu/cpu_internal.h"
#include "base/check.h"

#define SEGMENTS_MAX 64
#define CHUNK_BYTES (32u << 10) /* weights a thread takes at a time: large beside a hand-over, small beside a matrix */

unsigned cpu_activation_block(const struct cpu_backend *cpu, const struct matrix *w) {
    return cpu->limits.exact ? 0 : matrix_activation_block(w->format, w->group_cols);
}

void cpu_product(const struct cpu_backend *cpu, const struct matmul_args *args, unsigned worker) {
    if (cpu->limits.exact)
        cpu->kernels->matmul_f32(args, cpu->workers[worker].decode);
    else if (args->w->col_bytes)
        cpu->kernels->matmul_columns(args);
    else if (args->tokens < MATMUL_MANY || !cpu->kernels->matmul_many || !cpu->kernels->matmul_many(args, cpu->workers[worker].many))
        cpu->kernels->matmul[args->w->format](args);
}

/* ---- quantising ---- */

struct quantize_job {
    const struct kernel_table *kernels;
    const float *x;
    size_t x_stride;
    const struct activation_layout *layout;
    uint8_t *out;
};

static void quantize_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct quantize_job *job = context;
    (void)worker;
    for (size_t r = begin; r < end; r++)
        job->kernels->quantize(job->x + r * job->x_stride, job->layout->cols, job->layout->block, job->out + r * job->layout->row_bytes);
}

void cpu_quantize_rows(struct cpu_backend *cpu, const float *x, size_t x_stride, size_t rows, const struct activation_layout *layout,
                       uint8_t *out) {
    struct quantize_job job = {cpu->kernels, x, x_stride, layout, out};
    thread_pool_run(cpu->pool, rows, 4, quantize_body, &job);
}

/* ---- products ---- */

struct segment { /* one part of one output */
    struct matrix_part part;
    float *y;
    size_t y_stride;
    const float *bias;
    size_t first_item; /* rows of all segments before */
};

struct matmul_job {
    const struct cpu_backend *cpu;
    struct segment segments[SEGMENTS_MAX];
    size_t segment_count, items;
    const uint8_t *x;
    size_t x_row_bytes, tokens;
};

static void segment_rows(const struct matmul_job *job, const struct segment *s, size_t begin, size_t end, unsigned worker) {
    struct matmul_args args = {.w = &s->part.matrix,
                               .row_begin = begin,
                               .row_end = end,
                               .x = job->x,
                               .x_row_bytes = job->x_row_bytes,
                               .tokens = job->tokens,
                               .y = s->y + s->part.first_row,
                               .y_stride = s->y_stride};
    cpu_product(job->cpu, &args, worker);
    if (!s->bias)
        return;
    for (size_t t = 0; t < job->tokens; t++)
        job->cpu->kernels->add(args.y + t * s->y_stride + begin, s->bias + s->part.first_row + begin, end - begin);
}

static void matmul_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct matmul_job *job = context;
    for (size_t i = 0; i < job->segment_count && begin < end; i++) {
        const struct segment *s = &job->segments[i];
        size_t last = s->first_item + s->part.matrix.rows;
        if (begin >= last)
            continue;
        size_t stop = end < last ? end : last;
        segment_rows(job, s, begin - s->first_item, stop - s->first_item, worker);
        begin = stop;
    }
}

static void run_segments(struct cpu_backend *cpu, struct matmul_job *job) {
    if (job->segment_count == 0)
        return;
    size_t row_bytes = job->segments[0].part.matrix.row_bytes;
    size_t chunk = CHUNK_BYTES / (row_bytes ? row_bytes : 1);
    chunk = chunk < 4 ? 4 : chunk;
    size_t share = job->items / (4 * (size_t)thread_pool_size(cpu->pool)); /* a few chunks for each thread at least */
    chunk = chunk > share && share >= 4 ? share : chunk;
    if (job->tokens >= MATMUL_MANY)
        chunk = (chunk + CPU_MANY_CHUNK - 1) / CPU_MANY_CHUNK * CPU_MANY_CHUNK;
    if (matrix_is_packed_by_columns(job->segments[0].part.matrix.format))
        chunk = CPU_PACKED_CHUNK;
    thread_pool_run(cpu->pool, job->items, chunk, matmul_body, job);
    job->segment_count = job->items = 0;
}

/* All outputs whose weights want this block of activations. */
static void run_block(struct cpu_backend *cpu, const struct op *op, const struct op_call *call, unsigned block, struct matmul_job *job) {
    for (uint32_t o = 0; o < op->matmul.outputs; o++) {
        const struct weight_view *view = &call->weight[o];
        if (cpu_activation_block(cpu, &view->parts[0].matrix) != block)
            continue;
        for (size_t p = 0; p < view->part_count; p++) {
            if (job->segment_count == SEGMENTS_MAX)
                run_segments(cpu, job);
            job->segments[job->segment_count++] = (struct segment){.part = view->parts[p],
                                                                   .y = call->out[o],
                                                                   .y_stride = call->out_width[o],
                                                                   .bias = call->constant[o],
                                                                   .first_item = job->items};
            job->items += view->parts[p].matrix.rows;
        }
    }
    run_segments(cpu, job);
}

void cpu_run_matmul(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct matmul_job job = {.cpu = cpu, .tokens = call->rows};
    size_t cols = call->weight[0].parts[0].matrix.cols;
    bool done[OP_WEIGHTS_MAX] = {false};
    for (uint32_t o = 0; o < op->matmul.outputs; o++) {
        unsigned block = cpu_activation_block(cpu, &call->weight[o].parts[0].matrix);
        for (uint32_t earlier = 0; earlier < o; earlier++)
            done[o] = done[o] || cpu_activation_block(cpu, &call->weight[earlier].parts[0].matrix) == block;
        if (done[o])
            continue;
        if (block == 0) {
            job.x = (const uint8_t *)call->in[0];
            job.x_row_bytes = call->in_width[0] * sizeof(float);
        } else {
            if (!call->same_input || cpu->inputs_block != block) {
                cpu->inputs_layout = activation_layout(block, cols);
                cpu_quantize_rows(cpu, call->in[0], call->in_width[0], call->rows, &cpu->inputs_layout, cpu->inputs);
                cpu->inputs_block = block;
            }
            job.x = cpu->inputs;
            job.x_row_bytes = cpu->inputs_layout.row_bytes;
        }
        run_block(cpu, op, call, block, &job);
    }
}
