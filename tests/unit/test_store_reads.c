/*
 * test_store_reads: which reads the store submits and when, seen by a queue that finishes reads only when told.
 */
#include "store_fixture.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "test_clock.h"

static struct fixture f;

struct held_queue {
    struct read_queue base;
    struct read_request *requests[64];    /* in flight, in order of submission */
    unsigned count, largest_count, limit; /* limit: takes no more than these, though its depth is larger; 0: none */
    uint64_t in_flight_bytes, largest_bytes;
    uint64_t submitted;
    bool finish;    /* also without wait */
    bool fail_next; /* the next one that is reaped */
    bool fail_all;
    unsigned silent;    /* so many waits pass without an answer */
    uint64_t answer_ns; /* a wait takes so long */
    uint64_t keep;      /* the submit, from 1, that is never answered; 0: none */
};

static enum read_submit held_submit(struct read_queue *queue, struct read_request *request) {
    struct held_queue *q = (struct held_queue *)queue;
    if (q->count == (q->limit ? q->limit : queue->depth))
        return READ_BUSY;
    q->requests[q->count++] = request;
    q->submitted++;
    q->in_flight_bytes += request->dst_size_bytes;
    q->largest_count = q->count > q->largest_count ? q->count : q->largest_count;
    q->largest_bytes = q->in_flight_bytes > q->largest_bytes ? q->in_flight_bytes : q->largest_bytes;
    return READ_ACCEPTED;
}

static void held_flush(struct read_queue *queue) { (void)queue; }

/* Without wait nothing is ever finished, unless told; with wait the oldest is. */
static struct read_request *held_reap(struct read_queue *queue, bool wait, uint64_t timeout_ns) {
    struct held_queue *q = (struct held_queue *)queue;
    if ((!wait && !q->finish) || q->count == 0)
        return NULL;
    if (wait && q->silent > 0) {
        q->silent--;
        clock_sleep_ns(timeout_ns);
        return NULL;
    }
    unsigned i = q->keep > 0 && q->requests[0]->number == q->keep;
    uint64_t wait_ns = i == q->count || timeout_ns < q->answer_ns ? timeout_ns : q->answer_ns;
    if (wait)
        clock_sleep_ns(wait_ns);
    if (i == q->count || (wait && wait_ns < q->answer_ns))
        return NULL;
    struct read_request *request = q->requests[i];
    memmove(&q->requests[i], &q->requests[i + 1], (--q->count - i) * sizeof q->requests[0]);
    q->in_flight_bytes -= request->dst_size_bytes;
    struct read_window window = read_queue_window(queue->files, request->file, request->offset_bytes, request->size_bytes);
    request->skip_bytes = window.skip_bytes;
    request->read_bytes = window.window_bytes;
    request->status = q->fail_next || q->fail_all ? STATUS_IO : STATUS_OK;
    request->system_error = request->status == STATUS_OK ? 0 : EIO;
    q->fail_next = false;
    if (request->status == STATUS_OK)
        memcpy(request->dst + window.skip_bytes, f.bytes[request->file] + request->offset_bytes, request->size_bytes);
    return request;
}

static unsigned held_in_flight(const struct read_queue *queue) { return ((const struct held_queue *)queue)->count; }

static void held_destroy(struct read_queue *queue) { (void)queue; }

static void held_cancel(struct read_queue *queue) { (void)queue; }

static const struct read_queue_operations held_operations = {.name = "held",
                                                             .submit = held_submit,
                                                             .flush = held_flush,
                                                             .reap = held_reap,
                                                             .in_flight = held_in_flight,
                                                             .cancel = held_cancel,
                                                             .destroy = held_destroy};

static void open_held(struct held_queue *q, const struct fixture_spec *spec) {
    fixture_model(&f, spec);
    *q = (struct held_queue){.base = {.operations = &held_operations, .files = f.files, .depth = spec->depth}};
    f.queue = &q->base;
    fixture_options(&f, spec);
    ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
}

static bool is_expert_read(const struct read_request *request) {
    for (uint32_t i = f.records[f.expert_first].first_piece; i < f.piece_count; i++)
        if (f.pieces[i].file == request->file && request->offset_bytes >= f.pieces[i].offset_bytes &&
            request->offset_bytes < f.pieces[i].offset_bytes + f.pieces[i].size_bytes)
            return true;
    return false;
}

