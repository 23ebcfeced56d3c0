/*
 * cpu_attention: writing the cache and reading it.
 *
 * Reading is parallel over pieces: some rows of one sequence with some query heads of one key head. When they are few and there is much to
 * read, also over tiles: each leaves its part in cpu->parts, as many tiles at a time as fit, which are then joined in their order.
 */
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "base/check.h"

#define HEADS_TOGETHER 16            /* query heads that a thread takes at least: each key is read once for all of them */
#define SPLIT_WORK ((size_t)1 << 19) /* multiply-adds from which tiles are worth the hand-overs */

static uint8_t *tile_at(uint8_t *const *tiles, uint32_t tile_count, size_t tile) { return tiles[tile_count ? tile % tile_count : tile]; }

static size_t element_bytes(enum dtype kv_dtype) { return kv_dtype == DTYPE_F32 ? 4 : 2; }

/* ---- writing ---- */

struct kv_job {
    const struct cpu_backend *cpu;
    const struct op *op;
    const struct op_call *call;
    size_t pieces, piece_heads; /* reading: a key head's query heads are cut into pieces of piece_heads, */
    size_t blocks, block_rows;  /* the rows into blocks of block_rows */
    size_t first_tile, tiles;   /* over tiles: those of each row that are at hand, counted from the first that it sees; */
    size_t slots;               /* parts of each piece that there is room for, the first of which holds what earlier tiles gave */
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

static struct attention_range visible(const struct op *op, uint32_t position) {
    size_t end = (size_t)position + 1, window = op->attention.window;
    size_t seen = window && op->attention.chunks ? position % window + 1 : window;
    return (struct attention_range){seen && end > seen ? end - seen : 0, end};
}

/* What rows [r, r + rows) of one sequence ask of the query heads [head, head + heads), which share a key head. */
static struct attention_args ask(const struct kv_job *job, size_t r, size_t rows, size_t head, size_t heads,
                                 const struct cpu_worker *scratch) {
    const struct op *op = job->op;
    const struct kv_view *kv = &job->call->kv[job->call->row[r].sequence];
    size_t head_dim = op->attention.head_dim, v_dim = op->attention.v_dim, v_stride = op->attention.values_in_keys ? head_dim : v_dim;
    size_t kv_head = head / (op->attention.heads / op->attention.kv_heads), size = element_bytes(kv->kv_dtype);
    size_t first_tile = SIZE_MAX, end_tile = 0;
    for (size_t i = 0; i < rows; i++) {
        struct attention_range range = scratch->ranges[i] = visible(op, job->call->row[r + i].position);
        size_t first = range.begin / ATTENTION_TILE, last = (range.end - 1) / ATTENTION_TILE;
        first_tile = first < first_tile ? first : first_tile;
        end_tile = last >= end_tile ? last + 1 : end_tile;
    }
    ASSERT(end_tile - first_tile <= job->cpu->limits.attention_tiles);
    for (size_t t = first_tile; t < end_tile; t++) {
        scratch->k_tiles[t - first_tile] = tile_at(kv->k_tiles, kv->tile_count, t) + kv_head * ATTENTION_TILE * head_dim * size;
        scratch->v_tiles[t - first_tile] = tile_at(kv->v_tiles, kv->tile_count, t) + kv_head * ATTENTION_TILE * v_stride * size;
    }
    for (size_t i = 0; i < rows; i++) {
        scratch->ranges[i].begin -= first_tile * ATTENTION_TILE;
        scratch->ranges[i].end -= first_tile * ATTENTION_TILE;
    }
    struct attention_args args = {
        .q = job->call->in[0] + r * job->call->in_width[0] + head * head_dim,
        .rows = rows,
        .q_stride = job->call->in_width[0],
        .group = heads,
        .head_dim = head_dim,
        .v_dim = v_dim,
        .k_tiles = scratch->k_tiles,
        .v_tiles = scratch->v_tiles,
        .k_stride_bytes = head_dim * size,
        .v_stride_bytes = v_stride * size,
        .kv_dtype = kv->kv_dtype,
        .ranges = scratch->ranges,
        .scale = op->attention.scale,
        .softcap = op->attention.softcap,
        .sinks = job->call->constant[0] ? job->call->constant[0] + head : NULL,
        .out = job->call->out[0] + r * job->call->out_width[0] + head * v_dim,
        .out_stride = job->call->out_width[0],
        .scratch = scratch->attention,
    };
    if (job->call->in[1]) { /* the row's list of chosen positions; count 0 stands for all */
        const uint32_t *selection = (const uint32_t *)(const void *)(job->call->in[1] + r * job->call->in_width[1]);
        args.position_count = selection[0];
        args.positions = selection[0] ? selection + 1 : NULL;
    }
    return args;
}

/* Query heads of a piece: the first one, and how many. */
static size_t heads_of(const struct kv_job *job, size_t kv_head, size_t piece, size_t *heads) {
    size_t group = job->op->attention.heads / job->op->attention.kv_heads, first = piece * job->piece_heads;
    *heads = group - first < job->piece_heads ? group - first : job->piece_heads;
    return kv_head * group + first;
}

/* Items by block, key head and piece. Last rows see most: blocks come from both ends in turn, so that neighbours are equal work. */
static void attention_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct kv_job *job = context;
    const struct op_row *row = job->call->row;
    size_t kv_heads = job->op->attention.kv_heads, heads;
    for (size_t item = begin; item < end; item++) {
        size_t head = heads_of(job, item / job->pieces % kv_heads, item % job->pieces, &heads);
        size_t place = item / job->pieces / kv_heads, block = place % 2 ? place / 2 : job->blocks - 1 - place / 2;
        size_t r = block * job->block_rows, rows;
        size_t end_row = r + job->block_rows < job->call->rows ? r + job->block_rows : job->call->rows;
        for (; r < end_row; r += rows) {
            for (rows = 1; !job->call->in[1] && r + rows < end_row && row[r + rows].sequence == row[r].sequence;)
                rows++;
            struct attention_args args = ask(job, r, rows, head, heads, &job->cpu->workers[worker]);
            job->cpu->kernels->attention(&args);
        }
    }
}

