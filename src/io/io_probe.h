/*
 * io_probe: measures what the disk under a file and the memory of this machine deliver. The planner's bounds and the reader's depth come
 * from it.
 *
 * Model    Disk: random reads through the best read queue, at a few (request size, depth) points, about 0.5 s in all; of several disks at
 *          the same time, each at that depth, when files on several are named. Memory: all threads of a pool read one buffer again and
 *          again, about 0.1 s. A pure measurement: nothing is kept.
 * Memory   at most memory_limit_bytes at a time, given back on return.
 * Threads  the calling thread owns the queue for the time of the call, and runs a loop on the pool.
 */
#pragma once

#include <stdint.h>

#include "base/status.h"
#include "base/thread_pool.h"
#include "io/file_set.h"

#define IO_PROBE_POINTS 8
#define IO_SOURCES_MAX FILE_COPIES_MAX

struct io_sources { /* files of a set, each on a device of its own; one at least */
    unsigned count;
    uint32_t files[IO_SOURCES_MAX];
};

struct io_probe_point {
    uint32_t size_bytes;
    unsigned depth; /* of all sources together */
    double bytes_per_s;
};

struct io_probe_result {
    double disk_bytes_per_s;   /* at the best point. Where direct reads are refused it may be the speed of the page cache */
    unsigned best_depth;       /* the cheapest point within 5 % of the best: fewest bytes in flight */
    uint32_t best_size;        /* bytes per request there */
    double memory_bytes_per_s; /* plain reads, all threads */
    struct io_probe_point points[IO_PROBE_POINTS]; /* all that were measured, in order of bytes in flight */
    unsigned point_count;
};

/*
 * Fills the disk_ and best_ fields and the points. STATUS_INVALID: a file or the limit is below 4 KiB (two windows for each source must
 * fit the limit). A read error names the file.
 */
MUST_CHECK enum status io_probe_disk(struct file_set *files, const struct io_sources *sources, uint64_t memory_limit_bytes,
                                     struct io_probe_result *result, struct error *err);

/*
 * Fills memory_bytes_per_s. Uses 32 MiB per thread and at least 128 MiB, or the limit: with little memory the processor's caches take
 * part in the result. STATUS_INVALID: the limit is below 1 MiB.
 */
MUST_CHECK enum status io_probe_memory(struct thread_pool *pool, uint64_t memory_limit_bytes, struct io_probe_result *result,
                                       struct error *err);