static void test_demanded_reads_go_before_read_ahead(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    spec.depth = 16;
    spec.ring_quarters = 100;
    spec.resident = 0;
    open_held(&q, &spec);
    store_poll(f.store); /* read-ahead begins, and leaves a quarter of the queue */
    assert_int_equal(q.count, 12);
    weight_id ids[6];
    fixture_choose(&f, 0, 6, ids);
    ASSERT_OK(store_want(f.store, ids, 6, STORE_LISTED, &f.err), f.err);
    assert_int_equal(q.count, 16); /* expert reads take the reserve at once */
    for (unsigned i = 12; i < 16; i++)
        assert_true(is_expert_read(q.requests[i]));
    for (uint32_t piece = 0; piece < 3; piece++) /* in listed order, piece by piece */
        assert_int_equal(q.requests[12 + piece]->offset_bytes, f.pieces[f.records[ids[0]].first_piece + piece].offset_bytes);
    assert_int_equal(q.requests[15]->offset_bytes, f.pieces[f.records[ids[1]].first_piece].offset_bytes);
    struct weight_lease lease;
    uint32_t index;
    fixture_take(&f, 3, &index, &lease); /* as the oldest finish, every new read is an expert's while any is left */
    assert_int_equal(index, 0);
    assert_true(fixture_right(&f, &lease, 3));
    unsigned experts = 0;
    for (unsigned i = 0; i < q.count; i++)
        experts += is_expert_read(q.requests[i]);
    assert_true(experts >= q.count - 1);
    store_release(f.store, &lease);
    store_check(f.store);
    store_want_end(f.store);
    store_check(f.store);
    fixture_close(&f);
}

/* One record of 40 MiB streams: what is in flight of it stays bounded, so that a demanded read never waits behind all of it. */
static void test_read_ahead_is_bounded_in_bytes(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    spec.resident = spec.streamed = 0;
    spec.depth = 64;
    fixture_model(&f, &spec);
    fixture_close(&f); /* again, with a large record */
    memset(&f, 0, sizeof f);
    f.random = 1;
    f.records[0] = (struct weight_record){.piece_count = 1, .layer = 3, .expert = -1, .name = "ffn_down"};
    f.lives[0] = WEIGHT_STREAMED;
    f.record_count = f.stream_count = 1;
    f.size_bytes[1] = 1;
    fixture_piece(&f, 0, (uint64_t)40 << 20, false);
    fixture_write_files(&f);
    q = (struct held_queue){.base = {.operations = &held_operations, .files = f.files, .depth = 64}};
    f.queue = &q.base;
    spec.ring_quarters = 8;
    fixture_options(&f, &spec);
    f.options.split_bytes = 0;
    ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
    store_poll(f.store);
    assert_true(q.in_flight_bytes >= (uint64_t)16 << 20);
    for (int round = 0; round < 3; round++) {
        struct weight_lease lease;
        ASSERT_OK(store_acquire(f.store, 0, &lease, &f.err), f.err);
        assert_true(fixture_right(&f, &lease, 1));
        store_release(f.store, &lease);
        store_check(f.store);
    }
    assert_true(q.largest_bytes < (uint64_t)22 << 20 && q.largest_count >= 4);
    fixture_close(&f);
}

/* What a release makes room for is submitted by it: the disk works while the caller computes. */
static void test_a_release_submits_the_next_reads(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    spec.resident = spec.streamed = 0;
    spec.slots = 1;
    open_held(&q, &spec);
    weight_id ids[2] = {fixture_expert(&f, 0, 0), fixture_expert(&f, 0, 1)};
    ASSERT_OK(store_want(f.store, ids, 2, STORE_LISTED, &f.err), f.err);
    assert_int_equal(q.count, 3);
    struct weight_lease lease;
    uint32_t index;
    fixture_take(&f, 3, &index, &lease);
    assert_int_equal(q.count, 0);
    store_release(f.store, &lease);
    assert_int_equal(q.count, 3);
    fixture_take(&f, 1, &index, &lease);
    assert_int_equal(q.count, 2); /* the first piece was enough */
    store_release(f.store, &lease);
    store_want_end(f.store);
    store_check(f.store);
    fixture_close(&f);
}

static void test_a_release_of_a_streamed_record_reads_ahead(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    spec.resident = spec.layers = 0;
    spec.ring_quarters = 4;
    open_held(&q, &spec);
    for (uint32_t i = 0; i < f.stream_count; i++) {
        struct weight_lease lease;
        ASSERT_OK(store_acquire(f.store, f.order[i], &lease, &f.err), f.err);
        while (q.count > 0) { /* all that has room while it is leased */
            q.finish = true;
            store_poll(f.store);
        }
        q.finish = false;
        uint64_t submitted = q.submitted;
        store_release(f.store, &lease);
        uint64_t by_release = q.submitted - submitted;
        store_poll(f.store);
        assert_int_equal(q.submitted - submitted, by_release);
    }
    assert_true(q.submitted > f.stream_count);
    fixture_close(&f);
}

