/*
 * machine_speed: what io/io_probe.h measures of disks and the memory, kept in the user's cache folder.
 *
 * Model    one file a device, or a group of them that is measured together, "probe-MAJOR-MINOR...json", with the identity of what was
 * measured: file system, disk, processor, threads. Another identity, an age of 30 days or any damage, and it is measured again and written
 * anew. Where there is no cache folder nothing is kept. Threads  one owner; two processes may write at once: a reader sees one or the
 * other.
 */
#pragma once

#include <stdbool.h>

#include "io/io_probe.h"

struct machine_speed {
    struct io_probe_result probe;
    bool kept; /* it was measured earlier */
};

/*
 * The disks below files of the set, read at the same time, and the memory as `threads` threads read it. Measures for about a second.
 * Errors are those of io_probe.h.
 */
MUST_CHECK enum status machine_speed_read(struct file_set *files, const struct io_sources *sources, unsigned threads,
                                          struct machine_speed *out, struct error *err);
/* The same when it was measured earlier; measures nothing. False: it was not. */
bool machine_speed_kept(const struct file_set *files, const struct io_sources *sources, unsigned threads, struct machine_speed *out);
/* What weights come from: the largest file of a set, and its copies on other devices. */
struct io_sources machine_speed_sources(const struct file_set *files);
/* A file on each device that the set lies on, the largest there; the first IO_SOURCES_MAX devices. */
struct io_sources machine_speed_devices(const struct file_set *files);
