/*
 * file: whole small files (configuration, tokenizers, prompts) in memory, path pieces, and atomic writes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/byte_buffer.h"
#include "base/status.h"

/* Reads a file of at most limit_bytes into *out (the caller frees out->data with memory_free; a 0 follows the bytes). */
MUST_CHECK enum status file_read(const char *path, size_t limit_bytes, struct text *out, struct error *err);
/* Writes path.partial, syncs, renames: a reader sees the old file or the new one. */
MUST_CHECK enum status file_write(const char *path, const void *data, size_t size_bytes, struct error *err);
bool file_exists(const char *path);
bool file_is_directory(const char *path);
/* "dir/name" into buffer, STATUS_INVALID when it does not fit. */
MUST_CHECK enum status file_join(const char *directory, const char *name, char *buffer, size_t buffer_bytes, struct error *err);
