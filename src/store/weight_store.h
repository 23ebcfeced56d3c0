/*
 * weight_store: who is in memory. One store with one budget and one read queue serves all models of a process.
 *
 * Model       A *record* is a group of byte ranges (*pieces*) that are loaded and leased together: a tensor or some of its rows with its
 *             scales, or one expert's gate, up and down. Ids are indices into one table for all models. A record has one of three lives:
 *               RESIDENT  loaded once by store_load_resident and leaves by store_trunk_limit alone: with direct reads into locked memory,
 *                         or, when everything is resident and `mapped` is set, as pages of the files themselves.
 *               STREAMED  read again for every pass, in the fixed cyclic order given at create, into a ring; read-ahead goes on as far
 *                         as the ring has room, across the end of a pass into the next one.
 *               CACHED    experts: fixed slots by size class, LRU with pins. Every record is in at most one slot.
 *             States: absent -> loading -> resident(pins). A lease is a pin; nobody keeps a pointer past its release.
 * Invariants  exactly one release per successful acquire or take. A loading slot is pinned by its read. A failed read empties the slot
 *             and fails only its waiters; a record is never handed out with a byte missing.
 *             store_check() (debug builds, tests) verifies all of it.
 * Priorities  reads that an expert step waits for are submitted first, in listed order. Read-ahead of the stream is submitted when none of
 *             those waits for submission, keeps a quarter of the queue free for them, and has a bounded number of bytes in flight.
 * Threads     the engine thread owns the store. store_stats_read may be called from any thread.
 * Memory      everything is allocated by create; nothing later. Locking is tried for trunk, ring and cache in this order.
 * Stalls      when the disk answered nothing for read_timeout_ns, what waits gets STATUS_IO. The reads are *lost*: they may come at any
 *             time, so the memory they were meant for is kept aside until they do; everything else works on, and what they
 *             should have brought is read anew when it is asked for.
 * Failure     errors name model file, layer and record; after an error store_reset brings the store back to a clean state and the next
 *             request works. What failed is read anew when it is asked for again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"
#include "io/file_set.h"
#include "io/read_queue.h"

#define STORE_PIECES_MAX 12
#define STORE_STAGING_BYTES ((uint64_t)1 << 20) /* for store_read_ranges, beside ring and cache: fifty rows of 16 KiB at once */

typedef uint32_t weight_id;

enum weight_life { WEIGHT_RESIDENT, WEIGHT_STREAMED, WEIGHT_CACHED };

struct weight_piece { /* size_bytes > 0, inside the file */
    uint32_t file;
    uint64_t offset_bytes, size_bytes;
};

struct weight_record {
    uint16_t model; /* index of the model in this process */
    uint16_t piece_count;
    uint32_t first_piece;
    int32_t layer;    /* -1: outside the layers */
    int32_t expert;   /* -1: not an expert */
    const char *name; /* for messages, borrowed: "blk.3.ffn_down" */
};

struct store_options {
    struct file_set *files;              /* borrowed */
    struct read_queue *queue;            /* borrowed; nobody else may use it while the store lives */
    const struct weight_record *records; /* borrowed for the store's life */
    const struct weight_piece *pieces;   /* borrowed for the store's life */
    uint32_t record_count;
    const uint8_t *lives;          /* enum weight_life per record: how it begins */
    const weight_id *stream_order; /* all STREAMED records and those of keep_order, in the order of a pass; borrowed */
    uint32_t stream_count;
    const weight_id *keep_order; /* RESIDENT ones that may become STREAMED, what goes first last; each once; borrowed */
    uint32_t keep_count;
    uint64_t ring_bytes;      /* memory for streamed records: at least the window of the largest one of stream_order */
    uint64_t cache_bytes;     /* memory for cached records: slots are cut from it by size class */
    bool mapped;              /* all records are RESIDENT: map the files, where the system can */
    bool count_usage;         /* store_usage is wanted */
    bool lock;                /* try to lock trunk, then ring, then cache; each may fail alone */
    uint64_t read_timeout_ns; /* a disk that answers nothing for so long ends what waits for it; 0: 60 s */
    uint64_t split_bytes;     /* larger pieces are read by requests of about this size; a power of two; 0: 4 MiB */
};