/* ---- over tiles ---- */

/* Parts of a row's piece that begins with `head`; the first is also where what earlier tiles gave waits. */
static float *parts_of(const struct kv_job *job, size_t r, size_t head) {
    return job->cpu->parts + (r * job->op->attention.heads + head) * attention_part_floats(1, job->op->attention.v_dim) * job->slots;
}

static size_t tiles_seen(const struct kv_job *job, size_t r) {
    struct attention_range range = visible(job->op, job->call->row[r].position);
    return (range.end - 1) / ATTENTION_TILE + 1 - range.begin / ATTENTION_TILE;
}

/* How many tiles of a row are at hand, from job->first_tile on. */
static size_t tiles_at_hand(const struct kv_job *job, size_t r) {
    size_t all = tiles_seen(job, r), left = all > job->first_tile ? all - job->first_tile : 0;
    return left < job->tiles ? left : job->tiles;
}

/* Items by row, key head, piece and tile; neighbours go together. */
static void tile_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct kv_job *job = context;
    size_t kv_heads = job->op->attention.kv_heads, heads;
    for (size_t item = begin, count; item < end; item += count) {
        size_t tile = item % job->tiles, piece = item / job->tiles, r = piece / job->pieces / kv_heads;
        count = job->tiles - tile < end - item ? job->tiles - tile : end - item;
        if (tile >= tiles_at_hand(job, r))
            continue;
        size_t head = heads_of(job, piece / job->pieces % kv_heads, piece % job->pieces, &heads);
        struct attention_args args = ask(job, r, 1, head, heads, &job->cpu->workers[worker]);
        struct attention_range *range = job->cpu->workers[worker].ranges;
        size_t first = job->first_tile + tile, limit = (first + count) * ATTENTION_TILE;
        range->begin = first == 0 ? range->begin : first * ATTENTION_TILE;
        range->end = range->end < limit ? range->end : limit;
        args.parts = parts_of(job, r, head) + (job->slots - job->tiles + tile) * attention_part_floats(heads, args.v_dim);
        job->cpu->kernels->attention(&args);
    }
}

