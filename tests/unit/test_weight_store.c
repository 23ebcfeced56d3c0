/*
 * test_weight_store: every byte of every resident, streamed and range read; the ring over many passes; all kinds of reads together; and
 * what create refuses. Experts have a test of their own (test_expert_step), as has the order of submission (test_store_reads).
 */
#include "store_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

static struct fixture f;

/* ---- resident ---- */

static uint64_t last_done, calls_left;

static bool progress(void *context, uint64_t done_bytes, uint64_t total_bytes) {
    assert_ptr_equal(context, &f);
    assert_true(done_bytes >= last_done && done_bytes <= total_bytes);
    last_done = done_bytes;
    return calls_left-- != 1;
}

static void test_resident_bytes_are_right(void **state) {
    (void)state;
    for (int kind = 0; kind < READ_QUEUE_KIND_COUNT; kind++) {
        struct fixture_spec spec = fixture_usual;
        spec.kind = (enum read_queue_kind)kind;
        spec.resident = 60;
        spec.depth = kind == READ_QUEUE_SYNC ? 1 : 16;
        fixture_model(&f, &spec);
        struct read_queue *probe;
        if (read_queue_create(spec.kind, f.files, 1, &probe, &f.err) == STATUS_UNSUPPORTED) {
            fixture_close(&f);
            continue;
        }
        read_queue_destroy(probe);
        fixture_open_queue(&f, &spec);
        fixture_options(&f, &spec);
        f.options.lock = true; /* may be refused, and is no error then */
        uint64_t trunk_before = memory_owner_bytes(MEMORY_TRUNK);
        ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
        uint64_t wanted = 0, memory = 0;
        for (weight_id id = 0; id < f.record_count; id++)
            if (f.lives[id] == WEIGHT_RESIDENT) {
                memory += store_record_bytes(f.files, &f.records[id], f.pieces);
                for (uint32_t i = 0; i < f.records[id].piece_count; i++)
                    wanted += f.pieces[f.records[id].first_piece + i].size_bytes;
            }
        assert_int_equal(memory_owner_bytes(MEMORY_TRUNK) - trunk_before, size_round_up(memory, 4096));
        last_done = calls_left = 0;
        ASSERT_OK(store_load_resident(f.store, progress, &f, &f.err), f.err);
        assert_true(last_done >= wanted && last_done <= memory); /* with what lies between parts that are read as one */
        fixture_check_resident(&f);
        struct store_stats stats;
        store_stats_read(f.store, &stats);
        assert_true(stats.resident_bytes >= wanted && stats.load_ns > 0);
        ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err); /* again: nothing to do */
        fixture_close(&f);
    }
}

/* Progress is told as often as something arrives: at least once, and how often beyond that is up to the disk. */
static void test_loading_can_be_cancelled_and_done_again(void **state) {
    (void)state;
    fixture_open(&f, &fixture_usual);
    for (uint64_t calls = 1; calls < 8; calls++) {
        last_done = 0;
        calls_left = calls;
        enum status status = store_load_resident(f.store, progress, &f, &f.err);
        if (calls > 1 && calls_left > 0) { /* all came in fewer calls */
            assert_int_equal(status, STATUS_OK);
            break;
        }
        assert_int_equal(status, STATUS_CANCELLED);
        store_check(f.store);
    }
    last_done = calls_left = 0;
    ASSERT_OK(store_load_resident(f.store, progress, &f, &f.err), f.err);
    fixture_check_resident(&f);
    fixture_close(&f);
}

/* ---- the stream ---- */

static void test_streams_over_many_passes(void **state) {
    (void)state;
    static const uint32_t rings[] = {4, 5, 6, 8, 11, 13, 16, 40, 400};
    for (size_t r = 0; r < sizeof rings / sizeof rings[0]; r++)
        for (int kind = READ_QUEUE_THREADS; kind <= READ_QUEUE_SYNC; kind++)
            for (unsigned depth = 1; depth <= 9; depth += 4) {
                struct fixture_spec spec = fixture_usual;
                spec.ring_quarters = rings[r];
                spec.kind = (enum read_queue_kind)kind;
                spec.depth = depth;
                spec.seed = r + 3;
                fixture_open(&f, &spec);
                ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
                for (int round = 0; round < 4; round++)
                    fixture_pass(&f, f.stream_count);
                fixture_close(&f);
            }
}

