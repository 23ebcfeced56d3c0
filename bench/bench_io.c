/*
 * bench_io: how fast a file is read at random places, by request size, depth and kind of queue. The question behind it: which split and
 * depth does a disk want, and what does each kind of queue cost beside it.
 *
 * usage  bench_io FILE [milliseconds per point, default 200]
 * prints one table per kind, GB/s (1e9), and the processor time that this process used per GiB. Use a file that is larger than the caches
 * of the disk. Then the best kind into memory that begins at pages and behind them, by turns, where direct reads allow it. The last lines
 * are what io_probe makes of the same machine.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "io/io_probe.h"
#include "io/read_queue.h"

enum { DEPTH_MAX = 64, IN_FLIGHT_MAX_BYTES = 256 << 20 };
static const uint64_t sizes_bytes[] = {4096, 65536, 262144, 1 << 20, 2 << 20, 4 << 20, 8 << 20};
static const unsigned depths[] = {1, 2, 4, 8, 16, 32, 64};
enum { SIZE_COUNT = sizeof sizes_bytes / sizeof sizes_bytes[0], DEPTH_COUNT = sizeof depths / sizeof depths[0] };

struct bench {
    struct file_set *files;
    struct memory_region staging;
    uint64_t random_state, point_ns;
    uint64_t shift_bytes; /* all memory begins so far behind a page */
    struct read_request requests[DEPTH_MAX];
};

