/*
 * test_cache_limit: the expert cache gives memory back and takes it again between steps: every byte stays right, the memory is really gone,
 * what was used last stays, and every invariant holds.
 */
#include "store_fixture.h"

static struct fixture f;

static uint64_t resident_bytes(void) { return memory_process_read().rss_bytes; }

static void limit(uint64_t bytes) {
    store_cache_limit(f.store, bytes);
    store_check(f.store);
}

static void any_order(uint32_t layer, uint32_t count) {
    weight_id ids[FIXTURE_RECORDS_MAX] = {0};
    fixture_choose(&f, layer, count, ids);
    fixture_step(&f, ids, count);
}

/* Begins a step and leaves it: some of its reads are still on their way. */
static void abandon(uint32_t layer, uint32_t count) {
    weight_id ids[FIXTURE_RECORDS_MAX] = {0};
    fixture_choose(&f, layer, count, ids);
    ASSERT_OK(store_want(f.store, ids, count, STORE_ANY, &f.err), f.err);
    store_want_end(f.store);
    store_check(f.store);
}

static void any_limit_at_any_time(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct fixture_spec spec = fixture_usual;
        const struct read_faults faults = {.seed = seed, .delay_rate = 0.4, .delay_reaps = 20, .reorder = true, .corrupt_unread = true};
        spec.seed = seed;
        spec.kind = seed % 2 ? READ_QUEUE_THREADS : READ_QUEUE_SYNC;
        spec.faults = seed % 3 ? &faults : NULL;
        spec.slots = 1 + (uint32_t)seed % 12;
        fixture_open(&f, &spec);
        for (int round = 0; round < 30; round++) {
            limit(fixture_below(&f, 4) ? fixture_random(&f) % (f.options.cache_bytes + 1) : f.options.cache_bytes);
            uint32_t layer = fixture_below(&f, f.layers), count = 1 + fixture_below(&f, f.experts);
            if (round % 3 == 0) {
                weight_id ids[FIXTURE_RECORDS_MAX] = {0};
                fixture_choose(&f, layer, count, ids);
                fixture_step_listed(&f, ids, count);
            } else if (round % 3 == 1) {
                any_order(layer, count);
            } else {
                abandon(layer, count);
            }
            fixture_pass(&f, f.stream_count);
            store_check(f.store);
        }
        assert_true(fixture_stats(&f).given_back_times > 0 || spec.slots == 1);
        fixture_close(&f);
    }
}

static const struct fixture_spec large = {
    .layers = 6, .experts = 40, .slots = 120, .ring_quarters = 4, .kind = READ_QUEUE_THREADS, .depth = 16, .seed = 5};

/* The process is smaller by what was given back, and as large as before when the cache is full again. */
static void memory_is_returned(void **state) {
    (void)state;
    for (int lock = 0; lock < 2; lock++) {
        fixture_model(&f, &large);
        fixture_open_queue(&f, &large);
        fixture_options(&f, &large);
        f.options.lock = lock; /* may be refused, and is no error then */
        ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
        for (uint32_t layer = 0; layer < f.layers; layer++)
            any_order(layer, f.experts);
        uint64_t full = resident_bytes(), all = fixture_stats(&f).cache_limit_bytes, accounted = memory_owner_bytes(MEMORY_CACHE);
        assert_true(all > 8u << 20);
        for (uint32_t eighths = 7; eighths-- > 0;) {
            limit(all * eighths / 8);
            uint64_t now = fixture_stats(&f).cache_limit_bytes, gone = all - now, rss = resident_bytes();
            assert_true(eighths == 0 || now <= all * eighths / 8);
            assert_int_equal(memory_owner_bytes(MEMORY_CACHE), accounted - gone);
            if (rss > full - gone + gone / 16 + (256u << 10))
                fail_msg("%.1f MiB were given back, but the process went from %.1f MiB to %.1f", (double)gone / 0x1p20,
                         (double)full / 0x1p20, (double)rss / 0x1p20);
        }
        assert_int_equal(fixture_stats(&f).given_back_bytes, all - fixture_stats(&f).cache_limit_bytes);
        assert_int_equal(fixture_stats(&f).given_back_times, 7);
        any_order(0, f.experts);
        limit(UINT64_MAX);
        assert_int_equal(fixture_stats(&f).cache_limit_bytes, all);
        assert_int_equal(memory_owner_bytes(MEMORY_CACHE), accounted);
        for (uint32_t layer = 0; layer < f.layers; layer++)
            any_order(layer, f.experts);
        uint64_t misses = fixture_stats(&f).misses;
        for (uint32_t layer = 0; layer < f.layers; layer++)
            any_order(layer, f.experts);
        assert_int_equal(fixture_stats(&f).misses, misses); /* all is there again */
        fixture_close(&f);
    }
}

/* After a cut to half, the half that was used last is there. */
static void the_last_used_stay(void **state) {
    (void)state;
    fixture_open(&f, &large);
    for (uint32_t layer = 0; layer < f.layers; layer++)
        any_order(layer, f.experts);
    any_order(1, f.experts); /* each class holds three layers: 1 is among those that go, if only places count */
    any_order(2, f.experts);
    limit(fixture_stats(&f).cache_limit_bytes / 2);
    uint64_t misses = fixture_stats(&f).misses;
    any_order(2, f.experts);
    any_order(1, f.experts);
    assert_int_equal(fixture_stats(&f).misses, misses);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_limit_at_any_time),
        cmocka_unit_test(memory_is_returned),
        cmocka_unit_test(the_last_used_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
