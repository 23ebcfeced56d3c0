/* io_probe: see io_probe.h. */
#include "io/io_probe.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "io/read_queue.h"

#define NS_PER_MS ((uint64_t)1000 * 1000)
#define NS_PER_S 1e9

/* ---- disk ---- */

enum {
    DEPTH_MAX = 32,
    GRANULE_BYTES = 4096, /* smallest file and request worth timing */
};
static const uint64_t total_ns = 450 * NS_PER_MS, point_ns = 48 * NS_PER_MS, warm_up_ns = 15 * NS_PER_MS;
static const uint64_t staging_max_bytes = (uint64_t)64 << 20;

/* Sizes are those of expert slices and their parts. Ordered by bytes in flight: the first that is good enough is the cheapest. */
static const struct {
    uint32_t size_bytes;
    unsigned depth;
} points[] = {
    {64u << 10, 16}, {256u << 10, 4}, {256u << 10, 16}, {1u << 20, 4}, {1u << 20, 8}, {1u << 20, 16}, {2u << 20, 8}, {1u << 20, 32},
};
enum { POINT_COUNT = sizeof points / sizeof points[0] };
STATIC_ASSERT((int)POINT_COUNT == IO_PROBE_POINTS, "the result holds all points");

struct disk_probe {
    struct file_set *files;
    const struct io_sources *sources;
    uint64_t file_bytes, alignment_bytes; /* of the smallest; the largest */
    struct read_queue *queue;
    struct memory_region staging;
    uint64_t slot_bytes; /* of the point that is measured */
    uint64_t random_state, end_ns;
    struct read_request requests[DEPTH_MAX * IO_SOURCES_MAX];
};

/* A place for a read of size_bytes, anywhere in a file. */
static uint64_t random_offset(struct disk_probe *probe, uint64_t size_bytes) {
    probe->random_state = probe->random_state * 6364136223846793005u + 1442695040888963407u;
    uint64_t places = (probe->file_bytes - size_bytes) / probe->alignment_bytes + 1;
    return (probe->random_state >> 20) % places * probe->alignment_bytes;
}

/* Into other memory each time: what is read into the same places stays in a cache, and comes sooner than weights do. */
static void submit_read(struct disk_probe *probe, const struct io_probe_point *point, struct read_request *request) {
    uint64_t place_bytes = (uint64_t)(request->dst - probe->staging.data) + point->depth * probe->slot_bytes;
    if (place_bytes + probe->slot_bytes > probe->staging.size_bytes)
        place_bytes = (uint64_t)(request - probe->requests) * probe->slot_bytes;
    request->dst = probe->staging.data + place_bytes;
    request->offset_bytes = random_offset(probe, point->size_bytes);
    request->size_bytes = point->size_bytes;
    CHECK(read_queue_submit(probe->queue, request) == READ_ACCEPTED);
}

/* Keeps point->depth reads in flight for duration_ns and times those that finish in it, or the first round when the disk is slower. */
static enum status measure_point(struct disk_probe *probe, struct io_probe_point *point, uint64_t duration_ns, struct error *err) {
    probe->slot_bytes = size_round_up(point->size_bytes, probe->alignment_bytes);
    CHECK(point->depth <= DEPTH_MAX * probe->sources->count && probe->slot_bytes * point->depth <= probe->staging.size_bytes);
    uint64_t begin_ns = clock_now_ns(), end_ns = begin_ns + duration_ns, counted_ns = begin_ns, counted_bytes = 0;
    unsigned counted = 0;
    for (unsigned i = 0; i < point->depth; i++) { /* each stays with its source, so that all have the same depth */
        probe->requests[i] = (struct read_request){.file = probe->sources->files[i % probe->sources->count],
                                                   .dst = probe->staging.data + i * probe->slot_bytes,
                                                   .dst_size_bytes = (size_t)probe->slot_bytes};
        submit_read(probe, point, &probe->requests[i]);
    }
    read_queue_flush(probe->queue);
    while (read_queue_in_flight(probe->queue) > 0) {
        struct read_request *done = read_queue_reap(probe->queue, true, UINT64_MAX);
        CHECK(done);
        if (done->status != STATUS_OK)
            return read_request_error(probe->files, done, err);
        uint64_t now_ns = clock_now_ns();
        if (now_ns <= end_ns || counted < point->depth) {
            counted++;
            counted_bytes += point->size_bytes;
            counted_ns = now_ns;
        }
        if (now_ns < end_ns) {
            submit_read(probe, point, done);
            read_queue_flush(probe->queue);
        }
    }
    point->bytes_per_s = (double)counted_bytes * NS_PER_S / (double)(counted_ns > begin_ns ? counted_ns - begin_ns : 1);
    return STATUS_OK;
}

