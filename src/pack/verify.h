/*
 * verify: reads all of a model and compares it with what is known of it.
 *
 * Known are  the checksums of a pack; those of a Hub download (SHA-256 of large files, git's of small ones), in .cache/huggingface beside
 *            the files or in the names of the Hub's own cache; and those that an earlier verify made, kept in the user's cache folder.
 *            Where there are none for the tensors they are made for the next time, unless something is wrong.
 * Findings   a line each to `out`: tensor, file, offsets, and what is wrong. Numbers that are not finite are found too.
 * Threads    a file each, up to one per processor; the caller waits.
 * Memory     a file_stream per thread, and what the catalogue needs.
 * Needs      libcrypto: only sluice-verify links this.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

struct verify_options {
    const char *path;
    unsigned threads;                                                                             /* 0: as many as there are processors */
    void (*progress)(void *context, const char *what, uint64_t done_bytes, uint64_t total_bytes); /* or NULL */
    void *context;
    uint64_t read_timeout_ns; /* a disk that answers nothing for so long ends the call; 0: 60 s */
};

/* STATUS_CORRUPT: something is damaged; the lines say what. Other errors: the model could not be read. */
MUST_CHECK enum status verify_model(const struct verify_options *options, FILE *out, struct error *err);
