/*
 * mapping: the weights of a model that fits, as pages of its files. Nothing is copied, and a second start finds them in memory.
 *
 * Model       the pages that hold the records are cut into stretches (what lies close together in one file), and each is mapped. fill reads
 *             them in through the page cache with all cores, as huge pages where the system can: with small ones a mixture decodes a
 *             tenth slower. What is in memory already stays as it is. Afterwards a weight costs an address.
 * Invariants  every piece of every record lies in one stretch. Pages of tensors that nobody uses are not touched.
 * Threads     one owner; fill uses threads of its own while it runs.
 * Failure     a page that cannot be read ends fill with the file and offset; later it is noticed by mapping_check, and nothing computed
 * since may be used.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "store/record_map.h"

struct mapped_stretch {
    uint32_t file;
    uint64_t offset_bytes; /* in the file, of region.data */
    struct memory_region region;
    unsigned guard;
};

struct mapping {
    const struct record_map *map; /* borrowed */
    struct mapped_stretch *stretches;
    uint32_t count;
    const uint8_t **pieces; /* by index in the map's pieces: where it lies */
    bool huge;              /* faults bring huge pages, where the file system has them */
};

/* The map outlives the mapping. STATUS_UNSUPPORTED: these files cannot be mapped here; read them instead. */
MUST_CHECK enum status mapping_init(struct mapping *mapping, const struct record_map *map, bool lock, struct error *err);
void mapping_deinit(struct mapping *mapping); /* a zeroed one is allowed */
uint64_t mapping_bytes(const struct mapping *mapping);
/* progress may be NULL; returning false cancels. May be called again after an error. */
MUST_CHECK enum status mapping_fill(struct mapping *mapping, bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes),
                                    void *context, struct error *err);
void mapping_lease(const struct mapping *mapping, weight_id id, struct weight_lease *lease);
/* STATUS_IO when a page was lost since the last call; it is mapped anew, so that the next request may find it readable again. */
MUST_CHECK enum status mapping_check(struct mapping *mapping, struct error *err);
