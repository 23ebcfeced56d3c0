/*
 * job: queue, worker, hand-over.
 */
#include "server/job.h"

#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"

#define OUTPUT_LIMIT_BYTES (256u << 20)
#define TEND_NS 1000000000u           /* while nothing is asked */
#define WORKER_STACK_BYTES (1u << 20) /* template rendering and JSON */

struct job {
    struct job_queue *queue;
    struct job *next;
    job_run *run;
    void *request;
    void (*free_request)(void *);
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct byte_buffer output;
    size_t taken_bytes;
    bool ended, failed;
    unsigned http_status;
    sluice_error error;
    atomic_bool cancelled;
    atomic_uint holders; /* HTTP thread and queue */
};

struct job_queue {
    sluice_model *model;
    uint32_t limit, length;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct job *first, *last, *running;
    bool stopping;
    pthread_t worker;
};

static void let_go(struct job *job) {
    if (atomic_fetch_sub(&job->holders, 1) > 1)
        return;
    job->free_request(job->request);
    byte_buffer_deinit(&job->output);
    CHECK(pthread_mutex_destroy(&job->lock) == 0 && pthread_cond_destroy(&job->changed) == 0);
    memory_free(job);
}

static void end_job(struct job *job) {
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    job->ended = true;
    CHECK(pthread_cond_broadcast(&job->changed) == 0 && pthread_mutex_unlock(&job->lock) == 0);
}

/* Under the lock, which it gives up while the model tends to itself. */
static void wait_for_job(struct job_queue *queue) {
    CHECK(pthread_mutex_unlock(&queue->lock) == 0);
    bool more = sluice_tend(queue->model);
    CHECK(pthread_mutex_lock(&queue->lock) == 0);
    if (more || queue->first || queue->stopping)
        return;
    uint64_t end_ns = clock_now_ns() + TEND_NS;
    struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u), .tv_nsec = (long)(end_ns % 1000000000u)};
    (void)pthread_cond_timedwait(&queue->arrived, &queue->lock, &end);
}

static void *worker_main(void *argument) {
    struct job_queue *queue = argument;
    CHECK(pthread_mutex_lock(&queue->lock) == 0);
    while (!queue->stopping) {
        struct job *job = queue->first;
        if (!job) {
            wait_for_job(queue);
            continue;
        }
        queue->first = job->next;
        if (!queue->first)
            queue->last = NULL;
        queue->running = job;
        CHECK(pthread_mutex_unlock(&queue->lock) == 0);
        if (!job_cancelled(job))
            job->run(job, queue->model, job->request);
        CHECK(pthread_mutex_lock(&queue->lock) == 0);
        queue->running = NULL;
        queue->length--;
        CHECK(pthread_mutex_unlock(&queue->lock) == 0);
        end_job(job);
        let_go(job);
        CHECK(pthread_mutex_lock(&queue->lock) == 0);
    }
    CHECK(pthread_mutex_unlock(&queue->lock) == 0);
    return NULL;
}

enum status job_queue_create(sluice_model *model, uint32_t limit, struct job_queue **out, struct error *err) {
    *out = NULL;
    struct job_queue *queue = memory_alloc(sizeof *queue);
    if (!queue)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the request queue");
    queue->model = model;
    queue->limit = limit;
    pthread_condattr_t monotonic;
    CHECK(pthread_condattr_init(&monotonic) == 0 && pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_mutex_init(&queue->lock, NULL) == 0 && pthread_cond_init(&queue->arrived, &monotonic) == 0);
    CHECK(pthread_condattr_destroy(&monotonic) == 0);
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES) == 0);
    int failure = pthread_create(&queue->worker, &attributes, worker_main, queue);
    CHECK(pthread_attr_destroy(&attributes) == 0);
    if (failure) {
        memory_free(queue);
        return error_set(err, STATUS_NO_MEMORY, "the worker thread could not be started: %s", strerror(failure));
    }
    *out = queue;
    return STATUS_OK;
}

void job_queue_stop(struct job_queue *queue) {
    CHECK(pthread_mutex_lock(&queue->lock) == 0);
    queue->stopping = true;
    if (queue->running) {
        atomic_store(&queue->running->cancelled, true);
        sluice_cancel(queue->model);
    }
    struct job *waiting = queue->first;
    queue->first = queue->last = NULL;
    CHECK(pthread_cond_broadcast(&queue->arrived) == 0 && pthread_mutex_unlock(&queue->lock) == 0);
    while (waiting) {
        struct job *next = waiting->next;
        const sluice_error error = {.status = SLUICE_CANCELLED, .text = "the server is stopping"};
        job_fail(waiting, 503, &error);
        end_job(waiting);
        let_go(waiting);
        waiting = next;
    }
    CHECK(pthread_join(queue->worker, NULL) == 0);
}

void job_queue_destroy(struct job_queue *queue) {
    if (!queue)
        return;
    CHECK(queue->stopping && !queue->running);
    CHECK(pthread_mutex_destroy(&queue->lock) == 0 && pthread_cond_destroy(&queue->arrived) == 0);
    memory_free(queue);
}

