/*
 * cpu_heads: products with a matrix for each head, and copies of pieces of heads.
 *
 * A plain weight [heads * out][in] is taken as cpu_matmul takes one, with every head's piece of the input as a row of its own. A transposed
 * one [heads * in][out] is never turned around: formats with single numbers are read by columns; of others rows are decoded one after the
 * other and added, times their input, to 16 lanes of outputs. Both are the sum of a decoded and transposed matrix, bit for bit.
 */
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "base/check.h"

#define CHUNK_BYTES (32u << 10) /* as in cpu_matmul.c */
#define SUM_LANES 16
#define COLUMNS_TOGETHER 256 /* outputs of a transposed head that a thread takes at a time */

struct heads_job {
    const struct cpu_backend *cpu;
    const struct op *op;
    const struct op_call *call;
    const struct weight_view *view;
    const uint8_t *x; /* plain: prepared pieces, [rows][heads] */
    size_t x_row_bytes, piece_bytes;
    unsigned parts; /* of a piece */
    size_t blocks;  /* transposed: of CPU_HEAD_TOKENS rows of the call, or of COLUMNS_TOGETHER outputs */
};

/* ---- [heads * out][in] ---- */

/* Rows [begin, end) of the weight, all of one part and one head. */
static void head_rows(const struct heads_job *job, const struct matrix_part *part, size_t begin, size_t end, unsigned worker) {
    const struct op *op = job->op;
    size_t out_size = op->head_matmul.out_size, head = begin / out_size;
    struct matmul_args args = {.w = &part->matrix,
                               .row_begin = begin - part->first_row,
                               .row_end = end - part->first_row,
                               .x = job->x + head * job->piece_bytes,
                               .x_row_bytes = job->x_row_bytes,
                               .tokens = job->call->rows,
                               .y_stride = job->call->out_width[0]};
    args.y = job->call->out[0] + head * (op->head_matmul.out_stride - out_size) + part->first_row;
    cpu_product(job->cpu, &args, job->parts, worker);
}

static void plain_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct heads_job *job = context;
    size_t out_size = job->op->head_matmul.out_size, base = job->view->parts[0].first_row;
    for (size_t p = 0; p < job->view->part_count && begin < end; p++) {
        const struct matrix_part *part = &job->view->parts[p];
        size_t part_end = part->first_row - base + part->matrix.rows;
        while (begin < end && begin < part_end) {
            size_t row = base + begin, stop = (row / out_size + 1) * out_size - base;
            stop = stop < end ? stop : end;
            stop = stop < part_end ? stop : part_end;
            head_rows(job, part, row, base + stop, worker);
            begin = stop;
        }
    }
}

static void run_plain(struct cpu_backend *cpu, struct heads_job *job) {
    const struct op *op = job->op;
    const struct op_call *call = job->call;
    unsigned activation = cpu_activation(cpu, &job->view->parts[0].matrix);
    size_t heads = op->head_matmul.heads, rows = 0;
    job->parts = cpu_activation_parts(activation);
    if (!call->same_input)
        cpu->inputs_activation = 0;
    if (activation == 0) {
        job->x = (const uint8_t *)call->in[0];
        job->piece_bytes = op->head_matmul.in_stride * sizeof(float);
        job->x_row_bytes = call->in_width[0] * sizeof(float);
    } else {
        if (cpu->inputs_activation != activation) {
            cpu->inputs_layout = cpu_activation_layout(activation, op->head_matmul.in_size);
            cpu->inputs_activation = activation;
            cpu_quantize_rows(cpu, call->in[0], op->head_matmul.in_stride, call->rows * heads, &cpu->inputs_layout, cpu->inputs);
        }
        job->x = cpu->inputs;
        job->piece_bytes = cpu->inputs_layout.row_bytes;
        job->x_row_bytes = heads * cpu->inputs_layout.row_bytes;
    }
    for (size_t p = 0; p < job->view->part_count; p++)
        rows += job->view->parts[p].matrix.rows;
    size_t row_bytes = job->view->parts[0].matrix.row_bytes, chunk = CHUNK_BYTES / (row_bytes ? row_bytes : 1);
    thread_pool_run(cpu->pool, rows, chunk < 4 ? 4 : chunk, plain_body, job);
}

/* ---- [heads * in][out] ---- */

/* One head for rows [first, first + CPU_HEAD_TOKENS) of the call. w: the head's rows. */
static void transposed_head(const struct heads_job *job, const struct matrix *w, size_t head, size_t first,
                            const struct cpu_worker *scratch) {
    const struct kernel_table *kernels = job->cpu->kernels;
    const struct op *op = job->op;
    const struct op_call *call = job->call;
    size_t out_size = op->head_matmul.out_size, tokens = call->rows - first < CPU_HEAD_TOKENS ? call->rows - first : CPU_HEAD_TOKENS;
    float *row = scratch->head_lanes, *lanes = row + out_size; /* [tokens][SUM_LANES][out] */
    memset(lanes, 0, tokens * SUM_LANES * out_size * sizeof(float));
    for (size_t n = 0; n < op->head_matmul.in_size; n++) {
        kernels->decode_row(w, n, row);
        const float *x = call->in[0] + first * call->in_width[0] + head * op->head_matmul.in_stride + n;
        for (size_t t = 0; t < tokens; t++)
            kernels->add_scaled(lanes + (t * SUM_LANES + n % SUM_LANES) * out_size, row, x[t * call->in_width[0]], out_size);
    }
    for (size_t t = 0; t < tokens; t++, lanes += SUM_LANES * out_size) {
        for (size_t width = SUM_LANES / 2; width > 0; width /= 2)
            for (size_t j = 0; j < width; j++)
                kernels->add(lanes + j * out_size, lanes + (j + width) * out_size, out_size);
        memcpy(call->out[0] + (first + t) * call->out_width[0] + head * op->head_matmul.out_stride, lanes, out_size * sizeof(float));
    }
}

