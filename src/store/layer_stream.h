/*
 * layer_stream: weights that do not fit, read again for every pass, in a fixed cyclic order, as far ahead as their ring has room.
 *
 * Model       an entry is one record of the order in the ring's memory. Entries stand first in, first out:
 *               handed out (leased, released, dropped) | waiting: the next records of the order, without gaps
 *             An entry lies whole behind the one before it, or at the ring's beginning when the end is too short. A handed out entry
 *             leaves when it is first, released, and its reads are over.
 * Invariants  entries do not overlap; waiting ones have positions next_position, next_position + 1, ... around the end of the order into
 *             the next pass; parts are asked for in order. Checked by layer_stream_check.
 * Threads     the engine thread.
 * Memory      one region of ring_bytes; everything is allocated by init.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/record_load.h"

/* Records ahead. Tiny records are kept resident, so that more of them than this never fill a ring of a few MiB. */
#define STREAM_ENTRIES_MAX 256

struct stream_entry {
    struct record_load load;
    uint64_t begin_bytes, size_bytes; /* in the ring */
    uint32_t position;                /* in the order */
    bool leased, gone;                /* gone: released or dropped */
};

struct layer_stream {
    const struct record_map *map;
    const weight_id *order; /* borrowed */
    uint32_t order_count;
    uint64_t ring_bytes;
    struct weight_region memory;
    struct stream_entry *entries; /* a circle of STREAM_ENTRIES_MAX, or NULL when nothing streams */
    uint32_t first, count;        /* entries in use */
    uint32_t handed_out;          /* of them, the leading ones */
    uint32_t asked;               /* leading entries that have no part to ask for */
    uint32_t next_position;       /* of the next record to be acquired */
    uint32_t leases;
};

/* STATUS_OVER_BUDGET: the ring cannot hold the largest record. */
MUST_CHECK enum status layer_stream_init(struct layer_stream *stream, const struct record_map *map, const struct store_options *options,
                                         struct error *err);
void layer_stream_deinit(struct layer_stream *stream);

/* Gives memory to the next records of the order while there is room. */
void layer_stream_fill(struct layer_stream *stream);
/* The load whose part should be asked for next, or NULL. */
struct record_load *layer_stream_demand(struct layer_stream *stream);
/* The waiting entry that is next, or NULL: it has no memory yet. */
struct stream_entry *layer_stream_next(struct layer_stream *stream);
/* Leases the next entry, which is whole. Returns its index for release. */
uint32_t layer_stream_lease(struct layer_stream *stream);
void layer_stream_release(struct layer_stream *stream, uint32_t index);
/* Drops the waiting entries; next_position stays, so that they are read again. */
void layer_stream_drop(struct layer_stream *stream);
/* The next record is the first of the order; waiting entries of the coming pass stay. */
void layer_stream_rewind(struct layer_stream *stream);
/* After a part was reaped: lets entries go that are over. */
void layer_stream_settle(struct layer_stream *stream);
/* Voids all leases and begins anew. What a lost read may still write to stays out of use until it was reaped. */
void layer_stream_reset(struct layer_stream *stream);
/* CHECKs all invariants and counts reads of the stream in flight. */
void layer_stream_check(const struct layer_stream *stream, uint32_t *in_flight);
