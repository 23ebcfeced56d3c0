/*
 * file_set: the files (shards) of one or more models, numbered, opened once, each with a buffered and, where the system allows, a
 * direct handle.
 *
 * Invariants  sizes and identities (device, inode, size, mtime) are taken at open; file_set_check tells when a file changed under us.
 *             Numbers count from 0 and stay; entries never move.
 * Threads     one thread adds; files that were added are read from any thread at the same time (positional reads only).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct file_set;

/* An empty set. destroy closes all files; no queue may read them any more. */
MUST_CHECK enum status file_set_create(struct file_set **out, struct error *err);
void file_set_destroy(struct file_set *files);

/* Opens a regular file (a directory, pipe or empty path is refused by name) and returns its number. */
MUST_CHECK enum status file_set_add(struct file_set *files, const char *path, uint32_t *file, struct error *err);

uint32_t file_set_count(const struct file_set *files);
const char *file_set_path(const struct file_set *files, uint32_t file);
uint64_t file_set_size_bytes(const struct file_set *files, uint32_t file);
int file_set_buffered_fd(const struct file_set *files, uint32_t file);
int file_set_direct_fd(const struct file_set *files, uint32_t file); /* -1: direct reads are refused here, use buffered */
/*
 * From now on this file is read buffered only. Says so in one log line, the first time, with system_error or, when the system refused
 * already at open, that error. Any thread. The direct handle stays open for reads that use it still.
 */
void file_set_refuse_direct(struct file_set *files, uint32_t file, int system_error);
/* Drops cached pages of a range that was read buffered and will not be read again soon. A hint; never fails. */
void file_set_drop_behind(const struct file_set *files, uint32_t file, uint64_t offset_bytes, uint64_t size_bytes);
/* Alignment that direct reads of this file need for offset, length and memory: statx DIOALIGN, else 4096. A power of two. */
uint32_t file_set_alignment(const struct file_set *files, uint32_t file);

/* Blocking buffered read of exactly size_bytes; loops over short reads and EINTR; past the end is STATUS_CORRUPT naming file and range. */
MUST_CHECK enum status file_set_read(const struct file_set *files, uint32_t file, uint64_t offset_bytes, void *dst, uint64_t size_bytes,
                                     struct error *err);
/*
 * STATUS_IO when a file was replaced, resized or rewritten since it was opened. A path that is gone is no change: the open file keeps
 * its bytes.
 */
MUST_CHECK enum status file_set_check(const struct file_set *files, struct error *err);
