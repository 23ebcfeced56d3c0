/*
 * test_placement: the planner's promises as properties over random models and budgets, and the cases that have names.
 */
#include "test_support.h"

#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "store/placement.h"
#include "store/size_class.h"
#include "store/weight_store.h"

enum { RECORDS_MAX = 4096 };
#define KIB ((uint64_t)1024)
#define MIB (KIB * 1024)

struct model {
    struct placement_record records[RECORDS_MAX];
    uint32_t order[RECORDS_MAX];
    struct placement_input input;
    uint64_t total_bytes;
};

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t below(uint64_t *state, uint64_t limit) { return next_random(state) % limit; }

static uint32_t add_record(struct model *m, uint64_t bytes, bool expert, int32_t layer) {
    uint32_t id = m->input.record_count++;
    assert_true(id < RECORDS_MAX);
    m->records[id] = (struct placement_record){.memory_bytes = bytes, .expert = expert, .layer = layer};
    m->total_bytes += bytes;
    return id;
}

static void add_trunk(struct model *m, uint64_t bytes, bool streams) {
    uint32_t id = add_record(m, bytes, false, 0);
    if (streams)
        m->order[m->input.stream_count++] = id;
}

static void start_model(struct model *m) {
    memset(m, 0, sizeof *m);
    m->input.records = m->records;
    m->input.stream_order = m->order;
}

static void random_model(struct model *m, uint64_t *state) {
    start_model(m);
    uint64_t unit = below(state, 2) ? 4096 : 512, spread = (uint64_t)1 << below(state, 12);
    uint32_t trunk = (uint32_t)below(state, 60), layers = (uint32_t)below(state, 5), experts = 1 + (uint32_t)below(state, 24);
    for (uint32_t i = 0; i < trunk; i++)
        add_trunk(m, unit * (1 + below(state, spread)), below(state, 10) != 0);
    for (uint32_t layer = 0; layer < layers; layer++) {
        uint64_t base = unit * (1 + below(state, spread * 4));
        for (uint32_t i = 0; i < experts; i++)
            add_record(m, base + unit * below(state, 3), true, (int32_t)layer);
    }
    if (m->input.stream_count > 1 && below(state, 4) == 0) /* a layer that is used twice */
        m->order[m->input.stream_count++] = m->order[0];
    m->input.top_k = layers ? 1 + (uint32_t)below(state, experts) : 0;
    m->input.expert_layers = layers;
    m->input.stream_leases = (uint32_t)below(state, 4);
}

/* Everything that must hold for any plan. */
static void check_plan(const struct model *m, const struct placement *p) {
    uint64_t resident = 0, streamed = 0, largest = 0;
    bool in_order[RECORDS_MAX] = {false}, experts_cached = false;
    uint64_t sizes[RECORDS_MAX];
    uint32_t sizes_count = 0, streams = 0;
    assert_true(p->resident_bytes + p->ring_bytes + p->cache_bytes <= m->input.budget_bytes);
    for (uint32_t i = 0; i < m->input.stream_count; i++)
        in_order[m->order[i]] = true;
    for (uint32_t id = 0; id < m->input.record_count; id++) {
        const struct placement_record *r = &m->records[id];
        switch ((enum weight_life)p->lives[id]) {
        case WEIGHT_RESIDENT:
            resident += r->memory_bytes;
            break;
        case WEIGHT_STREAMED:
            assert_true(!r->expert && in_order[id]);
            streams++;
            largest = r->memory_bytes > largest ? r->memory_bytes : largest;
            break;
        case WEIGHT_CACHED:
            assert_true(r->expert);
            experts_cached = true;
            sizes[sizes_count++] = r->memory_bytes;
            break;
        }
    }
    assert_int_equal(resident, p->resident_bytes);
    uint32_t next = 0;
    uint64_t kept = 0;
    bool may_go[RECORDS_MAX] = {false};
    for (uint32_t i = 0; i < p->keep_count; i++) {
        weight_id id = p->keep_order[i];
        assert_true(in_order[id] && !may_go[id] && p->lives[id] == WEIGHT_RESIDENT && m->records[id].memory_bytes <= p->ring_bytes / 2);
        may_go[id] = true;
        kept += m->records[id].memory_bytes;
    }
    assert_int_equal(kept, p->keep_bytes);
    for (uint32_t i = 0; i < m->input.stream_count; i++) {
        weight_id id = m->order[i];
        if (p->lives[id] == WEIGHT_STREAMED)
            streamed += m->records[id].memory_bytes;
        if (p->lives[id] == WEIGHT_STREAMED || may_go[id]) {
            assert_true(next < p->stream_count);
            assert_int_equal(p->stream_order[next++], id);
        } else {
            assert_true(streams == 0 || m->records[id].memory_bytes > largest);
        }
    }
    assert_int_equal(next, p->stream_count);
    assert_int_equal(streamed, p->streamed_bytes);
    uint64_t leases = m->input.stream_leases > 1 ? m->input.stream_leases : 1;
    assert_true(streams != 1); /* a ring for one is as large as the record */
    assert_true(streams == 0 ? p->ring_bytes == 0 : p->ring_bytes >= largest * (leases == 1 ? 2 : leases + 1));
    struct size_classes classes;
    size_classes_build(sizes, sizes_count, &classes);
    assert_true(p->cache_bytes >= size_classes_bytes(&classes, 1));
    assert_int_equal(size_classes_cut(&classes, p->cache_bytes), p->cache_bytes); /* slots use all of it */
    assert_int_equal(p->everything_resident, streams == 0 && !experts_cached);
    assert_true(!p->cache_useless || experts_cached);
}

