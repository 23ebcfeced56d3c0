/* read_wait: see read_wait.h. */
#include "io/read_wait.h"

#include <errno.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

void read_wait_init(struct read_wait *wait, struct read_queue *queue, uint64_t timeout_ns) {
    CHECK(read_queue_in_flight(queue) == 0);
    *wait = (struct read_wait){.queue = queue, .timeout_ns = timeout_ns ? timeout_ns : READ_TIMEOUT_NS};
}

enum read_submit read_wait_submit(struct read_wait *wait, struct read_request *request) {
    request->since_ns = wait->waited_ns;
    request->submitted_ns = clock_now_ns();
    request->number = wait->submitted + 1;
    request->older = wait->newest;
    request->younger = NULL;
    request->awaited = true;
    if (read_queue_submit(wait->queue, request) != READ_ACCEPTED)
        return READ_BUSY;
    wait->submitted++;
    if (wait->newest)
        wait->newest->younger = request;
    else
        wait->oldest = request;
    wait->newest = request;
    wait->awaited++;
    return READ_ACCEPTED;
}

static void leave_list(struct read_wait *wait, struct read_request *request) {
    CHECK(wait->awaited > 0);
    if (request->older)
        request->older->younger = request->younger;
    else
        wait->oldest = request->younger;
    if (request->younger)
        request->younger->older = request->older;
    else
        wait->newest = request->older;
    request->older = request->younger = NULL;
    request->awaited = false;
    wait->awaited--;
}

/* What was submitted after it has not waited for itself until now. */
static void came(struct read_wait *wait, struct read_request *request) {
    if (request->awaited)
        leave_list(wait, request);
    for (struct read_request *r = wait->newest; r && r->number > request->number; r = r->older)
        r->since_ns = wait->waited_ns;
}

static uint64_t left_ns(const struct read_wait *wait) {
    uint64_t waited_ns = wait->oldest ? wait->waited_ns - wait->oldest->since_ns : 0;
    return waited_ns < wait->timeout_ns ? wait->timeout_ns - waited_ns : 0;
}

/* Until one comes or the oldest is overdue. */
static struct read_request *block_for_one(struct read_wait *wait) {
    uint64_t start_ns = clock_now_ns(), now_ns = start_ns;
    bool told = false;
    struct read_request *request = NULL;
    while (!request && wait->oldest && left_ns(wait) > 0) {
        uint64_t before_ns = now_ns, most_ns = left_ns(wait) < READ_SILENCE_NS ? left_ns(wait) : READ_SILENCE_NS;
        request = read_queue_reap(wait->queue, true, most_ns);
        now_ns = clock_now_ns();
        wait->waited_ns += now_ns - before_ns < most_ns ? now_ns - before_ns : most_ns; /* a stopped process does not wait */
        if (!request && !told && now_ns - start_ns >= READ_SILENCE_NS) {
            log_line(LOG_WARNING, "%s: the disk has not answered %u reads for %u s; waiting: check the disk and its connection",
                     file_set_path(wait->queue->files, wait->oldest->file), wait->awaited, (unsigned)(READ_SILENCE_NS / 1000000000));
            told = true;
        }
    }
    if (told && request)
        log_line(LOG_WARNING, "the disk answers again after %.0f s", (double)(now_ns - start_ns) / 1e9);
    return request;
}

struct read_request *read_wait_reap(struct read_wait *wait, bool block) {
    struct read_request *request =
        block && wait->oldest && left_ns(wait) > 0 ? block_for_one(wait) : read_queue_reap(wait->queue, false, 0);
    if (request)
        came(wait, request);
    return request;
}

struct read_request *read_wait_take_overdue(struct read_wait *wait) {
    struct read_request *request = wait->oldest;
    if (!request || left_ns(wait) > 0)
        return NULL;
    leave_list(wait, request);
    wait->lost_file = request->file;
    return request;
}

struct read_request read_wait_failure(const struct read_request *lost) {
    return (struct read_request){.file = lost->file,
                                 .offset_bytes = lost->offset_bytes,
                                 .size_bytes = lost->size_bytes,
                                 .status = STATUS_IO,
                                 .system_error = ETIMEDOUT,
                                 .waited_s = (uint32_t)((clock_now_ns() - lost->submitted_ns + 500000000u) / 1000000000u)};
}

bool read_wait_end(struct read_wait *wait) {
    struct read_queue *queue = wait->queue;
    read_queue_cancel(queue);
    while (wait->awaited > 0)
        if (!read_wait_reap(wait, true))
            (void)read_wait_take_overdue(wait);
    uint64_t end_ns = clock_now_ns() + READ_LEAVE_NS, now_ns;
    while (read_queue_in_flight(queue) > 0 && (now_ns = clock_now_ns()) < end_ns)
        (void)read_queue_reap(queue, true, end_ns - now_ns);
    unsigned left = read_queue_in_flight(queue);
    if (left > 0)
        log_line(LOG_WARNING,
                 "%s: the disk has still not answered %u reads; they are left behind, and the system may keep the process until it does",
                 file_set_path(queue->files, wait->lost_file), left);
    return left == 0;
}
