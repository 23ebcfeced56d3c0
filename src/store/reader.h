/*
 * reader: the store's hold on the read queue: a fixed pool of requests, what each is for, and what is in flight.
 *
 * Invariants  requests in use = requests in flight, except between obtain and submit or reap and finish.
 * Threads     the engine thread.
 * Memory      one request per place in the queue, allocated by init.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "io/read_queue.h"
#include "store/record_load.h"
#include "store/store_counters.h"

#define READER_SILENCE_NS 5000000000ull /* a disk that answers nothing for so long is told: far above the slowest that works */

enum read_purpose { READ_FOR_CACHE, READ_AHEAD_FOR_CACHE, READ_FOR_STREAM, READ_FOR_RESIDENT, READ_FOR_RANGE };

struct store_read {
    struct read_request request; /* request.owner is this */
    enum read_purpose purpose;
    struct record_load *load; /* all but ranges */
    uint32_t piece;           /* of the load's record */
    uint32_t index;           /* cache: slot */
    uint8_t *copy_to;         /* range: where the wanted bytes go */
    bool in_flight;
    struct store_read *next;
};

struct reader {
    struct read_queue *queue;
    struct store_counters *counters; /* borrowed */
    struct store_read *reads, *unused;
    unsigned depth, in_flight;
    uint64_t in_flight_bytes; /* of the windows */
    bool unflushed;
};

MUST_CHECK enum status reader_init(struct reader *reader, struct read_queue *queue, struct store_counters *counters, struct error *err);
void reader_deinit(struct reader *reader); /* nothing may be in flight */

/* A request to fill and submit, or NULL: all are in flight. */
struct store_read *reader_obtain(struct reader *reader);
/* False: the queue takes no more; the request was put back. */
bool reader_submit(struct reader *reader, struct store_read *read);
/* Submits the next part of a load. False: no more requests now, or nothing is left to ask for. */
bool reader_submit_part(struct reader *reader, const struct record_map *map, struct record_load *load, enum read_purpose purpose,
                        uint32_t index);
void reader_flush(struct reader *reader);

/*
 * A finished read, or NULL when none is finished (wait false) or none is in flight (wait true). The caller gives it to reader_finish.
 * Waiting has no end, since the disk may still write to the memory; a log line says when it answers nothing, and when it does again.
 */
struct store_read *reader_reap(struct reader *reader, bool wait);
void reader_finish(struct reader *reader, struct store_read *read);
