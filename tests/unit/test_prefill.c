/*
 * test_prefill: what will probably be wanted is read into empty slots, in idle times alone, and is the first to go; in the midst of
 * everything else that a store does every byte stays right.
 */
#include "store_fixture.h"

static struct fixture f;

static void tend_to_the_end(void) {
    while (store_tend(f.store))
        store_check(f.store);
    store_check(f.store);
}

static const struct fixture_spec quiet = {
    .layers = 2, .experts = 24, .slots = 10, .ring_quarters = 4, .kind = READ_QUEUE_THREADS, .depth = 8, .seed = 5};

static void open_counting(const struct fixture_spec *spec) {
    fixture_model(&f, spec);
    fixture_open_queue(&f, spec);
    fixture_options(&f, spec);
    f.options.count_usage = true;
    ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
    store_check(f.store);
}

static void fills_what_is_empty(void **state) {
    weight_id ids[48], wanted[24];
    (void)state;
    open_counting(&quiet);
    for (uint32_t e = 0; e < 4; e++)
        wanted[e] = fixture_expert(&f, 0, 20 + e);
    fixture_step(&f, wanted, 4);
    for (uint32_t e = 0; e < 24; e++)
        ids[2 * e] = fixture_expert(&f, 0, e), ids[2 * e + 1] = fixture_expert(&f, 1, e);
    store_prefill(f.store, ids, 48);
    tend_to_the_end();
    assert_false(store_tend(f.store));
    assert_int_equal(fixture_stats(&f).evictions, 0);
    uint64_t bytes = 0;
    for (uint32_t e = 0; e < 6; e++) /* six were empty, and the seventh is as unlikely as the rest */
        bytes += 3 * 9000;
    for (uint32_t e = 0; e < 10; e++)
        bytes += 3 * 30000;
    assert_int_equal(fixture_stats(&f).prefilled_bytes, bytes);
    uint64_t misses = fixture_stats(&f).misses;
    fixture_step(&f, wanted, 4);
    for (uint32_t e = 0; e < 6; e++)
        wanted[e] = fixture_expert(&f, 0, e);
    fixture_step(&f, wanted, 6);
    for (uint32_t e = 0; e < 10; e++)
        wanted[e] = fixture_expert(&f, 1, e);
    fixture_step(&f, wanted, 10);
    assert_int_equal(fixture_stats(&f).misses, misses);
    for (uint32_t id = 0; id < f.record_count; id++)
        if (f.lives[id] == WEIGHT_CACHED)
            assert_int_equal(store_usage(f.store)[id], f.records[id].layer        ? f.records[id].expert < 10
                                                       : f.records[id].expert < 6 ? 1
                                                                                  : 2 * (f.records[id].expert >= 20));
    fixture_close(&f);
}

/* Victims: what was read ahead and not used, the least likely first; only then what was used. */
static void goes_before_what_was_used(void **state) {
    weight_id ids[8], wanted[24];
    struct fixture_spec spec = quiet;
    (void)state;
    spec.kind = READ_QUEUE_SYNC; /* what comes last is the next victim: here reads come as they were asked for */
    open_counting(&spec);
    for (uint32_t e = 0; e < 4; e++)
        wanted[e] = fixture_expert(&f, 0, 20 + e);
    fixture_step(&f, wanted, 4);
    for (uint32_t e = 0; e < 6; e++)
        ids[e] = fixture_expert(&f, 0, e);
    store_prefill(f.store, ids, 6);
    tend_to_the_end();
    for (uint32_t e = 0; e < 3; e++)
        ids[e] = fixture_expert(&f, 0, 10 + e);
    fixture_step(&f, ids, 3); /* evicts 5, 4, 3 */
    uint64_t misses = fixture_stats(&f).misses;
    for (uint32_t e = 0; e < 3; e++)
        wanted[4 + e] = fixture_expert(&f, 0, e);
    fixture_step(&f, wanted, 7);
    assert_int_equal(fixture_stats(&f).misses, misses);
    fixture_close(&f);
}

