/*
 * cpu_rows: ops that work on each row alone: embedding, norms, rotation, activations, sums, router.
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "base/check.h"
#include "kernel/math.h"

struct rows_job {
    struct cpu_backend *cpu;
    const struct op *op;
    const struct op_call *call;
};

static void run_embed(const struct rows_job *job, size_t r, float *y) {
    const struct weight_view *table = &job->call->weight[0];
    size_t row = job->call->selected[r];
    for (size_t p = 0; p < table->part_count; p++) {
        const struct matrix_part *part = &table->parts[p];
        if (row >= part->first_row && row < part->first_row + part->matrix.rows) {
            job->cpu->kernels->decode_row(&part->matrix, row - part->first_row, y);
            if (job->op->embed.scale != 1)
                job->cpu->kernels->scale(y, job->op->embed.scale, job->call->out_width[0]);
            return;
        }
    }
    CHECK(row == SIZE_MAX); /* never: the executor asked for a row outside of the table */
}

static void run_norm(const struct rows_job *job, const float *x, float *y) {
    const struct op *op = job->op;
    const float *weight = job->call->constant[0], *bias = job->call->constant[1];
    for (size_t v = 0; v < op->norm.vectors; v++, x += op->norm.size, y += op->norm.size)
        if (op->norm.norm == NORM_LAYER)
            job->cpu->kernels->layer_norm(x, weight, bias, y, op->norm.size, op->norm.epsilon);
        else if (op->norm.norm == NORM_L2)
            job->cpu->kernels->l2_norm(x, y, op->norm.size, op->norm.epsilon);
        else
            job->cpu->kernels->rms_norm(x, weight, y, op->norm.size, op->norm.epsilon);
}

static void run_unpermute(const struct rows_job *job, float *x, float *scratch) {
    size_t dim = job->op->unpermute.head_dim, half = dim / 2;
    for (size_t h = 0; h < job->op->unpermute.heads; h++, x += dim) {
        for (size_t i = 0; i < half; i++) {
            scratch[i] = x[2 * i];
            scratch[half + i] = x[2 * i + 1];
        }
        memcpy(x, scratch, 2 * half * sizeof(float));
    }
}

static void run_rope_table(const struct rows_job *job, size_t r, float *table) {
    size_t half = job->op->rope_table.half;
    double position = (double)job->call->row[r].position + job->op->rope_table.offset;
    for (size_t i = 0; i < half; i++) {
        double angle = position * job->call->inverse_frequencies[i];
        table[i] = (float)math_cos_f64(angle) * job->call->rope_magnitude;
        table[half + i] = (float)math_sin_f64(angle) * job->call->rope_magnitude;
    }
}

static void run_router(const struct rows_job *job, const float *logits, float *routing, float *scratch) {
    const struct op *op = job->op;
    struct router_args args = {.logits = logits,
                               .bias = job->call->constant[0],
                               .expert_scale = job->call->constant[1],
                               .experts = op->router.experts,
                               .top_k = op->router.top_k,
                               .score = op->router.score,
                               .groups = op->router.groups,
                               .top_groups = op->router.top_groups,
                               .group_score_count = op->router.group_score_count,
                               .renormalise = op->router.renormalise,
                               .scale = op->router.scale,
                               .ids = (uint32_t *)(void *)routing,
                               .weights = routing + op->router.top_k,
                               .scratch = scratch};
    job->cpu->kernels->router(&args);
}

/* A position's factor: f64, rounded once. */
static float scale_at(const struct op *op, uint32_t position) {
    uint64_t steps = ((uint64_t)position + op->scale_by_position.offset) / op->scale_by_position.period;
    return (float)(1 + (double)op->scale_by_position.slope * math_log_f64(1 + (double)steps));
}

static void run_take_weight(const struct rows_job *job, size_t r, const float *x, float *y) {
    const struct op_call *call = job->call;
    const float *routing = call->in[1] + r * call->in_width[1];
    float *taken = call->out[1] + r * call->out_width[1];
    memcpy(taken, routing, sizeof *taken); /* the expert's number */
    taken[1] = 1.0f;
    memcpy(y, x, call->out_width[0] * sizeof *y);
    job->cpu->kernels->scale(y, routing[1], call->out_width[0]);
}

static void run_zero_experts(const struct rows_job *job, size_t r, const float *x, float *y) {
    const struct op *op = job->op;
    const float *routing = job->call->in[1] + r * job->call->in_width[1];
    for (uint32_t k = 0; k < op->zero_experts.top_k; k++) {
        uint32_t id;
        memcpy(&id, routing + k, sizeof id);
        if (id >= op->zero_experts.experts)
            job->cpu->kernels->add_scaled(y, x, routing[op->zero_experts.top_k + k], job->call->out_width[0]);
    }
}

