/*
 * test_trunk_limit: resident records become streamed ones and come back while passes go on: every byte stays right, the memory is really
 * gone and is counted so, what comes back is read no more often than the pass needs, and every invariant holds.
 */
#include "store_fixture.h"

#include "store/store_internal.h"

enum { LEVELS = 8 };

static struct fixture f;

static const struct fixture_spec usual = {.resident = 5,
                                          .streamed = 30,
                                          .kept = 22,
                                          .layers = 2,
                                          .experts = 8,
                                          .ring_quarters = 12,
                                          .slots = 4,
                                          .kind = READ_QUEUE_THREADS,
                                          .depth = 8};

static void limit(uint64_t bytes) {
    store_trunk_limit(f.store, bytes);
    store_check(f.store);
    assert_true(fixture_stats(&f).trunk_limit_bytes <= bytes && store_trunk_used_bytes(f.store) <= fixture_stats(&f).trunk_limit_bytes);
}

static uint64_t any_limit(void) {
    uint64_t most = f.store->keep.total_bytes;
    switch (fixture_below(&f, 4)) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    default:
        return fixture_random(&f) % (most + 1);
    }
}

static void load(void) {
    ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
    store_check(f.store);
}

/* Records from..to of the pass, with a change of the limit before one of four. */
static void restless_pass(uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        struct weight_lease lease;
        if (fixture_below(&f, 4) == 0)
            limit(any_limit());
        if (fixture_below(&f, 3) == 0)
            store_poll(f.store);
        bool streams = store_life(f.store, f.order[i]) == WEIGHT_STREAMED;
        ASSERT_OK(store_acquire(f.store, f.order[i], &lease, &f.err), f.err);
        assert_true(fixture_right(&f, &lease, lease.piece_count));
        store_check(f.store);
        assert_true(fixture_right(&f, &lease, lease.piece_count));
        store_release(f.store, &lease);
        store_check(f.store);
        bool wanted = f.store->keep.ranks[f.order[i]] < f.store->keep.wanted;
        assert_int_equal(store_life(f.store, f.order[i]), streams && !wanted ? WEIGHT_STREAMED : WEIGHT_RESIDENT);
    }
}

static void one_step(void) {
    weight_id ids[FIXTURE_RECORDS_MAX] = {0};
    uint32_t count = 1 + fixture_below(&f, f.experts);
    fixture_choose(&f, fixture_below(&f, f.layers), count, ids);
    fixture_step(&f, ids, count);
}

/* Limits change before, in and behind passes that are whole, cut short, and begin where the executor skipped records that were there. */
static void any_limit_at_any_time(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct fixture_spec spec = usual;
        const struct read_faults faults = {.seed = seed, .delay_rate = 0.4, .delay_reaps = 20, .reorder = true, .corrupt_unread = true};
        spec.seed = seed;
        spec.kind = seed % 2 ? READ_QUEUE_THREADS : READ_QUEUE_SYNC;
        spec.faults = seed % 3 ? &faults : NULL;
        spec.streamed = 2 + (uint32_t)seed % 30;
        spec.kept = spec.streamed - (seed % 4 == 0 ? 0 : 1 + (uint32_t)seed % 2);
        spec.ring_quarters = 8 + 8 * (uint32_t)(seed % 7); /* up to several passes ahead */
        fixture_open(&f, &spec);
        if (seed % 5 == 0)
            limit(any_limit());
        load();
        for (int round = 0; round < 20; round++) {
            if (round % 4 == 3)
                limit(any_limit());
            if (round % 5 == 4) {
                restless_pass(0, fixture_below(&f, f.stream_count));
                if (round % 2)
                    store_stream_rewind(f.store);
                else
                    store_reset(f.store);
                store_check(f.store);
                continue;
            }
            restless_pass(0, f.stream_count / 2);
            one_step();
            restless_pass(f.stream_count / 2, f.stream_count);
        }
        assert_true((fixture_stats(&f).given_back_times > 3 || spec.kept < 2) &&
                    store_losses(f.store) == fixture_stats(&f).given_back_times);
        limit(UINT64_MAX);
        fixture_pass(&f, f.stream_count);
        assert_int_equal(store_trunk_used_bytes(f.store), f.store->keep.total_bytes);
        fixture_close(&f);
    }
}