uint32_t job_queue_length(struct job_queue *queue) {
    CHECK(pthread_mutex_lock(&queue->lock) == 0);
    uint32_t length = queue->length;
    CHECK(pthread_mutex_unlock(&queue->lock) == 0);
    return length;
}

static struct job *new_job(struct job_queue *queue, job_run *run, void *request, void (*free_request)(void *)) {
    struct job *job = memory_alloc(sizeof *job);
    if (!job)
        return NULL;
    job->queue = queue;
    job->run = run;
    job->request = request;
    job->free_request = free_request;
    byte_buffer_init(&job->output, OUTPUT_LIMIT_BYTES);
    pthread_condattr_t attributes;
    CHECK(pthread_condattr_init(&attributes) == 0 && pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_mutex_init(&job->lock, NULL) == 0 && pthread_cond_init(&job->changed, &attributes) == 0);
    CHECK(pthread_condattr_destroy(&attributes) == 0);
    atomic_store(&job->holders, 2);
    return job;
}

enum status job_submit(struct job_queue *queue, job_run *run, void *request, void (*free_request)(void *), struct job **out,
                       struct error *err) {
    *out = new_job(queue, run, request, free_request);
    if (!*out) {
        free_request(request);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a request");
    }
    CHECK(pthread_mutex_lock(&queue->lock) == 0);
    bool full = queue->stopping || queue->length > queue->limit;
    if (!full) {
        if (queue->last)
            queue->last->next = *out;
        else
            queue->first = *out;
        queue->last = *out;
        queue->length++;
        CHECK(pthread_cond_signal(&queue->arrived) == 0);
    }
    CHECK(pthread_mutex_unlock(&queue->lock) == 0);
    if (!full)
        return STATUS_OK;
    let_go(*out);
    let_go(*out);
    *out = NULL;
    return error_set(err, STATUS_OVER_BUDGET, "%u requests are waiting already; try again later", queue->limit);
}

void job_cancel(struct job *job) {
    atomic_store(&job->cancelled, true);
    struct job_queue *queue = job->queue;
    CHECK(pthread_mutex_lock(&queue->lock) == 0);
    if (queue->running == job)
        sluice_cancel(queue->model); /* may hit the call after this one; jobs that were not cancelled run again (api_run.c) */
    CHECK(pthread_mutex_unlock(&queue->lock) == 0);
}

bool job_cancelled(const struct job *job) { return atomic_load(&job->cancelled); }

void job_release(struct job *job) { let_go(job); }

void job_write(struct job *job, struct text bytes) {
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    if (byte_buffer_append_text(&job->output, bytes, NULL) != STATUS_OK)
        atomic_store(&job->cancelled, true); /* an answer past the limit, or no memory: nobody will read it */
    CHECK(pthread_cond_broadcast(&job->changed) == 0 && pthread_mutex_unlock(&job->lock) == 0);
}

void job_fail(struct job *job, unsigned http_status, const sluice_error *error) {
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    job->failed = true;
    job->http_status = http_status;
    job->error = *error;
    CHECK(pthread_cond_broadcast(&job->changed) == 0 && pthread_mutex_unlock(&job->lock) == 0);
}

/* Waits under the lock until something is there to see, or the time is up. */
static void wait_change(struct job *job, uint64_t timeout_ns) {
    uint64_t end_ns = clock_now_ns() + timeout_ns;
    struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u), .tv_nsec = (long)(end_ns % 1000000000u)};
    while (job->taken_bytes == job->output.size_bytes && !job->ended && !job->failed)
        if (pthread_cond_timedwait(&job->changed, &job->lock, &end) != 0)
            return;
}

enum job_state job_read(struct job *job, char *dst, size_t limit_bytes, size_t *taken_bytes, uint64_t timeout_ns, unsigned *http_status,
                        sluice_error *error) {
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    wait_change(job, timeout_ns);
    size_t left = job->output.size_bytes - job->taken_bytes;
    *taken_bytes = left < limit_bytes ? left : limit_bytes;
    if (*taken_bytes)
        memcpy(dst, job->output.data + job->taken_bytes, *taken_bytes);
    job->taken_bytes += *taken_bytes;
    enum job_state state = *taken_bytes ? JOB_MORE : job->failed ? JOB_FAILED : job->ended ? JOB_DONE : JOB_TIMEOUT;
    if (job->taken_bytes == job->output.size_bytes) { /* a stream need not keep what was sent */
        byte_buffer_clear(&job->output);
        job->taken_bytes = 0;
    }
    *http_status = job->http_status;
    *error = job->error;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
    return state;
}

bool job_begun(struct job *job, uint64_t timeout_ns, unsigned *http_status, sluice_error *error) {
    CHECK(pthread_mutex_lock(&job->lock) == 0);
    wait_change(job, timeout_ns);
    bool begun = job->output.size_bytes > 0 || job->ended || job->failed;
    *http_status = job->failed ? job->http_status : 200;
    *error = job->error;
    CHECK(pthread_mutex_unlock(&job->lock) == 0);
    return begun;
}

struct text job_output(struct job *job) {
    return byte_buffer_text(&job->output);
}
