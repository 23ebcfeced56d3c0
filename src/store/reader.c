/* reader: see reader.h. */
#include "store/reader.h"

#include "base/check.h"
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

struct store_read *reader_reap(struct reader *reader, bool wait) {
    struct read_request *request = NULL;
    reader_flush(reader);
    while (!request && reader->in_flight > 0) {
        request = read_queue_reap(reader->queue, wait, UINT64_MAX);
        if (!request && !wait)
            return NULL;
    }
    if (!request)
        return NULL;
    struct store_read *read = request->owner;
    CHECK(read >= reader->reads && read < reader->reads + reader->depth && &read->request == request);
    CHECK(reader->in_flight_bytes >= request->dst_size_bytes);
    reader->in_flight--;
    reader->in_flight_bytes -= request->dst_size_bytes;
    counter_add(&reader->counters->reads, 1);
    counter_add(read->purpose == READ_FOR_RESIDENT ? &reader->counters->resident_bytes : &reader->counters->read_bytes,
                request->read_bytes);
    if (request->attempts > 1)
        counter_add(&reader->counters->read_retries, request->attempts - 1);
    return read;
}
