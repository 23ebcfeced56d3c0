/*
 * test_expert_step: experts in slots: hits and evictions against a plain LRU model, listed order and any order with fewer slots than
 * experts, steps that end early, experts whose last slice is late.
 */
#include "store_fixture.h"

#include "base/log.h"
#include "test_clock.h"

static struct fixture f;

/* A plain LRU per class: an array in order of use. */
struct lru {
    weight_id ids[FIXTURE_RECORDS_MAX]; /* least recently released first; then those pinned by the step */
    uint32_t count, slots;
    bool pinned[FIXTURE_RECORDS_MAX]; /* per record */
    uint64_t hits, misses, evictions;
};

static bool lru_find(const struct lru *l, weight_id id, uint32_t *place) {
    for (uint32_t i = 0; i < l->count; i++)
        if (l->ids[i] == id) {
            *place = i;
            return true;
        }
    return false;
}

static void lru_remove(struct lru *l, uint32_t place) {
    memmove(&l->ids[place], &l->ids[place + 1], (l->count - place - 1) * sizeof l->ids[0]);
    l->count--;
}

/* False: all are pinned. */
static bool lru_load(struct lru *l, weight_id id) {
    if (l->count == l->slots) {
        uint32_t victim = 0;
        while (victim < l->count && l->pinned[l->ids[victim]])
            victim++;
        if (victim == l->count)
            return false;
        lru_remove(l, victim);
        l->evictions++;
    }
    l->ids[l->count++] = id;
    l->pinned[id] = true;
    l->misses++;
    return true;
}

static void lru_release(struct lru *l, weight_id id) {
    uint32_t place = 0;
    assert_true(lru_find(l, id, &place));
    lru_remove(l, place);
    l->ids[l->count++] = id;
    l->pinned[id] = false;
}

static void compare(const struct lru *even, const struct lru *odd) {
    struct store_stats stats;
    store_stats_read(f.store, &stats);
    assert_int_equal(stats.hits, even->hits + odd->hits);
    assert_int_equal(stats.misses, even->misses + odd->misses);
    assert_int_equal(stats.evictions, even->evictions + odd->evictions);
}

static void step_any_with_model(struct lru *l, const weight_id *ids, uint32_t count) {
    weight_id pending[FIXTURE_RECORDS_MAX];
    uint32_t pending_count = 0, done = 0, place;
    bool seen[FIXTURE_RECORDS_MAX] = {false};
    for (uint32_t i = 0; i < count; i++)
        if (lru_find(l, ids[i], &place)) {
            l->pinned[ids[i]] = true;
            l->hits++;
        }
    for (uint32_t i = 0; i < count; i++)
        if (!lru_find(l, ids[i], &place) && !lru_load(l, ids[i]))
            pending[pending_count++] = ids[i];
    ASSERT_OK(store_want(f.store, ids, count, STORE_ANY, &f.err), f.err);
    store_check(f.store);
    for (uint32_t taken = 0; taken < count; taken++) {
        uint32_t index;
        struct weight_lease lease;
        fixture_take(&f, 3, &index, &lease);
        assert_true(index < count && !seen[index] && lease.id == ids[index]);
        seen[index] = true;
        assert_true(fixture_right(&f, &lease, 3));
        store_release(f.store, &lease);
        store_check(f.store);
        lru_release(l, ids[index]);
        if (done < pending_count && lru_load(l, pending[done]))
            done++;
    }
    uint32_t index;
    struct weight_lease lease;
    fixture_take(&f, 1, &index, &lease);
    assert_int_equal(index, UINT32_MAX);
    store_want_end(f.store);
    store_check(f.store);
}

