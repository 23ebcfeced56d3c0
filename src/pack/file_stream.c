/* file_stream: a ring of chunks; each is asked for as soon as its place is free. See file_stream.h. */
#include "pack/file_stream.h"

#include "base/check.h"
#include "base/memory.h"
#include "io/read_wait.h"

#define ALIGNMENT_MAX ((uint64_t)65536) /* that a file may report: see file_set.h */

struct chunk {
    struct read_request request; /* owner: NULL until it is reaped */
    struct stream_range range;
    bool finished;
};

struct file_stream {
    struct file_set *files;
    struct read_queue *queue;
    struct read_wait wait;
    stream_next *next;
    void *context;
    struct memory_region memory;
    uint8_t *base;
    uint64_t place_bytes; /* of one chunk */
    struct chunk chunks[STREAM_CHUNKS];
    uint64_t asked, taken; /* chunks since the start */
    bool ended;            /* next has no more */
};

enum status file_stream_create(struct file_set *files, uint64_t timeout_ns, stream_next *next, void *context, struct file_stream **out,
                               struct error *err) {
    *out = NULL;
    struct file_stream *s = memory_alloc(sizeof *s);
    if (!s)
        return error_set(err, STATUS_NO_MEMORY, "no memory to read files");
    *s = (struct file_stream){.files = files, .next = next, .context = context, .place_bytes = STREAM_CHUNK_BYTES + 2 * ALIGNMENT_MAX};
    enum status status = memory_region_create(&s->memory, STREAM_CHUNKS * s->place_bytes + ALIGNMENT_MAX, MEMORY_STAGING, false, err);
    if (status == STATUS_OK)
        status = read_queue_create_best(files, STREAM_CHUNKS, &s->queue, err);
    if (status != STATUS_OK) {
        memory_region_destroy(&s->memory);
        memory_free(s);
        return status;
    }
    read_wait_init(&s->wait, s->queue, timeout_ns);
    s->base = s->memory.data + (-(uintptr_t)s->memory.data & (ALIGNMENT_MAX - 1));
    *out = s;
    return STATUS_OK;
}

bool file_stream_destroy(struct file_stream *s) {
    if (!s)
        return true;
    if (!read_wait_end(&s->wait)) {
        memory_region_discard(&s->memory, 0, s->memory.size_bytes);
        return false;
    }
    read_queue_destroy(s->queue);
    memory_region_destroy(&s->memory);
    memory_free(s);
    return true;
}

/* Asks for what has a place. The chunk that was handed out last keeps its own. */
static void ask(struct file_stream *s) {
    uint64_t held = s->taken > 0 ? s->taken - 1 : 0;
    while (!s->ended && s->asked - held < STREAM_CHUNKS) {
        struct chunk *chunk = &s->chunks[s->asked % STREAM_CHUNKS];
        if (!s->next(s->context, &chunk->range)) {
            s->ended = true;
            break;
        }
        const struct stream_range *range = &chunk->range;
        CHECK(range->size_bytes > 0 && range->size_bytes <= STREAM_CHUNK_BYTES && range->file < file_set_count(s->files));
        chunk->finished = false;
        chunk->request = (struct read_request){.file = range->file,
                                               .offset_bytes = range->offset_bytes,
                                               .size_bytes = range->size_bytes,
                                               .dst = s->base + s->asked % STREAM_CHUNKS * s->place_bytes,
                                               .dst_size_bytes = (size_t)s->place_bytes,
                                               .owner = chunk};
        enum read_submit submitted = read_wait_submit(&s->wait, &chunk->request);
        CHECK(submitted == READ_ACCEPTED); /* the queue is as deep as there are chunks */
        s->asked++;
    }
    read_queue_flush(s->queue);
}

enum status file_stream_take(struct file_stream *s, struct stream_range *range, const uint8_t **data, struct error *err) {
    *data = NULL;
    ask(s);
    if (s->taken == s->asked)
        return STATUS_OK;
    struct chunk *chunk = &s->chunks[s->taken % STREAM_CHUNKS];
    while (!chunk->finished) {
        struct read_request *request = read_wait_reap(&s->wait, true);
        if (!request) { /* no more is taken from this stream */
            struct read_request failed = read_wait_failure(read_wait_take_overdue(&s->wait));
            return read_request_error(s->files, &failed, err);
        }
        ((struct chunk *)request->owner)->finished = true;
    }
    if (chunk->request.status != STATUS_OK)
        return read_request_error(s->files, &chunk->request, err);
    s->taken++;
    *range = chunk->range;
    *data = chunk->request.dst + chunk->request.skip_bytes;
    return STATUS_OK;
}
