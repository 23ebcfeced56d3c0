/* reader: see reader.h. */
#include "store/reader.h"

#include <errno.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

enum status reader_init(struct reader *reader, struct read_queue *queue, struct store_counters *counters, uint64_t timeout_ns,
                        struct error *err) {
    *reader = (struct reader){
        .queue = queue, .counters = counters, .depth = queue->depth, .timeout_ns = timeout_ns ? timeout_ns : READER_TIMEOUT_NS};
    CHECK(reader->depth >= 1);
    reader->reads = memory_alloc_array(reader->depth, sizeof *reader->reads);
    if (!reader->reads)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %u read requests", reader->depth);
    for (unsigned i = reader->depth; i-- > 0;) {
        reader->reads[i].next = reader->unused;
        reader->unused = &reader->reads[i];
    }
    return STATUS_OK;
}

void reader_deinit(struct reader *reader) {
    CHECK(reader->in_flight == 0);
    memory_free(reader->reads);
    *reader = (struct reader){0};
}

struct store_read *reader_obtain(struct reader *reader) {
    struct store_read *read = reader->unused;
    if (read) {
        reader->unused = read->next;
        *read = (struct store_read){.request.owner = read};
    }
    return read;
}

void reader_finish(struct reader *reader, struct store_read *read) {
    read->lost = false;
    read->next = reader->unused;
    reader->unused = read;
}

bool reader_submit(struct reader *reader, struct store_read *read) {
    CHECK(read->request.owner == read && read->request.dst);
    if (read_queue_submit(reader->queue, &read->request) != READ_ACCEPTED) {
        CHECK(reader->in_flight > 0); /* else nothing would ever make room */
        reader_finish(reader, read);
        return false;
    }
    read->in_flight = true;
    read->submitted_ns = clock_now_ns();
    reader->in_flight++;
    reader->in_flight_bytes += read->request.dst_size_bytes;
    reader->unflushed = true;
    return true;
}

bool reader_submit_part(struct reader *reader, const struct record_map *map, struct record_load *load, enum read_purpose purpose,
                        uint32_t index) {
    if (!record_load_has_part(map, load))
        return false;
    struct store_read *read = reader_obtain(reader);
    if (!read)
        return false;
    record_load_part(map, load, &read->request);
    read->purpose = purpose;
    read->load = load;
    read->piece = load->piece;
    read->index = index;
    struct read_request part = read->request; /* a copy: from submit on the queue may write the request */
    if (!reader_submit(reader, read))
        return false;
    record_load_sent(load, load->piece);
    record_load_advance(map, load, &part);
    return true;
}

void reader_flush(struct reader *reader) {
    if (reader->unflushed)
        read_queue_flush(reader->queue);
    reader->unflushed = false;
}

/* One of the files that are waited for. */
static const char *file_in_flight(const struct reader *reader) {
    for (unsigned i = 0; i < reader->depth; i++)
        if (reader->reads[i].in_flight && !reader->reads[i].lost)
            return file_set_path(reader->queue->files, reader->reads[i].request.file);
    return "a file";
}

/* NULL: nothing came until the reader's time-out. */
static struct read_request *wait_for_one(const struct reader *reader) {
    uint64_t start_ns = clock_now_ns(), waited_ns = 0;
    bool told = false;
    struct read_request *request = NULL;
    while (!request && waited_ns < reader->timeout_ns) {
        uint64_t left_ns = reader->timeout_ns - waited_ns;
        request = read_queue_reap(reader->queue, true, left_ns < READER_SILENCE_NS ? left_ns : READER_SILENCE_NS);
        waited_ns = clock_now_ns() - start_ns;
        if (!request && !told && waited_ns >= READER_SILENCE_NS) {
            log_line(LOG_WARNING, "%s: the disk has not answered %u reads for %u s; waiting: check the disk and its connection",
                     file_in_flight(reader), reader_awaited(reader), (unsigned)(READER_SILENCE_NS / 1000000000));
            told = true;
        }
    }
    if (told && request)
        log_line(LOG_WARNING, "the disk answers again after %.0f s", (double)waited_ns / 1e9);
    return request;
}

/* A request that the queue gave back. */
static struct store_read *take_back(struct reader *reader, struct read_request *request) {
    struct store_read *read = request->owner;
    CHECK(read >= reader->reads && read < reader->reads + reader->depth && &read->request == request && read->in_flight);
    read->in_flight = false;
    reader->in_flight--;
    if (read->lost) {
        CHECK(reader->lost > 0);
        reader->lost--;
    } else {
        CHECK(reader->in_flight_bytes >= request->dst_size_bytes);
        reader->in_flight_bytes -= request->dst_size_bytes;
    }
    return read;
}

struct store_read *reader_reap(struct reader *reader, bool wait) {
    reader_flush(reader);
    if (reader->in_flight == 0 || (wait && reader_awaited(reader) == 0))
        return NULL;
    struct read_request *request = wait ? wait_for_one(reader) : read_queue_reap(reader->queue, false, 0);
    if (!request)
        return NULL;
    struct store_read *read = take_back(reader, request);
    counter_add(&reader->counters->reads, 1);
    counter_add(read->purpose == READ_FOR_RESIDENT ? &reader->counters->resident_bytes : &reader->counters->read_bytes,
                request->read_bytes);
    counter_add(&reader->counters->read_retries, request->retries);
    return read;
}

void reader_lose(struct reader *reader, struct store_read *read) {
    CHECK(read->in_flight && !read->lost);
    read->lost = true;
    reader->lost++;
    reader->in_flight_bytes -= read->request.dst_size_bytes;
}

struct read_failure reader_failure_of_lost(const struct store_read *read) {
    const struct read_request *request = &read->request; /* what the caller set: the queue may write the rest at any time */
    return (struct read_failure){.status = STATUS_IO,
                                 .file = request->file,
                                 .offset_bytes = request->offset_bytes,
                                 .size_bytes = request->size_bytes,
                                 .system_error = ETIMEDOUT,
                                 .waited_s = (uint32_t)((clock_now_ns() - read->submitted_ns + 500000000u) / 1000000000u)};
}

const struct store_read *reader_any_lost(const struct reader *reader) {
    for (unsigned i = 0; i < reader->depth; i++)
        if (reader->reads[i].lost)
            return &reader->reads[i];
    return NULL;
}

bool reader_recover(struct reader *reader, uint64_t wait_ns) {
    uint64_t end_ns = clock_now_ns() + wait_ns, now_ns;
    read_queue_cancel(reader->queue);
    while (reader->lost > 0 && (now_ns = clock_now_ns()) < end_ns) {
        struct read_request *request = read_queue_reap(reader->queue, true, end_ns - now_ns);
        if (request)
            reader_finish(reader, take_back(reader, request));
    }
    return reader->lost == 0;
}
