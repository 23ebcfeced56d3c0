/*
 * read_queue_threads: reads with pread in a few threads. For systems without io_uring, and containers that forbid it.
 *
 * Model    Waiting requests are a list; a thread takes the next part of the first one, reads it, and comes back. So one large request is
 *          read by several threads, and requests finish about in the order in which they came.
 * Threads  `lock` guards both lists, the counts, and the result fields of all requests in flight; parts live on their thread's stack. A
 *          thread that finds more work wakes the next one, so a submit costs one wake-up at most.
 * Memory   this struct and stacks of 256 KiB, of which a few pages are touched.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "io/read_part.h"

enum {
    THREADS_MAX = 16, /* flash disks reach their rate with 8 to 16 reads of 1 MiB in flight; more threads only wait for each other */
    STACK_BYTES = 256 * 1024,
};

struct threads_queue {
    struct read_queue base;
    pthread_mutex_t lock;
    pthread_cond_t work, done; /* parts are waiting, or `stopping`; a request is finished */
    struct read_request_list waiting, finished;
    unsigned in_flight, idle_count;
    bool stopping;
    pthread_t threads[THREADS_MAX];
    unsigned thread_count;
};

static struct threads_queue *of(struct read_queue *queue) { return (struct threads_queue *)queue; }

static void lock(struct threads_queue *q) { CHECK(pthread_mutex_lock(&q->lock) == 0); }
static void unlock(struct threads_queue *q) { CHECK(pthread_mutex_unlock(&q->lock) == 0); }

static void *reader_main(void *context) {
    struct threads_queue *q = context;
    lock(q);
    while (!q->stopping) {
        struct read_part part;
        if (!read_request_take_part(q->base.files, &q->waiting, &part)) {
            q->idle_count++;
            CHECK(pthread_cond_wait(&q->work, &q->lock) == 0);
            q->idle_count--;
            continue;
        }
        if (q->waiting.first && q->idle_count > 0)
            (void)pthread_cond_signal(&q->work);
        unlock(q);
        read_part_run(q->base.files, &part);
        lock(q);
        if (read_request_end_part(&q->waiting, &part)) {
            read_request_push(&q->finished, part.request);
            (void)pthread_cond_signal(&q->done);
        }
    }
    unlock(q);
    return NULL;
}

static enum read_submit threads_submit(struct read_queue *queue, struct read_request *request) {
    struct threads_queue *q = of(queue);
    lock(q);
    ASSERT(q->in_flight <= queue->depth);
    if (q->in_flight == queue->depth) {
        unlock(q);
        return READ_BUSY;
    }
    q->in_flight++;
    if (read_request_start(queue->files, request)) {
        read_request_push(&q->waiting, request);
        if (q->idle_count > 0)
            (void)pthread_cond_signal(&q->work);
    } else {
        read_request_push(&q->finished, request);
    }
    unlock(q);
    return READ_ACCEPTED;
}

static void threads_flush(struct read_queue *queue) { (void)queue; }

/* Under the lock: waits until a request is finished or the time is up. */
static void wait_finished(struct threads_queue *q, uint64_t timeout_ns) {
    uint64_t end_ns = 0;
    bool for_ever = !size_add(clock_now_ns(), timeout_ns, &end_ns);
    struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u), .tv_nsec = (long)(end_ns % 1000000000u)};
    int result = 0;
    while (!q->finished.first && result == 0)
        result = for_ever ? pthread_cond_wait(&q->done, &q->lock) : pthread_cond_timedwait(&q->done, &q->lock, &end);
    CHECK(result == 0 || result == ETIMEDOUT);
}

static struct read_request *threads_reap(struct read_queue *queue, bool wait, uint64_t timeout_ns) {
    struct threads_queue *q = of(queue);
    lock(q);
    if (wait && q->in_flight > 0 && !q->finished.first && timeout_ns > 0)
        wait_finished(q, timeout_ns);
    struct read_request *request = read_request_pop(&q->finished);
    if (request)
        q->in_flight--;
    unlock(q);
    return request;
}

static unsigned threads_in_flight(const struct read_queue *queue) {
    return ((const struct threads_queue *)queue)->in_flight; /* written by the owner alone */
}

/* A pread cannot be called back: what a thread has begun comes when it comes. */
static void threads_cancel(struct read_queue *queue) {
    struct threads_queue *q = of(queue);
    lock(q);
    read_request_cancel_waiting(&q->waiting, &q->finished);
    unlock(q);
}

static void threads_destroy(struct read_queue *queue) {
    struct threads_queue *q = of(queue);
    lock(q);
    q->stopping = true;
    (void)pthread_cond_broadcast(&q->work);
    unlock(q);
    for (unsigned i = 0; i < q->thread_count; i++)
        CHECK(pthread_join(q->threads[i], NULL) == 0);
    (void)pthread_cond_destroy(&q->work);
    (void)pthread_cond_destroy(&q->done);
    (void)pthread_mutex_destroy(&q->lock);
    memory_free(q);
}

static const struct read_queue_operations threads_operations = {
    .name = "threads",
    .submit = threads_submit,
    .flush = threads_flush,
    .reap = threads_reap,
    .in_flight = threads_in_flight,
    .cancel = threads_cancel,
    .destroy = threads_destroy,
};

/* Starts readers with all signals blocked: they are for the threads of the program. 0 or an errno; some may run then. */
static int start_readers(struct threads_queue *q, unsigned count) {
    pthread_attr_t attributes;
    sigset_t all, before;
    int code = pthread_attr_init(&attributes);
    if (code != 0)
        return code;
    code = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    while (code == 0 && q->thread_count < count) {
        code = pthread_create(&q->threads[q->thread_count], &attributes, reader_main, q);
        if (code == 0)
            q->thread_count++;
    }
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    (void)pthread_attr_destroy(&attributes);
    return code;
}

enum status read_queue_threads_create(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err) {
    struct threads_queue *q = memory_alloc(sizeof *q);
    *out = NULL;
    if (!q)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a read queue");
    q->base = (struct read_queue){.operations = &threads_operations, .files = files, .depth = depth};
    pthread_condattr_t monotonic;
    CHECK(pthread_condattr_init(&monotonic) == 0 && pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_mutex_init(&q->lock, NULL) == 0 && pthread_cond_init(&q->work, NULL) == 0);
    CHECK(pthread_cond_init(&q->done, &monotonic) == 0);
    (void)pthread_condattr_destroy(&monotonic);
    unsigned count = depth < THREADS_MAX ? depth : THREADS_MAX;
    int code = start_readers(q, count);
    if (code != 0 && q->thread_count == 0) {
        threads_destroy(&q->base);
        return error_set(err, STATUS_NO_MEMORY, "cannot start a reading thread: %s; check the limit of processes (ulimit -u)",
                         strerror(code));
    }
    *out = &q->base; /* with fewer threads than wanted it is slower, and right */
    return STATUS_OK;
}