static void test_rewind_anywhere(void **state) {
    (void)state;
    for (uint32_t ring = 4; ring <= 44; ring += 8) {
        struct fixture_spec spec = fixture_usual;
        spec.ring_quarters = ring;
        spec.seed = ring;
        fixture_open(&f, &spec);
        for (int round = 0; round < 40; round++) {
            fixture_pass(&f, fixture_below(&f, f.stream_count + 1)); /* a whole one too: rewind is then nothing */
            store_stream_rewind(f.store);
            store_check(f.store);
            if (round % 3 == 0)
                store_poll(f.store);
        }
        fixture_close(&f);
    }
}

/* What was read ahead into the next pass stays when the pass ends short of its last record. */
static void test_rewind_keeps_the_next_pass(void **state) {
    (void)state;
    struct fixture_spec spec = fixture_usual;
    spec.kind = READ_QUEUE_SYNC;
    spec.resident = spec.layers = 0;
    spec.ring_quarters = 40;
    fixture_open(&f, &spec);
    fixture_pass(&f, f.stream_count - 1);
    for (int i = 0; i < 20; i++)
        store_poll(f.store);
    struct store_stats before, after;
    store_stats_read(f.store, &before);
    store_stream_rewind(f.store);
    struct weight_lease lease;
    ASSERT_OK(store_acquire(f.store, f.order[0], &lease, &f.err), f.err);
    assert_true(fixture_right(&f, &lease, lease.piece_count));
    store_stats_read(f.store, &after);
    assert_int_equal(after.stall_ns, before.stall_ns);
    store_release(f.store, &lease);
    fixture_close(&f);
}

/* Several streamed leases at once, released in any order: a ring of (leases + 1) x the largest is always enough. */
static void test_leases_held_together(void **state) {
    (void)state;
    for (uint32_t held = 2; held <= 4; held++)
        for (uint64_t seed = 1; seed < 6; seed++) {
            struct fixture_spec spec = fixture_usual;
            spec.ring_quarters = (held + 1) * 4;
            spec.seed = seed;
            fixture_open(&f, &spec);
            struct weight_lease leases[4];
            uint32_t count = 0;
            for (uint32_t i = 0; i < 6 * f.stream_count; i++) {
                if (count == held) {
                    uint32_t victim = fixture_below(&f, held);
                    if (fixture_below(&f, 2)) /* memory comes back in order, so the oldest must go now and then */
                        victim = 0;
                    for (uint32_t k = 0; k <= victim; k++) {
                        assert_true(fixture_right(&f, &leases[victim - k], leases[victim - k].piece_count));
                        store_release(f.store, &leases[victim - k]);
                    }
                    memmove(leases, &leases[victim + 1], (held - victim - 1) * sizeof leases[0]);
                    count -= victim + 1;
                }
                ASSERT_OK(store_acquire(f.store, f.order[i % f.stream_count], &leases[count++], &f.err), f.err);
                store_check(f.store);
            }
            while (count > 0)
                store_release(f.store, &leases[--count]);
            fixture_close(&f);
        }
}

/* What a rewind drops behind a lease makes room at once. */
static void test_rewind_under_a_lease(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 10; seed++) {
        struct fixture_spec spec = fixture_usual;
        spec.ring_quarters = 8;
        spec.seed = seed;
        fixture_open(&f, &spec);
        struct weight_lease old, lease;
        ASSERT_OK(store_acquire(f.store, f.order[0], &old, &f.err), f.err);
        store_poll(f.store);
        store_stream_rewind(f.store);
        store_check(f.store);
        ASSERT_OK(store_acquire(f.store, f.order[0], &lease, &f.err), f.err);
        store_check(f.store);
        assert_true(fixture_right(&f, &old, old.piece_count) && fixture_right(&f, &lease, lease.piece_count));
        store_release(f.store, &lease);
        store_release(f.store, &old);
        fixture_close(&f);
    }
}

static void test_too_many_streamed_leases_are_an_error(void **state) {
    (void)state;
    struct fixture_spec spec = fixture_usual;
    spec.ring_quarters = 4;
    fixture_open(&f, &spec);
    struct weight_lease leases[64];
    uint32_t count = 0;
    enum status status;
    while ((status = store_acquire(f.store, f.order[count], &leases[count], &f.err)) == STATUS_OK)
        count++;
    assert_int_equal(status, STATUS_INTERNAL);
    assert_non_null(strstr(f.err.text, "leased"));
    store_check(f.store);
    for (uint32_t i = 0; i < count; i++)
        store_release(f.store, &leases[i]);
    struct weight_lease lease; /* and the same record can be asked for again */
    ASSERT_OK(store_acquire(f.store, f.order[count], &lease, &f.err), f.err);
    assert_true(fixture_right(&f, &lease, lease.piece_count));
    store_release(f.store, &lease);
    fixture_close(&f);
}

