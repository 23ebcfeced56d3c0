/*
 * file_stream: many ranges of files read in a given order at the disk's speed, with memory of a fixed size.
 *
 * Model    the caller's function names range after range; several are read ahead through a read queue, past the page cache where the system
 *          allows it, and handed out in their order.
 * Threads  one owner; several streams over one file set may run in threads of their own.
 * Memory   25 MiB at create, nothing later.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/file_set.h"

#define STREAM_CHUNK_BYTES ((uint64_t)2 << 20) /* the largest range */
#define STREAM_CHUNKS 12                       /* in flight or handed out: experts are smaller than the largest range */

struct stream_range {
    uint32_t file;
    uint64_t offset_bytes, size_bytes; /* size: 1 .. STREAM_CHUNK_BYTES, inside the file */
    uint64_t tag;                      /* the caller's */
};
/* Fills the next range; false: there is none. */
typedef bool stream_next(void *context, struct stream_range *range);

struct file_stream;
/* *out is NULL on failure. next and context must outlive the stream. timeout_ns: of a read (read_wait.h); 0: the usual one. */
MUST_CHECK enum status file_stream_create(struct file_set *files, uint64_t timeout_ns, stream_next *next, void *context,
                                          struct file_stream **out, struct error *err);
/* The next range and its bytes, which stay until the next call. *data is NULL at the end. Errors name file and offset; after
 * one the stream can only be destroyed. */
MUST_CHECK enum status file_stream_take(struct file_stream *stream, struct stream_range *range, const uint8_t **data, struct error *err);
/*
 * Gives up what was asked for. False: the disk does not answer, and reads may still come: what they write to was left behind, and the files
 * must stay open for good. NULL is allowed.
 */
MUST_CHECK bool file_stream_destroy(struct file_stream *stream);
