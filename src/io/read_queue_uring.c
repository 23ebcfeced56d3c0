/*
 * read_queue_uring: reads with io_uring.
 *
 * Model    Waiting requests are a list; parts of the first one go to the kernel while free parts are left. Completions are looked at
 *          when the owner calls: a part that is not over gets its next call, a part that must pause waits on a kernel timer, so the owner
 *          never sleeps for a retry.
 * Threads  the owner only. SINGLE_ISSUER, DEFER_TASKRUN and a registered ring would tie the queue to one thread for ever, and gain
 *          nothing that can be measured even at 4 KiB a read (bench/results/io.md), so they are not used.
 * Memory   all at create: ring and parts, under 256 KiB at depth 1024, 16 KiB at depth 64 or less.
 * Failure  what enter() may answer for a ring in use is temporary, or a mistake of ours (CHECK).
 */
#include <errno.h>
#include <liburing.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "io/read_part.h"

/*
 * Parts in the kernel at once: `depth`, but at least this many, so that few large requests keep the disk busy while the owner computes:
 * 64 MiB are 9 ms at 7 GB/s.
 */
enum { PARTS_MIN = 64 };

struct uring_part {
    struct read_part part;
    struct __kernel_timespec pause; /* must stay put until its call is submitted */
    bool pausing, in_kernel;
    struct uring_part *next_free;
};

struct uring_queue {
    struct read_queue base;
    struct io_uring ring;
    bool ring_open;
    uint32_t registered_count; /* files 0..this-1 are registered: buffered handle 2 * file, direct 2 * file + 1 */
    struct uring_part *parts, *free_parts;
    unsigned part_count, parts_in_kernel; /* in the kernel, or about to be submitted */
    struct read_request_list waiting, finished;
    unsigned in_flight;
};

static struct uring_queue *of(struct read_queue *queue) { return (struct uring_queue *)queue; }

/* ---- the ring ---- */

/* Spares the kernel two reference counts per call. Files that are added later are used unregistered. */
static void register_files(struct uring_queue *q) {
    uint32_t count = file_set_count(q->base.files);
    int *handles = memory_alloc_array(count, 2 * sizeof *handles);
    q->registered_count = 0;
    if (!handles)
        return;
    for (uint32_t i = 0; i < count; i++) {
        handles[2 * i] = file_set_buffered_fd(q->base.files, i);
        handles[2 * i + 1] = file_set_direct_fd(q->base.files, i); /* -1 is an empty place */
    }
    if (count > 0 && io_uring_register_files(&q->ring, handles, 2 * count) == 0)
        q->registered_count = count;
    memory_free(handles);
}

/* 0 or an errno. */
static int ring_open(struct uring_queue *q) {
    /* COOP_TASKRUN (Linux 5.19): completions wait for the owner's next system call and do not interrupt its arithmetic. */
    struct io_uring_params params = {.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG};
    int code = -io_uring_queue_init_params(q->part_count, &q->ring, &params);
    if (code == EINVAL)
        code = -io_uring_queue_init(q->part_count, &q->ring, 0);
    if (code != 0)
        return code;
    const unsigned needed = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG; /* 5.11: no lost completions; waits with a time limit */
    if ((q->ring.features & needed) != needed) {
        io_uring_queue_exit(&q->ring);
        return ENOSYS;
    }
    register_files(q);
    q->ring_open = true;
    return 0;
}

/* ---- parts ---- */

static struct io_uring_sqe *take_sqe(struct uring_queue *q) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);
    CHECK(sqe); /* one place per part, and a part makes one call at a time */
    return sqe;
}