static void test_properties_hold_for_random_models(void **state) {
    (void)state;
    static struct model m;
    uint64_t seed = 0x5eed;
    for (int round = 0; round < 400; round++) {
        random_model(&m, &seed);
        struct placement p;
        struct error err;
        m.input.budget_bytes = 0;
        if (m.input.record_count == 0) {
            ASSERT_OK(placement_plan(&m.input, &p, &err), err);
            assert_true(p.everything_resident);
            placement_deinit(&p);
            continue;
        }
        ASSERT_FAILS(placement_plan(&m.input, &p, &err), STATUS_OVER_BUDGET, err);
        uint64_t minimum = p.minimum_bytes, last_streamed = UINT64_MAX, last_cache = 0, last_resident = 0;
        assert_true(minimum > 0 && minimum <= m.total_bytes);
        m.input.budget_bytes = minimum - 1;
        ASSERT_FAILS(placement_plan(&m.input, &p, &err), STATUS_OVER_BUDGET, err);
        assert_int_equal(p.minimum_bytes, minimum);
        assert_null(p.lives);
        for (int step = 0; step <= 40; step++) { /* up from the minimum to past everything */
            m.input.budget_bytes = minimum + (m.total_bytes - minimum) * (uint64_t)step / 39;
            ASSERT_OK(placement_plan(&m.input, &p, &err), err);
            check_plan(&m, &p);
            assert_int_equal(p.minimum_bytes, minimum);
            assert_true(p.resident_bytes >= last_resident);
            if (m.input.stream_count < 2 || m.order[m.input.stream_count - 1] != m.order[0])
                assert_true(p.streamed_bytes <= last_streamed);
            if (p.streamed_bytes == 0 && last_streamed == 0 && !p.everything_resident)
                assert_true(p.cache_bytes >= last_cache);
            last_streamed = p.streamed_bytes;
            last_cache = p.cache_bytes;
            last_resident = p.resident_bytes;
            if (step >= 39)
                assert_true(p.everything_resident);
            placement_deinit(&p);
        }
        m.input.budget_bytes = UINT64_MAX;
        ASSERT_OK(placement_plan(&m.input, &p, &err), err);
        check_plan(&m, &p);
        assert_true(p.everything_resident);
        placement_deinit(&p);
    }
}

static void test_same_input_same_plan(void **state) {
    (void)state;
    static struct model m;
    uint64_t seed = 77;
    for (int round = 0; round < 20; round++) {
        random_model(&m, &seed);
        m.input.budget_bytes = m.total_bytes * 2 / 3;
        struct placement a, b;
        struct error err;
        enum status first = placement_plan(&m.input, &a, &err), second = placement_plan(&m.input, &b, &err);
        assert_int_equal(first, second);
        assert_int_equal(a.minimum_bytes, b.minimum_bytes);
        if (first == STATUS_OK && m.input.record_count > 0)
            assert_memory_equal(a.lives, b.lives, m.input.record_count);
        placement_deinit(&a);
        placement_deinit(&b);
    }
}