/* While a step waits for its reads nothing is read ahead. */
static void waits_for_what_is_demanded(void **state) {
    weight_id ids[24], wanted[4];
    const struct read_faults late = {.seed = 3, .delay_rate = 1, .delay_reaps = 30};
    struct fixture_spec spec = quiet;
    (void)state;
    spec.faults = &late;
    open_counting(&spec);
    for (uint32_t e = 0; e < 4; e++)
        wanted[e] = fixture_expert(&f, 1, e);
    for (uint32_t e = 0; e < 24; e++)
        ids[e] = fixture_expert(&f, 0, e);
    store_prefill(f.store, ids, 24);
    ASSERT_OK(store_want(f.store, wanted, 4, STORE_ANY, &f.err), f.err);
    for (uint32_t taken = 0; taken < 4; taken++) {
        uint32_t index;
        struct weight_lease lease;
        assert_int_equal(read_queue_faulty_submitted(f.queue), fixture_stats(&f).reads + read_queue_in_flight(f.queue));
        fixture_take(&f, 3, &index, &lease);
        assert_true(taken == 3 || fixture_stats(&f).prefilled_bytes == 0);
        store_release(f.store, &lease);
    }
    store_want_end(f.store);
    while (fixture_stats(&f).prefilled_bytes == 0) { /* now it is, one part at a time */
        store_poll(f.store);
        assert_true(read_queue_in_flight(f.queue) <= 1);
    }
    fixture_close(&f);
}

static void in_the_midst_of_everything(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct fixture_spec spec = fixture_usual;
        const struct read_faults faults = {
            .seed = seed, .delay_rate = 0.4, .delay_reaps = 15, .short_rate = 0.2, .reorder = true, .corrupt_unread = true};
        spec.seed = seed;
        spec.kind = seed % 2 ? READ_QUEUE_THREADS : READ_QUEUE_SYNC;
        spec.faults = seed % 3 ? &faults : NULL;
        spec.slots = 1 + (uint32_t)seed % 12;
        spec.depth = 1 + (unsigned)seed % 8;
        open_counting(&spec);
        for (int round = 0; round < 30; round++) {
            weight_id ids[FIXTURE_RECORDS_MAX] = {0};
            uint32_t layer = fixture_below(&f, f.layers), count = 1 + fixture_below(&f, f.experts);
            if (round % 4 == 0) {
                fixture_choose(&f, layer, count, ids);
                store_prefill(f.store, ids, count);
            }
            for (uint32_t i = fixture_below(&f, 6); i-- > 0;)
                (void)store_tend(f.store);
            if (fixture_below(&f, 4) == 0)
                store_cache_limit(f.store, fixture_random(&f) % (2 * f.options.cache_bytes));
            store_check(f.store);
            fixture_choose(&f, layer, count, ids);
            if (round % 2)
                fixture_step(&f, ids, count);
            else
                fixture_step_listed(&f, ids, count);
            fixture_pass(&f, f.stream_count);
            if (fixture_below(&f, 8) == 0)
                store_reset(f.store);
            store_check(f.store);
        }
        store_reset(f.store);
        fixture_close(&f);
    }
}

/* Reads ahead that fail disturb nobody. */
static void failures_are_silent(void **state) {
    weight_id ids[24];
    const struct read_faults broken = {.seed = 3, .fail_rate = 1};
    struct fixture_spec spec = quiet;
    (void)state;
    spec.faults = &broken;
    open_counting(&spec);
    for (uint32_t e = 0; e < 24; e++)
        ids[e] = fixture_expert(&f, 0, e);
    store_prefill(f.store, ids, 24);
    tend_to_the_end();
    assert_true(fixture_stats(&f).reads < 12); /* it gave up */
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_what_is_empty),        cmocka_unit_test(goes_before_what_was_used),
        cmocka_unit_test(waits_for_what_is_demanded), cmocka_unit_test(in_the_midst_of_everything),
        cmocka_unit_test(failures_are_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
