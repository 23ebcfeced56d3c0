/*
 * pack: writes a model anew in the order in which sluice reads it, as a model that is opened like any other: GGUF to GGUF, a directory to a
 * directory. See pack_plan.h for what changes.
 *
 * Model    OUT.partial grows and takes the name OUT at the end; a call with the same arguments after a stop of any kind goes on where it
 * was, and gives the same bytes. Unfinished packs are refused as models. Memory   file_stream's and a few buffers of its size, whatever the
 * model's. Threads  the caller's; encoding uses a pool.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct pack_options {
    const char *path, *out;
    const char *type; /* see pack_type_find; NULL: numbers stay as they are */
    unsigned threads; /* 0: as many as there are processors */
    void (*progress)(void *context, const char *what, uint64_t done_bytes, uint64_t total_bytes); /* or NULL */
    void *context;
    uint64_t read_timeout_ns; /* a disk that answers nothing for so long ends the call; 0: 60 s */
};

struct pack_result {
    uint64_t bytes, kept_bytes; /* of the pack; of it from an earlier call */
    uint32_t tensors, encoded, kept_float;
    uint32_t expert_layers, split_layers;
};

/* STATUS_INVALID: OUT is there already, or the type is none. STATUS_IO: the disk is full; says how much is missing. */
MUST_CHECK enum status pack_model(const struct pack_options *options, struct pack_result *result, struct error *err);
