/*
 * thread_pool: a loop is cut into units, which are taken by counting `left` down, a thread's share of what is left at a time, so
 * that the last chunks are small and all threads end together. A loop ends when as many units are finished as there were.
 *
 * Nobody waits for a worker that took nothing: one that wakes late finds no unit and sleeps again. That matters when there
 * are fewer processors than threads. A worker may touch the loop's fields only while it holds a unit, since an unfinished
 * unit keeps the loop, and with it the fields, alive; so a late worker that takes some of the next loop is simply early.
 * Sleeping is a futex on `loops` (workers) and on `finished` (the caller); each sleeper announces itself before it looks
 * once more, and each waker changes the word before it looks for sleepers, so no wake is lost.
 */
#include "base/thread_pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/memory.h"

#define STACK_BYTES (256u << 10)
#define UNITS_PER_THREAD 64 /* at most */
#define SPIN_NS 100000      /* waking 15 sleepers of a virtual machine takes about as long; none when threads outnumber processors */
#define CACHE_LINE_BYTES 64 /* words of different writers lie at least this far apart */

struct worker {
    struct thread_pool *pool;
    pthread_t thread;
    unsigned index;
};

struct thread_pool {
    unsigned thread_count, started;
    uint64_t spin_ns;
    bool running; /* touched by the owner alone */

    /* the loop; written by the owner while no unit is left or unfinished */
    thread_pool_body *body;
    void *context;
    size_t item_count, unit_items;
    uint32_t unit_count;

    char gap_0[CACHE_LINE_BYTES];
    _Atomic uint32_t left; /* units nobody took */
    char gap_1[CACHE_LINE_BYTES];
    _Atomic uint32_t finished;
    _Atomic uint32_t owner_sleeps;
    char gap_2[CACHE_LINE_BYTES];
    _Atomic uint32_t loops; /* loops begun; workers sleep on it */
    _Atomic uint32_t sleepers;
    _Atomic bool stop;

    struct worker workers[]; /* thread_count - 1 */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0); /* EAGAIN, EINTR: the caller looks again */
}

static void futex_wake(_Atomic uint32_t *word, unsigned count) { (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0); }

/* Takes and runs chunks until no unit is left. */
static void run_chunks(struct thread_pool *pool, unsigned worker) {
    uint32_t left = atomic_load_explicit(&pool->left, memory_order_acquire), taken, done = 0;
    while (left > 0) {
        taken = left / pool->thread_count;
        taken += taken == 0;
        if (!atomic_compare_exchange_weak_explicit(&pool->left, &left, left - taken, memory_order_acq_rel, memory_order_acquire))
            continue;
        size_t begin = (size_t)(pool->unit_count - left) * pool->unit_items, items = taken * pool->unit_items;
        ASSERT(left <= pool->unit_count && begin < pool->item_count);
        pool->body(pool->context, begin, pool->item_count - begin < items ? pool->item_count : begin + items, worker);
        done += taken;
        left = atomic_load_explicit(&pool->left, memory_order_acquire);
    }
    if (done == 0)
        return;
    uint32_t unit_count = pool->unit_count, finished = atomic_fetch_add(&pool->finished, done) + done;
    ASSERT(finished <= unit_count);
    if (finished == unit_count && atomic_load(&pool->owner_sleeps))
        futex_wake(&pool->finished, 1);
}

/* Waits a moment for *word to differ from `seen`. */
static void spin_while_equal(const struct thread_pool *pool, const _Atomic uint32_t *word, uint32_t seen) {
    if (pool->spin_ns == 0)
        return;
    uint64_t end_ns = clock_now_ns() + pool->spin_ns;
    while (atomic_load_explicit(word, memory_order_acquire) == seen && clock_now_ns() < end_ns)
        cpu_pause();
}

