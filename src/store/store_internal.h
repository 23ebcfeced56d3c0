/*
 * store_internal: the inside of a weight_store, for the files that together implement it.
 *
 *   weight_store.c   life cycle, streamed and resident leases, the pump that keeps the disk busy
 *   expert_step.c    want, take, wait_pieces, want_end
 *   resident.c       store_load_resident
 *   trunk_limit.c    store_trunk_limit: what is resident becomes streamed, and resident again
 *   range_read.c     store_read_ranges
 *   expected.c       store_expect: what the next step will probably want
 *   prefill.c        store_prefill, store_tend, lists of what is read ahead
 *   store_check.c    store_check
 */
#pragma once

#include "store/expert_cache.h"
#include "store/layer_stream.h"
#include "store/mapping.h"
#include "store/reader.h"
#include "store/record_map.h"
#include "store/store_counters.h"
#include "store/weight_store.h"

enum item_state {
    ITEM_PENDING, /* has no slot; in the list of its class */
    ITEM_LOADING, /* pins a slot that is not whole */
    ITEM_PRESENT, /* pins a slot that is whole, or failed and to be reported */
    ITEM_TAKEN,   /* handed out or reported */
};

struct want_item {
    weight_id id;
    uint32_t slot; /* LOADING, PRESENT */
    uint8_t state, class_index;
};

/* The experts that one step wants. Lists hold items in listed order, `present` in order of arrival. */
struct expert_step {
    bool active;
    enum store_order order;
    uint32_t count, taken, next_listed; /* next_listed: STORE_LISTED hands this one out next */
    struct want_item *items;            /* room for every cached record */
    struct index_link *links;           /* per item */
    struct index_list loading, present, pending[SIZE_CLASSES_MAX];
};

/* A call that waits for its own reads: loading what is resident, or reading ranges. */
struct blocking_reads {
    uint32_t in_flight;  /* without the lost ones */
    uint64_t done_bytes; /* wanted bytes that arrived */
    struct read_failure failure;
    weight_id failed_id;
};

/* Records that are read before anybody wants them. */
struct ahead_list {
    weight_id *ids; /* room for every cached record; NULL: there is no such list */
    uint32_t count, next;
    uint32_t slot; /* that loads and has parts left, or INDEX_NONE */
};

/* Resident records that may stream. */
struct trunk_keep {
    const weight_id *order; /* borrowed */
    uint32_t count, wanted; /* wanted: the first ones, that are to stay */
    uint32_t *ranks;        /* per record: place in the order, or UINT32_MAX */
    uint64_t total_bytes, used_bytes, losses;
};

struct weight_store {
    struct record_map map;
    struct store_counters counters;
    struct reader reader;
    struct expert_cache cache;
    struct layer_stream stream;
    struct expert_step step;
    struct ahead_list prefill;  /* what history says will be wanted, for when the disk has nothing else to do */
    uint32_t prefill_in_flight; /* reads of it */
    struct ahead_list expected; /* what the next step will probably want */
    uint32_t *usage;            /* per record, how often a step of few rows wanted it; NULL: nobody counts */
    struct blocking_reads blocking;
    uint8_t *lives;             /* enum weight_life per record, now */
    uint64_t *resident_offsets; /* per record, in the trunk; its place stays while it is away */
    struct trunk_keep keep;
    struct weight_region trunk, staging;
    struct mapping mapping;   /* instead of the trunk, with stretches */
    uint32_t lost_in_staging; /* reads that may still write there */
    bool resident_loaded;
    uint32_t resident_leases;
};

/*
 * Takes in finished reads, all that are there. With wait, blocks until at least one came, or gives all up after the time-out; false:
 * nothing happened. Submits nothing.
 */
bool store_reap(struct weight_store *store, bool wait);
MUST_CHECK enum status trunk_keep_init(struct weight_store *store, const struct store_options *options, struct error *err);
/* After a pass used a streamed record, whose whole window lies at `memory`: it may have become one that is to stay. */
void trunk_keep_streamed(struct weight_store *store, weight_id id, const uint8_t *memory);
void trunk_keep_check(const struct weight_store *store);

/* Gives slots to pending items, then submits: what experts wait for, then read-ahead. */
void store_pump(struct weight_store *store);
/* Something that is wanted has no slot yet, or is not asked for in whole. */
bool store_demand_is_left(const struct weight_store *store);
/* The load of the list that a part is to be asked of, or NULL: there is none left, or no room for it. */
struct record_load *ahead_list_load(struct weight_store *store, struct ahead_list *list, bool expected);
/* What is not asked for in whole is given up. */
void ahead_list_stop(struct weight_store *store, struct ahead_list *list);
/* The step that was foretold is here: what it does not want and is not asked for in whole is given up, so that its slot serves the step. */
void expected_end(struct weight_store *store);
/* Asks for what is expected when all that is wanted was asked for, up to `depth` reads in flight. */
void expected_pump(struct weight_store *store, unsigned depth);
/* Asks for what is to be read ahead of any want while nothing else waits, and less than limit_bytes are in flight: one part at least. */
void prefill_pump(struct weight_store *store, uint64_t limit_bytes);
/* Such a read was reaped; was lost. */
void prefill_done(struct weight_store *store, const struct store_read *read);
void prefill_lost(struct weight_store *store);
/* Blocks until a read came and takes in all that are there; counts the time as stall. False: none is in flight. */
bool store_wait(struct weight_store *store);
/* store_reap, store_pump; with wait, counts the time as stall. False: nothing came, and nothing is in flight that could. */
bool store_progress(struct weight_store *store, bool wait);
/* STATUS_IO: reads are lost, and what was to be done cannot be without their memory or place. There must be one. */
MUST_CHECK enum status store_lost_error(const struct weight_store *store, struct error *err);
/* Waits until nothing is in flight, or lost; submits nothing. */
void store_drain(struct weight_store *store);

MUST_CHECK enum status expert_step_init(struct expert_step *step, uint32_t record_count, struct error *err);
void expert_step_deinit(struct expert_step *step);
/* Gives slots to pending items in listed order while there are victims. */
void expert_step_assign(struct weight_store *store);
/* After a read of the slot was reaped. */
void expert_step_arrived(struct weight_store *store, uint32_t slot);
void expert_step_reset(struct expert_step *step);
void expert_step_check(const struct weight_store *store);