/* The listed point as far as file and staging allow it. False: not at all. */
static bool fit_point(const struct disk_probe *probe, unsigned index, struct io_probe_point *point) {
    uint64_t size_bytes = points[index].size_bytes;
    if (size_bytes > probe->file_bytes)
        size_bytes = probe->file_bytes / GRANULE_BYTES * GRANULE_BYTES;
    unsigned count = probe->sources->count;
    uint64_t fitting = probe->staging.size_bytes / size_round_up(size_bytes, probe->alignment_bytes) / count;
    *point = (struct io_probe_point){.size_bytes = (uint32_t)size_bytes,
                                     .depth = count * (fitting < points[index].depth ? (unsigned)fitting : points[index].depth)};
    return point->depth > 0;
}

static enum status measure_points(struct disk_probe *probe, struct io_probe_result *result, struct error *err) {
    struct io_probe_point done[POINT_COUNT];
    unsigned done_count = 0;
    double best = 0;
    for (unsigned i = 0; i < POINT_COUNT; i++) {
        struct io_probe_point *point = &done[done_count];
        if (!fit_point(probe, i, point))
            continue;
        if (done_count == 0)
            TRY(measure_point(probe, point, warm_up_ns, err)); /* wakes the disk and brings the file's block map to memory */
        uint64_t now_ns = clock_now_ns(), left_ns = now_ns < probe->end_ns ? probe->end_ns - now_ns : 0;
        double in_flight_s = best > 0 ? (double)point->size_bytes * point->depth / best : 0;
        if (done_count > 0 && in_flight_s * NS_PER_S > (double)left_ns)
            break; /* a slow disk: this and the following would not end in time */
        TRY(measure_point(probe, point, left_ns < point_ns ? left_ns : point_ns, err));
        best = point->bytes_per_s > best ? point->bytes_per_s : best;
        done_count++;
    }
    CHECK(done_count > 0 && best > 0);
    unsigned chosen = 0;
    while (done[chosen].bytes_per_s < 0.95 * best)
        chosen++;
    result->disk_bytes_per_s = best;
    result->best_depth = done[chosen].depth;
    result->best_size = done[chosen].size_bytes;
    result->point_count = done_count;
    memcpy(result->points, done, done_count * sizeof *done);
    return STATUS_OK;
}

/* The largest alignment and the smallest size of all sources. */
static void look_at_sources(struct disk_probe *probe) {
    probe->alignment_bytes = GRANULE_BYTES;
    probe->file_bytes = UINT64_MAX;
    for (unsigned i = 0; i < probe->sources->count; i++) {
        uint32_t file = probe->sources->files[i];
        uint64_t alignment = file_set_alignment(probe->files, file), size = file_set_size_bytes(probe->files, file);
        probe->alignment_bytes = alignment > probe->alignment_bytes ? alignment : probe->alignment_bytes;
        probe->file_bytes = size < probe->file_bytes ? size : probe->file_bytes;
    }
}

