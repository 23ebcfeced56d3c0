/*
 * read_queue_faulty: a test double around another queue: errors, short reads, delays and reordering, all from a seed.
 *
 * Which requests get which fault depends on seed and order of submission alone. An injected failure is final, as one that the inner queue
 * has given up on. Requests that are wrong in themselves (past the end) go through unchanged.
 *
 * Owner thread only. Same depth as the inner queue, which it owns once created and destroys with itself.
 */
#pragma once

#include "io/read_queue.h"

struct read_faults {
    uint64_t seed;
    uint64_t fail_at;                         /* the n-th submitted request (1 = first) fails; 0: none */
    int fail_errno;                           /* EIO, ... */
    double fail_rate, short_rate, delay_rate; /* of requests, 0..1. A short read leaves the request to be continued by this queue */
    uint32_t delay_reaps;                     /* a delayed request is held back for up to this many reap calls */
    uint64_t fail_files;                      /* a bit for each file of which every request fails */
    uint64_t hold_from, hold_count;           /* requests from this number on (1 = first) come after read_queue_faulty_release; 0: none */
    uint64_t hold_files;                      /* only those of these files, a bit each; 0: of all */
    bool reorder;                             /* finished requests are returned in random order */
    bool corrupt_unread; /* fills dst with 0xA5 before reading and after a failure, so that use of unread bytes shows */
};

MUST_CHECK enum status read_queue_faulty_create(struct read_queue *inner, const struct read_faults *faults, struct read_queue **out,
                                                struct error *err);
/* What is held is read now, late, into the memory it was meant for; nothing is held from now on. Cancelling does not reach it. */
void read_queue_faulty_release(struct read_queue *queue);
uint64_t read_queue_faulty_submitted(const struct read_queue *queue); /* requests so far: loop fail_at over 1..this */
