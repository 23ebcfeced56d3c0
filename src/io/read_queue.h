/*
 * read_queue: THE seam for asynchronous reads. One queue serves all models of a process.
 *
 * Model       A request asks for bytes [offset, offset + size) of a file. The caller gives memory for the *enclosing aligned window*
 *             (read_queue_window says how large) and gets the wanted bytes at `dst + skip`. submit() hands requests over; reap()
 *             returns finished ones. Where direct reads are refused the queue reads buffered and drops the pages behind.
 *             A short read is continued, EINTR/EAGAIN are repeated; EIO is retried twice with a pause, then reported.
 * Invariants  each accepted request is reaped exactly once, with an error or with all its bytes. Order is free.
 * Threads     one owner thread calls everything; implementations may use threads of their own. Another thread may become the owner
 *             while nothing is in flight (the caller orders the two).
 * Memory      all of it at create; `depth` requests at most are in flight. The staging a caller gives may be registered.
 * Ownership   struct read_request belongs to the caller and must stay put from submit until it is reaped.
 *
 * Implementations: read_queue_uring.c, read_queue_threads.c, read_queue_sync.c (also the skeleton to copy), and for tests
 * read_queue_faulty.c, which wraps another one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "io/file_set.h"

/* Memory that begins at a page is written sooner than memory that does not, wherever in the file it comes from (bench/results/io.md). */
#define READ_PAGE_BYTES 4096

struct read_request {
    /* set by the caller */
    uint32_t file;
    uint64_t offset_bytes, size_bytes;
    uint8_t *dst;          /* aligned to file_set_alignment(file), better to READ_PAGE_BYTES too */
    size_t dst_size_bytes; /* at least read_queue_window(...).window_bytes */
    void *owner;           /* for the caller */
    /* set when reaped */
    enum status status;
    int system_error;    /* errno of a failure, or 0 */
    uint32_t skip_bytes; /* the wanted bytes start at dst + skip_bytes */
    uint64_t read_bytes; /* bytes that came from the device, alignment included */
    /* for the implementation */
    struct read_request *next;
    uint64_t progress_bytes; /* of the window: handed out as parts */
    uint32_t attempts;       /* tries of the part that failed */
    uint32_t retries;        /* calls that failed and were made again, of all parts */
    uint32_t waited_s;       /* system_error ETIMEDOUT after no attempt: so long it was waited for */
    uint32_t open_parts;     /* handed out and not finished */
    /* for read_wait.h */
    struct read_request *older, *younger; /* among the awaited */
    bool awaited;
    uint64_t number;       /* of the submits */
    uint64_t submitted_ns; /* clock at submit */
    uint64_t since_ns;     /* clock of waits, when it or one before it was last answered */
};

struct read_window {
    uint64_t begin_bytes;  /* aligned file offset where the read starts */
    uint64_t window_bytes; /* aligned length; may pass the end of the file */
    uint32_t skip_bytes;
};
/* The enclosing window of a range, for the file's alignment. A range of 0 bytes has a window of 0 bytes. offset + size fits 63 bits. */
struct read_window read_queue_window(const struct file_set *files, uint32_t file, uint64_t offset_bytes, uint64_t size_bytes);

enum read_queue_kind { READ_QUEUE_URING, READ_QUEUE_THREADS, READ_QUEUE_SYNC, READ_QUEUE_KIND_COUNT };
const char *read_queue_kind_name(enum read_queue_kind kind); /* "uring", "threads", "sync" */

enum read_submit { READ_ACCEPTED, READ_BUSY /* queue full: reap first */ };

struct read_queue;
struct read_queue_operations {
    const char *name;
    /* Takes the request or answers READ_BUSY. It may complete at once; it is still reaped. May defer the system call until flush. */
    enum read_submit (*submit)(struct read_queue *queue, struct read_request *request);
    /* Starts everything that was submitted. */
    void (*flush)(struct read_queue *queue);
    /*
     * Starts what was submitted, then returns one finished request, or NULL: none is finished (wait false), or none is in flight, or
     * timeout_ns passed (wait true; UINT64_MAX waits for ever).
     */
    struct read_request *(*reap)(struct read_queue *queue, bool wait, uint64_t timeout_ns);
    unsigned (*in_flight)(const struct read_queue *queue); /* submitted and not yet reaped */
    /*
     * Gives up what was not handed to the system yet, and asks the system to give up the rest where it can. All are still reaped: what was
     * given up fails, what could not be comes as if nothing had been asked. Does not wait.
     */
    void (*cancel)(struct read_queue *queue);
    void (*destroy)(struct read_queue *queue); /* waits for reads that run, drops the rest; nothing is reaped later */
};
struct read_queue {
    const struct read_queue_operations *operations;
    struct file_set *files;
    unsigned depth;
};

/*
 * Opens a queue. READ_QUEUE_URING fails with STATUS_UNSUPPORTED where io_uring is forbidden or absent; *out is NULL on failure.
 * `depth` is the most requests in flight (1..1024).
 */
MUST_CHECK enum status read_queue_create(enum read_queue_kind kind, struct file_set *files, unsigned depth, struct read_queue **out,
                                         struct error *err);
/* The best kind that works here: io_uring, else threads. */
MUST_CHECK enum status read_queue_create_best(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err);

static inline enum read_submit read_queue_submit(struct read_queue *q, struct read_request *r) { return q->operations->submit(q, r); }
static inline void read_queue_flush(struct read_queue *q) { q->operations->flush(q); }
static inline struct read_request *read_queue_reap(struct read_queue *q, bool wait, uint64_t timeout_ns) {
    return q->operations->reap(q, wait, timeout_ns);
}
static inline unsigned read_queue_in_flight(const struct read_queue *q) { return q->operations->in_flight(q); }
static inline void read_queue_cancel(struct read_queue *q) { q->operations->cancel(q); }
static inline void read_queue_destroy(struct read_queue *q) {
    if (q)
        q->operations->destroy(q);
}

/* Fills *err for a failed request: file, offset, size, system text, and what to do. Returns its status. */
enum status read_request_error(const struct file_set *files, const struct read_request *request, struct error *err);