/* ---- ranges ---- */

static void test_ranges(void **state) {
    (void)state;
    static const unsigned depths[] = {1, 17, 128}; /* the last: staging runs out before requests do */
    for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
        struct fixture_spec spec = fixture_usual;
        spec.depth = depths[d];
        spec.kind = d % 2 ? READ_QUEUE_THREADS : READ_QUEUE_SYNC; /* which reads at once, over what was not copied */
        spec.streamed = 30;
        fixture_open(&f, &spec);
        for (int round = 0; round < 6; round++) {
            struct weight_piece pieces[150];
            uint8_t *dst[150];
            uint32_t count = 1 + fixture_below(&f, 150);
            uint64_t wanted = 0;
            for (uint32_t i = 0; i < count; i++) {
                uint32_t file = fixture_below(&f, FIXTURE_FILES);
                uint64_t size = 1 + fixture_below(&f, i % 50 == 7 ? 300000 : 30000);
                pieces[i] = (struct weight_piece){
                    .file = file, .offset_bytes = fixture_below(&f, (uint32_t)(f.size_bytes[file] - size)), .size_bytes = size};
                if (i == 3) /* up to the last byte */
                    pieces[i].offset_bytes = f.size_bytes[file] - size;
                dst[i] = malloc(size);
                wanted += size;
            }
            struct store_stats before, after;
            store_stats_read(f.store, &before);
            ASSERT_OK(store_read_ranges(f.store, pieces, count, dst, &f.err), f.err);
            store_stats_read(f.store, &after);
            assert_int_equal(after.demanded_bytes - before.demanded_bytes, wanted);
            for (uint32_t i = 0; i < count; i++) {
                assert_memory_equal(dst[i], f.bytes[pieces[i].file] + pieces[i].offset_bytes, pieces[i].size_bytes);
                free(dst[i]);
            }
            store_check(f.store);
        }
        ASSERT_OK(store_read_ranges(f.store, NULL, 0, NULL, &f.err), f.err);
        struct weight_piece outside = {.file = 0, .offset_bytes = f.size_bytes[0] - 5, .size_bytes = 6};
        uint8_t bytes[6], *dst[1] = {bytes};
        ASSERT_FAILS(store_read_ranges(f.store, &outside, 1, dst, &f.err), STATUS_CORRUPT, f.err);
        store_check(f.store);
        fixture_close(&f);
    }
}

/* ---- all together ---- */

static void test_streams_experts_and_ranges_together(void **state) {
    (void)state;
    for (int kind = 0; kind < READ_QUEUE_KIND_COUNT; kind++)
        for (uint32_t slots = 1; slots <= 7; slots += 3) {
            struct fixture_spec spec = fixture_usual;
            spec.kind = (enum read_queue_kind)kind;
            spec.slots = slots;
            spec.depth = 2 + slots;
            spec.seed = slots;
            fixture_model(&f, &spec);
            if (read_queue_create(spec.kind, f.files, spec.depth, &f.queue, &f.err) == STATUS_UNSUPPORTED) {
                fixture_close(&f);
                continue;
            }
            fixture_options(&f, &spec);
            ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
            ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
            for (uint32_t i = 0; i < 8 * f.stream_count; i++) {
                struct weight_lease streamed;
                ASSERT_OK(store_acquire(f.store, f.order[i % f.stream_count], &streamed, &f.err), f.err);
                weight_id ids[FIXTURE_RECORDS_MAX];
                fixture_choose(&f, i % f.layers, 6, ids);
                if (i % 2) {
                    fixture_step_listed(&f, ids, 6);
                } else {
                    ASSERT_OK(store_want(f.store, ids, 6, STORE_ANY, &f.err), f.err);
                    for (uint32_t n = 0; n < 6; n++) {
                        uint32_t index;
                        struct weight_lease lease;
                        fixture_take(&f, 2, &index, &lease);
                        ASSERT_OK(store_wait_pieces(f.store, &lease, &f.err), f.err);
                        assert_true(lease.id == ids[index] && fixture_right(&f, &lease, 3));
                        store_release(f.store, &lease);
                    }
                    store_want_end(f.store);
                }
                assert_true(fixture_right(&f, &streamed, streamed.piece_count));
                store_release(f.store, &streamed);
                store_check(f.store);
            }
            fixture_check_resident(&f);
            fixture_close(&f);
        }
}

/* Another thread may read the totals while the engine works; each only grows. */
static atomic_bool stop_reading;