static void test_lru_against_a_model(void **state) {
    (void)state;
    static const uint32_t slots[] = {1, 2, 3, 5, 8, 13, 24};
    static struct lru classes[2];
    for (size_t s = 0; s < sizeof slots / sizeof slots[0]; s++)
        for (int kind = READ_QUEUE_THREADS; kind <= READ_QUEUE_SYNC; kind++) {
            struct fixture_spec spec = fixture_usual;
            spec.slots = slots[s];
            spec.kind = (enum read_queue_kind)kind;
            spec.seed = s + 1;
            spec.streamed = spec.resident = 0;
            fixture_open(&f, &spec);
            memset(classes, 0, sizeof classes);
            classes[0].slots = classes[1].slots = slots[s];
            assert_int_equal(store_slot_count(f.store), 2 * slots[s]);
            for (int round = 0; round < 60; round++) {
                uint32_t layer = (uint32_t)round % f.layers, count = 1 + fixture_below(&f, 8);
                weight_id ids[FIXTURE_RECORDS_MAX];
                fixture_choose(&f, layer, count, ids);
                step_any_with_model(&classes[layer % 2], ids, count);
                compare(&classes[0], &classes[1]);
            }
            struct store_stats stats;
            store_stats_read(f.store, &stats);
            assert_true(stats.read_bytes >= stats.demanded_bytes && stats.reads > 0);
            if (slots[s] == 24) { /* everything fits: each expert was read once at most */
                assert_true(stats.misses <= f.layers * f.experts);
                assert_int_equal(stats.evictions, 0);
            }
            fixture_close(&f);
        }
}

/* More wanted than slots, hits behind misses, both classes in one step: always in listed order, with any number of slots. */
static void test_listed_order_with_any_number_of_slots(void **state) {
    (void)state;
    for (uint32_t slots = 1; slots <= 24; slots += slots < 4 ? 1 : 5) {
        struct fixture_spec spec = fixture_usual;
        spec.slots = slots;
        spec.seed = slots;
        spec.depth = slots % 2 ? 1 : 8;
        fixture_open(&f, &spec);
        for (int round = 0; round < 12; round++) {
            weight_id ids[FIXTURE_RECORDS_MAX];
            uint32_t count = f.experts;
            fixture_choose(&f, (uint32_t)round % 4, f.experts, ids);
            if (round % 3 == 0) {
                fixture_choose(&f, (uint32_t)(round + 1) % 4, f.experts, ids + f.experts);
                count *= 2;
            }
            fixture_step_listed(&f, ids, count);
            struct store_stats stats;
            store_stats_read(f.store, &stats);
            if (slots == 24)
                assert_true(stats.misses <= f.layers * f.experts);
        }
        fixture_close(&f);
    }
}

/* In listed order, too, what is in the cache is not read again when there are slots enough. */
static void test_listed_order_keeps_its_hits(void **state) {
    (void)state;
    struct fixture_spec spec = fixture_usual;
    spec.slots = 12;
    fixture_open(&f, &spec);
    weight_id ids[8];
    for (uint32_t i = 0; i < 8; i++)
        ids[i] = fixture_expert(&f, 0, i);
    fixture_step_listed(&f, ids, 8);
    for (uint32_t i = 0; i < 4; i++)
        ids[i] = fixture_expert(&f, 0, 8 + i); /* four misses, then four hits */
    fixture_step_listed(&f, ids, 8);
    struct store_stats stats;
    store_stats_read(f.store, &stats);
    assert_int_equal(stats.hits, 4);
    assert_int_equal(stats.misses, 12);
    assert_int_equal(stats.evictions, 0);
    fixture_close(&f);
}

/* A hit that cannot be pinned, since misses need room, is at least not the next victim. */
static void test_listed_order_spares_unpinned_hits(void **state) {
    (void)state;
    struct fixture_spec spec = fixture_usual;
    spec.slots = 8;
    spec.experts = 16;
    fixture_open(&f, &spec);
    weight_id first[8], second[9];
    for (uint32_t i = 0; i < 8; i++)
        first[i] = fixture_expert(&f, 0, i);
    fixture_step_listed(&f, first, 8); /* expert 0 is now the least recently used */
    for (uint32_t i = 0; i < 4; i++) {
        second[i] = fixture_expert(&f, 0, 1 + i);                 /* four hits, as many as may be pinned */
        second[i < 1 ? 4 : 5 + i] = fixture_expert(&f, 0, 8 + i); /* a miss, then three */
    }
    second[5] = fixture_expert(&f, 0, 0); /* between them a fifth hit */
    fixture_step_listed(&f, second, 9);
    struct store_stats stats;
    store_stats_read(f.store, &stats);
    assert_int_equal(stats.hits, 5);
    assert_int_equal(stats.misses, 12);
    fixture_close(&f);
}

