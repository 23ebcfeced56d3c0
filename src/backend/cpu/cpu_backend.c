/*
 * cpu_backend: create, scratch, dispatch.
 */
#include "backend/cpu/cpu_internal.h"
#include "base/check.h"

void backend_limits_add_weight(struct backend_limits *limits, enum weight_use use, unsigned format, uint32_t group_cols, size_t cols) {
    unsigned activation = limits->exact ? 0 : cpu_activation_of(format, group_cols);
    size_t bytes = cpu_activation_layout(activation, cols).row_bytes;
    size_t *widest = use == WEIGHT_OF_EXPERT_INPUT  ? &limits->expert_input_row_bytes
                     : use == WEIGHT_OF_EXPERT_DOWN ? &limits->hidden_row_bytes
                                                    : &limits->input_row_bytes;
    if (activation == 0 && use != WEIGHT_OF_EXPERT_INPUT)
        bytes = 0; /* used where it lies */
    *widest = bytes > *widest ? bytes : *widest;
    limits->matmul_cols = cols > limits->matmul_cols ? cols : limits->matmul_cols;
    limits->two_parts = limits->two_parts || (activation & CPU_TWO_PARTS);
}

void backend_limits_add_heads(struct backend_limits *limits, const struct op *op, unsigned format, uint32_t group_cols) {
    size_t in = op->head_matmul.in_size, out = op->head_matmul.out_size;
    unsigned activation = limits->exact ? 0 : cpu_activation_of(format, group_cols);
    if (op->head_matmul.transposed) {
        limits->transposed_outputs = out > limits->transposed_outputs ? out : limits->transposed_outputs;
        return;
    }
    size_t bytes = activation ? op->head_matmul.heads * cpu_activation_layout(activation, in).row_bytes : 0;
    limits->input_row_bytes = bytes > limits->input_row_bytes ? bytes : limits->input_row_bytes;
    limits->matmul_cols = in > limits->matmul_cols ? in : limits->matmul_cols;
    limits->two_parts = limits->two_parts || (activation & CPU_TWO_PARTS);
}

size_t backend_pair_limit(const struct backend_limits *limits) { return limits->rows > limits->top_k ? limits->rows : limits->top_k; }

bool cpu_backend_available(enum cpu_isa isa) { return kernel_table_for(isa) != NULL; }

bool cpu_backend_supports(enum cpu_isa isa, bool exact, unsigned format) {
    const struct kernel_table *kernels = kernel_table_for(isa);
    return kernels && (exact || (format < MATRIX_FORMAT_COUNT && kernels->matmul[format] != NULL));
}

/* ---- scratch ---- */

struct cutter { /* counts when data is NULL, cuts otherwise */
    uint8_t *data;
    size_t used_bytes;
};

static void *cut(struct cutter *cutter, size_t count, size_t element_bytes) {
    size_t at = cutter->used_bytes;
    cutter->used_bytes += (size_t)size_round_up(count * element_bytes, 64);
    return cutter->data ? cutter->data + at : NULL;
}

static void cut_worker(struct cutter *cutter, const struct backend_limits *l, enum cpu_isa isa, struct cpu_worker *worker) {
    worker->decode = cut(cutter, l->exact ? l->matmul_cols : 0, sizeof(float));
    worker->many = cut(cutter, !l->exact ? matmul_many_bytes(isa, l->matmul_cols) : 0, 1);
    size_t queries = l->attention_group < ATTENTION_QUERIES && l->rows > 1 ? ATTENTION_QUERIES : l->attention_group;
    worker->attention =
        cut(cutter, l->attention_group ? attention_scratch_floats(queries, l->attention_head_dim, l->attention_v_dim) : 0, sizeof(float));
    worker->ranges = cut(cutter, l->attention_group ? ATTENTION_QUERIES : 0, sizeof *worker->ranges);
    worker->k_tiles = cut(cutter, l->attention_tiles, sizeof(void *));
    worker->v_tiles = cut(cutter, l->attention_tiles, sizeof(void *));
    worker->router = cut(cutter, 3 * l->experts, sizeof(float));
    worker->head = cut(cutter, l->unpermuted_head_dim, sizeof(float));
    worker->head_lanes = cut(cutter, (1 + 16 * CPU_HEAD_TOKENS) * l->transposed_outputs, sizeof(float));
    worker->index_scores = cut(cutter, l->index ? l->attention_tiles * ATTENTION_TILE : 0, sizeof(float));
    worker->left = cut(cutter, l->two_parts ? l->matmul_cols : 0, sizeof(float));
    worker->both = cut(cutter, l->two_parts ? 2 * CPU_SPLIT_SHORT * CPU_SPLIT_LONG : 0, sizeof(float));
    worker->partial = cut(cutter, l->experts ? backend_pair_limit(l) * CPU_DOWN_ROWS : 0, sizeof(float));
}

/* Parts of tiles that are worth having: none for one thread; else of one row's tiles, within bounds. */
static size_t parts_floats(const struct backend_limits *l, unsigned threads) {
    size_t tile = l->attention_heads * attention_part_floats(1, l->attention_v_dim), tiles = CPU_PARTS_FLOATS / (tile ? tile : 1);
    tiles = tiles < CPU_PARTS_LEAST ? CPU_PARTS_LEAST : tiles > CPU_PARTS_MOST ? CPU_PARTS_MOST : tiles;
    return threads > 1 ? tile * (tiles < l->attention_tiles ? tiles : l->attention_tiles) : 0;
}