/* Items by row, key head, piece and head of the piece. */
static void join_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct kv_job *job = context;
    const struct op_call *call = job->call;
    size_t kv_heads = job->op->attention.kv_heads, heads;
    (void)worker;
    for (size_t item = begin; item < end; item++) {
        size_t place = item % job->piece_heads, piece = item / job->piece_heads, r = piece / job->pieces / kv_heads;
        size_t head = heads_of(job, piece / job->pieces % kv_heads, piece % job->pieces, &heads), count = tiles_at_hand(job, r);
        if (place >= heads || count == 0)
            continue;
        float *out = call->out[0] + r * call->out_width[0] + head * job->op->attention.v_dim;
        struct attention_join_args args = {.parts = parts_of(job, r, head),
                                           .count = job->slots - job->tiles + count,
                                           .group = heads,
                                           .v_dim = job->op->attention.v_dim,
                                           .head_begin = place,
                                           .head_end = place + 1,
                                           .sinks = call->constant[0] ? call->constant[0] + head : NULL,
                                           .out = job->first_tile + count == tiles_seen(job, r) ? out : NULL};
        job->cpu->kernels->attention_join(&args);
    }
}

static size_t most_tiles(const struct kv_job *job) {
    size_t most = 0;
    for (size_t r = 0; r < job->call->rows; r++)
        most = tiles_seen(job, r) > most ? tiles_seen(job, r) : most;
    return most;
}

/* Whether tiles are worth being shared out: few pieces, and much to read. Sets how many parts there is room for. */
static bool split(struct kv_job *job, size_t threads) {
    const struct op *op = job->op;
    size_t rows = job->call->rows, most = most_tiles(job), v_dim = op->attention.v_dim;
    if (threads == 1 || job->call->in[1] || rows * op->attention.kv_heads * job->pieces >= 4 * threads)
        return false;
    job->slots = job->cpu->parts_floats / (rows * op->attention.heads * attention_part_floats(1, v_dim));
    job->slots = job->slots < most ? job->slots : most;
    size_t work = rows * op->attention.heads * (op->attention.head_dim + v_dim) * most * ATTENTION_TILE;
    return job->slots >= 2 && work >= SPLIT_WORK;
}

static void run_tiles(struct kv_job *job, struct thread_pool *pool) {
    size_t pieces = job->call->rows * job->op->attention.kv_heads * job->pieces, most = most_tiles(job);
    for (job->tiles = job->slots; job->first_tile < most; job->first_tile += job->tiles, job->tiles = job->slots - 1) {
        thread_pool_run(pool, pieces * job->tiles, 1, tile_body, job);
        thread_pool_run(pool, pieces * job->piece_heads, 1, join_body, job);
    }
}

void cpu_run_attention(struct cpu_backend *cpu, const struct op *op, const struct op_call *call) {
    struct kv_job job = {.cpu = cpu, .op = op, .call = call};
    size_t kv_heads = op->attention.kv_heads, group = op->attention.heads / kv_heads, threads = thread_pool_size(cpu->pool);
    size_t wanted = (4 * threads + call->rows * kv_heads - 1) / (call->rows * kv_heads), heads = (group + wanted - 1) / wanted;
    heads = (heads + HEADS_TOGETHER - 1) / HEADS_TOGETHER * HEADS_TOGETHER;
    job.piece_heads = heads < ATTENTION_QUERIES ? heads : ATTENTION_QUERIES;
    job.piece_heads = job.piece_heads < group ? job.piece_heads : group;
    job.pieces = (group + job.piece_heads - 1) / job.piece_heads;
    if (split(&job, threads)) {
        run_tiles(&job, cpu->pool);
        return;
    }
    size_t fair = call->rows * kv_heads * job.pieces / (4 * threads), most = ATTENTION_QUERIES / job.piece_heads;
    job.block_rows = fair < 1 ? 1 : fair < most ? fair : most;
    job.blocks = (call->rows + job.block_rows - 1) / job.block_rows;
    thread_pool_run(cpu->pool, job.blocks * kv_heads * job.pieces, 1, attention_body, &job);
}