static void *worker_main(void *argument) {
    const struct worker *self = argument;
    struct thread_pool *pool = self->pool;
    for (;;) {
        uint32_t loops = atomic_load(&pool->loops);
        if (atomic_load(&pool->stop))
            return NULL;
        run_chunks(pool, self->index);
        spin_while_equal(pool, &pool->loops, loops);
        atomic_fetch_add(&pool->sleepers, 1);
        if (atomic_load(&pool->loops) == loops)
            futex_wait(&pool->loops, loops);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
}

static void wait_for_chunks(struct thread_pool *pool) {
    uint32_t finished;
    while ((finished = atomic_load(&pool->finished)) < pool->unit_count) {
        spin_while_equal(pool, &pool->finished, finished);
        atomic_store(&pool->owner_sleeps, 1);
        if (atomic_load(&pool->finished) == finished)
            futex_wait(&pool->finished, finished);
        atomic_store(&pool->owner_sleeps, 0);
    }
}

static void begin_loop(struct thread_pool *pool) {
    atomic_fetch_add(&pool->loops, 1);
    if (atomic_load(&pool->sleepers) > 0)
        futex_wake(&pool->loops, pool->unit_count - 1 < pool->thread_count ? pool->unit_count - 1 : INT_MAX);
}

void thread_pool_run(struct thread_pool *pool, size_t item_count, size_t min_chunk, thread_pool_body *body, void *context) {
    CHECK(min_chunk >= 1 && body != NULL && !pool->running);
    if (item_count == 0)
        return;
    if (pool->thread_count == 1 || item_count <= min_chunk) {
        body(context, 0, item_count, 0);
        return;
    }
    size_t most = (size_t)pool->thread_count * UNITS_PER_THREAD, chunks = (item_count - 1) / min_chunk + 1;
    size_t unit_items = min_chunk * ((chunks - 1) / most + 1);
    pool->running = true;
    pool->body = body;
    pool->context = context;
    pool->item_count = item_count;
    pool->unit_items = unit_items;
    pool->unit_count = (uint32_t)((item_count - 1) / unit_items + 1);
    atomic_store_explicit(&pool->finished, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->left, pool->unit_count, memory_order_release);
    begin_loop(pool);
    run_chunks(pool, 0);
    wait_for_chunks(pool);
    pool->running = false;
}

/* Workers take no signals but those of their own faults, so that Ctrl-C always reaches the main thread. */
static void worker_signals(sigset_t *blocked) {
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigfillset(blocked);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(blocked, faults[i]);
}

static enum status start_workers(struct thread_pool *pool, struct error *err) {
    pthread_attr_t attributes;
    sigset_t blocked, before;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0);
    worker_signals(&blocked);
    CHECK(pthread_sigmask(SIG_SETMASK, &blocked, &before) == 0);
    int failure = 0;
    while (failure == 0 && pool->started < pool->thread_count - 1) {
        struct worker *worker = &pool->workers[pool->started];
        *worker = (struct worker){.pool = pool, .index = pool->started + 1};
        failure = pthread_create(&worker->thread, &attributes, worker_main, worker);
        pool->started += failure == 0;
    }
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    pthread_attr_destroy(&attributes);
    if (failure)
        return error_set(err, STATUS_NO_MEMORY, "thread %u of %u could not be started: %s; lower --threads", pool->started + 2,
                         pool->thread_count, strerror(failure));
    return STATUS_OK;
}

enum status thread_pool_create(unsigned thread_count, struct thread_pool **out, struct error *err) {
    CHECK(thread_count >= 1);
    *out = NULL;
    struct thread_pool *pool = memory_alloc(sizeof(struct thread_pool) + (size_t)(thread_count - 1) * sizeof(struct worker));
    if (!pool)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a pool of %u threads", thread_count);
    pool->thread_count = thread_count;
    pool->spin_ns = thread_count <= cpu_count() ? SPIN_NS : 0;
    enum status status = start_workers(pool, err);
    if (status == STATUS_OK)
        *out = pool;
    else
        thread_pool_destroy(pool);
    return status;
}

void thread_pool_destroy(struct thread_pool *pool) {
    if (!pool)
        return;
    CHECK(!pool->running);
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->loops, 1);
    futex_wake(&pool->loops, INT_MAX);
    for (unsigned i = 0; i < pool->started; i++)
        CHECK(pthread_join(pool->workers[i].thread, NULL) == 0);
    memory_free(pool);
}

unsigned thread_pool_size(const struct thread_pool *pool) { return pool->thread_count; }
