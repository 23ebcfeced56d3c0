/*
 * file_writer: a new file that is whole or not there: bytes go to path.partial, which takes the name at the end.
 *
 * Model    create -> append ... -> finish or abandon. A reader of `path` sees the old file or the new one; a kill at any moment leaves
 *          path.partial at most, which nothing reads and the next writer of that path begins anew.
 * Memory   one block with a buffer of 64 KiB at create; nothing later.
 * Failure  errors name the path and what the system said; after one the writer can only be abandoned.
 */
#pragma once

#include <stddef.h>

#include "base/status.h"

struct file_writer;

/* *out is NULL on failure. */
MUST_CHECK enum status file_writer_create(const char *path, struct file_writer **out, struct error *err);
MUST_CHECK enum status file_writer_append(struct file_writer *writer, const void *data, size_t size_bytes, struct error *err);
/* Syncs and renames; frees the writer in every case. */
MUST_CHECK enum status file_writer_finish(struct file_writer *writer, struct error *err);
/* Removes the partial file and frees the writer. NULL is allowed. */
void file_writer_abandon(struct file_writer *writer);

/* Makes a name that was given to a file or folder survive a power cut. A refusal is not an error: the data is whole either way. */
void file_sync_directory_of(const char *path);