struct weight_lease {
    weight_id id;
    uint32_t piece_count;
    const uint8_t *pieces[STORE_PIECES_MAX]; /* first byte of each piece; alignment is what the file offset gives */
    uint32_t slot;                           /* for the store */
    bool whole;                              /* false: store_take was asked for the first pieces, and the last may not be there */
};

struct weight_store;

/* Memory that a record takes, resident, in a ring or as the size of a slot: the aligned windows of its pieces. For the planner. */
uint64_t store_record_bytes(const struct file_set *files, const struct weight_record *record, const struct weight_piece *pieces);

/* STATUS_OVER_BUDGET: ring or cache cannot hold the largest record. STATUS_CORRUPT: a piece lies outside its file. */
MUST_CHECK enum status store_create(const struct store_options *options, struct weight_store **out, struct error *err);
/*
 * Waits for reads in flight; CHECKs that no lease is out. False: the disk did not answer in time, and reads may still come: what they
 * write to was left behind (its pages went back to the system), and neither the queue nor the files may be destroyed any more.
 */
bool store_destroy(struct weight_store *store);

/*
 * Loads all RESIDENT records at full queue depth. progress(context, done_bytes, total_bytes) may be NULL; returning false cancels. After an
 * error or a cancel it may be called again and starts anew. At the end read-ahead of the stream begins.
 */
MUST_CHECK enum status store_load_resident(struct weight_store *store, bool (*progress)(void *, uint64_t, uint64_t), void *context,
                                           struct error *err);

/*
 * RESIDENT: cannot fail once loaded, costs an index. STREAMED: must be asked for in stream order (CHECK); waits for its read. Its memory is
 * used again once it and all streamed records acquired before it are released; holding more of them than the ring was planned for
 * (placement_input.stream_leases) ends in STATUS_INTERNAL when the next one finds no room. After an error the same id may be asked for
 * again.
 */
MUST_CHECK enum status store_acquire(struct weight_store *store, weight_id id, struct weight_lease *out, struct error *err);
void store_release(struct weight_store *store, struct weight_lease *lease);
/* The next streamed record asked for will be the first of the order: after a pass that was cut short. Keeps read-ahead that fits. */
void store_stream_rewind(struct weight_store *store);

/*
 * Experts. want: declares the CACHED records of one step (no duplicates). Those in the cache are pinned at once; reads for the others
 * are submitted in listed order as slots allow (a slot being filled by nobody's lease, least recently used first) and before this
 * returns, so that the caller can compute while they load. Works with any number of slots >= 1: slots that are released serve the rest.
 * take: hands out the next one that has its first pieces_needed pieces in memory: STORE_ANY: any, present ones first; STORE_LISTED:
 * strictly in listed order. With wait false returns *index = UINT32_MAX when none is ready;
 *       so it does, with and without wait, when all were handed out. A failed read is reported by one take with *index set to its record;
 *       the others can still be taken. With every slot that could serve the rest leased by the caller, waiting is STATUS_INTERNAL: release
 *       before you wait.
 * wait_pieces: waits until all pieces of a lease taken early are there. After an error the lease still has to be released.
 * want_end: forgets what was not taken (its reads go on into the cache); every lease must have been released.
 */
enum store_order { STORE_ANY, STORE_LISTED };
MUST_CHECK enum status store_want(struct weight_store *store, const weight_id *ids, uint32_t count, enum store_order order,
                                  struct error *err);
MUST_CHECK enum status store_take(struct weight_store *store, uint32_t pieces_needed, bool wait, uint32_t *index, struct weight_lease *out,
                                  struct error *err);
MUST_CHECK enum status store_wait_pieces(struct weight_store *store, struct weight_lease *lease, struct error *err);
void store_want_end(struct weight_store *store);

/*
 * STATUS_IO when a page of a mapped file was lost (the file was cut short, its disk failed) since the last call, or when a file was
 * rewritten or replaced since it was opened: what was computed may not be used. Ask after each pass; costs two system calls a file.
 */
MUST_CHECK enum status store_intact(struct weight_store *store, struct error *err);

/* Without waiting: takes in finished reads and submits what has room. For the executor between steps; cheap when nothing is in flight. */
void store_poll(struct weight_store *store);

/*
 * The expert cache uses at most limit_bytes of its memory from now on, but one slot of each size at least; the pages of the others go back
 * to the system at once, or when their reads are over. What was used longest ago is evicted. A larger limit, up to what create was given,
 * takes them again. Between steps: nothing cached may be wanted or leased. Without cached records nothing happens.
 */
