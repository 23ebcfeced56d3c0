/*
 * safetensors: reads the header of one file into a catalogue.
 *
 * Layout: u64 length, then a JSON object of that many bytes (spaces may follow it) with an entry per tensor, {dtype, shape, data_offsets
 * [begin, end) from the end of the header}, then the data. "__metadata__" is passed over.
 */
#pragma once

#include "format/catalogue_internal.h"

#define SAFETENSORS_HEADER_MAX_BYTES ((uint64_t)512 << 20) /* the largest published one has 126 MB; refused above */

/* Adds every tensor of `file`, which is in `files`. */
MUST_CHECK enum status safetensors_load(struct catalogue *catalogue, const struct file_set *files, uint32_t file, struct error *err);