/* Half of a uniform model stays: resident and streamed stretches alternate, so that reads overlap compute all through the pass. */
static void test_resident_records_are_spread_over_the_pass(void **state) {
    (void)state;
    static struct model m;
    start_model(&m);
    for (int i = 0; i < 100; i++)
        add_trunk(&m, 8 * MIB, true);
    m.input.budget_bytes = 50 * 8 * MIB + 48 * MIB;
    struct placement p;
    struct error err;
    ASSERT_OK(placement_plan(&m.input, &p, &err), err);
    check_plan(&m, &p);
    assert_int_equal(p.ring_bytes, 48 * MIB);
    assert_int_equal(p.keep_count, 50);
    assert_int_equal(p.stream_count, 100);
    uint32_t run = 0, longest = 0;
    for (uint32_t i = 0; i < 100; i++) {
        run = p.lives[i] == WEIGHT_RESIDENT ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    assert_true(longest <= 18); /* three stretches of 48 MiB */
    placement_deinit(&p);
}

/* A head much larger than the layers stays, else the ring would have to hold it twice. */
static void test_one_large_record_does_not_blow_up_the_ring(void **state) {
    (void)state;
    static struct model m;
    start_model(&m);
    for (int i = 0; i < 40; i++)
        add_trunk(&m, 10 * MIB, true);
    add_trunk(&m, 300 * MIB, true);
    struct placement p;
    struct error err;
    m.input.budget_bytes = 0;
    ASSERT_FAILS(placement_plan(&m.input, &p, &err), STATUS_OVER_BUDGET, err);
    assert_int_equal(p.minimum_bytes, 320 * MIB);
    assert_non_null(strstr(err.text, "335544320"));
    m.input.budget_bytes = 400 * MIB;
    ASSERT_OK(placement_plan(&m.input, &p, &err), err);
    check_plan(&m, &p);
    assert_int_equal(p.lives[40], WEIGHT_RESIDENT);
    assert_int_equal(p.ring_bytes, 50 * MIB);
    assert_int_equal(p.resident_bytes, 350 * MIB);
    placement_deinit(&p);
}

/* A budget that is short by little reads little: the ring does not grow to what a long stream would want. */
static void test_almost_everything_fits(void **state) {
    (void)state;
    static struct model m;
    start_model(&m);
    for (int i = 0; i < 200; i++)
        add_trunk(&m, 2 * MIB, true);
    m.input.budget_bytes = 399 * MIB;
    struct placement p;
    struct error err;
    ASSERT_OK(placement_plan(&m.input, &p, &err), err);
    check_plan(&m, &p);
    assert_int_equal(p.streamed_bytes, 6 * MIB);
    assert_int_equal(p.ring_bytes, 5 * MIB); /* two records and what was left */
    placement_deinit(&p);
}

static void test_small_records_stay(void **state) {
    (void)state;
    static struct model m;
    start_model(&m);
    for (int i = 0; i < 30; i++) {
        add_trunk(&m, 8 * KIB, true);
        add_trunk(&m, 4 * MIB, true);
    }
    m.input.budget_bytes = 16 * MIB;
    struct placement p;
    struct error err;
    ASSERT_OK(placement_plan(&m.input, &p, &err), err);
    check_plan(&m, &p);
    for (uint32_t i = 0; i < 60; i += 2)
        assert_int_equal(p.lives[i], WEIGHT_RESIDENT);
    placement_deinit(&p);
}

static void mixture(struct model *m) {
    start_model(m);
    for (int i = 0; i < 16; i++)
        add_trunk(m, 4 * MIB, true);
    for (int layer = 0; layer < 16; layer++)
        for (int i = 0; i < 32; i++)
            add_record(m, layer % 2 ? 2 * MIB : 2 * MIB + 384 * KIB, true, layer);
    m->input.top_k = 4;
    m->input.expert_layers = 16;
}

static void test_trunk_goes_before_the_cache(void **state) {
    (void)state;
    static struct model m;
    mixture(&m);
    struct placement p;
    struct error err;
    m.input.budget_bytes = 64 * MIB + 20 * MIB; /* the trunk and a few slots */
    ASSERT_OK(placement_plan(&m.input, &p, &err), err);
    check_plan(&m, &p);
    assert_int_equal(p.stream_count, 0);
    assert_true(p.cache_useless);
    assert_int_equal(p.token_demand_bytes, (uint64_t)64 * (2 * MIB + 192 * KIB));
    placement_deinit(&p);
    m.input.budget_bytes = 64 * MIB + 200 * MIB;
    ASSERT_OK(placement_plan(&m.input, &p, &err), err);
    check_plan(&m, &p);
    assert_false(p.cache_useless);
    placement_deinit(&p);
}

/* A few slots for overlap are worth more than the last of the trunk: a step's experts are read together. */
static void test_a_step_of_experts_has_slots_while_the_trunk_streams(void **state) {
    (void)state;
    static struct model m;
    mixture(&m);
    struct placement p;
    struct error err;
    m.input.budget_bytes = 56 * MIB;
    ASSERT_OK(placement_plan(&m.input, &p, &err), err);
    check_plan(&m, &p);
    assert_true(p.stream_count > 0);
    assert_true(p.cache_bytes > (4 * MIB + 384 * KIB) && p.cache_bytes <= 56 * MIB / 8 + 4 * MIB);
    assert_true(p.cache_useless);
    placement_deinit(&p);
}

/* E18: at least 95 % of a budget is used, whatever the sizes. */
static void test_most_of_the_budget_is_used(void **state) {
    (void)state;
    static struct model m;
    mixture(&m);
    for (uint64_t budget = 100 * MIB; budget < m.total_bytes; budget += 37 * MIB) {
        struct placement p;
        struct error err;
        m.input.budget_bytes = budget;
        ASSERT_OK(placement_plan(&m.input, &p, &err), err);
        check_plan(&m, &p);
        assert_true((p.resident_bytes + p.ring_bytes + p.cache_bytes) * 100 >= budget * 95);
        placement_deinit(&p);
    }
}

static void test_size_classes(void **state) {
    (void)state;
    uint64_t sizes[] = {100, 99, 98, 50, 51, 1000, 1001, 970, 100};
    struct size_classes classes;
    size_classes_build(sizes, 9, &classes);
    assert_int_equal(classes.count, 3);
    assert_int_equal(classes.classes[0].slot_bytes, 51);
    assert_int_equal(classes.classes[1].slot_bytes, 100);
    assert_int_equal(classes.classes[1].record_count, 4);
    assert_int_equal(classes.classes[2].slot_bytes, 1001);
    assert_int_equal(size_classes_find(&classes, 50), 0);
    assert_int_equal(size_classes_find(&classes, 98), 1);
    assert_int_equal(size_classes_bytes(&classes, 1), 1152);
    assert_int_equal(size_classes_bytes(&classes, 3), 2 * 51 + 3 * 100 + 3 * 1001);
    assert_int_equal(size_classes_cut(&classes, UINT64_MAX), 2 * 51 + 4 * 100 + 3 * 1001);
    assert_int_equal(size_classes_cut(&classes, 1152), 1152);
    /* many different sizes: merged until eight are enough, and every record still fits its class */
    uint64_t many[300];
    for (uint64_t i = 0; i < 300; i++)
        many[i] = 1000 + i * i * 7;
    size_classes_build(many, 300, &classes);
    assert_true(classes.count <= SIZE_CLASSES_MAX);
    uint64_t seed = 5, last = 0;
    for (uint64_t i = 0; i < 300; i++)
        assert_true(classes.classes[size_classes_find(&classes, many[i])].slot_bytes >= many[i]);
    for (uint64_t budget = size_classes_bytes(&classes, 1); budget < 60000000; budget += below(&seed, 700000)) {
        uint64_t used = size_classes_cut(&classes, budget);
        assert_true(used <= budget && used >= last);
        for (uint32_t c = 0; c < classes.count; c++)
            assert_true(classes.classes[c].slot_count >= 1 && classes.classes[c].slot_count <= classes.classes[c].record_count);
        last = used;
    }
}

/* E8: every allocation that fails gives an error and leaves nothing behind. */
static void test_failing_allocations(void **state) {
    (void)state;
    static struct model m;
    mixture(&m);
    m.input.budget_bytes = 200 * MIB;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    struct placement p;
    struct error err;
    enum status status = STATUS_NO_MEMORY;
    int failures = 0;
    for (uint64_t n = 1; status != STATUS_OK; n++) {
        memory_fail_after(n);
        status = placement_plan(&m.input, &p, &err);
        memory_fail_after(0);
        if (status != STATUS_OK) {
            assert_int_equal(status, STATUS_NO_MEMORY);
            failures++;
        }
        placement_deinit(&p);
        assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
    }
    assert_true(failures >= 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_properties_hold_for_random_models),
        cmocka_unit_test(test_same_input_same_plan),
        cmocka_unit_test(test_resident_records_are_spread_over_the_pass),
        cmocka_unit_test(test_one_large_record_does_not_blow_up_the_ring),
        cmocka_unit_test(test_almost_everything_fits),
        cmocka_unit_test(test_small_records_stay),
        cmocka_unit_test(test_trunk_goes_before_the_cache),
        cmocka_unit_test(test_a_step_of_experts_has_slots_while_the_trunk_streams),
        cmocka_unit_test(test_most_of_the_budget_is_used),
        cmocka_unit_test(test_size_classes),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
