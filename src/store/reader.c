/* reader: see reader.h. */
#include "store/reader.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

enum status reader_init(struct reader *reader, struct read_queue *queue, struct store_counters *counters, struct error *err) {
    *reader = (struct reader){.queue = queue, .counters = counters, .depth = queue->depth};
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
        if (reader->reads[i].in_flight)
            return file_set_path(reader->queue->files, reader->reads[i].request.file);
    return "a file";
}

static struct read_request *wait_for_one(const struct reader *reader) {
    uint64_t start_ns = clock_now_ns();
    bool told = false;
    struct read_request *request;
    while ((request = read_queue_reap(reader->queue, true, READER_SILENCE_NS)) == NULL) {
        if (!told && clock_now_ns() - start_ns >= READER_SILENCE_NS) {
            log_line(LOG_WARNING, "%s: the disk has not answered %u reads for %u s; waiting: check the disk and its connection",
                     file_in_flight(reader), reader->in_flight, (unsigned)(READER_SILENCE_NS / 1000000000));
            told = true;
        }
    }
    if (told)
        log_line(LOG_WARNING, "the disk answers again after %.0f s", (double)(clock_now_ns() - start_ns) / 1e9);
    return request;
}

struct store_read *reader_reap(struct reader *reader, bool wait) {
    reader_flush(reader);
    if (reader->in_flight == 0)
        return NULL;
    struct read_request *request = wait ? wait_for_one(reader) : read_queue_reap(reader->queue, false, 0);
    if (!request)
        return NULL;
    struct store_read *read = request->owner;
    CHECK(read >= reader->reads && read < reader->reads + reader->depth && &read->request == request);
    CHECK(reader->in_flight_bytes >= request->dst_size_bytes);
    read->in_flight = false;
    reader->in_flight--;
    reader->in_flight_bytes -= request->dst_size_bytes;
    counter_add(&reader->counters->reads, 1);
    counter_add(read->purpose == READ_FOR_RESIDENT ? &reader->counters->resident_bytes : &reader->counters->read_bytes,
                request->read_bytes);
    if (request->attempts > 1)
        counter_add(&reader->counters->read_retries, request->attempts - 1);
    return read;
}