/* Read-ahead into the next pass fails and the pass is cut short: the next one reads anew. */
static void test_rewind_forgets_failed_read_ahead(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    spec.resident = spec.layers = 0;
    spec.ring_quarters = 40; /* more than a pass */
    open_held(&q, &spec);
    q.finish = true;
    for (int i = 0; i < 100; i++)
        store_poll(f.store);
    q.fail_all = true; /* all that is read from now on is of the next pass */
    fixture_pass(&f, f.stream_count - 1);
    for (int i = 0; i < 100; i++)
        store_poll(f.store);
    q.fail_all = false;
    store_stream_rewind(f.store);
    store_check(f.store);
    fixture_pass(&f, f.stream_count);
    fixture_close(&f);
}

/* A step that ends early does not begin what was only listed; what was begun is finished for the cache. */
static void test_the_end_of_a_step_cancels_what_was_not_begun(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    spec.resident = spec.streamed = 0;
    spec.depth = 4;
    open_held(&q, &spec);
    weight_id ids[6];
    fixture_choose(&f, 0, 6, ids);
    ASSERT_OK(store_want(f.store, ids, 6, STORE_ANY, &f.err), f.err);
    assert_int_equal(q.submitted, 4); /* of 18: one expert and a piece of the second */
    store_want_end(f.store);
    store_check(f.store);
    q.finish = true;
    for (int i = 0; i < 50; i++)
        store_poll(f.store);
    assert_int_equal(q.submitted, 6);
    ASSERT_OK(store_want(f.store, ids, 6, STORE_ANY, &f.err), f.err);
    struct store_stats stats;
    store_stats_read(f.store, &stats);
    assert_int_equal(stats.hits, 2);
    store_want_end(f.store);
    fixture_close(&f);
}

/* A record that failed while some of its reads are still out is wanted again: it is read anew, the old failure does not count. */
static void test_wanting_what_is_still_failing(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    spec.resident = spec.streamed = 0;
    for (uint32_t slots = 1; slots <= 2; slots++)
        for (int order = STORE_ANY; order <= STORE_LISTED; order++) {
            spec.slots = slots;
            open_held(&q, &spec);
            weight_id ids[2] = {fixture_expert(&f, 0, 0), fixture_expert(&f, 0, 1)};
            ASSERT_OK(store_want(f.store, ids, 1, (enum store_order)order, &f.err), f.err);
            struct weight_lease lease;
            uint32_t index;
            q.fail_next = true;
            ASSERT_FAILS(store_take(f.store, 1, true, &index, &lease, &f.err), STATUS_IO, f.err);
            assert_int_equal(index, 0);
            assert_int_equal(q.count, 2);
            store_want_end(f.store);
            store_check(f.store);
            ASSERT_OK(store_want(f.store, ids, 2, (enum store_order)order, &f.err), f.err);
            store_check(f.store);
            for (int i = 0; i < 2; i++) {
                fixture_take(&f, 3, &index, &lease);
                assert_true(lease.id == ids[index] && fixture_right(&f, &lease, 3));
                store_release(f.store, &lease);
                store_check(f.store);
            }
            store_want_end(f.store);
            fixture_close(&f);
        }
}

/* A queue may answer that it is busy with fewer reads in flight than its depth. */
static void test_a_busy_queue_is_asked_again(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    open_held(&q, &spec);
    q.limit = 2;
    ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
    fixture_check_resident(&f);
    for (int round = 0; round < 3; round++) {
        fixture_pass(&f, f.stream_count);
        weight_id ids[FIXTURE_RECORDS_MAX];
        fixture_choose(&f, 1, 9, ids);
        fixture_step_listed(&f, ids, 9);
        struct weight_piece piece = {.file = 1, .offset_bytes = 77, .size_bytes = 150000};
        uint8_t *dst = malloc(piece.size_bytes);
        ASSERT_OK(store_read_ranges(f.store, &piece, 1, &dst, &f.err), f.err);
        assert_memory_equal(dst, f.bytes[1] + 77, piece.size_bytes);
        free(dst);
    }
    assert_int_equal(q.largest_count, 2);
    fixture_close(&f);
}

/* A disk that stalls: it is told once, with a file, then that it answers again; the bytes are right. */
static void test_a_silent_disk_is_told(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    char said[2000];
    open_held(&q, &spec);
    FILE *log = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_true(log && kept >= 0 && dup2(fileno(log), STDERR_FILENO) >= 0);
    q.silent = 2;
    enum status status = store_load_resident(f.store, NULL, NULL, &f.err);
    assert_true(dup2(kept, STDERR_FILENO) >= 0 && close(kept) == 0);
    ASSERT_OK(status, f.err);
    fixture_check_resident(&f);
    rewind(log);
    said[fread(said, 1, sizeof said - 1, log)] = 0;
    assert_int_equal(fclose(log), 0);
    const char *first = strstr(said, "has not answered");
    assert_non_null(first);
    assert_null(strstr(first + 1, "has not answered"));
    assert_non_null(strstr(first, "answers again after 10 s"));
    assert_non_null(strstr(said, file_set_path(f.files, 0)));
    fixture_close(&f);
}

