/*
 * gguf_reader: forward cursor over the header of a file, through a window of fixed size.
 *
 * Invariants  nothing past the file or past GGUF_HEADER_MAX_BYTES is read; a read that would is an error that says which part of the
 *             header ends too early. Callers compare counts with gguf_reader_left before they allocate.
 * Threads     one owner.
 */
#pragma once

#include "base/text.h"
#include "io/file_set.h"

#define GGUF_HEADER_MAX_BYTES ((uint64_t)1 << 30) /* published headers are below 32 MiB */
#define GGUF_WINDOW_BYTES 65536u                  /* also the longest name of a key or tensor, and one more */

struct gguf_reader {
    const struct file_set *files;
    uint32_t file;
    uint64_t position, limit_bytes; /* in the file; limit: its size or the maximum */
    uint8_t *window;                /* bytes [window_begin, window_end) of the file */
    uint64_t window_begin, window_end;
    /* What is being read, for errors: "metadata entry", "tensor", with number and name where they are known. */
    const char *part;
    uint64_t number;
    struct text name; /* kept by the catalogue */
};

/* Starts at byte 0 of a file of the set. */
MUST_CHECK enum status gguf_reader_init(struct gguf_reader *r, const struct file_set *files, uint32_t file, struct error *err);
void gguf_reader_deinit(struct gguf_reader *r);

/* Bytes from the cursor to the limit. */
static inline uint64_t gguf_reader_left(const struct gguf_reader *r) {
    return r->limit_bytes - r->position;
}

#define GGUF_PLACE_BYTES 240
/* "metadata entry 5 (general.name)" into buffer of GGUF_PLACE_BYTES; returns buffer. */
const char *gguf_reader_place(const struct gguf_reader *r, char *buffer);
/* The error for `count` bytes that are not there. */
enum status gguf_reader_short(const struct gguf_reader *r, uint64_t count, struct error *err);
/* Copies the next `count` bytes; large ones go straight to dst. */
MUST_CHECK enum status gguf_reader_copy(struct gguf_reader *r, void *dst, uint64_t count, struct error *err);
/* Borrows the next `count` bytes, at most GGUF_WINDOW_BYTES, until the next call. */
MUST_CHECK enum status gguf_reader_take(struct gguf_reader *r, uint64_t count, const uint8_t **out, struct error *err);
MUST_CHECK enum status gguf_reader_skip(struct gguf_reader *r, uint64_t count, struct error *err);
MUST_CHECK enum status gguf_reader_u32(struct gguf_reader *r, uint32_t *out, struct error *err);
MUST_CHECK enum status gguf_reader_u64(struct gguf_reader *r, uint64_t *out, struct error *err);
