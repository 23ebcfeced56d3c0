/*
 * read_wait: how long a read is waited for. Stands between a queue and its owner, who submits and reaps here alone.
 *
 * Model       A read is *awaited* from submit on. It is *overdue* when for timeout_ns of waiting neither it came nor any read that was
 *             submitted before it: so one that the device lost is told while others come, and none is that stands behind others in a slow
 *             device. What is overdue is *lost*: nobody waits for it any more, but it is in flight still, and what it writes to must not
 *             be used until it is reaped after all.
 *             Time goes on while somebody waits here, since a queue may need its owner to go on with a read.
 * Invariants  the awaited are in a list by submit, so the oldest is the first to be overdue.
 * Threads     the queue's owner.
 * Memory      none: the list goes through the requests.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/read_queue.h"

#define READ_SILENCE_NS UINT64_C(5000000000)  /* a disk that answers nothing for so long is told: far above the slowest that works */
#define READ_TIMEOUT_NS UINT64_C(60000000000) /* longer than a disk's own recovery, a bus reset or a server's restart */
#define READ_LEAVE_NS UINT64_C(1000000000)    /* who ends waits so long for what is lost already */

struct read_wait {
    struct read_queue *queue;
    uint64_t timeout_ns;
    uint64_t waited_ns;                   /* the clock: time spent in read_wait_reap */
    uint64_t submitted;                   /* requests so far */
    struct read_request *oldest, *newest; /* that are awaited */
    unsigned awaited;
    uint32_t lost_file; /* of the last one */
};

/* timeout_ns 0: READ_TIMEOUT_NS. Borrows the queue, in which nothing may be in flight. */
void read_wait_init(struct read_wait *wait, struct read_queue *queue, uint64_t timeout_ns);
enum read_submit read_wait_submit(struct read_wait *wait, struct read_request *request);
/*
 * A finished request, awaited or lost, or NULL: none is finished. With block it waits until one is, unless none is awaited, or the oldest
 * is overdue.
 * A log line says when the disk answers nothing, and when it does again.
 */
struct read_request *read_wait_reap(struct read_wait *wait, bool block);
/* Ask when reap gave NULL: a request that is overdue, and lost from now on; NULL: there is none. */
struct read_request *read_wait_take_overdue(struct read_wait *wait);
/* A lost request as a failed one, for read_request_error; the queue may write the request itself at any time. */
struct read_request read_wait_failure(const struct read_request *lost);
/*
 * Gives all reads up and drops what comes of them: waits for what is awaited until it is overdue, and for what is lost at most
 * READ_LEAVE_NS. False: some may come still. Then the requests, what they write to, the queue and the files must stay for good (the pages
 * may go: memory_region_discard); a log line says so.
 */
bool read_wait_end(struct read_wait *wait);
