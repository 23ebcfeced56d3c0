/*
 * arena: many small blocks with one lifetime, under a hard limit; all are freed together.
 *
 * Threads   one owner at a time.
 * Memory    chunks from memory_alloc, doubling from 16 KiB to 1 MiB; a larger block gets a chunk of its own.
 * Failure   past the limit, or when the system has no memory, allocation returns NULL; the arena stays usable.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct arena;

/* *out is NULL on failure. limit_bytes bounds the sum of all blocks. */
MUST_CHECK enum status arena_create(size_t limit_bytes, struct arena **out, struct error *err);
void arena_destroy(struct arena *arena); /* NULL is allowed */
/* Zeroed block aligned to 16 bytes, valid until reset or destroy, or NULL. */
void *arena_alloc(struct arena *arena, size_t size_bytes);
/*
 * Grows a block of `old_bytes` to `new_bytes` (in place when it is the newest and its chunk has room), or NULL, then the old block
 * stays valid. `block` may be NULL with old_bytes 0. New bytes are zero.
 */
void *arena_grow(struct arena *arena, void *block, size_t old_bytes, size_t new_bytes);
/* Frees all blocks; keeps one chunk for reuse. */
void arena_reset(struct arena *arena);
size_t arena_used_bytes(const struct arena *arena);
/* Whether an allocation failed because the system had no memory, and not because of the limit. */
bool arena_was_refused(const struct arena *arena);