enum status io_probe_disk(struct file_set *files, const struct io_sources *sources, uint64_t memory_limit_bytes,
                          struct io_probe_result *result, struct error *err) {
    CHECK(sources->count >= 1 && sources->count <= IO_SOURCES_MAX);
    struct disk_probe *probe = memory_alloc(sizeof *probe);
    if (!probe)
        return error_set(err, STATUS_NO_MEMORY, "no memory to measure the disk");
    *probe = (struct disk_probe){.files = files, .sources = sources};
    look_at_sources(probe);
    probe->random_state = clock_now_ns();
    probe->end_ns = probe->random_state + total_ns;
    uint64_t staging_bytes = staging_max_bytes * sources->count;
    staging_bytes = memory_limit_bytes < staging_bytes ? memory_limit_bytes : staging_bytes;
    enum status status;
    if (probe->file_bytes < GRANULE_BYTES || staging_bytes < 2 * probe->alignment_bytes * sources->count)
        status = error_set(err, STATUS_INVALID, "%s: %" PRIu64 " bytes with %" PRIu64 " bytes of memory are too little to measure the disk",
                           file_set_path(files, sources->files[0]), probe->file_bytes, memory_limit_bytes);
    else
        status = memory_region_create(&probe->staging, (size_t)staging_bytes, MEMORY_STAGING, false, err);
    if (status == STATUS_OK) {
        memset(probe->staging.data, 1, probe->staging.size_bytes); /* else the kernel's clearing of new pages is timed with the reads */
        status = read_queue_create_best(files, DEPTH_MAX * sources->count, &probe->queue, err);
    }
    if (status == STATUS_OK)
        status = measure_points(probe, result, err);
    read_queue_destroy(probe->queue);
    memory_region_destroy(&probe->staging);
    memory_free(probe);
    return status;
}

/* ---- memory ---- */

#define BLOCK_BYTES ((size_t)1 << 20)
/* Several times the last-level cache, which has 2 to 12 MiB per core. */
#define MEMORY_MIN_BYTES ((uint64_t)128 << 20)
#define MEMORY_THREAD_BYTES ((uint64_t)32 << 20)
static const uint64_t memory_passes_ns = 50 * NS_PER_MS;

struct memory_probe {
    struct memory_region region;
    atomic_uint_fast64_t sum; /* keeps the reads from being left out */
};

static void fill_blocks(void *context, size_t begin, size_t end, unsigned worker) {
    struct memory_probe *probe = context;
    (void)worker;
    for (size_t i = begin * BLOCK_BYTES; i < end * BLOCK_BYTES; i += GRANULE_BYTES)
        probe->region.data[i] = (uint8_t)(i / GRANULE_BYTES); /* an untouched page would be the one page of zeros */
}

static void sum_blocks(void *context, size_t begin, size_t end, unsigned worker) {
    struct memory_probe *probe = context;
    (void)worker;
    enum { LANES = 8 };
    const uint64_t *words = (const uint64_t *)(const void *)(probe->region.data + begin * BLOCK_BYTES);
    size_t word_count = (end - begin) * BLOCK_BYTES / sizeof *words;
    uint64_t lanes[LANES] = {0};
    for (size_t i = 0; i < word_count; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            lanes[lane] += words[i + lane];
    uint64_t sum = 0;
    for (size_t lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    atomic_fetch_add_explicit(&probe->sum, sum, memory_order_relaxed);
}

enum status io_probe_memory(struct thread_pool *pool, uint64_t memory_limit_bytes, struct io_probe_result *result, struct error *err) {
    uint64_t bytes = thread_pool_size(pool) * MEMORY_THREAD_BYTES;
    bytes = bytes > MEMORY_MIN_BYTES ? bytes : MEMORY_MIN_BYTES;
    bytes = bytes < memory_limit_bytes ? bytes : memory_limit_bytes;
    size_t blocks = (size_t)(bytes / BLOCK_BYTES);
    if (blocks == 0)
        return error_set(err, STATUS_INVALID, "%" PRIu64 " bytes are too little to measure the memory's speed; 1 MiB is the least",
                         memory_limit_bytes);
    struct memory_probe probe = {0};
    TRY(memory_region_create(&probe.region, blocks * BLOCK_BYTES, MEMORY_STAGING, false, err));
    thread_pool_run(pool, blocks, 1, fill_blocks, &probe);
    double best = 0;
    uint64_t begin_ns = clock_now_ns(), now_ns = begin_ns;
    while (now_ns - begin_ns < memory_passes_ns) {
        uint64_t pass_begin_ns = now_ns;
        thread_pool_run(pool, blocks, 1, sum_blocks, &probe);
        now_ns = clock_now_ns();
        double rate = (double)(blocks * BLOCK_BYTES) * NS_PER_S / (double)(now_ns > pass_begin_ns ? now_ns - pass_begin_ns : 1);
        best = rate > best ? rate : best;
    }
    memory_region_destroy(&probe.region);
    result->memory_bytes_per_s = best;
    return STATUS_OK;
}
