/*
 * cpu_attention: writing the cache and reading it, parallel over rows, key heads and, when those are few, query heads.
 */
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "base/check.h"

#define HEADS_TOGETHER 8 /* query heads that a thread takes at least: each key is read once for all of them */

static uint8_t *tile_at(uint8_t *const *tiles, uint32_t tile_count, size_t tile) { return tiles[tile_count ? tile % tile_count : tile]; }

static size_t element_bytes(enum dtype kv_dtype) { return kv_dtype == DTYPE_F32 ? 4 : 2; }

/* ---- writing ---- */

struct kv_job {
    const struct cpu_backend *cpu;
    const struct op *op;
    const struct op_call *call;
    size_t pieces, piece_heads; /* reading: a key head's query heads are cut into pieces of piece_heads */
};

static void store_head(const struct kernel_table *kernels, enum dtype kv_dtype, const float *x, uint8_t *dst, size_t count) {
    if (kv_dtype == DTYPE_F32)
        memcpy(dst, x, count * sizeof(float));
    else
        kernels->f16_from_f32(x, (uint16_t *)(void *)dst, count);
}

static void kv_write_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct kv_job *job = context;
    const struct op *op = job->op;
    (void)worker;
    for (size_t r = begin; r < end; r++) {
        const struct op_row *row = &job->call->row[r];
        const struct kv_view *kv = &job->call->kv[row->sequence];
        size_t tile = row->position / ATTENTION_TILE, place = row->position % ATTENTION_TILE, size = element_bytes(kv->kv_dtype);
        uint8_t *k = tile_at(kv->k_tiles, kv->tile_count, tile), *v = tile_at(kv->v_tiles, kv->tile_count, tile);
        for (size_t h = 0; h < op->kv_write.kv_heads; h++) {
            store_head(job->cpu->kernels, kv->kv_dtype, job->call->in[0] + r * job->call->in_width[0] + h * op->kv_write.head_dim,
                       k + (h * ATTENTION_TILE + place) * op->kv_write.head_dim * size, op->kv_write.head_dim);
            if (job->call->in[1])
                store_head(job->cpu->kernels, kv->kv_dtype, job->call->in[1] + r * job->call->in_width[1] + h * op->kv_write.v_dim,
                           v + (h * ATTENTION_TILE + place) * op->kv_write.v_dim * size, op->kv_write.v_dim);
        }
    }
}

void cpu_run_kv_write(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct kv_job job = {.cpu = cpu, .op = op, .call = call};
    thread_pool_run(cpu->pool, call->rows, 16, kv_write_body, &job);
}

/* ---- reading ---- */

/* The row's list of chosen positions; count 0 stands for all. */
static void use_selection(const struct kv_job *job, size_t r, struct attention_args *args) {
    if (!job->call->in[1])
        return;
    const uint32_t *selection = (const uint32_t *)(const void *)(job->call->in[1] + r * job->call->in_width[1]);
    args->position_count = selection[0];
    args->positions = selection[0] ? selection + 1 : NULL;
}

/* Query heads [head, head + heads) of a row, which share a key head. */
static void attend(const struct kv_job *job, size_t r, size_t head, size_t heads, const struct cpu_worker *scratch) {
    const struct op *op = job->op;
    const struct op_row *row = &job->call->row[r];
    const struct kv_view *kv = &job->call->kv[row->sequence];
    size_t head_dim = op->attention.head_dim, v_dim = op->attention.v_dim, v_stride = op->attention.values_in_keys ? head_dim : v_dim;
    size_t kv_head = head / (op->attention.heads / op->attention.kv_heads);
    size_t end = (size_t)row->position + 1, window = op->attention.window;
    size_t seen = window && op->attention.chunks ? row->position % window + 1 : window;
    size_t begin = seen && end > seen ? end - seen : 0, size = element_bytes(kv->kv_dtype);
    size_t first_tile = begin / ATTENTION_TILE, last_tile = (end - 1) / ATTENTION_TILE;
    ASSERT(last_tile - first_tile < job->cpu->limits.attention_tiles);
    for (size_t t = first_tile; t <= last_tile; t++) {
        scratch->k_tiles[t - first_tile] = tile_at(kv->k_tiles, kv->tile_count, t) + kv_head * ATTENTION_TILE * head_dim * size;
        scratch->v_tiles[t - first_tile] = tile_at(kv->v_tiles, kv->tile_count, t) + kv_head * ATTENTION_TILE * v_stride * size;
    }
    struct attention_args args = {
        .q = job->call->in[0] + r * job->call->in_width[0] + head * head_dim,
        .group = heads,
        .head_dim = head_dim,
        .v_dim = v_dim,
        .k_tiles = scratch->k_tiles,
        .v_tiles = scratch->v_tiles,
        .k_stride_bytes = head_dim * size,
        .v_stride_bytes = v_stride * size,
        .kv_dtype = kv->kv_dtype,
        .begin = begin - first_tile * ATTENTION_TILE,
        .end = end - first_tile * ATTENTION_TILE,
        .scale = op->attention.scale,
        .softcap = op->attention.softcap,
        .sinks = job->call->constant[0] ? job->call->constant[0] + head : NULL,
        .out = job->call->out[0] + r * job->call->out_width[0] + head * v_dim,
        .scratch = scratch->attention,
    };
    use_selection(job, r, &args);
    job->cpu->kernels->attention(&args);
}

static void attention_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct kv_job *job = context;
    size_t kv_heads = job->op->attention.kv_heads, group = job->op->attention.heads / kv_heads;
    for (size_t item = begin; item < end; item++) {
        size_t first = item % job->pieces * job->piece_heads, kv_head = item / job->pieces % kv_heads;
        size_t heads = group - first < job->piece_heads ? group - first : job->piece_heads;
        attend(job, item / job->pieces / kv_heads, kv_head * group + first, heads, &job->cpu->workers[worker]);
    }
}

void cpu_run_attention(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct kv_job job = {.cpu = cpu, .op = op, .call = call};
    size_t items = call->rows * op->attention.kv_heads, group = op->attention.heads / op->attention.kv_heads;
    size_t wanted = (2 * (size_t)thread_pool_size(cpu->pool) + items - 1) / items, heads = (group + wanted - 1) / wanted;
    job.piece_heads = (heads + HEADS_TOGETHER - 1) / HEADS_TOGETHER * HEADS_TOGETHER;
    job.pieces = (group + job.piece_heads - 1) / job.piece_heads;
    thread_pool_run(cpu->pool, items * job.pieces, 1, attention_body, &job);
}
