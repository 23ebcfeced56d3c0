/*
 * layer_stream: weights that do not fit, read again for every pass, in a fixed cyclic order, as far ahead as their ring has room.
 *
 * Model       the order names all records that may stream; those that are in memory at the moment are passed over. An entry is one record
 *             of the order in the ring's memory. Entries stand first in, first out:
 *               handed out (leased, released, dropped) | waiting: the next records of the order that stream, without gaps
 *             An entry lies whole behind the one before it, or at the ring's beginning when the end is too short. A handed out entry
 *             leaves when it is first, released, and its reads are over. A waiting one whose record was put into memory meanwhile is
 *             stale: it reads nothing more and is dropped when its turn comes.
 * Place       when records begin to stream, only the one who runs the pass knows where it stands. Then nothing waits and nothing is read
 *             until layer_stream_seek tells the next record.
 * Invariants  entries do not overlap; waiting ones that are not stale are those that stream from next_position on, around the end of
 *             the order into the next pass; parts are asked for in order. Checked by layer_stream_check.
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
    const uint8_t *lives;   /* enum weight_life per record, as of now; borrowed */
    const weight_id *order; /* borrowed */
    uint32_t order_count;
    uint64_t ring_bytes;
    struct weight_region memory;
    struct stream_entry *entries; /* a circle of STREAM_ENTRIES_MAX, or NULL when nothing streams */
    uint32_t first, count;        /* entries in use */
    uint32_t handed_out;          /* of them, the leading ones */
    uint32_t asked;               /* leading entries that have no part to ask for */
    uint32_t next_position;       /* where the next record to be acquired is looked for: behind the last one */
    uint32_t fill_position;       /* the same for the next record that gets memory */
    bool lost_place;              /* next_position may be too early */
    uint32_t leases;
};

/* STATUS_OVER_BUDGET: the ring cannot hold the largest record of the order. lives: enum weight_life per record, borrowed. */
MUST_CHECK enum status layer_stream_init(struct layer_stream *stream, const struct record_map *map, const uint8_t *lives,
                                         const struct store_options *options, struct error *err);
void layer_stream_deinit(struct layer_stream *stream);

/* Position of the first record from here on, around the end, that streams; order_count: none does. */
uint32_t layer_stream_from(const struct layer_stream *stream, uint32_t position);
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
/* When lives changed from RESIDENT to STREAMED: drops the waiting entries, and the place is lost. */
void layer_stream_lose_place(struct layer_stream *stream);
/* Where the place was lost: the next record is this one, which streams. */
void layer_stream_seek(struct layer_stream *stream, weight_id id);
/* A record is in memory from now on: no more is read of it. */
void layer_stream_kept(struct layer_stream *stream, weight_id id);
/* The next record is the first of the order; waiting entries of the coming pass stay. */
void layer_stream_rewind(struct layer_stream *stream);
/* After a part was reaped: lets entries go that are over. */
void layer_stream_settle(struct layer_stream *stream);
/* Voids all leases and begins anew. What a lost read may still write to stays out of use until it was reaped. */
void layer_stream_reset(struct layer_stream *stream);
/* CHECKs all invariants and counts reads of the stream in flight. */
void layer_stream_check(const struct layer_stream *stream, uint32_t *in_flight);
