/*
 * copy_choice: which copy of a file serves a read: the one that will have it soonest.
 *
 * Model       A read goes where bytes in flight and its own, over the device's rate, are least; among copies on one device where fewest are
 *             in flight of the copy; ties to the first. Rates are those that the file set knows, when it knows them of all. Else a
 *             device is as fast as it was lately while much of it was in flight; one that was not measured, or is nearly as fast as
 *             the fastest, counts as fast as that; and one that looks too slow to be read at all is trusted a little more from time to
 *             time, so that it is measured anew. A copy whose reads fail is left out.
 * Threads     the engine thread.
 * Memory      a few words per file of the set, by init.
 */
#pragma once

#include <stdint.h>

#include "io/read_queue.h"

#define COPY_NONE UINT32_MAX
#define COPY_FAILURES_MAX 3 /* reads that failed, each after tries of its own, before a copy is left out */

struct copy_device {
    uint64_t in_flight_bytes;
    uint64_t since_ns;                            /* in flight since, or the read before came */
    uint64_t window_bytes, window_ns, peak_bytes; /* came, in what time, most in flight, in the window at work */
    double bytes, ns;                             /* of windows lately; their ratio is the rate. 0: not known */
    unsigned ignored;                             /* windows of others since it was read last */
};

struct copy_choice {
    struct file_set *files; /* borrowed; what is added later has no place here */
    uint32_t file_count;
    uint32_t *device_of;         /* [file_count] an index of devices */
    struct copy_device *devices; /* [file_count] at the first file that lies on each */
    uint64_t *in_flight_bytes;   /* [file_count] of each file */
    double *known_rates;         /* [file_count] of each file's device, in bytes per s; 0: not known */
    unsigned failures[FILE_COPIES_MAX];
};

MUST_CHECK enum status copy_choice_init(struct copy_choice *choice, struct file_set *files, struct error *err);
void copy_choice_deinit(struct copy_choice *choice);
/* The file to read `size_bytes` of `file` from, or COPY_NONE: all copies were tried (a bit for each copy number). */
uint32_t copy_choice_pick(const struct copy_choice *choice, uint32_t file, uint64_t size_bytes, unsigned tried);
/* The request was submitted, for the copy that was picked; came back at last. Its file and size are as they were. */
void copy_choice_sent(struct copy_choice *choice, const struct read_request *request, uint64_t now_ns);
void copy_choice_done(struct copy_choice *choice, const struct read_request *request, uint64_t now_ns);
