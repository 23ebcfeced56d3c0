/*
 * pack_file: the unfinished file of a pack, and the note beside it of what is in it already.
 *
 * Model    OUT.partial grows; OUT.partial.state says how many jobs are whole, what their outputs hash to, and of which pack (a
 * fingerprint). The note is written after the data has reached the disk, so that it never promises what is not there. A pack that goes on
 * reads what is there and hashes it again. Cache    what was written is dropped from the page cache soon after, so that a large pack does
 * not push everything else out. Threads  one owner. Another process that packs to the same place is refused (flock).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define PACK_PATH_BYTES 4096

struct pack_file {
    char path[PACK_PATH_BYTES], state_path[PACK_PATH_BYTES]; /* OUT.partial, OUT.partial.state */
    int fd;
    uint64_t total_bytes;               /* when it is whole; for errors */
    uint64_t told_bytes, dropped_bytes; /* up to here the system was told to write; pages were given back */
};

/* Opens or makes the partial file and locks it. */
MUST_CHECK enum status pack_file_open(struct pack_file *file, const char *path, const char *state_path, uint64_t total_bytes,
                                      struct error *err);
void pack_file_close(struct pack_file *file); /* keeps it */
/* Errors say how much is missing when the disk is full. */
MUST_CHECK enum status pack_file_write(struct pack_file *file, uint64_t offset_bytes, const void *data, uint64_t size_bytes,
                                       struct error *err);
MUST_CHECK enum status pack_file_sync(struct pack_file *file, struct error *err);
/* STATUS_IO: the file system that `directory` is in has not so many bytes free for us. */
MUST_CHECK enum status pack_file_check_space(const char *directory, uint64_t needed_bytes, struct error *err);

struct pack_state {
    uint64_t fingerprint;
    uint64_t jobs_done, output_count; /* hashes of outputs whose jobs are done */
    uint64_t *hashes;                 /* [output_count], the caller's */
};
/* Syncs the data, then writes the note. */
MUST_CHECK enum status pack_state_write(struct pack_file *file, const struct pack_state *state, struct error *err);
/* Fills jobs_done and hashes of a state whose fingerprint and output_count are given. False: there is no such note, or of another pack. */
bool pack_state_read(const struct pack_file *file, struct pack_state *state);
