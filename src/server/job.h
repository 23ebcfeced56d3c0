/*
 * job: one request to the model, and the queue of one worker that runs them in order.
 *
 * Threads   submit, wait, cancel and release from HTTP threads; the run function on the worker. A job lives until both have let go.
 * Output    the worker appends bytes; the HTTP thread takes them. Both under the job's lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "sluice.h"

struct job;
/* Does the work on the worker's thread. Appends to the job with job_write. */
typedef void job_run(struct job *job, sluice_model *model, void *request);

struct job_queue;

MUST_CHECK enum status job_queue_create(sluice_model *model, uint32_t limit, struct job_queue **out, struct error *err);
/* Ends the running job, drops the others, takes no more, joins the worker. Jobs that HTTP threads still hold may be read and cancelled. */
void job_queue_stop(struct job_queue *queue);
/* After stop, when no job is held any more. NULL is allowed. */
void job_queue_destroy(struct job_queue *queue);
uint32_t job_queue_length(struct job_queue *queue); /* waiting and running */

/* request is passed to run and freed with free_request. STATUS_OVER_BUDGET: the queue is full. *out is NULL on failure (request is freed).
 */
MUST_CHECK enum status job_submit(struct job_queue *queue, job_run *run, void *request, void (*free_request)(void *), struct job **out,
                                  struct error *err);
/* The client is gone: the run ends soon, its output is of no use. */
void job_cancel(struct job *job);
bool job_cancelled(const struct job *job);
/* The HTTP thread's last call. */
void job_release(struct job *job);

/* Worker: appends output, or fails the job with an HTTP status (kept; output so far stays). */
void job_write(struct job *job, struct text bytes);
void job_fail(struct job *job, unsigned http_status, const sluice_error *error);

enum job_state { JOB_MORE, JOB_TIMEOUT, JOB_DONE, JOB_FAILED };
/* Waits until there is output, the end, or timeout_ns; moves up to limit bytes to dst. JOB_FAILED: *http_status and *error are set. */
enum job_state job_read(struct job *job, char *dst, size_t limit_bytes, size_t *taken_bytes, uint64_t timeout_ns, unsigned *http_status,
                        sluice_error *error);
/* True once the job failed or has any output, or ended: whether its HTTP status can be known. Waits at most timeout_ns. */
bool job_begun(struct job *job, uint64_t timeout_ns, unsigned *http_status, sluice_error *error);
/* Everything a finished job wrote; valid until release. */
struct text job_output(struct job *job);