static double cpu_seconds(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + 1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void submit(struct bench *bench, struct read_queue *queue, struct read_request *request, uint64_t size_bytes) {
    uint64_t alignment = file_set_alignment(bench->files, 0);
    bench->random_state = bench->random_state * 6364136223846793005u + 1442695040888963407u;
    uint64_t places = (file_set_size_bytes(bench->files, 0) - size_bytes) / alignment + 1;
    request->offset_bytes = (bench->random_state >> 20) % places * alignment;
    request->size_bytes = size_bytes;
    (void)read_queue_submit(queue, request);
}

/* Bytes per second of one point; *cpu_s: processor seconds per GiB. */
static enum status run_point(struct bench *bench, struct read_queue *queue, uint64_t size_bytes, double *rate, double *cpu_s,
                             struct error *err) {
    uint64_t begin_ns = clock_now_ns(), end_ns = begin_ns + bench->point_ns, now_ns = begin_ns, total_bytes = 0;
    double cpu_begin = cpu_seconds();
    for (unsigned i = 0; i < queue->depth; i++) {
        bench->requests[i] =
            (struct read_request){.dst = bench->staging.data + i * size_bytes + bench->shift_bytes, .dst_size_bytes = (size_t)size_bytes};
        submit(bench, queue, &bench->requests[i], size_bytes);
    }
    read_queue_flush(queue);
    struct read_request *done;
    while ((done = read_queue_reap(queue, true, UINT64_MAX)) != NULL) {
        if (done->status != STATUS_OK)
            return read_request_error(bench->files, done, err);
        now_ns = clock_now_ns();
        total_bytes += size_bytes;
        if (now_ns < end_ns) {
            submit(bench, queue, done, size_bytes);
            read_queue_flush(queue);
        }
    }
    *rate = (double)total_bytes * 1e9 / (double)(now_ns - begin_ns);
    *cpu_s = (cpu_seconds() - cpu_begin) * (double)(1 << 30) / (double)total_bytes;
    return STATUS_OK;
}

static enum status run_kind(struct bench *bench, enum read_queue_kind kind, struct error *err) {
    printf("\n%s: GB/s (processor seconds per GiB)\n%8s", read_queue_kind_name(kind), "size");
    for (unsigned d = 0; d < DEPTH_COUNT; d++)
        printf("      depth %-3u ", depths[d]);
    printf("\n");
    for (unsigned s = 0; s < SIZE_COUNT; s++) {
        char text[32];
        printf("%8s", text_format_size(sizes_bytes[s], text, sizeof text));
        for (unsigned d = 0; d < DEPTH_COUNT; d++) {
            if (sizes_bytes[s] * depths[d] > IN_FLIGHT_MAX_BYTES || sizes_bytes[s] > file_set_size_bytes(bench->files, 0) ||
                (kind == READ_QUEUE_SYNC && d > 0)) {
                printf("%15s ", "-");
                continue;
            }
            struct read_queue *queue;
            double rate = 0, cpu_s = 0;
            TRY(read_queue_create(kind, bench->files, depths[d], &queue, err));
            enum status status = run_point(bench, queue, sizes_bytes[s], &rate, &cpu_s, err);
            read_queue_destroy(queue);
            TRY(status);
            printf("%7.3f (%5.3f) ", rate / 1e9, cpu_s);
            (void)fflush(stdout);
        }
        printf("\n");
    }
    return STATUS_OK;
}

static enum status run_shifted(struct bench *bench, struct error *err) {
    uint64_t alignment = file_set_alignment(bench->files, 0), shifts[] = {0, alignment};
    struct read_queue *queue;
    if (alignment >= READ_PAGE_BYTES)
        return STATUS_OK;
    TRY(read_queue_create_best(bench->files, 16, &queue, err));
    enum status status = STATUS_OK;
    printf("\n%s, 1 MiB at depth 16, memory %" PRIu64 " and %" PRIu64 " bytes behind a page, GB/s:", queue->operations->name, shifts[0],
           shifts[1]);
    for (unsigned i = 0; i < 2 * 5 && status == STATUS_OK; i++) {
        double rate, cpu_s;
        bench->shift_bytes = shifts[i % 2];
        status = run_point(bench, queue, 1 << 20, &rate, &cpu_s, err);
        printf("%s %.2f", i % 2 ? "" : ",", rate / 1e9);
        (void)fflush(stdout);
    }
    printf("\n");
    bench->shift_bytes = 0;
    read_queue_destroy(queue);
    return status;
}

static enum status run_probe(struct bench *bench, struct error *err) {
    struct io_probe_result result = {0};
    struct thread_pool *pool;
    uint64_t begin_ns = clock_now_ns();
    TRY(io_probe_disk(bench->files, &(struct io_sources){.count = 1}, UINT64_MAX, &result, err));
    uint64_t disk_ns = clock_now_ns() - begin_ns;
    TRY(thread_pool_create(cpu_count(), &pool, err));
    begin_ns = clock_now_ns();
    enum status status = io_probe_memory(pool, UINT64_MAX, &result, err);
    printf("\nprobe: disk %.3f GB/s at depth %u x %" PRIu32 " bytes (took %.0f ms), memory %.2f GB/s with %u threads (took %.0f ms)\n",
           result.disk_bytes_per_s / 1e9, result.best_depth, result.best_size, (double)disk_ns / 1e6, result.memory_bytes_per_s / 1e9,
           thread_pool_size(pool), (double)(clock_now_ns() - begin_ns) / 1e6);
    thread_pool_destroy(pool);
    return status;
}

static enum status run(struct bench *bench, const char *path, struct error *err) {
    uint32_t file;
    TRY(file_set_create(&bench->files, err));
    TRY(file_set_add(bench->files, path, &file, err));
    TRY(memory_region_create(&bench->staging, IN_FLIGHT_MAX_BYTES, MEMORY_STAGING, false, err));
    memset(bench->staging.data, 1, bench->staging.size_bytes); /* else clearing of new pages is timed with the first reads */
    printf("%s on %s, direct reads %s, alignment %" PRIu32 "\n", path, cpu_model_name(),
           file_set_direct_fd(bench->files, file) >= 0 ? "yes" : "refused", file_set_alignment(bench->files, file));
    for (unsigned kind = 0; kind < READ_QUEUE_KIND_COUNT; kind++)
        if (run_kind(bench, (enum read_queue_kind)kind, err) != STATUS_OK)
            printf("%s\n", err->text);
    TRY(run_shifted(bench, err));
    return run_probe(bench, err);
}

int main(int argc, char **argv) {
    uint64_t milliseconds = 200;
    if (argc < 2 || argc > 3 || (argc == 3 && !text_parse_u64(text_of(argv[2]), &milliseconds)) || milliseconds == 0) {
        fprintf(stderr, "usage: bench_io FILE [milliseconds per point]\n");
        return 2;
    }
    struct bench bench = {.random_state = clock_now_ns(), .point_ns = milliseconds * 1000000};
    struct error err;
    enum status status = run(&bench, argv[1], &err);
    if (status != STATUS_OK)
        fprintf(stderr, "bench_io: %s\n", err.text);
    memory_region_destroy(&bench.staging);
    file_set_destroy(bench.files);
    return status == STATUS_OK ? 0 : 1;
}
