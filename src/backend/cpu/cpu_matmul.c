/*
 * cpu_matmul: matrix products: inputs are quantised once, then threads take ranges of output rows over all outputs and parts.
 */
#include "backend/cpu/cpu_internal.h"
#include "base/check.h"

#define SEGMENTS_MAX 64
#define CHUNK_BYTES (16u << 10) /* weights a thread takes at least: large beside a hand-over, small beside a matrix */

unsigned cpu_activation_of(unsigned format, uint32_t group_cols) {
    unsigned block = matrix_activation_block(format, group_cols);
    return block && matrix_activation_parts(format) == 2 ? block + CPU_TWO_PARTS : block;
}

unsigned cpu_activation(const struct cpu_backend *cpu, const struct matrix *w) {
    return cpu->limits.exact ? 0 : cpu_activation_of(w->format, w->group_cols);
}

struct activation_layout cpu_activation_layout(unsigned activation, size_t cols) {
    struct activation_layout layout = activation_layout(activation & ~CPU_TWO_PARTS, cols);
    layout.parts = cpu_activation_parts(activation);
    layout.row_bytes *= layout.parts;
    return layout;
}

static void product_of_one_part(const struct cpu_backend *cpu, const struct matmul_args *args, unsigned worker) {
    if (!cpu->kernels->matmul_many || !cpu->kernels->matmul_many(args, cpu->workers[worker].many))
        cpu->kernels->matmul[args->w->format](args);
}

/* Few enough outputs and rows for `both`: products with both parts, then their sums. */
static void product_of_two_parts(const struct cpu_backend *cpu, const struct matmul_args *args, unsigned worker) {
    size_t part_bytes = activation_layout(matrix_activation_block(args->w->format, args->w->group_cols), args->w->cols).row_bytes;
    size_t outputs = args->row_end - args->row_begin, next = args->tokens * outputs; /* from a first part to its second, in `both` */
    float *both = cpu->workers[worker].both, *first = both;
    struct matrix rows = matrix_rows(args->w, args->row_begin, outputs);
    struct matmul_args parts = {.w = &rows,
                                .row_end = outputs,
                                .x = args->x,
                                .x_row_bytes = args->x_row_bytes,
                                .tokens = args->tokens,
                                .y = both,
                                .y_stride = outputs};
    bool adjacent = args->tokens == 1 || args->x_row_bytes == 2 * part_bytes;
    if (adjacent) { /* parts are rows like all others */
        parts.tokens = 2 * args->tokens;
        parts.x_row_bytes = part_bytes;
        product_of_one_part(cpu, &parts, worker);
    } else {
        product_of_one_part(cpu, &parts, worker);
        parts.x += part_bytes;
        parts.y += next;
        product_of_one_part(cpu, &parts, worker);
    }
    for (size_t t = 0; t < args->tokens; t++, first += adjacent ? 2 * outputs : outputs) {
        const float *second = first + (adjacent ? outputs : next);
        float *y = args->y + t * args->y_stride + args->row_begin;
        for (size_t r = 0; r < outputs; r++)
            y[r] = first[r] + second[r];
    }
}

/* Many rows of activations take few outputs at a time, so that weights are unpacked for all of these rows. */
static void product_in_pieces(const struct cpu_backend *cpu, const struct matmul_args *args, unsigned worker) {
    const bool many = args->tokens > CPU_SPLIT_SHORT;
    const size_t rows = many ? CPU_SPLIT_SHORT : CPU_SPLIT_LONG, tokens = many ? CPU_SPLIT_LONG : CPU_SPLIT_SHORT;
    for (size_t row = args->row_begin; row < args->row_end; row += rows)
        for (size_t token = 0; token < args->tokens; token += tokens) {
            struct matmul_args piece = *args;
            piece.row_begin = row;
            piece.row_end = row + rows < args->row_end ? row + rows : args->row_end;
            piece.tokens = args->tokens - token < tokens ? args->tokens - token : tokens;
            piece.x = args->x + token * args->x_row_bytes;
            piece.y = args->y + token * args->y_stride;
            product_of_two_parts(cpu, &piece, worker);
        }
}

void cpu_product(const struct cpu_backend *cpu, const struct matmul_args *args, unsigned parts, unsigned worker) {
    if (cpu->limits.exact)
        cpu->kernels->matmul_f32(args, cpu->workers[worker].decode);
    else if (args->w->col_bytes)
        cpu->kernels->matmul_columns(args);
    else if (parts == 2)
        product_in_pieces(cpu, args, worker);
    else
        product_of_one_part(cpu, args, worker);
}

/* ---- quantising ---- */

struct quantize_job {
    const struct cpu_backend *cpu;
    const float *x;
    size_t x_stride;
    const struct activation_layout *layout;
    uint8_t *out;
};

static void quantize_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct quantize_job *job = context;
    const struct activation_layout *layout = job->layout;
    for (size_t r = begin; r < end; r++) {
        const float *x = job->x + r * job->x_stride;
        uint8_t *out = job->out + r * layout->row_bytes;
        job->cpu->kernels->quantize(x, layout->cols, layout->block, out);
        if (layout->parts == 1)
            continue;
        activation_remainder(x, out, layout, job->cpu->workers[worker].left);
        job->cpu->kernels->quantize(job->cpu->workers[worker].left, layout->cols, layout->block, out + layout->row_bytes / 2);
    }
}

void cpu_quantize_rows(struct cpu_backend *cpu, const float *x, size_t x_stride, size_t rows, const struct activation_layout *layout,
                       uint8_t *out) {
    struct quantize_job job = {cpu, x, x_stride, layout, out};
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
    unsigned parts; /* of a row of x */
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
    cpu_product(job->cpu, &args, job->parts, worker);
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
    if (job->tokens >= MATMUL_MANY)
        chunk = CPU_MANY_ROWS;
    if (matrix_is_packed_by_columns(job->segments[0].part.matrix.format))
        chunk = CPU_PACKED_CHUNK;
    thread_pool_run(cpu->pool, job->items, chunk, matmul_body, job);
    job->segment_count = job->items = 0;
}

/* All outputs whose weights take activations like this. */
static void run_block(struct cpu_backend *cpu, const struct op *op, const struct op_call *call, unsigned activation,
                      struct matmul_job *job) {
    for (uint32_t o = 0; o < op->matmul.outputs; o++) {
        const struct weight_view *view = &call->weight[o];
        if (cpu_activation(cpu, &view->parts[0].matrix) != activation)
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
    if (!call->same_input)
        cpu->inputs_activation = 0;
    for (uint32_t o = 0; o < op->matmul.outputs; o++) {
        unsigned activation = cpu_activation(cpu, &call->weight[o].parts[0].matrix);
        for (uint32_t earlier = 0; earlier < o; earlier++)
            done[o] = done[o] || cpu_activation(cpu, &call->weight[earlier].parts[0].matrix) == activation;
        if (done[o])
            continue;
        if (activation == 0) {
            job.x = (const uint8_t *)call->in[0];
            job.x_row_bytes = call->in_width[0] * sizeof(float);
        } else {
            if (cpu->inputs_activation != activation) {
                cpu->inputs_layout = cpu_activation_layout(activation, cols);
                cpu_quantize_rows(cpu, call->in[0], call->in_width[0], call->rows, &cpu->inputs_layout, cpu->inputs);
                cpu->inputs_activation = activation;
            }
            job.x = cpu->inputs;
            job.x_row_bytes = cpu->inputs_layout.row_bytes;
        }
        job.parts = cpu_activation_parts(activation);
        run_block(cpu, op, call, activation, &job);
    }
}