static void start_call(struct uring_queue *q, struct uring_part *slot) {
    struct read_call call = read_part_call(q->base.files, &slot->part);
    uint32_t file = slot->part.request->file;
    bool registered = file < q->registered_count;
    struct io_uring_sqe *sqe = take_sqe(q);
    int handle = registered ? (int)(2 * file + (call.direct ? 1 : 0)) : call.fd;
    io_uring_prep_read(sqe, handle, call.dst, (unsigned)call.size_bytes, call.offset_bytes);
    io_uring_sqe_set_data(sqe, slot);
    unsigned flags = registered ? IOSQE_FIXED_FILE : 0u;
    if (!call.direct)
        flags |= IOSQE_ASYNC; /* by a kernel thread: inline, it would copy, or wait for the owner to come back for the next pages */
    io_uring_sqe_set_flags(sqe, flags);
}

static void start_pause(struct uring_queue *q, struct uring_part *slot, uint64_t pause_ns) {
    slot->pausing = true;
    slot->pause = (struct __kernel_timespec){.tv_nsec = (long long)pause_ns};
    struct io_uring_sqe *sqe = take_sqe(q);
    io_uring_prep_timeout(sqe, &slot->pause, 0, 0);
    io_uring_sqe_set_data(sqe, slot);
}

static void end_part(struct uring_queue *q, struct uring_part *slot) {
    CHECK(q->parts_in_kernel > 0);
    q->parts_in_kernel--;
    slot->in_kernel = false;
    if (read_request_end_part(&q->waiting, &slot->part))
        read_request_push(&q->finished, slot->part.request);
    slot->next_free = q->free_parts;
    q->free_parts = slot;
}

static void take_completion(struct uring_queue *q, struct uring_part *slot, int result) {
    uint64_t pause_ns;
    if (slot->pausing) {
        slot->pausing = false;
        start_call(q, slot);
        return;
    }
    switch (read_part_result(q->base.files, &slot->part, result, &pause_ns)) {
    case READ_STEP_CALL:
        start_call(q, slot);
        break;
    case READ_STEP_PAUSE:
        start_pause(q, slot, pause_ns);
        break;
    case READ_STEP_END:
        end_part(q, slot);
        break;
    }
}

/* Looks at all completions that are there, and hands parts of waiting requests over. Submits nothing. */
static void advance(struct uring_queue *q) {
    struct io_uring_cqe *cqe;
    while (q->parts_in_kernel > 0 && io_uring_peek_cqe(&q->ring, &cqe) == 0) {
        struct uring_part *slot = io_uring_cqe_get_data(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&q->ring, cqe);
        if (slot) /* else the answer to a cancel */
            take_completion(q, slot, result);
    }
    while (q->free_parts && read_request_take_part(q->base.files, &q->waiting, &q->free_parts->part)) {
        struct uring_part *slot = q->free_parts;
        q->free_parts = slot->next_free;
        q->parts_in_kernel++;
        slot->pausing = false;
        slot->in_kernel = true;
        start_call(q, slot);
    }
}

/* Calls that were not taken stay in the ring and go with the next submit. True: the system was short of something. */
static bool is_shortage(int result) {
    CHECK(result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY || result == -ENOMEM || result == -ETIME);
    return result == -EAGAIN || result == -EBUSY || result == -ENOMEM;
}

static void submit_calls(struct uring_queue *q) {
    if (io_uring_sq_ready(&q->ring) > 0)
        (void)is_shortage(io_uring_submit(&q->ring));
}

/* ---- the queue ---- */

static enum read_submit uring_submit(struct read_queue *queue, struct read_request *request) {
    struct uring_queue *q = of(queue);
    ASSERT(q->in_flight <= queue->depth);
    if (q->in_flight == queue->depth)
        return READ_BUSY;
    q->in_flight++;
    read_request_push(read_request_start(queue->files, request) ? &q->waiting : &q->finished, request);
    return READ_ACCEPTED;
}

static void uring_flush(struct read_queue *queue) {
    struct uring_queue *q = of(queue);
    advance(q);
    submit_calls(q);
}