static void test_waiting_with_all_slots_leased_is_an_error(void **state) {
    (void)state;
    struct fixture_spec spec = fixture_usual;
    spec.slots = 2;
    fixture_open(&f, &spec);
    for (int order = STORE_ANY; order <= STORE_LISTED; order++) {
        weight_id ids[3];
        for (uint32_t i = 0; i < 3; i++)
            ids[i] = fixture_expert(&f, 0, i);
        ASSERT_OK(store_want(f.store, ids, 3, (enum store_order)order, &f.err), f.err);
        struct weight_lease leases[3];
        uint32_t index;
        fixture_take(&f, 3, &index, &leases[0]);
        fixture_take(&f, 3, &index, &leases[1]);
        ASSERT_OK(store_take(f.store, 3, false, &index, &leases[2], &f.err), f.err);
        assert_int_equal(index, UINT32_MAX);
        ASSERT_FAILS(store_take(f.store, 3, true, &index, &leases[2], &f.err), STATUS_INTERNAL, f.err);
        store_check(f.store);
        store_release(f.store, &leases[0]);
        fixture_take(&f, 3, &index, &leases[2]);
        assert_true(fixture_right(&f, &leases[1], 3) && fixture_right(&f, &leases[2], 3));
        store_release(f.store, &leases[1]);
        store_release(f.store, &leases[2]);
        store_want_end(f.store);
        store_check(f.store);
    }
    fixture_close(&f);
}

/* What a step leaves behind is no longer pinned, its reads serve the next step, and a lease may be released before its last pieces came. */
static void test_leaving_a_step_early(void **state) {
    (void)state;
    for (uint32_t slots = 1; slots <= 9; slots += 2) {
        struct fixture_spec spec = fixture_usual;
        spec.slots = slots;
        spec.seed = slots;
        fixture_open(&f, &spec);
        for (int round = 0; round < 60; round++) {
            weight_id ids[FIXTURE_RECORDS_MAX];
            uint32_t count = 1 + fixture_below(&f, f.experts), taken = fixture_below(&f, count);
            fixture_choose(&f, fixture_below(&f, f.layers), count, ids);
            ASSERT_OK(store_want(f.store, ids, count, fixture_below(&f, 2) ? STORE_ANY : STORE_LISTED, &f.err), f.err);
            for (uint32_t i = 0; i < taken; i++) {
                uint32_t index;
                struct weight_lease lease;
                fixture_take(&f, 1, &index, &lease);
                assert_true(fixture_right(&f, &lease, 1));
                store_release(f.store, &lease);
            }
            store_want_end(f.store);
            store_check(f.store);
            if (round % 10 == 9) {
                store_reset(f.store);
                store_check(f.store);
            }
        }
        fixture_close(&f);
    }
}

/* ---- the first slices of an expert are handed out while the last one is on its way ---- */

/* One layer of experts with a request for each of their three pieces; one request is held back. */
static void open_held(uint32_t slots, uint64_t request) {
    const struct read_faults faults = {.seed = 1, .hold_from = request, .hold_count = 1, .corrupt_unread = true};
    const struct fixture_spec spec = {
        .layers = 1, .experts = 6, .ring_quarters = 4, .slots = slots, .kind = READ_QUEUE_SYNC, .depth = 9, .faults = &faults, .seed = 3};
    fixture_model(&f, &spec);
    fixture_open_queue(&f, &spec);
    fixture_options(&f, &spec);
    ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
}