static void *read_totals(void *context) {
    (void)context;
    struct store_stats last = {0}, now;
    bool grows = true;
    while (!atomic_load(&stop_reading)) {
        store_stats_read(f.store, &now);
        grows = grows && now.read_bytes >= last.read_bytes && now.hits >= last.hits && now.misses >= last.misses &&
                now.stall_ns >= last.stall_ns && now.reads >= last.reads && now.demanded_bytes >= last.demanded_bytes;
        last = now;
    }
    return grows ? context : NULL;
}

static void test_totals_are_read_by_another_thread(void **state) {
    (void)state;
    fixture_open(&f, &fixture_usual);
    pthread_t thread;
    void *grew;
    atomic_store(&stop_reading, false);
    assert_int_equal(pthread_create(&thread, NULL, read_totals, &f), 0);
    for (int round = 0; round < 10; round++) {
        fixture_pass(&f, f.stream_count);
        weight_id ids[FIXTURE_RECORDS_MAX];
        fixture_choose(&f, (uint32_t)round % f.layers, 8, ids);
        fixture_step_listed(&f, ids, 8);
    }
    atomic_store(&stop_reading, true);
    assert_int_equal(pthread_join(thread, &grew), 0);
    assert_ptr_equal(grew, &f);
    fixture_close(&f);
}

/* ---- refusals ---- */

static void test_create_refuses_what_cannot_work(void **state) {
    (void)state;
    fixture_model(&f, &fixture_usual);
    fixture_open_queue(&f, &fixture_usual);
    fixture_options(&f, &fixture_usual);
    struct weight_store *store;
    struct store_options options = f.options;
    options.ring_bytes = f.largest_streamed_bytes - 1;
    ASSERT_FAILS(store_create(&options, &store, &f.err), STATUS_OVER_BUDGET, f.err);
    assert_null(store);
    options = f.options;
    options.cache_bytes = 4096;
    ASSERT_FAILS(store_create(&options, &store, &f.err), STATUS_OVER_BUDGET, f.err);
    f.pieces[f.piece_count - 1].size_bytes += 1 << 20; /* past the end of the file */
    options = f.options;
    ASSERT_FAILS(store_create(&options, &store, &f.err), STATUS_CORRUPT, f.err);
    assert_non_null(strstr(f.err.text, f.path[f.pieces[f.piece_count - 1].file]));
    f.pieces[f.piece_count - 1].offset_bytes = UINT64_MAX - 10;
    ASSERT_FAILS(store_create(&options, &store, &f.err), STATUS_CORRUPT, f.err);
    fixture_close(&f);
}

/* E8: every allocation of create that fails gives an error and leaves nothing behind. */
static void test_failing_allocations(void **state) {
    (void)state;
    fixture_model(&f, &fixture_usual);
    fixture_open_queue(&f, &fixture_usual);
    fixture_options(&f, &fixture_usual);
    uint64_t before[MEMORY_OWNER_COUNT];
    for (int owner = 0; owner < MEMORY_OWNER_COUNT; owner++)
        before[owner] = memory_owner_bytes((enum memory_owner)owner);
    enum status status = STATUS_NO_MEMORY;
    int failures = 0;
    for (uint64_t n = 1; status != STATUS_OK; n++) {
        memory_fail_after(n);
        status = store_create(&f.options, &f.store, &f.err);
        memory_fail_after(0);
        if (status == STATUS_OK)
            break;
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_null(f.store);
        for (int owner = 0; owner < MEMORY_OWNER_COUNT; owner++)
            assert_int_equal(memory_owner_bytes((enum memory_owner)owner), before[owner]);
        failures++;
    }
    assert_true(failures >= 10);
    /* and nothing is allocated afterwards */
    uint64_t heap = memory_owner_bytes(MEMORY_OTHER);
    memory_fail_after(1);
    ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
    fixture_pass(&f, f.stream_count);
    weight_id ids[8];
    fixture_choose(&f, 1, 8, ids);
    fixture_step_listed(&f, ids, 8);
    assert_null(memory_alloc(1)); /* the failure was not used up */
    memory_fail_after(0);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), heap);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resident_bytes_are_right),
        cmocka_unit_test(test_loading_can_be_cancelled_and_done_again),
        cmocka_unit_test(test_streams_over_many_passes),
        cmocka_unit_test(test_rewind_anywhere),
        cmocka_unit_test(test_rewind_keeps_the_next_pass),
        cmocka_unit_test(test_leases_held_together),
        cmocka_unit_test(test_rewind_under_a_lease),
        cmocka_unit_test(test_too_many_streamed_leases_are_an_error),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_streams_experts_and_ranges_together),
        cmocka_unit_test(test_totals_are_read_by_another_thread),
        cmocka_unit_test(test_create_refuses_what_cannot_work),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