/* Submits and waits until something completes or the time is up. */
static void wait_completion(struct uring_queue *q, uint64_t wait_ns) {
    const uint64_t wait_max_ns = (uint64_t)3600 * 1000000000u; /* comes back earlier, and is called again */
    if (wait_ns > wait_max_ns)
        wait_ns = wait_max_ns;
    struct __kernel_timespec limit = {.tv_sec = (long long)(wait_ns / 1000000000u), .tv_nsec = (long long)(wait_ns % 1000000000u)};
    struct io_uring_cqe *cqe;
    if (is_shortage(io_uring_submit_and_wait_timeout(&q->ring, &cqe, 1, &limit, NULL)))
        clock_sleep_ns(100 * 1000);
}

static struct read_request *uring_reap(struct read_queue *queue, bool wait, uint64_t timeout_ns) {
    struct uring_queue *q = of(queue);
    uint64_t end_ns = UINT64_MAX;
    if (wait && q->in_flight > 0 && !size_add(clock_now_ns(), timeout_ns, &end_ns))
        end_ns = UINT64_MAX;
    uring_flush(queue);
    while (wait && !q->finished.first && q->in_flight > 0) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= end_ns)
            break;
        wait_completion(q, end_ns - now_ns);
        advance(q);
        if (q->finished.first)
            submit_calls(q); /* else the next wait does it */
    }
    struct read_request *request = read_request_pop(&q->finished);
    if (request)
        q->in_flight--;
    return request;
}

static unsigned uring_in_flight(const struct read_queue *queue) { return ((const struct uring_queue *)queue)->in_flight; }

/* The kernel calls back what has not reached the device; what has comes when it comes. A pause of a retry ends at once. */
static void uring_cancel(struct read_queue *queue) {
    struct uring_queue *q = of(queue);
    read_request_cancel_waiting(&q->waiting, &q->finished);
    uring_flush(queue);
    for (unsigned i = 0; i < q->part_count; i++) {
        struct io_uring_sqe *sqe = q->parts[i].in_kernel ? io_uring_get_sqe(&q->ring) : NULL;
        if (!sqe)
            continue; /* a ring that takes no more: cancelling is no more than a wish */
        io_uring_prep_cancel(sqe, &q->parts[i], 0);
        io_uring_sqe_set_data(sqe, NULL);
    }
    submit_calls(q);
}

static void uring_destroy(struct read_queue *queue) {
    struct uring_queue *q = of(queue);
    while (q->parts_in_kernel > 0) {
        struct io_uring_cqe *cqe;
        wait_completion(q, UINT64_MAX);
        while (io_uring_peek_cqe(&q->ring, &cqe) == 0) {
            q->parts_in_kernel -= io_uring_cqe_get_data(cqe) != NULL;
            io_uring_cqe_seen(&q->ring, cqe);
        }
    }
    if (q->ring_open)
        io_uring_queue_exit(&q->ring);
    memory_free(q->parts);
    memory_free(q);
}

static const struct read_queue_operations uring_operations = {
    .name = "uring",
    .submit = uring_submit,
    .flush = uring_flush,
    .reap = uring_reap,
    .in_flight = uring_in_flight,
    .cancel = uring_cancel,
    .destroy = uring_destroy,
};

enum status read_queue_uring_create(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err) {
    *out = NULL;
    struct uring_queue *q = memory_alloc(sizeof *q);
    if (!q)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a read queue");
    q->base = (struct read_queue){.operations = &uring_operations, .files = files, .depth = depth};
    q->part_count = depth > PARTS_MIN ? depth : PARTS_MIN;
    q->parts = memory_alloc_array(q->part_count, sizeof *q->parts);
    if (!q->parts) {
        uring_destroy(&q->base);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a read queue of depth %u", depth);
    }
    for (unsigned i = q->part_count; i-- > 0;) {
        q->parts[i].next_free = q->free_parts;
        q->free_parts = &q->parts[i];
    }
    int code = ring_open(q);
    if (code != 0) {
        uring_destroy(&q->base);
        return error_set(err, STATUS_UNSUPPORTED,
                         "io_uring is not available here: %s (old kernels lack it, containers often forbid it); use the reader \"threads\"",
                         strerror(code));
    }
    *out = &q->base;
    return STATUS_OK;
}
