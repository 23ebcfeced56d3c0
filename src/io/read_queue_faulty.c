/*
 * read_queue_faulty: faults by seed around another queue. See read_queue_faulty.h.
 *
 * Model    Each accepted request gets a slot with a request of our own for the inner queue. What will happen to it is drawn from (seed,
 *          number) at submit, so it does not depend on timing. A short read is made of two inner requests: a first piece, then what is
 *          left. Finished slots wait in `ready` until their delay is over; a delay counts reap calls, and a reap that waits counts as many
 *          as it takes.
 */
#include "io/read_queue_faulty.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"

enum { UNREAD_BYTE = 0xA5 };

struct faulty_slot {
    struct read_request inner; /* owner: this slot */
    struct read_request *outer;
    uint64_t piece_bytes; /* of the wanted bytes: what the inner request at work ends at; the outer size when it is the last */
    uint64_t read_bytes;  /* by earlier pieces */
    uint32_t retries;     /* likewise */
    uint32_t delay_reaps; /* left */
    bool fails;
};

struct faulty_queue {
    struct read_queue base;
    struct read_queue *inner;
    struct read_faults faults;
    struct faulty_slot *slots;
    struct faulty_slot **free_slots, **held, **ready; /* held: until release; ready: finished, perhaps delayed, oldest first */
    unsigned free_count, ready_count, held_count;
    uint64_t submitted, picked;
};

static struct faulty_queue *of(struct read_queue *queue) { return (struct faulty_queue *)queue; }

/* ---- chance: a pure function of seed, number and what it is drawn for ---- */

enum draw { DRAW_FAIL, DRAW_SHORT, DRAW_LENGTH, DRAW_DELAY, DRAW_DELAY_LENGTH, DRAW_PICK, DRAW_COUNT };

static uint64_t draw_u64(const struct faulty_queue *q, uint64_t number, enum draw what) {
    uint64_t x = q->faults.seed * 0x9E3779B97F4A7C15u + number * DRAW_COUNT + (uint64_t)what;
    for (int i = 0; i < 2; i++) {
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
        x ^= x >> 31;
    }
    return x;
}

static bool draw_event(const struct faulty_queue *q, uint64_t number, enum draw what, double rate) {
    return (double)(draw_u64(q, number, what) >> 11) * 0x1p-53 < rate;
}

/* ---- slots ---- */

static void spoil(const struct faulty_queue *q, const struct read_request *outer) {
    if (!q->faults.corrupt_unread || outer->size_bytes == 0)
        return;
    struct read_window window = read_queue_window(q->base.files, outer->file, outer->offset_bytes, outer->size_bytes);
    CHECK(outer->dst_size_bytes >= window.window_bytes);
    memset(outer->dst, UNREAD_BYTE, (size_t)window.window_bytes);
}

/* Hands wanted bytes [begin, piece_bytes) of the slot to the inner queue. */
static void start_piece(struct faulty_queue *q, struct faulty_slot *slot, uint64_t begin_bytes) {
    const struct read_request *outer = slot->outer;
    struct read_window whole = read_queue_window(q->base.files, outer->file, outer->offset_bytes, outer->size_bytes);
    struct read_window piece =
        read_queue_window(q->base.files, outer->file, outer->offset_bytes + begin_bytes, slot->piece_bytes - begin_bytes);
    uint64_t ahead_bytes = piece.begin_bytes - whole.begin_bytes;
    slot->inner = (struct read_request){
        .file = outer->file,
        .offset_bytes = outer->offset_bytes + begin_bytes,
        .size_bytes = slot->piece_bytes - begin_bytes,
        .dst = outer->dst + ahead_bytes,
        .dst_size_bytes = outer->dst_size_bytes - (size_t)ahead_bytes,
        .owner = slot,
    };
    CHECK(read_queue_submit(q->inner, &slot->inner) == READ_ACCEPTED); /* one inner request per slot, and both depths are the same */
}

static void make_ready(struct faulty_queue *q, struct faulty_slot *slot) { q->ready[q->ready_count++] = slot; }

static bool is_past_end(const struct faulty_queue *q, const struct read_request *request) {
    uint64_t end_bytes;
    return !size_add(request->offset_bytes, request->size_bytes, &end_bytes) ||
           end_bytes > file_set_size_bytes(q->base.files, request->file);
}

static bool has_file(uint64_t files, const struct read_request *request) { return request->file < 64 && (files >> request->file & 1); }