/* Several leases at a time, more than once the same record: the ring goes around more than once. */
static void several_leases(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct fixture_spec spec = usual;
        struct weight_lease leases[3];
        spec.seed = seed;
        spec.streamed = 2 + (uint32_t)seed % 3;
        spec.kept = spec.streamed;
        spec.ring_quarters = 40;
        fixture_open(&f, &spec);
        load();
        limit(0);
        uint32_t count = 0;
        for (uint32_t i = 0; i < 60; i++) {
            if (i == 20)
                for (; count > 0; count--)
                    store_release(f.store, &leases[count - 1]);
            if (i == 20)
                limit(UINT64_MAX);
            if (count == 3) {
                store_release(f.store, &leases[0]);
                store_check(f.store);
                memmove(leases, leases + 1, sizeof leases - sizeof *leases);
                count--;
            }
            ASSERT_OK(store_acquire(f.store, f.order[i % f.stream_count], &leases[count], &f.err), f.err);
            assert_true(fixture_right(&f, &leases[count], leases[count].piece_count));
            count++;
            store_check(f.store);
        }
        for (; count > 0; count--)
            store_release(f.store, &leases[count - 1]);
        assert_int_equal(store_trunk_used_bytes(f.store), f.store->keep.total_bytes);
        fixture_close(&f);
    }
}

/* What is kept first goes last, and what comes back comes by being streamed once: nothing is read besides. */
static void goes_from_the_end_and_is_read_once(void **state) {
    (void)state;
    struct fixture_spec spec = usual;
    spec.kept = spec.streamed;
    fixture_open(&f, &spec);
    load();
    uint64_t sum = 0, pieces = 0;
    for (uint32_t rank = 0; rank < spec.kept / 2; rank++)
        sum += record_map_memory_bytes(&f.store->map, f.keep[rank]);
    limit(sum);
    for (uint32_t rank = 0; rank < spec.kept; rank++) {
        assert_int_equal(store_life(f.store, f.keep[rank]), rank < spec.kept / 2 ? WEIGHT_RESIDENT : WEIGHT_STREAMED);
        pieces += rank < spec.kept / 2 ? 0 : record_map_piece_bytes(&f.store->map, f.keep[rank]);
    }
    assert_int_equal(fixture_stats(&f).given_back_bytes, f.store->keep.total_bytes - sum);
    fixture_pass(&f, f.stream_count);
    assert_int_equal(fixture_stats(&f).demanded_bytes, pieces);
    limit(UINT64_MAX);
    fixture_pass(&f, f.stream_count);
    assert_int_equal(fixture_stats(&f).demanded_bytes, 2 * pieces);
    fixture_pass(&f, f.stream_count);
    assert_int_equal(fixture_stats(&f).demanded_bytes, 2 * pieces); /* all is there again */
    fixture_close(&f);
}

