/*
 * cpu_attention: writing the cache and reading it, parallel over rows and key heads.
 */
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "base/check.h"

static uint8_t *tile_at(uint8_t *const *tiles, uint32_t tile_count, size_t tile) { return tiles[tile_count ? tile % tile_count : tile]; }

static size_t element_bytes(enum dtype kv_dtype) { return kv_dtype == DTYPE_F32 ? 4 : 2; }

/* ---- writing ---- */

struct kv_job {
    const struct cpu_backend *cpu;
    const struct op *op;
    const struct op_call *call;
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
            store_head(job->cpu->kernels, kv->kv_dtype, job->call->in[1] + r * job->call->in_width[1] + h * op->kv_write.v_dim,
                       v + (h * ATTENTION_TILE + place) * op->kv_write.v_dim * size, op->kv_write.v_dim);
        }
    }
}

void cpu_run_kv_write(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct kv_job job = {cpu, op, call};
    thread_pool_run(cpu->pool, call->rows, 16, kv_write_body, &job);
}

/* ---- reading ---- */

static void attend(const struct kv_job *job, size_t r, size_t kv_head, const struct cpu_worker *scratch) {
    const struct op *op = job->op;
    const struct op_row *row = &job->call->row[r];
    const struct kv_view *kv = &job->call->kv[row->sequence];
    size_t head_dim = op->attention.head_dim, v_dim = op->attention.v_dim, group = op->attention.heads / op->attention.kv_heads;
    size_t end = (size_t)row->position + 1, window = op->attention.window;
    size_t begin = window && end > window ? end - window : 0, size = element_bytes(kv->kv_dtype);
    size_t first_tile = begin / ATTENTION_TILE, last_tile = (end - 1) / ATTENTION_TILE;
    ASSERT(last_tile - first_tile < job->cpu->limits.attention_tiles);
    for (size_t t = first_tile; t <= last_tile; t++) {
        scratch->k_tiles[t - first_tile] = tile_at(kv->k_tiles, kv->tile_count, t) + kv_head * ATTENTION_TILE * head_dim * size;
        scratch->v_tiles[t - first_tile] = tile_at(kv->v_tiles, kv->tile_count, t) + kv_head * ATTENTION_TILE * v_dim * size;
    }
    struct attention_args args = {
        .q = job->call->in[0] + r * job->call->in_width[0] + kv_head * group * head_dim,
        .group = group,
        .head_dim = head_dim,
        .v_dim = v_dim,
        .k_tiles = scratch->k_tiles,
        .v_tiles = scratch->v_tiles,
        .k_stride_bytes = head_dim * size,
        .v_stride_bytes = v_dim * size,
        .kv_dtype = kv->kv_dtype,
        .begin = begin - first_tile * ATTENTION_TILE,
        .end = end - first_tile * ATTENTION_TILE,
        .scale = op->attention.scale,
        .softcap = op->attention.softcap,
        .sinks = job->call->constant[0] ? job->call->constant[0] + kv_head * group : NULL,
        .out = job->call->out[0] + r * job->call->out_width[0] + kv_head * group * v_dim,
        .scratch = scratch->attention,
    };
    job->cpu->kernels->attention(&args);
}

static void attention_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct kv_job *job = context;
    size_t kv_heads = job->op->attention.kv_heads;
    for (size_t item = begin; item < end; item++)
        attend(job, item / kv_heads, item % kv_heads, &job->cpu->workers[worker]);
}

void cpu_run_attention(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct kv_job job = {cpu, op, call};
    thread_pool_run(cpu->pool, call->rows * op->attention.kv_heads, 1, attention_body, &job);
}
