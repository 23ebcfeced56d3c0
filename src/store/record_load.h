/*
 * record_load: the reads that bring one record into its memory: which part is next, which pieces are whole, what failed.
 *
 * Model       a run's window (record_map.h) is read by parts of about the map's split_bytes, cut at aligned offsets, so that the parts
 * together fill exactly the window. Parts are asked for in order; they may finish in any. Invariants  parts in flight = sum over the runs;
 * after a failure no more parts are asked for. Memory      one struct in a slot, a ring entry or on a stack; refers to the memory of the
 * record.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/record_map.h"

struct record_load {
    weight_id id; /* WEIGHT_NONE: none */
    uint8_t *memory;
    uint32_t piece;          /* first of the run that the next part is of; piece_count: all were asked for */
    uint64_t run_base_bytes; /* where its window starts in memory */
    uint64_t asked_bytes;    /* of its window */
    uint32_t in_flight;
    uint16_t piece_in_flight[STORE_PIECES_MAX]; /* counted at the first piece of a run */
    bool cancelled;
    struct read_failure failure;
};

void record_load_begin(struct record_load *load, weight_id id, uint8_t *memory);
/* Whether a part is left to ask for. */
bool record_load_has_part(const struct record_map *map, const struct record_load *load);
/* The next part: file, range and destination of *request. Does not move on. */
void record_load_part(const struct record_map *map, const struct record_load *load, struct read_request *request);
/* The part was asked for: moves on. */
void record_load_advance(const struct record_map *map, struct record_load *load, const struct read_request *request);
/* A part of the run that begins with this piece was submitted; was reaped. */
void record_load_sent(struct record_load *load, uint32_t piece);
/* A part in flight is lost: the record fails, and its memory is not settled until the part is done after all. */
void record_load_lost(struct record_load *load, const struct read_failure *failure);
void record_load_done(struct record_load *load, uint32_t piece, const struct read_request *request);
/* No more parts are asked for; those in flight still come. The record does not become whole unless it was asked for entirely. */
void record_load_cancel(const struct record_map *map, struct record_load *load);

static inline bool record_load_failed(const struct record_load *load) { return load->failure.status != STATUS_OK; }
/* Leading pieces that are in memory. */
uint32_t record_load_ready_pieces(const struct record_map *map, const struct record_load *load);
/* All pieces are in memory. */
bool record_load_whole(const struct record_map *map, const struct record_load *load);
/* Nothing more will be written to its memory. */
bool record_load_settled(const struct record_map *map, const struct record_load *load);