void store_cache_limit(struct weight_store *store, uint64_t limit_bytes);

/*
 * Of the records in keep_order only the first ones stay in memory, of at most limit_bytes together. Those behind them become STREAMED, and
 * their pages go back to the system at once. With a larger limit they come back one by one, each when a pass has streamed it. No lease may
 * be out. May be called between any two steps of a pass.
 */
void store_trunk_limit(struct weight_store *store, uint64_t limit_bytes);
/* How the record lives now. */
enum weight_life store_life(const struct weight_store *store, weight_id id);
/* Grows whenever RESIDENT records became STREAMED: then pointers into such records that were kept beyond a lease must be given up. */
uint64_t store_losses(const struct weight_store *store);

/*
 * How often each record was wanted by steps of few rows (STORE_ANY) since create: [record_count]; NULL when nobody counts.
 */
const uint32_t *store_usage(const struct weight_store *store);
/*
 * Cached records that will probably be wanted, likeliest first, no duplicates; replaces what was told before. They are read into slots that
 * are empty, as the next victims, while no other read is in flight and no step waits. One part is asked for at a time, so that a read that
 * is demanded meanwhile waits for little. store_tend, for times without requests, keeps the disk busy with them; it waits for one read at
 * most and returns whether there is more to do.
 */
void store_prefill(struct weight_store *store, const weight_id *ids, uint32_t count);
bool store_tend(struct weight_store *store);
/*
 * Cached records that the next step will probably want, in the order in which it will, no duplicates; replaces what was told before. May be
 * called after store_want of the step before. They are read when all that is wanted was asked for, and counted as misses when they are
 * wanted. store_may_expect: whether telling is of any use: too little of what was told came true, or nothing is cached.
 */
bool store_may_expect(const struct weight_store *store);
void store_expect(struct weight_store *store, const weight_id *ids, uint32_t count);
/* Of the limits: what records take. */
uint64_t store_cache_used_bytes(const struct weight_store *store);
uint64_t store_trunk_used_bytes(const struct weight_store *store);
/* The pages of a mapped model may go when the system needs memory; they come again from the file when they are used. */
void store_unlock_mapped(struct weight_store *store);

/* Blocking read of small ranges (embedding rows) through the queue, all at once. dst[i] gets pieces[i].size_bytes bytes. */
MUST_CHECK enum status store_read_ranges(struct weight_store *store, const struct weight_piece *pieces, uint32_t count, uint8_t *const *dst,
                                         struct error *err);

/*
 * After an error or cancel: waits for reads in flight, drops all pins and wants, keeps what is whole in the cache, rewinds the stream.
 * Leases of STREAMED and CACHED records that were out are void and must not be released.
 */
void store_reset(struct weight_store *store);

struct store_stats {         /* totals since create; monotonic where not said otherwise */
    uint64_t read_bytes;     /* from the device, alignment included */
    uint64_t demanded_bytes; /* piece bytes that take/acquire had to have read (misses, streamed, ranges) */
    uint64_t resident_bytes; /* read by load_resident, not in read_bytes */
    uint64_t hits, misses;   /* CACHED records wanted */
    uint64_t hit_bytes;
    uint64_t evictions;
    uint64_t prefilled_bytes;                     /* read ahead by store_prefill */
    uint64_t expected_bytes, expected_used_bytes; /* read ahead by store_expect; of these, wanted later: counted as missed and demanded */
    uint64_t cache_limit_bytes;                   /* of the slots in use now: not monotonic */
    uint64_t trunk_limit_bytes;                   /* of the records of keep_order that are to stay: not monotonic */
    uint64_t given_back_bytes, given_back_times;  /* by store_cache_limit and store_trunk_limit */
    uint64_t stall_ns;                            /* engine thread waited for a read */
    uint64_t reads, read_retries;                 /* with those that failed; a try of another copy counts as a retry */
    uint64_t copy_bytes[FILE_COPIES_MAX];         /* read, resident ones too, by copy number (file_set.h) */
    uint64_t load_ns;                             /* store_load_resident */
};
void store_stats_read(const struct weight_store *store, struct store_stats *out);
uint32_t store_slot_count(const struct weight_store *store); /* of all classes */
/* Verifies every invariant; CHECKs. For tests and debug builds. */
void store_check(const struct weight_store *store);
