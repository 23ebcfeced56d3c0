/*
 * expert_cache: experts in fixed slots, by size class, least recently used first to go.
 *
 * It is separate from the steps that want experts (expert_step.h): here is who is in memory, there is who waits for whom.
 *
 * Model       a slot is empty, or holds one record that is loading, whole, or failed. It is pinned by a lease, by an item of the current
 *             step, and, while loading, by its reads. A class lists its empty slots, and in its order the whole unpinned ones, the next
 *             victim first. A slot with parts to ask for is in the list of demand, first asked first.
 *             A class uses its first open[c] slots; the others are closed: empty, in no list, their pages given back to the system.
 *             A slot with a lost read is kept aside: nothing uses its memory until the read was reaped.
 * Invariants  every record is in at most one slot that is not lost; a slot is in a list of its class exactly when it is open and empty, or
 *             whole and unpinned; a failed slot is emptied when its last pin goes and its last read is reaped.
 *             Checked by expert_cache_check.
 * Threads     the engine thread.
 * Memory      one region for all slots; everything is allocated by init.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/index_list.h"
#include "store/record_load.h"
#include "store/size_class.h"
#include "store/store_counters.h"

struct cache_slot {
    struct record_load load; /* load.id WEIGHT_NONE: empty */
    uint32_t item;           /* of the current step that holds it, or INDEX_NONE */
    uint32_t leases;
    uint8_t class_index;
    bool listed, in_demand; /* listed: among the empty ones or in the order of its class */
    bool expected;          /* was read because a step is expected to want it, and none has yet */
    bool ahead;             /* loads ahead of any want, when the disk has nothing else to do; not in demand */
    bool lost;              /* a read was waited for in vain: kept aside until it is reaped, and its record may load elsewhere */
};

struct expert_cache {
    const struct record_map *map;
    struct store_counters *counters; /* borrowed */
    struct size_classes classes;
    uint32_t class_first[SIZE_CLASSES_MAX]; /* slot */
    uint64_t class_base_bytes[SIZE_CLASSES_MAX];
    struct index_list empty[SIZE_CLASSES_MAX], order[SIZE_CLASSES_MAX];
    struct index_list demand;
    struct index_link *links;        /* per slot: empty, order or demand */
    uint32_t open[SIZE_CLASSES_MAX]; /* slots in use, 1 at least; those behind them are closed as soon as nothing pins them */
    uint32_t held[SIZE_CLASSES_MAX]; /* of the open ones: loading ahead or lost, so that no step can count on them */
    struct cache_slot *slots;
    uint32_t slot_count, record_count /* that are cached */, leases;
    uint32_t *slot_of; /* per record of the map, or INDEX_NONE */
    struct weight_region memory;
};

/* lives: enum weight_life per record. STATUS_OVER_BUDGET: less than one slot per class. */
MUST_CHECK enum status expert_cache_init(struct expert_cache *cache, const struct record_map *map, const struct store_options *options,
                                         struct store_counters *counters, struct error *err);
void expert_cache_deinit(struct expert_cache *cache);

uint32_t expert_cache_class_of(const struct expert_cache *cache, weight_id id);
/* Slot of a record, loading ones included, or INDEX_NONE. */
static inline uint32_t expert_cache_find(const struct expert_cache *cache, weight_id id) { return cache->slot_of[id]; }
/*
 * Uses at most limit_bytes of the memory, but one slot of each class at least: the records that were used longest ago go, the others move
 * into the slots that stay. Returns the bytes of the open slots. No slot may be pinned by an item or a lease.
 */
uint64_t expert_cache_limit(struct expert_cache *cache, uint64_t limit_bytes);
/* Takes an empty slot of the record's class, or evicts its next victim, and begins to load the record there, last in demand. INDEX_NONE:
 * all are pinned. */
uint32_t expert_cache_place(struct expert_cache *cache, weight_id id);
/*
 * Begins to load a record ahead of any want, not in demand: the caller asks for its parts. One that is expected takes an empty slot or
 * evicts the next victim, and becomes the last one; another takes an empty slot and becomes the next one. INDEX_NONE: it is there, or there
 * is no such slot, or a step would have none left.
 */
uint32_t expert_cache_place_ahead(struct expert_cache *cache, weight_id id, bool expected);
/* What loads ahead and is not asked for in whole is given up. */
void expert_cache_cancel_ahead(struct expert_cache *cache, uint32_t slot);
/* A read of the slot was waited for in vain; its load has failed. It may be pinned. */
void expert_cache_lose(struct expert_cache *cache, uint32_t slot);
/* Makes an unpinned whole slot the last victim of its class. */
void expert_cache_touch(struct expert_cache *cache, uint32_t slot);
/* Pins for an item, or gives the item's pin up. What loads ahead is in demand from then on. */
void expert_cache_pin(struct expert_cache *cache, uint32_t slot, uint32_t item);
void expert_cache_unpin(struct expert_cache *cache, uint32_t slot);
/* Turns the item's pin into a lease; release gives it up. */
void expert_cache_lease(struct expert_cache *cache, uint32_t slot);
void expert_cache_release(struct expert_cache *cache, uint32_t slot);
/* After a part of the slot was submitted, reaped or cancelled: moves the slot to where it belongs now. */
void expert_cache_settle(struct expert_cache *cache, uint32_t slot);
/* Drops all pins and everything that is not whole. Nothing may be in flight. */
void expert_cache_reset(struct expert_cache *cache);
/* CHECKs all invariants. in_flight: reads of this cache that were not reaped. */
void expert_cache_check(const struct expert_cache *cache, uint32_t *in_flight);
