/*
 * read_queue_sync: reads with pread inside submit. For tests, for one-off tools, and as the skeleton to copy for another queue.
 *
 * A queue owns three things: how many requests it holds (`depth` at most), which of them are finished, and how the calls of a part are
 * made. What the calls are and what their results mean is in read_part.h and is the same for all.
 *
 * Threads  the owner only. Memory  this struct.
 */
#include "base/check.h"
#include "base/memory.h"
#include "io/read_part.h"

struct sync_queue {
    struct read_queue base; /* first: the operations get a pointer to it */
    struct read_request_list finished;
    unsigned in_flight;
};

static struct sync_queue *of(struct read_queue *queue) { return (struct sync_queue *)queue; }

/*
 * submit: takes a request or answers READ_BUSY, and then leaves it untouched. From an accepted request until it is reaped the queue may
 * write its result fields and dst. Errors are put into the request, also those that are known at once. A queue that works in the
 * background returns before the bytes are there; here they are read at once.
 */
static enum read_submit sync_submit(struct read_queue *queue, struct read_request *request) {
    struct sync_queue *q = of(queue);
    ASSERT(q->in_flight <= queue->depth);
    if (q->in_flight == queue->depth)
        return READ_BUSY;
    q->in_flight++;
    if (read_request_start(queue->files, request)) {
        struct read_request_list waiting = {0};
        struct read_part part;
        read_request_push(&waiting, request);
        while (read_request_take_part(queue->files, &waiting, &part)) {
            read_part_run(queue->files, &part);
            (void)read_request_end_part(&waiting, &part);
        }
    }
    read_request_push(&q->finished, request);
    return READ_ACCEPTED;
}

/* flush: after it every accepted request makes progress without further calls by the owner, as far as the kind can. */
static void sync_flush(struct read_queue *queue) { (void)queue; }

/*
 * reap: gives back each accepted request once, in any order. It does what flush does, so that waiting never waits for something that was
 * not started. With `wait` false it does not block; with `wait` true it blocks until a request is finished or timeout_ns passed. NULL at
 * once when nothing is in flight. After it returned a request the queue does not touch it again.
 */
static struct read_request *sync_reap(struct read_queue *queue, bool wait, uint64_t timeout_ns) {
    (void)wait;
    (void)timeout_ns;
    struct sync_queue *q = of(queue);
    struct read_request *request = read_request_pop(&q->finished);
    if (request) {
        CHECK(q->in_flight > 0);
        q->in_flight--;
    }
    return request;
}

/* in_flight: accepted and not yet reaped, finished ones included. */
static unsigned sync_in_flight(const struct read_queue *queue) { return ((const struct sync_queue *)queue)->in_flight; }

/* cancel: here nothing waits, and nothing is on its way. */
static void sync_cancel(struct read_queue *queue) { (void)queue; }

/* destroy: when it returns, nothing writes to any request or dst any more. Requests that were not reaped are forgotten. */
static void sync_destroy(struct read_queue *queue) { memory_free(of(queue)); }

static const struct read_queue_operations sync_operations = {
    .name = "sync",
    .submit = sync_submit,
    .flush = sync_flush,
    .reap = sync_reap,
    .in_flight = sync_in_flight,
    .cancel = sync_cancel,
    .destroy = sync_destroy,
};

enum status read_queue_sync_create(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err) {
    struct sync_queue *q = memory_alloc(sizeof *q);
    *out = NULL;
    if (!q)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a synchronous read queue");
    q->base = (struct read_queue){.operations = &sync_operations, .files = files, .depth = depth};
    *out = &q->base;
    return STATUS_OK;
}
