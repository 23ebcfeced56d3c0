/*
 * file_set: the files (shards) of one or more models, numbered, opened once, each with a buffered and, where the system allows, a
 * direct handle.
 *
 * Invariants  sizes and identities (device, inode, size, mtime) are taken at open; file_set_check tells when a file changed under us.
 *             Numbers count from 0 and stay; entries never move.
 * Copies      a file may have copies on other devices: files of the set with numbers of their own, and the same alignment. Each is of
 *             the n-th copy of the model; 0 is what was added first. Who reads chooses among them (store/reader.h).
 * Threads     one thread adds; files that were added are read from any thread at the same time (positional reads only). Copies of a file
 *             are added before it is read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define FILE_COPIES_MAX 8 /* of a file, the first included */

struct file_set;

/* An empty set. destroy closes all files; no queue may read them any more. */
MUST_CHECK enum status file_set_create(struct file_set **out, struct error *err);
void file_set_destroy(struct file_set *files);

/* Opens a regular file (a directory, pipe or empty path is refused by name) and returns its number. */
MUST_CHECK enum status file_set_add(struct file_set *files, const char *path, uint32_t *file, struct error *err);

/*
 * Opens the next copy of a file that is none itself. STATUS_INVALID: there are too many, or the two are not of one size; whether they hold
 * the same bytes is for io/file_copy.h to say.
 */
MUST_CHECK enum status file_set_add_copy(struct file_set *files, uint32_t file, const char *path, uint32_t *copy, struct error *err);
unsigned file_set_copies(const struct file_set *files, uint32_t file); /* of the file or copy, the first included: 1 is the least */
uint32_t file_set_copy(const struct file_set *files, uint32_t file, unsigned n); /* the n-th of them */
unsigned file_set_copy_number(const struct file_set *files, uint32_t file);      /* which one this is */
/* Whether two are one file under two numbers. */
bool file_set_same(const struct file_set *files, uint32_t a, uint32_t b);
/*
 * From now on the n-th copies should not be read where others are, for a reason that goes into one log line with the path of `file`, the
 * first time. The last copy stays. Any thread.
 */
void file_set_leave_out(struct file_set *files, uint32_t file, const char *reason);
bool file_set_left_out(const struct file_set *files, uint32_t file);

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
/* The first file of the set that lies on the same device as this one. */
uint32_t file_set_device(const struct file_set *files, uint32_t file);
/* How fast random reads of that device were when somebody measured it (engine/machine_speed.h): of all files on it. 0: nobody knows. */
void file_set_note_rate(struct file_set *files, uint32_t file, double bytes_per_s);
double file_set_rate(const struct file_set *files, uint32_t file);
/*
 * Alignment that direct reads of this file need for offset, length and memory: statx DIOALIGN, else 4096; the largest of all its copies. A
 * power of two.
 */
uint32_t file_set_alignment(const struct file_set *files, uint32_t file);

/* Blocking buffered read of exactly size_bytes; loops over short reads and EINTR; past the end is STATUS_CORRUPT naming file and range. */
MUST_CHECK enum status file_set_read(const struct file_set *files, uint32_t file, uint64_t offset_bytes, void *dst, uint64_t size_bytes,
                                     struct error *err);
/*
 * The same for something small among weights: no more than its pages is read, and small pages of it do not stay, so that weights around it
 * can be mapped in huge ones. One thread a file at a time.
 */
MUST_CHECK enum status file_set_read_small(const struct file_set *files, uint32_t file, uint64_t offset_bytes, void *dst,
                                           uint64_t size_bytes, struct error *err);
/*
 * STATUS_IO when a file was replaced, resized or rewritten since it was opened. A path that is gone is no change: the open file keeps
 * its bytes. Copies that are left out are not looked at.
 */
MUST_CHECK enum status file_set_check(const struct file_set *files, struct error *err);