static void transposed_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct heads_job *job = context;
    size_t in_size = job->op->head_matmul.in_size, base = job->view->parts[0].first_row / in_size;
    for (size_t item = begin; item < end; item++) {
        size_t head = base + item / job->blocks, first = item % job->blocks * CPU_HEAD_TOKENS, p = 0;
        while (head * in_size >= job->view->parts[p].first_row + job->view->parts[p].matrix.rows)
            p++;
        const struct matrix_part *part = &job->view->parts[p];
        const struct matrix rows = matrix_rows(&part->matrix, head * in_size - part->first_row, in_size);
        transposed_head(job, &rows, head, first, &job->cpu->workers[worker]);
    }
}

/* Formats that have a product with columns. */
static bool has_columns(const struct matrix *w) {
    return w->format == DTYPE_F32 || w->format == DTYPE_F16 || w->format == DTYPE_BF16 || w->format == MATRIX_F8_BLOCK ||
           w->format == MATRIX_F8_E5M2_BLOCK;
}

/* A head's [in][out] as [out][in] that lies transposed. */
static struct matrix turn(const struct matrix *w, size_t first_row, size_t in_size) {
    struct matrix head = matrix_rows(w, first_row, in_size);
    head.rows = w->cols;
    head.cols = in_size;
    head.col_bytes = w->row_bytes;
    head.row_bytes = w->row_bytes / w->cols;
    return head;
}

static void columns_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct heads_job *job = context;
    const struct op *op = job->op;
    size_t in_size = op->head_matmul.in_size, out_size = op->head_matmul.out_size, base = job->view->parts[0].first_row / in_size;
    (void)worker;
    for (size_t item = begin; item < end; item++) {
        size_t head = base + item / job->blocks, first = item % job->blocks * COLUMNS_TOGETHER, p = 0;
        while (head * in_size >= job->view->parts[p].first_row + job->view->parts[p].matrix.rows)
            p++;
        const struct matrix_part *part = &job->view->parts[p];
        const struct matrix w = turn(&part->matrix, head * in_size - part->first_row, in_size);
        struct matmul_args args = {.w = &w,
                                   .row_begin = first,
                                   .row_end = out_size - first < COLUMNS_TOGETHER ? out_size : first + COLUMNS_TOGETHER,
                                   .x = (const uint8_t *)(job->call->in[0] + head * op->head_matmul.in_stride),
                                   .x_row_bytes = job->call->in_width[0] * sizeof(float),
                                   .tokens = job->call->rows,
                                   .y = job->call->out[0] + head * op->head_matmul.out_stride,
                                   .y_stride = job->call->out_width[0]};
        job->cpu->kernels->matmul_columns(&args);
    }
}

static void run_transposed(struct cpu_backend *cpu, struct heads_job *job) {
    size_t rows = 0;
    for (size_t p = 0; p < job->view->part_count; p++)
        rows += job->view->parts[p].matrix.rows;
    if (has_columns(&job->view->parts[0].matrix)) {
        job->blocks = (job->op->head_matmul.out_size + COLUMNS_TOGETHER - 1) / COLUMNS_TOGETHER;
        thread_pool_run(cpu->pool, rows / job->op->head_matmul.in_size * job->blocks, 1, columns_body, job);
        return;
    }
    job->blocks = (job->call->rows + CPU_HEAD_TOKENS - 1) / CPU_HEAD_TOKENS;
    thread_pool_run(cpu->pool, rows / job->op->head_matmul.in_size * job->blocks, 1, transposed_body, job);
}

void cpu_run_head_matmul(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct heads_job job = {.cpu = cpu, .op = op, .call = call, .view = &call->weight[0]};
    if (op->head_matmul.transposed)
        run_transposed(cpu, &job);
    else
        run_plain(cpu, &job);
}

/* ---- copies ---- */

static void copy_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct heads_job *job = context;
    const struct op *op = job->op;
    const struct op_call *call = job->call;
    (void)worker;
    for (size_t r = begin; r < end; r++)
        for (size_t h = 0; h < op->copy_heads.heads; h++)
            memcpy(call->out[0] + r * call->out_width[0] + h * op->copy_heads.out_stride + op->copy_heads.out_offset,
                   call->in[0] + r * call->in_width[0] + h * op->copy_heads.in_stride + op->copy_heads.in_offset,
                   op->copy_heads.size * sizeof(float));
}

void cpu_run_copy_heads(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct heads_job job = {.cpu = cpu, .op = op, .call = call};
    thread_pool_run(cpu->pool, call->rows, 8, copy_body, &job);
}
