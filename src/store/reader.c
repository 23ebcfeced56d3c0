/* reader: see reader.h. */
#include "store/reader.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"

enum status reader_init(struct reader *reader, struct read_queue *queue, struct store_counters *counters, uint64_t timeout_ns,
                        struct error *err) {
    *reader = (struct reader){.queue = queue, .counters = counters, .depth = queue->depth};
    read_wait_init(&reader->wait, queue, timeout_ns);
    CHECK(reader->depth >= 1);
    reader->reads = memory_alloc_array(reader->depth, sizeof *reader->reads);
    if (!reader->reads)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %u read requests", reader->depth);
    for (unsigned i = reader->depth; i-- > 0;) {
        reader->reads[i].next = reader->unused;
        reader->unused = &reader->reads[i];
    }
    return copy_choice_init(&reader->copies, queue->files, err);
}

void reader_deinit(struct reader *reader) {
    CHECK(reader->in_flight == 0);
    copy_choice_deinit(&reader->copies);
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
    uint32_t copy = copy_choice_pick(&reader->copies, read->request.file, read->request.size_bytes, read->tried);
    CHECK(copy != COPY_NONE);
    read->request.file = copy;
    const struct read_request sent = read->request; /* from submit on the queue may write the request */
    uint64_t now_ns = clock_now_ns();
    if (read_wait_submit(&reader->wait, &read->request) != READ_ACCEPTED) {
        CHECK(reader->in_flight > 0); /* else nothing would ever make room */
        reader_finish(reader, read);
        return false;
    }
    copy_choice_sent(&reader->copies, &sent, now_ns);
    read->tried |= 1u << file_set_copy_number(reader->queue->files, copy);
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

/* A request that the queue gave back. */
static struct store_read *take_back(struct reader *reader, struct read_request *request) {
    struct store_read *read = request->owner;
    CHECK(read >= reader->reads && read < reader->reads + reader->depth && &read->request == request && read->in_flight);
    copy_choice_done(&reader->copies, request, clock_now_ns());
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

static void count(struct reader *reader, const struct store_read *read) {
    const struct read_request *request = &read->request;
    struct store_counters *c = reader->counters;
    counter_add(&c->reads, 1);
    counter_add(read->purpose == READ_FOR_RESIDENT ? &c->resident_bytes : &c->read_bytes, request->read_bytes);
    counter_add(&c->copy_bytes[file_set_copy_number(reader->queue->files, request->file)], request->read_bytes);
    counter_add(&c->read_retries, request->retries);
}

/* Submits a failed read for a copy that was not tried yet. False: it did not fail, or there is none. */
static bool try_elsewhere(struct reader *reader, struct store_read *read) {
    const struct read_request *request = &read->request;
    if (read->lost || (request->status != STATUS_IO && request->status != STATUS_CORRUPT) ||
        copy_choice_pick(&reader->copies, request->file, request->size_bytes, read->tried) == COPY_NONE)
        return false;
    counter_add(&reader->counters->read_retries, 1);
    CHECK(reader_submit(reader, read)); /* its place in the queue is free */
    return true;
}

struct store_read *reader_reap(struct reader *reader, bool wait) {
    for (;;) {
        reader_flush(reader);
        if (reader->in_flight == 0)
            return NULL;
        struct read_request *request = read_wait_reap(&reader->wait, wait);
        if (!request)
            return NULL;
        struct store_read *read = take_back(reader, request);
        count(reader, read);
        if (!try_elsewhere(reader, read))
            return read;
    }
}

struct store_read *reader_lose_overdue(struct reader *reader) {
    struct read_request *request = read_wait_take_overdue(&reader->wait);
    if (!request)
        return NULL;
    struct store_read *read = request->owner;
    CHECK(read->in_flight && !read->lost);
    file_set_leave_out(reader->queue->files, request->file, "its disk does not answer");
    read->lost = true;
    reader->lost++;
    reader->in_flight_bytes -= request->dst_size_bytes;
    return read;
}

struct read_failure reader_failure_of_lost(const struct store_read *read) {
    struct read_request failed = read_wait_failure(&read->request);
    return read_failure_of(&failed);
}

const struct store_read *reader_any_lost(const struct reader *reader) {
    for (unsigned i = 0; i < reader->depth; i++)
        if (reader->reads[i].lost)
            return &reader->reads[i];
    return NULL;
}

bool reader_end(struct reader *reader) {
    if (reader->queue && !read_wait_end(&reader->wait))
        return false;
    reader->in_flight = reader->lost = 0;
    return true;
}