/* Reads fail while records come back: the pass ends as any pass whose read failed, the next one brings what is missing. */
static void failed_reads_while_coming_back(void **state) {
    (void)state;
    unsigned failed = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fixture_spec spec = usual;
        const struct read_faults faults = {.seed = seed, .fail_rate = 0.02, .fail_errno = 5, .reorder = true, .corrupt_unread = true};
        spec.seed = seed;
        spec.kept = spec.streamed;
        fixture_model(&f, &spec);
        spec.faults = &faults;
        fixture_open_store(&f, &spec);
        while (store_load_resident(f.store, NULL, NULL, &f.err) != STATUS_OK)
            assert_int_equal(f.err.status, STATUS_IO);
        limit(0);
        limit(UINT64_MAX);
        for (uint32_t i = 0; i < f.stream_count;) {
            struct weight_lease lease;
            enum status status = store_acquire(f.store, f.order[i], &lease, &f.err);
            store_check(f.store);
            if (status != STATUS_OK) {
                assert_int_equal(status, STATUS_IO);
                assert_int_equal(store_life(f.store, f.order[i]), WEIGHT_STREAMED);
                store_reset(f.store);
                failed++;
                i = 0;
                continue;
            }
            assert_true(fixture_right(&f, &lease, lease.piece_count));
            store_release(f.store, &lease);
            assert_int_equal(store_life(f.store, f.order[i]), WEIGHT_RESIDENT);
            i++;
        }
        assert_int_equal(store_trunk_used_bytes(f.store), f.store->keep.total_bytes);
        fixture_pass(&f, f.stream_count);
        fixture_close(&f);
    }
    assert_true(failed > 10);
}

static uint64_t resident_bytes(void) { return memory_process_read().rss_bytes; }

static void follows(uint64_t rss_bytes, uint64_t full_bytes, uint64_t gone_bytes) {
    uint64_t edge_bytes = 2u << 20; /* one huge page may be there in part */
    if (rss_bytes > full_bytes - gone_bytes + gone_bytes / 16 + edge_bytes)
        fail_msg("%.1f MiB are given back, but the process went from %.1f MiB to %.1f", (double)gone_bytes / 0x1p20,
                 (double)full_bytes / 0x1p20, (double)rss_bytes / 0x1p20);
}

/* The process is smaller by what was given back, level by level, and what is accounted too; and as large as before when all is back. */
static void memory_is_returned(void **state) {
    (void)state;
    struct fixture_spec spec = usual;
    spec.resident = 0;
    spec.streamed = spec.kept = 300;
    for (int lock = 0; lock < 2; lock++) {
        fixture_model(&f, &spec);
        fixture_open_queue(&f, &spec);
        fixture_options(&f, &spec);
        f.options.lock = lock; /* may be refused, and is no error then */
        ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
        load();
        limit(UINT64_MAX - 1);
        fixture_pass(&f, f.stream_count);
        one_step();
        uint64_t all = f.store->keep.total_bytes, accounted = memory_owner_bytes(MEMORY_TRUNK);
        assert_true(all > 8u << 20);
        limit(all * (LEVELS - 1) / LEVELS);
        fixture_pass(&f, f.stream_count); /* the ring has its pages from here on */
        limit(all);
        fixture_pass(&f, f.stream_count);
        uint64_t full = resident_bytes();
        for (uint64_t level = LEVELS; level-- > 0;) {
            limit(all * level / LEVELS);
            uint64_t gone = all - store_trunk_used_bytes(f.store);
            assert_true(gone >= all - all * level / LEVELS);
            assert_int_equal(memory_owner_bytes(MEMORY_TRUNK), accounted - gone);
            follows(resident_bytes(), full, gone);
        }
        assert_int_equal(store_trunk_used_bytes(f.store), 0);
        for (uint64_t level = 1; level <= LEVELS; level++) {
            limit(all * level / LEVELS);
            fixture_pass(&f, f.stream_count);
            uint64_t gone = all - store_trunk_used_bytes(f.store);
            assert_int_equal(store_trunk_used_bytes(f.store), fixture_stats(&f).trunk_limit_bytes);
            assert_int_equal(memory_owner_bytes(MEMORY_TRUNK), accounted - gone);
            follows(resident_bytes(), full, gone);
        }
        assert_int_equal(memory_owner_bytes(MEMORY_TRUNK), accounted);
        assert_true(resident_bytes() + (512u << 10) > full);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_limit_at_any_time),
        cmocka_unit_test(several_leases),
        cmocka_unit_test(goes_from_the_end_and_is_read_once),
        cmocka_unit_test(failed_reads_while_coming_back),
        cmocka_unit_test(memory_is_returned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
