/*
 * reader: the store's hold on the read queue: a fixed pool of requests, what each is for, and what is in flight.
 *
 *             A request that was waited for in vain (read_wait.h) is *lost*: nobody waits for it any more, but its memory is written to
 *             when it comes after all, so it stays in flight, and what it writes to must not be used until it is reaped.
 * Copies      a request names a file; which of its copies is read is chosen at submit (copy_choice.h), and a read that fails is submitted
 *             again for another copy before anybody is told. Nobody else in the store knows of copies.
 * Invariants  requests in use = requests in flight, except between obtain and submit or reap and finish.
 * Threads     the engine thread.
 * Memory      one request per place in the queue, allocated by init.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/read_wait.h"
#include "store/copy_choice.h"
#include "store/record_load.h"
#include "store/store_counters.h"

enum read_purpose { READ_FOR_CACHE, READ_AHEAD_FOR_CACHE, READ_FOR_STREAM, READ_FOR_RESIDENT, READ_FOR_RANGE };

struct store_read {
    struct read_request request; /* request.owner is this; request.file becomes the copy that is read */
    unsigned tried;              /* a bit for each copy number */
    enum read_purpose purpose;
    struct record_load *load; /* all but ranges */
    uint32_t piece;           /* of the load's record */
    uint32_t index;           /* cache: slot */
    uint8_t *copy_to;         /* range: where the wanted bytes go */
    bool in_flight, lost;
    struct store_read *next;
};

struct reader {
    struct read_queue *queue;
    struct read_wait wait;
    struct store_counters *counters; /* borrowed */
    struct store_read *reads, *unused;
    struct copy_choice copies;
    unsigned depth, in_flight, lost; /* lost: of those in flight */
    uint64_t in_flight_bytes;        /* of the windows, without the lost ones */
    bool unflushed;
};

/* timeout_ns 0: READ_TIMEOUT_NS. */
MUST_CHECK enum status reader_init(struct reader *reader, struct read_queue *queue, struct store_counters *counters, uint64_t timeout_ns,
                                   struct error *err);
void reader_deinit(struct reader *reader); /* nothing may be in flight */

/* A request to fill and submit, or NULL: all are in flight. */
struct store_read *reader_obtain(struct reader *reader);
/* False: the queue takes no more; the request was put back. */
bool reader_submit(struct reader *reader, struct store_read *read);
/* Submits the next part of a load. False: no more requests now, or nothing is left to ask for. */
bool reader_submit_part(struct reader *reader, const struct record_map *map, struct record_load *load, enum read_purpose purpose,
                        uint32_t index);
void reader_flush(struct reader *reader);

/* Reads that somebody may wait for. */
static inline unsigned reader_awaited(const struct reader *reader) { return reader->in_flight - reader->lost; }
/*
 * A finished read, lost or not, or NULL: none is finished. With wait it waits until one is, unless none is awaited or one is overdue. The
 * caller gives it to reader_finish.
 */
struct store_read *reader_reap(struct reader *reader, bool wait);
/* Ask when reap gave NULL: a read that is overdue, and lost from now on, or NULL; what its waiters get to know of it. */
struct store_read *reader_lose_overdue(struct reader *reader);
struct read_failure reader_failure_of_lost(const struct store_read *read);
/* Any read that is lost, or NULL. */
const struct store_read *reader_any_lost(const struct reader *reader);
/* Gives all reads up and drops what comes of them. False: some may come still: see read_wait_end. A zeroed reader is allowed. */
bool reader_end(struct reader *reader);
void reader_finish(struct reader *reader, struct store_read *read);
