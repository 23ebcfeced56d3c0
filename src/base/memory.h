/*
 * memory: the only door to the heap and to anonymous pages; counts bytes by owner.
 *
 * Small things come from memory_alloc (zeroed, malloc behind it). Everything of size (weights, caches, KV, activations,
 * staging) is a region: page-aligned anonymous memory of one owner, optionally locked, so that the budget can be shown by
 * owner and cannot be paged out.
 *
 * Threads   all functions may be called from any thread.
 * Failure   allocation returns NULL (small) or STATUS_NO_MEMORY (region); never aborts. Tests make the n-th allocation fail.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum memory_owner {
    MEMORY_TRUNK,       /* weights that stay */
    MEMORY_CACHE,       /* expert slots */
    MEMORY_STAGING,     /* ring of streamed weights, read buffers */
    MEMORY_KV,          /* keys, values, recurrent state */
    MEMORY_ACTIVATIONS, /* buffers of one pass, logits */
    MEMORY_OTHER,       /* heap blocks: catalogue, tokenizer, plan */
    MEMORY_OWNER_COUNT,
};

const char *memory_owner_name(enum memory_owner owner); /* "trunk", "cache", ... */

/* Zeroed block of size_bytes (0 gives a unique pointer), or NULL. */
void *memory_alloc(size_t size_bytes);
/* Zeroed array, or NULL also when count * element_bytes overflows. */
void *memory_alloc_array(size_t count, size_t element_bytes);
/* Grows or shrinks a block of memory_alloc*; new bytes are not cleared; on failure NULL and the old block stays valid. */
void *memory_resize(void *block, size_t count, size_t element_bytes);
/* Copy of size_bytes bytes with a terminating 0, or NULL. */
char *memory_copy_text(const char *data, size_t size_bytes);
void memory_free(void *block); /* NULL is allowed */

struct memory_region {
    uint8_t *data; /* page-aligned; NULL when size_bytes is 0 */
    size_t size_bytes;
    size_t absent_bytes; /* of it, given back and not counted (memory_region_set_absent) */
    enum memory_owner owner;
    bool locked; /* pages cannot be swapped out */
};

/*
 * Maps size_bytes of zeroed anonymous memory. With `lock`, tries to lock it; a refusal by the system (RLIMIT_MEMLOCK) is not an error:
 * region->locked tells. Regions of a huge page (2 MiB) or more begin at a multiple of one and ask for them.
 */
MUST_CHECK enum status memory_region_create(struct memory_region *region, size_t size_bytes, enum memory_owner owner, bool lock,
                                            struct error *err);
/*
 * Maps size_bytes of an open file from offset_bytes (a multiple of the page size) on, to be read only, where huge pages of the file can be
 * huge pages of the process; counted like memory of its owner, since its pages are in the process once they were touched.
 * STATUS_UNSUPPORTED: this file system cannot map.
 */
MUST_CHECK enum status memory_region_map(struct memory_region *region, int fd, uint64_t offset_bytes, size_t size_bytes,
                                         enum memory_owner owner, bool lock, struct error *err);
void memory_region_destroy(struct memory_region *region); /* a zeroed region is allowed */
void memory_region_unlock(struct memory_region *region); /* its pages may be swapped out, or dropped when they are a file's */
/* Gives the pages of [offset, offset + size) back to the system; they read as zeros afterwards. Offsets are rounded inwards to pages. */
void memory_region_discard(struct memory_region *region, size_t offset_bytes, size_t size_bytes);
/* So many bytes of the region, at most its size, were given back and are not used at the moment: its owner's bytes are less by them. */
void memory_region_set_absent(struct memory_region *region, size_t absent_bytes);

/* Live bytes of an owner's regions in whole pages, without what is absent (MEMORY_OTHER: also heap blocks, as malloc sized them), and of
 * all locked regions. */
uint64_t memory_owner_bytes(enum memory_owner owner);
uint64_t memory_locked_bytes(void);

struct memory_process { /* from /proc/self/status; 0 where unknown */
    uint64_t rss_bytes, peak_rss_bytes, locked_bytes, page_table_bytes, swap_bytes;
};
struct memory_process memory_process_read(void);

/* One malloc arena, no trimming surprises: call once at the start of main. */
void memory_setup(void);
/* Gives free heap pages back to the system: after loading, before planning. */
void memory_trim(void);

/*
 * How many allocations failed so far, in the whole process: tells whether a library that allocates here failed for want of memory, where it
 * does not say so itself.
 */
uint64_t memory_refusals(void);

/* Test hook: the n-th allocation from now (1 = next) fails, once. 0 turns it off. */
void memory_fail_after(uint64_t allocations);

/* Checked arithmetic for sizes that come from files: false when the result does not fit. */
bool size_add(uint64_t a, uint64_t b, uint64_t *sum);
bool size_multiply(uint64_t a, uint64_t b, uint64_t *product);
/* Rounds up to a power-of-two multiple; the caller knows that it fits. */
uint64_t size_round_up(uint64_t value, uint64_t multiple);
