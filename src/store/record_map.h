/*
 * record_map: where the bytes of a record lie, in its files and in memory.
 *
 * Model       a *run* is pieces that follow each other so closely in a file that less than 4 KiB lie between their
 *             aligned windows; it is read as one range. In
 *             memory a record is the windows of its runs, one after the other, each at a multiple of alignment_bytes; a lease points to
 *             the pieces inside. An expert whose parts lie together (sluice pack; many checkpoints with a tensor per expert) is one run.
 * Invariants  the same record takes the same bytes wherever it lies.
 */
#pragma once

#include <stdint.h>

#include "io/read_queue.h"
#include "store/weight_store.h"

#define WEIGHT_NONE UINT32_MAX /* no record, no slot, no item */

struct record_map { /* borrows all of it */
    const struct file_set *files;
    const struct weight_record *records;
    const struct weight_piece *pieces;
    uint32_t record_count;
    uint64_t alignment_bytes; /* of memory: the largest of all files, a page at least */
    uint64_t split_bytes;     /* multiple of alignment_bytes */
};

/* What is known of a read that failed, kept until somebody needs the record. */
struct read_failure {
    enum status status; /* STATUS_OK: none */
    uint32_t file;
    uint64_t offset_bytes, size_bytes;
    int system_error;
    uint32_t attempts, waited_s;
};

struct weight_region { /* memory of one life */
    struct memory_region region;
    uint8_t *base; /* first multiple of the map's alignment */
};

/* Also checks every piece: STATUS_CORRUPT when one lies outside its file. */
MUST_CHECK enum status record_map_init(struct record_map *map, const struct store_options *options, struct error *err);

static inline const struct weight_piece *record_map_pieces(const struct record_map *map, weight_id id) {
    return &map->pieces[map->records[id].first_piece];
}
uint64_t record_map_memory_bytes(const struct record_map *map, weight_id id);
uint64_t record_map_piece_bytes(const struct record_map *map, weight_id id); /* wanted bytes alone */
uint64_t record_map_range_bytes(const struct record_map *map, weight_id id); /* what its reads ask for: with gaps inside of runs */

struct record_run {
    uint32_t piece_count;
    struct weight_piece range; /* from the first piece's first byte to the last one's end */
};
/* The run that begins with this piece of the record (0, or where the run before ended). */
struct record_run record_map_run(const struct record_map *map, weight_id id, uint32_t piece);
/* Bytes of memory that a run takes. */
uint64_t record_map_window_bytes(const struct record_map *map, const struct record_run *run);
/* Fills a lease of a record at `memory`. */
void record_map_lease(const struct record_map *map, weight_id id, const uint8_t *memory, uint32_t slot, struct weight_lease *lease);

/* The error of a failed read: where it was and for which record; id may be WEIGHT_NONE. Returns its status. */
enum status record_map_error(const struct record_map *map, weight_id id, const struct read_failure *failure, struct error *err);
struct read_failure read_failure_of(const struct read_request *request);

/* Room for size_bytes at an aligned base. */
MUST_CHECK enum status weight_region_create(struct weight_region *region, const struct record_map *map, uint64_t size_bytes,
                                            enum memory_owner owner, bool lock, struct error *err);
void weight_region_destroy(struct weight_region *region);
