/*
 * test_expected: what the next step will probably want is read while this one goes on: after what is demanded, into victims' places,
 * counted as missed, and stopped where too little of it comes true; and which routers a plan can ask early.
 */
#include "engine_fixture.h"
#include "store_fixture.h"

#include <errno.h>

#include "engine/engine_internal.h"

static struct fixture f;

static const struct fixture_spec quiet = {
    .layers = 2, .experts = 24, .slots = 24, .ring_quarters = 4, .kind = READ_QUEUE_THREADS, .depth = 8, .seed = 5};

static void open_store(const struct fixture_spec *spec) {
    fixture_model(&f, spec);
    fixture_open_store(&f, spec);
}

/* Experts [first, first + count) of a layer. */
static void choose(uint32_t layer, uint32_t first, uint32_t count, weight_id *ids) {
    for (uint32_t i = 0; i < count; i++)
        ids[i] = fixture_expert(&f, layer, first + i);
}

/* A step that tells of the next one as soon as it has asked for its own. */
static void step_expecting(const weight_id *ids, uint32_t count, const weight_id *next, uint32_t next_count) {
    ASSERT_OK(store_want(f.store, ids, count, STORE_LISTED, &f.err), f.err);
    store_expect(f.store, next, next_count);
    store_check(f.store);
    for (uint32_t taken = 0; taken < count; taken++) {
        uint32_t index;
        struct weight_lease lease;
        fixture_take(&f, 3, &index, &lease);
        assert_true(fixture_right(&f, &lease, 3));
        store_release(f.store, &lease);
        store_check(f.store);
    }
    store_want_end(f.store);
}

static void poll_to_the_end(void) {
    while (read_queue_in_flight(f.queue) > 0) {
        store_poll(f.store);
        store_check(f.store);
    }
}

static void is_read_between_steps(void **state) {
    weight_id now[4], next[8], others[8];
    (void)state;
    open_store(&quiet);
    choose(0, 0, 4, now);
    choose(1, 0, 8, next);
    step_expecting(now, 4, next, 8);
    poll_to_the_end();
    struct store_stats before = fixture_stats(&f);
    uint64_t bytes = 8 * 3 * 30000;
    assert_int_equal(before.misses, 4);
    assert_int_equal(before.expected_bytes, bytes);
    assert_int_equal(before.expected_used_bytes, 0);
    fixture_step(&f, next, 8);
    struct store_stats after = fixture_stats(&f);
    assert_int_equal(after.reads, before.reads); /* nothing was left to read */
    assert_int_equal(after.misses, 12);          /* and yet they had to be read */
    assert_int_equal(after.hits, 0);
    assert_int_equal(after.demanded_bytes, before.demanded_bytes + bytes);
    assert_int_equal(after.expected_used_bytes, bytes);
    fixture_step(&f, next, 8);
    assert_int_equal(fixture_stats(&f).hits, 8); /* the second time they are hits */
    choose(1, 8, 8, others);
    store_expect(f.store, next, 8); /* they are there */
    store_expect(f.store, others, 0);
    assert_int_equal(fixture_stats(&f).expected_bytes, bytes);
    fixture_close(&f);
}

/* Demanded reads are asked for first, all of them. */
static void comes_after_what_is_demanded(void **state) {
    weight_id now[8], next[4];
    const struct read_faults late = {.seed = 3, .delay_rate = 1, .delay_reaps = 30};
    struct fixture_spec spec = quiet;
    (void)state;
    spec.faults = &late;
    spec.depth = 5;
    open_store(&spec);
    choose(0, 0, 8, now);
    choose(1, 0, 4, next);
    ASSERT_OK(store_want(f.store, now, 8, STORE_ANY, &f.err), f.err);
    store_expect(f.store, next, 4);
    for (uint32_t taken = 0; taken < 8; taken++) {
        uint32_t index;
        struct weight_lease lease;
        fixture_take(&f, 3, &index, &lease);
        assert_true(read_queue_faulty_submitted(f.queue) >= 3 * 8 || fixture_stats(&f).expected_bytes == 0);
        store_release(f.store, &lease);
    }
    store_want_end(f.store);
    poll_to_the_end();
    assert_int_equal(fixture_stats(&f).expected_bytes, 4 * 3 * 30000);
    fixture_close(&f);
}

/* What was used longest ago makes room; what is expected and there already stays. */
static void victims_make_room(void **state) {
    weight_id old[12], now[2], next[6];
    struct fixture_spec spec = quiet;
    (void)state;
    spec.layers = 1; /* slots of one size */
    spec.slots = 12;
    open_store(&spec);
    choose(0, 0, 12, old);
    fixture_step(&f, old, 12);
    choose(0, 10, 2, now);
    next[0] = old[0]; /* the next victim, were it not expected */
    choose(0, 12, 5, next + 1);
    step_expecting(now, 2, next, 6);
    poll_to_the_end();
    uint64_t reads = fixture_stats(&f).reads;
    assert_int_equal(fixture_stats(&f).evictions, 4); /* half of what the step leaves: five are told, one of them is there */
    fixture_step(&f, next, 5);
    assert_int_equal(fixture_stats(&f).reads, reads);
    fixture_close(&f);
}

