/*
 * machine_speed: what io/io_probe.h measures of a disk and the memory, kept in the user's cache folder.
 *
 * Model    one file a device, "probe-MAJOR-MINOR.json", with the identity of what was measured: file system, disk, processor, threads.
 *          Another identity, an age of 30 days or any damage, and it is measured again and written anew. Where there is no cache
 *          folder nothing is kept.
 * Threads  one owner; two processes may write at once: a reader sees one or the other.
 */
#pragma once

#include <stdbool.h>

#include "io/io_probe.h"

struct machine_speed {
    struct io_probe_result probe;
    bool kept; /* it was measured earlier */
};

/* The disk below a file of the set, and the memory as `threads` threads read it. Measures for about a second. Errors are those of
 * io_probe.h. */
MUST_CHECK enum status machine_speed_read(struct file_set *files, uint32_t file, unsigned threads, struct machine_speed *out,
                                          struct error *err);
/* The same when it was measured earlier; measures nothing. False: it was not. */
bool machine_speed_kept(const struct file_set *files, uint32_t file, unsigned threads, struct machine_speed *out);
/* The largest file of a set: whose disk is the one that matters. */
uint32_t machine_speed_file(const struct file_set *files);