/* The device loses one read and answers all others: who waits for that one gets an error in time, the others what they wanted. */
static void test_a_lost_read_fails_alone(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    spec.depth = 6;
    spec.streamed = 0;
    spec.experts = 40;
    fixture_model(&f, &spec);
    q = (struct held_queue){
        .base = {.operations = &held_operations, .files = f.files, .depth = spec.depth}, .answer_ns = 1000000, .keep = 2};
    f.queue = &q.base;
    fixture_options(&f, &spec);
    f.options.read_timeout_ns = 20 * q.answer_ns;
    ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
    weight_id ids[FIXTURE_RECORDS_MAX], failed = UINT32_MAX;
    fixture_choose(&f, 1, 40, ids);
    ASSERT_OK(store_want(f.store, ids, 40, STORE_ANY, &f.err), f.err);
    uint32_t before = 0, after = 0;
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t index;
        struct weight_lease lease;
        enum status status = store_take(f.store, 3, true, &index, &lease, &f.err);
        store_check(f.store);
        if (status == STATUS_OK) {
            assert_true(lease.id == ids[index] && fixture_right(&f, &lease, 3));
            store_release(f.store, &lease);
            before += failed == UINT32_MAX;
            after += failed != UINT32_MAX;
            continue;
        }
        assert_int_equal(status, STATUS_IO);
        assert_non_null(strstr(f.err.text, "has not come back after"));
        assert_int_equal(failed, UINT32_MAX);
        failed = ids[index];
    }
    assert_int_equal(failed, ids[0]);
    assert_true(before >= 1 && after >= 20); /* 120 reads in all */
    store_want_end(f.store);
    store_check(f.store);
    fixture_step_listed(&f, &failed, 1); /* the next one that wants it has it read anew */
    store_check(f.store);
    q.keep = 0; /* it comes after all */
    q.finish = true;
    while (q.count > 0)
        store_poll(f.store);
    store_check(f.store);
    fixture_close(&f);
}

/* Parts of an expert that lie together come with one read, and take no more memory than they have blocks. */
static void test_parts_that_lie_together_are_one_read(void **state) {
    (void)state;
    static struct held_queue q;
    struct fixture_spec spec = fixture_usual;
    spec.resident = spec.streamed = 0;
    spec.packed = true;
    fixture_model(&f, &spec);
    q = (struct held_queue){.base = {.operations = &held_operations, .files = f.files, .depth = spec.depth}};
    f.queue = &q.base;
    fixture_options(&f, &spec);
    f.options.split_bytes = 0;
    ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
    weight_id ids[4];
    fixture_choose(&f, 0, 4, ids);
    ASSERT_OK(store_want(f.store, ids, 4, STORE_ANY, &f.err), f.err);
    assert_int_equal(q.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct weight_piece *pieces = &f.pieces[f.records[ids[i]].first_piece];
        assert_int_equal(q.requests[i]->offset_bytes, pieces[0].offset_bytes);
        assert_int_equal(q.requests[i]->size_bytes, pieces[2].offset_bytes + pieces[2].size_bytes - pieces[0].offset_bytes);
        uint64_t alignment = file_set_alignment(f.files, pieces[0].file);
        assert_int_equal(store_record_bytes(f.files, &f.records[ids[i]], f.pieces),
                         size_round_up(2 * 12288 + 9000, alignment > READ_PAGE_BYTES ? alignment : READ_PAGE_BYTES));
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct weight_lease lease;
        uint32_t index;
        fixture_take(&f, 1, &index, &lease); /* one part is all of them */
        assert_true(fixture_right(&f, &lease, 3));
        store_check(f.store);
        store_release(f.store, &lease);
    }
    store_want_end(f.store);
    struct store_stats stats;
    store_stats_read(f.store, &stats);
    assert_int_equal(stats.demanded_bytes, 4 * 27000); /* the gaps are not wanted */
    fixture_close(&f);
}

int main(void) {
    test_clock.stands = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demanded_reads_go_before_read_ahead),
        cmocka_unit_test(test_read_ahead_is_bounded_in_bytes),
        cmocka_unit_test(test_a_release_submits_the_next_reads),
        cmocka_unit_test(test_a_release_of_a_streamed_record_reads_ahead),
        cmocka_unit_test(test_rewind_forgets_failed_read_ahead),
        cmocka_unit_test(test_the_end_of_a_step_cancels_what_was_not_begun),
        cmocka_unit_test(test_wanting_what_is_still_failing),
        cmocka_unit_test(test_a_busy_queue_is_asked_again),
        cmocka_unit_test(test_a_lost_read_fails_alone),
        cmocka_unit_test(test_a_silent_disk_is_told),
        cmocka_unit_test(test_parts_that_lie_together_are_one_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