static enum read_submit faulty_submit(struct read_queue *queue, struct read_request *request) {
    struct faulty_queue *q = of(queue);
    if (q->free_count == 0)
        return READ_BUSY;
    struct faulty_slot *slot = q->free_slots[--q->free_count];
    uint64_t number = ++q->submitted;
    *slot = (struct faulty_slot){.outer = request, .piece_bytes = request->size_bytes};
    slot->fails =
        number == q->faults.fail_at || has_file(q->faults.fail_files, request) || draw_event(q, number, DRAW_FAIL, q->faults.fail_rate);
    if (q->faults.delay_reaps > 0 && draw_event(q, number, DRAW_DELAY, q->faults.delay_rate))
        slot->delay_reaps = 1 + (uint32_t)(draw_u64(q, number, DRAW_DELAY_LENGTH) % q->faults.delay_reaps);
    if (is_past_end(q, request)) { /* the inner queue says so; there is no window to spoil or to cut */
        slot->inner = *request;
        slot->inner.owner = slot;
        CHECK(read_queue_submit(q->inner, &slot->inner) == READ_ACCEPTED);
        return READ_ACCEPTED;
    }
    spoil(q, request);
    if (slot->fails) {
        make_ready(q, slot);
        return READ_ACCEPTED;
    }
    bool holds_file = q->faults.hold_files == 0 || has_file(q->faults.hold_files, request);
    if (holds_file && number >= q->faults.hold_from && number - q->faults.hold_from < q->faults.hold_count) {
        q->held[q->held_count++] = slot;
        return READ_ACCEPTED;
    }
    if (request->size_bytes > 1 && draw_event(q, number, DRAW_SHORT, q->faults.short_rate))
        slot->piece_bytes = 1 + draw_u64(q, number, DRAW_LENGTH) % (request->size_bytes - 1);
    start_piece(q, slot, 0);
    return READ_ACCEPTED;
}

static void faulty_flush(struct read_queue *queue) { read_queue_flush(of(queue)->inner); }

/* An inner request came back: goes on with the rest of a short read, or is ready. */
static void take_inner(struct faulty_queue *q, struct read_request *inner) {
    struct faulty_slot *slot = inner->owner;
    CHECK(inner == &slot->inner);
    if (inner->status == STATUS_OK && slot->piece_bytes < slot->outer->size_bytes) {
        uint64_t begin_bytes = slot->piece_bytes;
        slot->read_bytes += inner->read_bytes;
        slot->retries += inner->retries;
        slot->piece_bytes = slot->outer->size_bytes;
        start_piece(q, slot, begin_bytes);
        read_queue_flush(q->inner);
        return;
    }
    make_ready(q, slot);
}

/* The index of a ready slot whose delay is over: the oldest, or any when reordering. ready_count: none. */
static unsigned pick_ready(struct faulty_queue *q) {
    unsigned due_count = 0, first = q->ready_count;
    for (unsigned i = 0; i < q->ready_count; i++)
        if (q->ready[i]->delay_reaps == 0 && due_count++ == 0)
            first = i;
    if (due_count == 0 || !q->faults.reorder)
        return first;
    uint64_t wanted = draw_u64(q, ++q->picked, DRAW_PICK) % due_count;
    for (unsigned i = first; i < q->ready_count; i++)
        if (q->ready[i]->delay_reaps == 0 && wanted-- == 0)
            return i;
    return first;
}

/* Takes the slot out of `ready` and writes its outcome to the caller's request. */
static struct read_request *finish(struct faulty_queue *q, unsigned index) {
    struct faulty_slot *slot = q->ready[index];
    struct read_request *outer = slot->outer;
    q->ready_count--;
    memmove(&q->ready[index], &q->ready[index + 1], (q->ready_count - index) * sizeof q->ready[0]);
    outer->next = NULL;
    outer->skip_bytes = 0;
    outer->retries = 0;
    if (is_past_end(q, outer)) {
        outer->status = slot->inner.status;
        outer->system_error = slot->inner.system_error;
        outer->read_bytes = 0;
    } else if (slot->fails) {
        outer->status = STATUS_IO;
        outer->system_error = q->faults.fail_errno ? q->faults.fail_errno : EIO;
        outer->attempts = 1;
        outer->read_bytes = 0;
    } else {
        outer->status = slot->inner.status;
        outer->system_error = slot->inner.system_error;
        outer->attempts = slot->inner.attempts;
        outer->retries = slot->retries + slot->inner.retries;
        outer->read_bytes = slot->read_bytes + slot->inner.read_bytes;
        outer->skip_bytes = read_queue_window(q->base.files, outer->file, outer->offset_bytes, outer->size_bytes).skip_bytes;
        if (outer->status != STATUS_OK)
            spoil(q, outer);
    }
    q->free_slots[q->free_count++] = slot;
    return outer;
}

