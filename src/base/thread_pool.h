/*
 * thread_pool: persistent workers for parallel loops over index ranges.
 *
 * The calling thread takes part as worker 0. Workers take chunks from a counter, large ones first and small ones at the end, so
 * that uneven work balances. Results may not depend on who ran a chunk. Between loops workers spin briefly, then sleep.
 *
 * Threads   one loop at a time, started by one owner thread; the body must not start a loop.
 * Memory    worker stacks are 256 KiB; no allocation after create.
 */
#pragma once

#include <stddef.h>

#include "base/status.h"

struct thread_pool;

/* Body of a loop: handles items [begin, end). `worker` is in [0, thread_pool_size). */
typedef void thread_pool_body(void *context, size_t begin, size_t end, unsigned worker);

/* thread_count >= 1 counts the caller. *out is NULL on failure. */
MUST_CHECK enum status thread_pool_create(unsigned thread_count, struct thread_pool **out, struct error *err);
void thread_pool_destroy(struct thread_pool *pool);
unsigned thread_pool_size(const struct thread_pool *pool);

/*
 * Runs body over [0, item_count) in chunks of at least min_chunk items (>= 1), multiples of it but for the last, and returns when
 * all is done.
 * With one thread, or item_count <= min_chunk, it is a plain call.
 */
void thread_pool_run(struct thread_pool *pool, size_t item_count, size_t min_chunk, thread_pool_body *body, void *context);