static void cut_shared(struct cutter *cutter, const struct backend_limits *l, unsigned threads, struct cpu_backend *cpu) {
    size_t pairs = l->experts ? backend_pair_limit(l) : 0, expert_rows = l->experts ? l->rows : 0;
    cpu->inputs = cut(cutter, l->rows, l->input_row_bytes);
    for (int i = 0; i < 2; i++) {
        cpu->expert_inputs[i] = cut(cutter, expert_rows, l->exact ? 0 : l->expert_input_row_bytes);
        cpu->gathered[i] = cut(cutter, l->rows > 1 ? pairs : 0, l->expert_input_row_bytes);
        cpu->hidden[i] = cut(cutter, pairs * l->expert_hidden, sizeof(float));
    }
    cpu->hidden_inputs = cut(cutter, pairs, l->hidden_row_bytes);
    cpu->runs = cut(cutter, l->recurrent ? l->rows + 1 : 0, sizeof *cpu->runs);
    cpu->parts_floats = parts_floats(l, threads);
    cpu->parts = cut(cutter, cpu->parts_floats, sizeof *cpu->parts);
}

size_t cpu_backend_scratch_bytes(const struct cpu_backend_options *options) {
    struct cutter counter = {0};
    struct cpu_backend cpu;
    struct cpu_worker worker;
    for (unsigned t = 0; t < options->threads; t++)
        cut_worker(&counter, &options->limits, options->isa, &worker);
    cut_shared(&counter, &options->limits, options->threads, &cpu);
    return counter.used_bytes;
}

/* ---- life ---- */

static enum status cpu_run(struct backend *backend, const struct op *op, const struct op_call *call, struct error *err) {
    struct cpu_backend *cpu = (struct cpu_backend *)backend;
    (void)err;
    op_check(op, call); /* nanoseconds beside any op */
    switch (op->kind) {
    case OP_MATMUL:
        cpu_run_matmul(cpu, op, call);
        break;
    case OP_ATTENTION:
        cpu_run_attention(cpu, op, call);
        break;
    case OP_KV_WRITE:
        cpu_run_kv_write(cpu, op, call);
        break;
    case OP_INDEX:
        cpu_run_index(cpu, op, call);
        break;
    case OP_HEAD_MATMUL:
        cpu_run_head_matmul(cpu, op, call);
        break;
    case OP_COPY_HEADS:
        cpu_run_copy_heads(cpu, op, call);
        break;
    case OP_SHORT_CONV:
        cpu_run_short_conv(cpu, op, call);
        break;
    case OP_DECAY:
        cpu_run_decay(cpu, op, call);
        break;
    case OP_DELTA_RULE:
        cpu_run_delta_rule(cpu, op, call);
        break;
    case OP_EXPERTS:
        cpu_run_experts(cpu, op, call);
        break;
    default:
        cpu_run_rows(cpu, op, call);
    }
    return STATUS_OK;
}

static void cpu_destroy(struct backend *backend) {
    struct cpu_backend *cpu = (struct cpu_backend *)backend;
    thread_pool_destroy(cpu->pool);
    memory_region_destroy(&cpu->scratch);
    memory_free(cpu->workers);
    memory_free(cpu);
}

static const struct backend_operations operations = {.name = "cpu", .run = cpu_run, .destroy = cpu_destroy};

enum status cpu_backend_create(const struct cpu_backend_options *options, struct backend **out, struct error *err) {
    *out = NULL;
    CHECK(options->threads >= 1);
    struct cpu_backend *cpu = memory_alloc(sizeof *cpu);
    if (!cpu)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the CPU backend");
    cpu->base.operations = &operations;
    cpu->limits = options->limits;
    cpu->kernels = kernel_table_for(options->isa);
    cpu->workers = memory_alloc_array(options->threads, sizeof *cpu->workers);
    enum status status = STATUS_OK;
    if (!cpu->kernels)
        status = error_set(err, STATUS_UNSUPPORTED, "this processor lacks the instruction set '%s'", cpu_isa_name(options->isa));
    else if (!cpu->workers)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for the CPU backend");
    if (status == STATUS_OK)
        status = memory_region_create(&cpu->scratch, cpu_backend_scratch_bytes(options), MEMORY_ACTIVATIONS, false, err);
    if (status == STATUS_OK)
        status = thread_pool_create(options->threads, &cpu->pool, err);
    if (status != STATUS_OK) {
        cpu_destroy(&cpu->base);
        return status;
    }
    struct cutter cutter = {.data = cpu->scratch.data};
    for (unsigned t = 0; t < options->threads; t++)
        cut_worker(&cutter, &cpu->limits, options->isa, &cpu->workers[t]);
    cut_shared(&cutter, &cpu->limits, options->threads, cpu);
    CHECK(cutter.used_bytes <= cpu->scratch.size_bytes || !cpu->scratch.data);
    *out = &cpu->base;
    return STATUS_OK;
}