/* One reap call: collects what the inner queue finished and brings delays nearer to their end. NULL: nothing is due. */
static struct read_request *reap_step(struct faulty_queue *q, bool wait, uint64_t timeout_ns) {
    struct read_request *inner = read_queue_reap(q->inner, wait, timeout_ns);
    for (; inner; inner = read_queue_reap(q->inner, false, 0))
        take_inner(q, inner);
    unsigned index = pick_ready(q);
    for (unsigned i = 0; i < q->ready_count; i++)
        if (q->ready[i]->delay_reaps > 0)
            q->ready[i]->delay_reaps--;
    return index < q->ready_count ? finish(q, index) : NULL;
}

static unsigned faulty_in_flight(const struct read_queue *queue) {
    const struct faulty_queue *q = (const struct faulty_queue *)queue;
    return q->base.depth - q->free_count;
}

static struct read_request *faulty_reap(struct read_queue *queue, bool wait, uint64_t timeout_ns) {
    struct faulty_queue *q = of(queue);
    uint64_t end_ns = UINT64_MAX;
    if (wait && !size_add(clock_now_ns(), timeout_ns, &end_ns))
        end_ns = UINT64_MAX;
    struct read_request *request = reap_step(q, false, 0);
    while (!request && wait && faulty_in_flight(queue) > 0) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= end_ns)
            break;
        if (q->ready_count == 0 && read_queue_in_flight(q->inner) == 0)
            clock_sleep_ns(end_ns - now_ns); /* all are held, and only this thread may release them */
        request = reap_step(q, q->ready_count == 0, end_ns - now_ns);
    }
    return request;
}

static void faulty_cancel(struct read_queue *queue) { read_queue_cancel(of(queue)->inner); }

static void faulty_destroy(struct read_queue *queue) {
    struct faulty_queue *q = of(queue);
    read_queue_destroy(q->inner);
    memory_free(q->slots);
    memory_free(q->free_slots);
    memory_free(q->held);
    memory_free(q->ready);
    memory_free(q);
}

static const struct read_queue_operations faulty_operations = {
    .name = "faulty",
    .submit = faulty_submit,
    .flush = faulty_flush,
    .reap = faulty_reap,
    .in_flight = faulty_in_flight,
    .cancel = faulty_cancel,
    .destroy = faulty_destroy,
};

enum status read_queue_faulty_create(struct read_queue *inner, const struct read_faults *faults, struct read_queue **out,
                                     struct error *err) {
    CHECK(inner && read_queue_in_flight(inner) == 0);
    *out = NULL;
    struct faulty_queue *q = memory_alloc(sizeof *q);
    if (!q)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a faulty read queue");
    unsigned depth = inner->depth;
    q->base = (struct read_queue){.operations = &faulty_operations, .files = inner->files, .depth = depth};
    q->faults = *faults;
    q->slots = memory_alloc_array(depth, sizeof *q->slots);
    q->free_slots = memory_alloc_array(depth, sizeof(struct faulty_slot *));
    q->held = memory_alloc_array(depth, sizeof(struct faulty_slot *));
    q->ready = memory_alloc_array(depth, sizeof(struct faulty_slot *));
    if (!q->slots || !q->free_slots || !q->held || !q->ready) {
        faulty_destroy(&q->base); /* the inner queue stays the caller's: not set yet */
        return error_set(err, STATUS_NO_MEMORY, "no memory for a faulty read queue of depth %u", depth);
    }
    q->inner = inner;
    while (q->free_count < depth) {
        q->free_slots[q->free_count] = &q->slots[depth - 1 - q->free_count];
        q->free_count++;
    }
    *out = &q->base;
    return STATUS_OK;
}

uint64_t read_queue_faulty_submitted(const struct read_queue *queue) {
    CHECK(queue->operations == &faulty_operations);
    return ((const struct faulty_queue *)queue)->submitted;
}

void read_queue_faulty_release(struct read_queue *queue) {
    CHECK(queue->operations == &faulty_operations);
    struct faulty_queue *q = of(queue);
    q->faults.hold_count = 0;
    while (q->held_count > 0)
        start_piece(q, q->held[--q->held_count], 0);
    read_queue_flush(q->inner);
}
