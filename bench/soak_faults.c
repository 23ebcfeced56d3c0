/* soak_faults: see soak_faults.h. */
#include "soak_faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "io/read_queue_faulty.h"

/* Of 10,000 results. */
enum { EIO_SHARE = 10, EAGAIN_SHARE = 20, EINTR_SHARE = 20, SHORT_SHARE = 30, SHARES = 10000 };
enum { OWED_MAX = 64, BLOCK_BYTES = 4096 };

static struct {
    pthread_mutex_t lock; /* readers may be threads */
    bool uring, pread;    /* which calls misbehave */
    uint64_t random, errors, shorts;
    uint64_t owed[OWED_MAX]; /* who failed, and passes the next time */
    unsigned owed_count;
    unsigned judged; /* place in the completion ring behind the last result that was looked at */
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t draw(uint64_t below) {
    shim.random = shim.random * 6364136223846793005u + 1442695040888963407u;
    return (shim.random >> 33) % below;
}

static bool was_owed(uint64_t who) {
    for (unsigned i = 0; i < shim.owed_count; i++)
        if (shim.owed[i] == who) {
            shim.owed[i] = shim.owed[--shim.owed_count];
            return true;
        }
    return false;
}

/* Half of the short reads end at a block, from where a direct read can go on. */
static int64_t cut(int64_t bytes) {
    int64_t some = 1 + (int64_t)draw((uint64_t)bytes - 1);
    shim.shorts++;
    return some > BLOCK_BYTES && draw(2) == 0 ? some / BLOCK_BYTES * BLOCK_BYTES : some;
}

/* What `who` gets to see of a result (bytes, or -errno). Under the lock. */
static int64_t judge_locked(uint64_t who, int64_t result) {
    if (result <= 1 || was_owed(who))
        return result;
    int64_t place = (int64_t)draw(SHARES) - EIO_SHARE;
    int code = place < 0 ? EIO : (place -= EAGAIN_SHARE) < 0 ? EAGAIN : (place -= EINTR_SHARE) < 0 ? EINTR : 0;
    if (code == 0)
        return place < SHORT_SHARE ? cut(result) : result;
    if (shim.owed_count == OWED_MAX)
        return result;
    shim.owed[shim.owed_count++] = who;
    shim.errors++;
    return -code;
}

static int64_t judge(uint64_t who, int64_t result) {
    CHECK(pthread_mutex_lock(&shim.lock) == 0);
    result = judge_locked(who, result);
    CHECK(pthread_mutex_unlock(&shim.lock) == 0);
    return result;
}

/* Completions that nobody has looked at yet. Timers and answers to a cancel bring no bytes, and stay as they are. */
static void judge_ring(struct io_uring *ring) {
    struct io_uring_cqe *cqe;
    unsigned place;
    io_uring_for_each_cqe(ring, place, cqe) {
        if ((int)(place - shim.judged) < 0)
            continue;
        shim.judged = place + 1;
        if (cqe->user_data != 0)
            cqe->res = (int)judge(cqe->user_data, cqe->res);
    }
}

static void *next_of(const char *name) {
    void *object = dlsym(RTLD_NEXT, name);
    CHECK(object);
    return object;
}

/* ---- the calls, under their own names ---- */

#pragma GCC visibility push(default)

int io_uring_submit(struct io_uring *ring) {
    union {
        void *object;
        int (*call)(struct io_uring *);
    } real = {.object = next_of("io_uring_submit")};
    int result = real.call(ring);
    if (shim.uring)
        judge_ring(ring);
    return result;
}

int io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **first, unsigned count, struct __kernel_timespec *limit,
                                     sigset_t *signals) {
    union {
        void *object;
        int (*call)(struct io_uring *, struct io_uring_cqe **, unsigned, struct __kernel_timespec *, sigset_t *);
    } real = {.object = next_of("io_uring_submit_and_wait_timeout")};
    int result = real.call(ring, first, count, limit, signals);
    if (shim.uring)
        judge_ring(ring);
    return result;
}

ssize_t pread(int fd, void *data, size_t size_bytes, off_t offset) {
    ssize_t result = syscall(SYS_pread64, fd, data, size_bytes, offset);
    if (!shim.pread || size_bytes < BLOCK_BYTES) /* the small ones are not of a model */
        return result;
    int64_t seen = judge((uintptr_t)data, result < 0 ? -(int64_t)errno : result);
    if (seen >= 0)
        return (ssize_t)seen;
    errno = (int)-seen;
    return -1;
}

#pragma GCC visibility pop

/* ---- around the queue ---- */

static enum status wrap(void *context, struct read_queue *inner, struct read_queue **out, struct error *err) {
    const uint64_t *seed = context;
    const struct read_faults faults = {
        .seed = *seed, .short_rate = 0.01, .delay_rate = 0.01, .delay_reaps = 4, .reorder = true, .corrupt_unread = true};
    enum status status = read_queue_faulty_create(inner, &faults, out, err);
    shim.random = *seed;
    shim.uring = status == STATUS_OK && strcmp(inner->operations->name, read_queue_kind_name(READ_QUEUE_URING)) == 0;
    shim.pread = status == STATUS_OK && !shim.uring;
    return status;
}

struct queue_wrapper soak_faults_wrapper(uint64_t *seed) {
    return (struct queue_wrapper){.wrap = wrap, .context = seed};
}

uint64_t soak_faults_errors(void) { return shim.errors; }
uint64_t soak_faults_shorts(void) { return shim.shorts; }
