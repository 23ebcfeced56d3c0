/*
 * read_part: what every queue does with a request: cut it into parts, make the system calls of a part, judge their results.
 *
 * It is separate so that all queues behave alike and none of the judging depends on how a call is made.
 *
 * Model       A request's window is cut into parts of about 1 MiB that are read independently, so that one large request keeps several
 *             device commands in flight. A part is a small state machine: read_part_call says which call to make, read_part_result takes
 *             its result and says what comes next.
 * Invariants  a part reads direct while its position is aligned and the file allows it, else buffered; so any short read can be continued.
 *             Each call that ends well moves the position, each that fails uses up a bounded count: a part always ends.
 * Threads     a part is used by one thread at a time. Functions that take a request as well are for its owner, or under the queue's lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/read_queue.h"
#include "io/read_retry.h"

/*
 * One bio of the kernel holds 256 pages (1 MiB) and disks take about as much per command; smaller parts cost calls, larger ones leave the
 * disk's queue empty when few requests wait. Parts are between one and two of these.
 */
#define READ_PART_BYTES ((uint64_t)1 << 20)

struct read_part {
    struct read_request *request;
    uint64_t base_bytes;                /* file offset of the window */
    uint64_t position_bytes, end_bytes; /* in the window: next byte to read, end of this part */
    uint64_t needed_bytes;              /* in the window: the part is done when its position gets here */
    uint64_t read_bytes;                /* received */
    struct read_retry retry;
    uint32_t retries; /* calls that were made again */
    bool direct;      /* the call that was made last */
    enum status status;
    int system_error;
};

struct read_call {
    int fd;
    bool direct;
    uint8_t *dst;
    size_t size_bytes;
    uint64_t offset_bytes;
};

enum read_step {
    READ_STEP_CALL,  /* make the next call */
    READ_STEP_PAUSE, /* wait, then make the next call */
    READ_STEP_END,   /* the part is over, well or not */
};

/* First in, first out, linked through read_request.next. */
struct read_request_list {
    struct read_request *first, *last;
};
void read_request_push(struct read_request_list *list, struct read_request *request);
struct read_request *read_request_pop(struct read_request_list *list); /* NULL: empty */

/* Gives up all that waits: what has no part at work is finished with STATUS_CANCELLED, the others will be, with their last part. */
void read_request_cancel_waiting(struct read_request_list *waiting, struct read_request_list *finished);

/* Checks a new request and resets its results. False: it is finished already (0 bytes, or past the end of the file). */
bool read_request_start(const struct file_set *files, struct read_request *request);
/*
 * Hands out the next part of the first request that waits, and takes the request off the list with its last part. So only the first one
 * can be handed out in part. False: nothing waits.
 */
bool read_request_take_part(const struct file_set *files, struct read_request_list *waiting, struct read_part *part);
/*
 * Takes back a part that is over. True: the whole request is finished and off the list. After a failure no more parts are handed out.
 */
bool read_request_end_part(struct read_request_list *waiting, const struct read_part *part);

struct read_call read_part_call(struct file_set *files, struct read_part *part);
/* result: bytes, or -errno. */
enum read_step read_part_result(struct file_set *files, struct read_part *part, int64_t result, uint64_t *pause_ns);
/* Runs the part to its end with pread in this thread. */
void read_part_run(struct file_set *files, struct read_part *part);

/* The queues behind read_queue_create. depth was checked. *out is NULL on failure. */
MUST_CHECK enum status read_queue_uring_create(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err);
MUST_CHECK enum status read_queue_threads_create(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err);
MUST_CHECK enum status read_queue_sync_create(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err);
