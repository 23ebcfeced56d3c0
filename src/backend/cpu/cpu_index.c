/*
 * cpu_index: the sparse index: scores of all earlier positions for a row, then the best of them.
 *
 * As many rows as there are threads are done at a time, so that the scores of a long context stay few: first all of them share the
 * positions of these rows, then each takes rows whole.
 */
#include "backend/cpu/cpu_internal.h"
#include "base/check.h"

struct index_job {
    const struct cpu_backend *cpu;
    const struct op *op;
    const struct op_call *call;
    size_t first, rows; /* rows of the call in this round; each keeps its scores in the scratch of one thread */
    size_t tiles;       /* of the longest of them */
};

static size_t visible(const struct index_job *job, size_t r) { return (size_t)job->call->row[r].position + 1; }

static void score_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct index_job *job = context;
    const struct op *op = job->op;
    (void)worker;
    for (size_t item = begin; item < end; item++) {
        size_t r = job->first + item / job->tiles, tile = item % job->tiles, count = visible(job, r);
        if (count <= op->index.top_k || tile * ATTENTION_TILE >= count)
            continue;
        const struct kv_view *kv = &job->call->kv[job->call->row[r].sequence];
        size_t left = count - tile * ATTENTION_TILE;
        struct index_args args = {.q = job->call->in[0] + r * job->call->in_width[0],
                                  .weights = job->call->in[1] + r * job->call->in_width[1],
                                  .heads = op->index.heads,
                                  .head_dim = op->index.head_dim,
                                  .keys = kv->k_tiles[tile],
                                  .stride_bytes = op->index.head_dim * (kv->kv_dtype == DTYPE_F32 ? sizeof(float) : sizeof(uint16_t)),
                                  .kv_dtype = kv->kv_dtype,
                                  .count = left < ATTENTION_TILE ? left : ATTENTION_TILE,
                                  .scores = job->cpu->workers[item / job->tiles].index_scores + tile * ATTENTION_TILE};
        job->cpu->kernels->index_scores(&args);
    }
}

static void select_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct index_job *job = context;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        size_t r = job->first + i, count = visible(job, r), top_k = job->op->index.top_k;
        uint32_t *selection = (uint32_t *)(void *)(job->call->out[0] + r * job->call->out_width[0]);
        selection[0] = count <= top_k ? 0 : (uint32_t)top_k;
        if (count > top_k)
            job->cpu->kernels->select_top(job->cpu->workers[i].index_scores, count, top_k, selection + 1);
    }
}

void cpu_run_index(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct index_job job = {.cpu = cpu, .op = op, .call = call};
    size_t together = thread_pool_size(cpu->pool);
    CHECK(cpu->limits.index);
    for (job.first = 0; job.first < call->rows; job.first += job.rows) {
        size_t longest = 0;
        job.rows = call->rows - job.first < together ? call->rows - job.first : together;
        for (size_t r = job.first; r < job.first + job.rows; r++)
            longest = visible(&job, r) > longest ? visible(&job, r) : longest;
        job.tiles = (longest + ATTENTION_TILE - 1) / ATTENTION_TILE;
        CHECK(job.tiles <= cpu->limits.attention_tiles);
        if (longest > op->index.top_k)
            thread_pool_run(cpu->pool, job.rows * job.tiles, 1, score_body, &job);
        thread_pool_run(cpu->pool, job.rows, 1, select_body, &job);
    }
}