/* Whether cluster c is among the best: fewer than `kept` have a larger score, or the same and a lower number. */
static bool is_kept(const float *scores, const struct op *op, uint32_t c) {
    uint32_t better = 0;
    for (uint32_t i = 0; i < op->keep_clusters.clusters; i++)
        better += scores[i] > scores[c] || (i < c && !(scores[i] < scores[c]));
    return better < op->keep_clusters.kept;
}

static void run_keep_clusters(const struct rows_job *job, const float *scores, float *logits) {
    const struct op *op = job->op;
    const float *tokens = job->call->constant[0];
    size_t size = job->call->out_width[0] / op->keep_clusters.clusters;
    float least = INFINITY;
    for (uint32_t c = 0; c < op->keep_clusters.clusters; c++)
        for (size_t i = 0, kept = is_kept(scores, op, c) ? size : 0; i < kept; i++)
            least = fminf(least, logits[(size_t)tokens[c * size + i]]);
    for (uint32_t c = 0; c < op->keep_clusters.clusters; c++)
        for (size_t i = 0, left_out = is_kept(scores, op, c) ? 0 : size; i < left_out; i++)
            logits[(size_t)tokens[c * size + i]] = least - 1.0f;
}

static void run_gate(const struct rows_job *job, size_t r) {
    const struct op *op = job->op;
    const struct op_call *call = job->call;
    const float *gates = call->in[0] + r * call->in_width[0];
    float *heads = call->out[0] + r * call->out_width[0];
    for (size_t h = 0; op->gate.repeat > 1 && h < call->in_width[0]; h++, heads += op->gate.repeat)
        job->cpu->kernels->scale(heads, math_sigmoid(gates[h]), op->gate.repeat);
    if (op->gate.repeat > 1)
        return;
    struct gate_args args = {.kind = op->gate.gate,
                             .gate = call->in[0] + r * call->in_width[0],
                             .up = call->in[1] ? call->in[1] + r * call->in_width[1] + op->gate.u_offset : NULL,
                             .y = call->out[0] + r * call->out_width[0],
                             .count = call->out_width[0],
                             .a = op->gate.a,
                             .b = op->gate.b,
                             .c = op->gate.c,
                             .d = op->gate.d};
    job->cpu->kernels->gate(&args);
}

static void run_row(const struct rows_job *job, size_t r, unsigned worker) {
    const struct op *op = job->op;
    const struct op_call *call = job->call;
    const struct kernel_table *k = job->cpu->kernels;
    const struct cpu_worker *scratch = &job->cpu->workers[worker];
    float *x = call->in[0] ? call->in[0] + r * call->in_width[0] : NULL, *y = call->out[0] + r * call->out_width[0];
    size_t width = call->out_width[0];
    switch (op->kind) {
    case OP_EMBED:
        run_embed(job, r, y);
        break;
    case OP_NORM:
        run_norm(job, x, y);
        break;
    case OP_UNPERMUTE:
        run_unpermute(job, y, scratch->head);
        break;
    case OP_ROPE_TABLE:
        run_rope_table(job, r, y);
        break;
    case OP_ROPE:
        k->rope(y + op->rope.offset, op->rope.heads, op->rope.head_dim, op->rope.half, x, x + op->rope.half, op->rope.pairs);
        break;
    case OP_GATE:
        run_gate(job, r);
        break;
    case OP_ADD:
        k->add(y, x, width);
        break;
    case OP_MULTIPLY:
        k->multiply(y, x, width);
        break;
    case OP_SCALE:
        k->scale(y, op->scale.factor, width);
        break;
    case OP_ADD_GATED:
        k->add_scaled(y, x, math_sigmoid(*(call->in[1] + r * call->in_width[1])), width);
        break;
    case OP_TAKE_WEIGHT:
        run_take_weight(job, r, x, y);
        break;
    case OP_ZERO_EXPERTS:
        run_zero_experts(job, r, x, y);
        break;
    case OP_SCALE_BY_POSITION:
        k->scale(y, scale_at(op, call->row[r].position), width);
        break;
    case OP_SCALE_VECTOR:
        k->multiply(y, call->constant[0], width);
        break;
    case OP_SOFTCAP:
        k->softcap(y, width, op->softcap.cap);
        break;
    case OP_KEEP_CLUSTERS:
        run_keep_clusters(job, x, y);
        break;
    case OP_ROUTER:
        run_router(job, x, y, scratch->router);
        break;
    case OP_SELECT_ROWS:
        memcpy(y, call->in[0] + call->selected[r] * call->in_width[0], width * sizeof(float));
        break;
    default:
        CHECK(op->kind == OP_KIND_COUNT); /* an op that does not work row by row */
    }
}

static void rows_body(void *context, size_t begin, size_t end, unsigned worker) {
    for (size_t r = begin; r < end; r++)
        run_row(context, r, worker);
}

void cpu_run_rows(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct rows_job job = {cpu, op, call};
    size_t heavy = op->kind == OP_ROUTER || op->kind == OP_ROPE_TABLE ? 1 : 4; /* rows worth a hand-over */
    thread_pool_run(cpu->pool, call->rows, heavy, rows_body, &job);
}
