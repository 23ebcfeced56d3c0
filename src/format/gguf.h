/*
 * gguf: reads the headers of GGUF files (version 2 and 3, little-endian), one file or a split set, into a catalogue.
 *
 * Metadata is taken from the first file of a set; of the others only general.alignment and split.* count.
 */
#pragma once

#include "format/catalogue_internal.h"

/*
 * Adds all tensors and metadata of the model that `file` (already in `files`, opened from `path`) belongs to. Any part of a set will
 * do; the other parts are expected beside it and are added to `files`.
 */
MUST_CHECK enum status gguf_open(struct catalogue *catalogue, struct file_set *files, uint32_t file, const char *path, struct error *err);