/* A router that cannot be foretold costs the bytes of a few wrong guesses, then less than one in a hundred. */
static void wrong_guesses_end_it(void **state) {
    weight_id now[2], next[10];
    struct fixture_spec spec = quiet;
    (void)state;
    spec.layers = 1;
    spec.slots = 10;
    open_store(&spec);
    uint32_t rounds = 0;
    for (; store_may_expect(f.store); rounds++) { /* always two others */
        assert_true(rounds < 3000);
        choose(0, 2 * (rounds % 3), 2, now);
        choose(0, 6 + 9 * (rounds % 2), 9, next);
        step_expecting(now, 2, next, 9);
        poll_to_the_end();
    }
    struct store_stats stats = fixture_stats(&f);
    uint64_t wrong_bytes = stats.expected_bytes - stats.expected_used_bytes;
    assert_true(wrong_bytes > (32 << 20) && wrong_bytes < (33 << 20) + stats.demanded_bytes / 128);
    fixture_close(&f);
}

static void in_the_midst_of_everything(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct fixture_spec spec = fixture_usual;
        const struct read_faults faults = {
            .seed = seed, .delay_rate = 0.4, .delay_reaps = 15, .short_rate = 0.2, .reorder = true, .corrupt_unread = true};
        spec.seed = seed;
        spec.kind = seed % 2 ? READ_QUEUE_THREADS : READ_QUEUE_SYNC;
        spec.faults = seed % 3 ? &faults : NULL;
        spec.slots = 1 + (uint32_t)seed % 16;
        spec.depth = 1 + (unsigned)seed % 8;
        open_store(&spec);
        for (int round = 0; round < 30; round++) {
            weight_id ids[FIXTURE_RECORDS_MAX] = {0}, next[FIXTURE_RECORDS_MAX] = {0};
            uint32_t layer = fixture_below(&f, f.layers), count = 1 + fixture_below(&f, f.experts), told = fixture_below(&f, f.experts + 1);
            fixture_choose(&f, layer, count, ids);
            fixture_choose(&f, (layer + fixture_below(&f, 2)) % f.layers, told, next);
            if (fixture_below(&f, 4) == 0)
                store_cache_limit(f.store, fixture_random(&f) % (2 * f.options.cache_bytes));
            if (round % 3 == 0)
                fixture_step(&f, ids, count);
            else
                step_expecting(ids, count, next, told);
            fixture_pass(&f, f.stream_count);
            if (fixture_below(&f, 8) == 0)
                store_reset(f.store);
            store_check(f.store);
        }
        assert_true(fixture_stats(&f).expected_used_bytes <= fixture_stats(&f).expected_bytes);
        store_reset(f.store);
        fixture_close(&f);
    }
}

/* A read that fails disturbs nobody: who wants the record reads it anew. */
static void failures_are_silent(void **state) {
    weight_id now[2], next[8];
    (void)state;
    for (uint64_t n = 2 * 3 + 1; n <= (2 + 8) * 3; n++) {
        struct fixture_spec spec = quiet;
        const struct read_faults broken = {.seed = 3, .fail_at = n, .fail_errno = EIO};
        spec.faults = &broken;
        open_store(&spec);
        choose(0, 0, 2, now);
        choose(1, 0, 8, next);
        step_expecting(now, 2, next, 8);
        poll_to_the_end();
        assert_int_equal(fixture_stats(&f).expected_bytes, 8 * 3 * 30000);
        fixture_step(&f, next, 8);
        assert_int_equal(fixture_stats(&f).misses, 2 + 8);
        fixture_close(&f);
    }
}

/* ---- plans ---- */

/* Every mixture but the last asks its successor, from the same stream, and changes nothing that the pass itself writes. */
static void every_mixture_asks_the_next(void **state) {
    static const char *const paths[] = {"models/qwen3_moe", "models/gpt_oss-mxfp4", "models/deepseek_v32", "models/qwen3_next",
                                        "models/lfm2_moe"};
    (void)state;
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
        sluice_model *model;
        sluice_error error;
        uint32_t mixtures = 0;
        ENGINE_OK(sluice_open(engine_path(paths[p]), &model, &error), error);
        const struct plan *plan = &model->model->plan;
        for (uint32_t s = 0; s < plan->step_count; s++) {
            if (plan->steps[s].op.kind != OP_EXPERTS)
                continue;
            mixtures++;
            if (plan->steps[s].ahead == PLAN_NONE)
                continue;
            const struct plan_ahead *ahead = &plan->aheads[plan->steps[s].ahead];
            assert_true(ahead->mixture > s && plan->steps[ahead->mixture].op.kind == OP_EXPERTS);
            assert_int_equal(plan->steps[ahead->steps[2]].out[0], plan->steps[ahead->mixture].in[1]);
            for (int i = 0; i < PLAN_AHEAD_STEPS; i++)
                for (uint32_t b = 0; b < plan->buffer_count; b++) {
                    const struct plan_buffer *mine = &plan->buffers[ahead->out[i]], *other = &plan->buffers[b];
                    if (b == ahead->out[i] || other->selected_rows || other->first_step > s || other->last_step < s)
                        continue;
                    assert_true(mine->offset + mine->width <= other->offset || other->offset + other->width <= mine->offset);
                }
        }
        assert_true(mixtures >= 2);
        assert_int_equal(plan->ahead_count, mixtures - 1);
        sluice_close(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_read_between_steps),       cmocka_unit_test(comes_after_what_is_demanded),
        cmocka_unit_test(victims_make_room),           cmocka_unit_test(wrong_guesses_end_it),
        cmocka_unit_test(in_the_midst_of_everything),  cmocka_unit_test(failures_are_silent),
        cmocka_unit_test(every_mixture_asks_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