static void want_first(uint32_t count) {
    weight_id ids[FIXTURE_RECORDS_MAX];
    for (uint32_t i = 0; i < count; i++)
        ids[i] = fixture_expert(&f, 0, i);
    ASSERT_OK(store_want(f.store, ids, count, STORE_ANY, &f.err), f.err);
}

static struct weight_lease take_next(uint32_t expert, bool whole) {
    uint32_t index;
    struct weight_lease lease;
    fixture_take(&f, 2, &index, &lease);
    assert_int_equal(index, expert);
    assert_true(lease.whole == whole && fixture_right(&f, &lease, whole ? 3 : 2));
    store_check(f.store);
    return lease;
}

static bool nothing_ready(void) {
    uint32_t index;
    struct weight_lease lease;
    ASSERT_OK(store_take(f.store, 2, false, &index, &lease, &f.err), f.err);
    return index == UINT32_MAX;
}

static void test_down_before_gate(void **state) {
    (void)state;
    for (uint64_t request = 1; request <= 2; request++) {
        open_held(2, request);
        want_first(1);
        assert_true(nothing_ready());
        read_queue_faulty_release(f.queue);
        struct weight_lease lease = take_next(0, true);
        store_release(f.store, &lease);
        store_want_end(f.store);
        fixture_close(&f);
    }
}

/* Nobody gets the slot of an expert whose last slice is on its way: the third one wanted waits for the second. */
static void test_half_an_expert_is_pinned(void **state) {
    (void)state;
    open_held(2, 3);
    want_first(4);
    struct weight_lease second = take_next(1, true), first = take_next(0, false);
    assert_true(nothing_ready());
    for (uint32_t expert = 2; expert < 4; expert++) {
        store_release(f.store, &second);
        second = take_next(expert, true);
        assert_true(fixture_right(&f, &first, 2));
    }
    store_release(f.store, &second);
    read_queue_faulty_release(f.queue);
    ASSERT_OK(store_wait_pieces(f.store, &first, &f.err), f.err);
    assert_true(fixture_right(&f, &first, 3));
    store_release(f.store, &first);
    store_want_end(f.store);
    assert_int_equal(fixture_stats(&f).evictions, 2);
    fixture_close(&f);
}

static void test_last_slice_that_fails(void **state) {
    (void)state;
    open_held(3, 3);
    want_first(2);
    struct weight_lease second = take_next(1, true), first = take_next(0, false);
    ASSERT_FAILS(store_wait_pieces(f.store, &first, &f.err), STATUS_IO, f.err);
    assert_true(fixture_right(&f, &second, 3));
    store_release(f.store, &second);
    store_release(f.store, &first);
    store_want_end(f.store);
    store_check(f.store);
    read_queue_faulty_release(f.queue); /* it comes after all, while the expert is read anew */
    want_first(1);
    first = take_next(0, true);
    store_release(f.store, &first);
    store_want_end(f.store);
    fixture_close(&f);
}

static void test_cancelled_between_slices(void **state) {
    (void)state;
    open_held(2, 3);
    want_first(3);
    (void)take_next(1, true);
    (void)take_next(0, false);
    read_queue_faulty_release(f.queue);
    store_reset(f.store);
    store_check(f.store);
    want_first(2);
    for (uint32_t expert = 0; expert < 2; expert++) {
        struct weight_lease lease = take_next(expert, true);
        store_release(f.store, &lease);
    }
    store_want_end(f.store);
    fixture_close(&f);
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lru_against_a_model),
        cmocka_unit_test(test_listed_order_with_any_number_of_slots),
        cmocka_unit_test(test_listed_order_keeps_its_hits),
        cmocka_unit_test(test_listed_order_spares_unpinned_hits),
        cmocka_unit_test(test_waiting_with_all_slots_leased_is_an_error),
        cmocka_unit_test(test_leaving_a_step_early),
        cmocka_unit_test(test_down_before_gate),
        cmocka_unit_test(test_half_an_expert_is_pinned),
        cmocka_unit_test(test_last_slice_that_fails),
        cmocka_unit_test(test_cancelled_between_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
