/*
 * test_stalls: a disk that does not answer. What waits for it ends in time with an error that names file, offset and seconds; the memory
 * that a lost read may still write to is used by nobody; when the read comes after all, hours later, it disturbs nothing; and closing ends.
 *
 * Model   the double holds reads back (hold_from, hold_count) until it is told to release them; then they are read into the memory that
 * they were meant for. What was not read is full of 0xA5. While all that is in flight is held back the clock is moved on, so the time-out
 * is the program's own, which no read of a busy machine meets.
 */
#include "../unit/engine_fixture.h"
#include "../unit/store_fixture.h"
#include "../unit/test_clock.h"

#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_internal.h"
#include "io/read_wait.h"

static struct fixture f;

static const struct fixture_spec small = {.resident = 5,
                                          .streamed = 6,
                                          .layers = 2,
                                          .experts = 6,
                                          .ring_quarters = 9,
                                          .slots = 4,
                                          .kind = READ_QUEUE_SYNC,
                                          .depth = 6,
                                          .seed = 9};

static void clean_error(enum status status) {
    if (status != STATUS_IO || !strstr(f.err.text, "/tmp/sluice-store-") || !strstr(f.err.text, "offset") ||
        !strstr(f.err.text, "has not come back after") || !strstr(f.err.text, "dmesg"))
        fail_msg("%s: %s", status_name(status), f.err.text);
    store_check(f.store);
}

static void open_stalling(const struct fixture_spec *spec) {
    fixture_open_queue(&f, spec);
    fixture_options(&f, spec);
    f.options.count_usage = true;
    ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
    store_check(f.store);
}

/* ---- what a request does ---- */

static enum status use_experts(uint32_t layer, uint32_t count, enum store_order order) {
    weight_id ids[FIXTURE_RECORDS_MAX] = {0};
    fixture_choose(&f, layer, count, ids);
    TRY(store_want(f.store, ids, count, order, &f.err));
    for (uint32_t taken = 0; taken < count; taken++) {
        uint32_t index;
        struct weight_lease lease;
        TRY(store_take(f.store, 3, true, &index, &lease, &f.err));
        store_check(f.store);
        assert_true(fixture_right(&f, &lease, 3));
        store_release(f.store, &lease);
    }
    store_want_end(f.store);
    store_check(f.store);
    return STATUS_OK;
}

static enum status use_ranges(void) {
    enum { COUNT = 8 };
    struct weight_piece pieces[COUNT];
    uint8_t bytes[COUNT][9000], *dst[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t size = 1 + fixture_below(&f, 9000);
        pieces[i] = (struct weight_piece){.file = i % FIXTURE_FILES, .size_bytes = size};
        pieces[i].offset_bytes = fixture_below(&f, (uint32_t)(f.size_bytes[i % FIXTURE_FILES] - size));
        dst[i] = bytes[i];
    }
    TRY(store_read_ranges(f.store, pieces, COUNT, dst, &f.err));
    for (uint32_t i = 0; i < COUNT; i++)
        assert_memory_equal(dst[i], f.bytes[pieces[i].file] + pieces[i].offset_bytes, pieces[i].size_bytes);
    return STATUS_OK;
}

static enum status request(void) {
    TRY(store_load_resident(f.store, NULL, NULL, &f.err));
    for (uint32_t i = 0; i < f.stream_count; i++) {
        struct weight_lease lease;
        TRY(store_acquire(f.store, f.order[i], &lease, &f.err));
        store_check(f.store);
        assert_true(fixture_right(&f, &lease, lease.piece_count));
        enum status status = use_experts(i % f.layers, 3, i % 2 ? STORE_ANY : STORE_LISTED);
        if (status == STATUS_OK)
            assert_true(fixture_right(&f, &lease, lease.piece_count)); /* a late read has not been here */
        store_release(f.store, &lease);
        TRY(status);
    }
    return use_ranges();
}

/* Requests until one goes well, `most` at most. Returns how many failed. */
static uint32_t requests(uint32_t most) {
    for (uint32_t failed = 0; failed < most; failed++) {
        uint64_t began_ns = clock_now_ns();
        enum status status = request();
        assert_true(clock_now_ns() - began_ns < 3 * READ_TIMEOUT_NS);
        if (status == STATUS_OK)
            return failed;
        clean_error(status);
        store_reset(f.store);
        store_check(f.store);
    }
    return most;
}

/* ---- one read, and many, from any on ---- */

static void held_from(enum read_queue_kind kind, uint64_t first, uint64_t count, bool ahead) {
    uint64_t before = engine_live_bytes();
    struct fixture_spec spec = small;
    const struct read_faults faults = {.seed = first, .hold_from = first, .hold_count = count, .corrupt_unread = true};
    spec.kind = kind;
    spec.faults = &faults;
    f.random = first;
    open_stalling(&spec);
    weight_id all[FIXTURE_RECORDS_MAX] = {0};
    for (uint32_t i = 0; i < f.experts; i++)
        all[i] = fixture_expert(&f, (uint32_t)first % 2, i);
    if (ahead) {
        store_prefill(f.store, all, f.experts);
        for (int i = 0; i < 6; i++)
            (void)store_tend(f.store);
    }
    (void)requests(3); /* held reads may leave room enough, or not */
    store_reset(f.store);
    store_cache_limit(f.store, first % 2 ? 0 : UINT64_MAX);
    store_check(f.store);
    read_queue_faulty_release(f.queue);
    (void)requests(3); /* while the late ones come */
    while (read_queue_in_flight(f.queue) > 0)
        store_poll(f.store);
    store_check(f.store);
    if (requests(10) == 10) /* read-ahead may have failed before */
        fail_msg("reads from %llu on were held, then none: %s", (unsigned long long)first, f.err.text);
    store_reset(f.store);
    store_check(f.store);
    assert_true(store_destroy(f.store));
    read_queue_destroy(f.queue);
    f.store = NULL;
    f.queue = NULL;
    assert_int_equal(engine_live_bytes(), before);
}

static void each_read_is_held(void **state) {
    (void)state;
    fixture_model(&f, &small);
    for (uint64_t first = 1; first < 110; first += first < 30 ? 1 : 3) {
        held_from(READ_QUEUE_SYNC, first, 1, false);
        held_from(first % 2 ? READ_QUEUE_THREADS : READ_QUEUE_SYNC, first, 3, first % 3 == 0);
    }
    fixture_close(&f);
}

static void all_reads_are_held(void **state) {
    (void)state;
    fixture_model(&f, &small);
    for (uint64_t first = 1; first < 90; first += 4)
        held_from(READ_QUEUE_THREADS, first, UINT64_MAX / 2, first % 8 == 1);
    fixture_close(&f);
}

/* All places of the queue are lost while loading; the next load finds those that came meanwhile. */
static void a_load_is_tried_again(void **state) {
    (void)state;
    const struct read_faults faults = {.seed = 1, .hold_from = 1, .hold_count = 6, .corrupt_unread = true};
    struct fixture_spec spec = small;
    spec.resident = 10;
    spec.faults = &faults;
    fixture_model(&f, &spec);
    open_stalling(&spec);
    clean_error(store_load_resident(f.store, NULL, NULL, &f.err));
    clean_error(store_load_resident(f.store, NULL, NULL, &f.err));
    read_queue_faulty_release(f.queue);
    ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
    fixture_check_resident(&f);
    assert_int_equal(requests(1), 0);
    fixture_close(&f);
}

/* ---- closing ---- */

/* In a process of its own, since what is left behind stays with it. */
static void in_a_child(void (*body)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("the child ended with %d", status);
}

#define MUST(condition)                                             \
    do {                                                            \
        if (!(condition)) {                                         \
            print_error("line %d: not %s\n", __LINE__, #condition); \
            _exit(1);                                               \
        }                                                           \
    } while (0)

static void close_while_stuck(void) {
    const struct read_faults faults = {.seed = 1, .hold_from = 40, .hold_count = UINT64_MAX / 2};
    struct fixture_spec spec = small;
    spec.faults = &faults;
    open_stalling(&spec);
    MUST(request() == STATUS_IO);
    store_reset(f.store);
    uint64_t began_ns = clock_now_ns();
    MUST(!store_destroy(f.store));
    MUST(clock_now_ns() - began_ns < 10000000000u);
    read_queue_faulty_release(f.queue); /* it comes after all: nothing breaks */
    while (read_queue_reap(f.queue, true, 1000000000u) != NULL)
        continue;
    MUST(read_queue_in_flight(f.queue) == 0);
}

static void closing_ends(void **state) {
    (void)state;
    fixture_model(&f, &small);
    in_a_child(close_while_stuck);
    fixture_close(&f);
}

/* ---- the engine ---- */

enum { PROMPT = 20, GENERATED = 6 };

struct setup {
    struct read_faults faults;
    struct read_queue *faulty;
};

static enum status wrap(void *context, struct read_queue *inner, struct read_queue **out, struct error *err) {
    struct setup *s = context;
    enum status status = read_queue_faulty_create(inner, &s->faults, out, err);
    s->faulty = *out;
    return status;
}

static const sluice_load_options tight = {.ram = SLUICE_RAM_MIN, .context = PROMPT + GENERATED, .threads = 2};
static uint32_t prompt[PROMPT];
static const char *subject;

static sluice_model *load_stalling(struct setup *s, uint64_t hold_from, uint64_t hold_count) {
    sluice_error error;
    *s = (struct setup){.faults = {.seed = 1, .hold_from = hold_from, .hold_count = hold_count, .corrupt_unread = true}};
    sluice_model *model = engine_open(subject);
    engine_set_queue_wrapper(model, (struct queue_wrapper){.wrap = wrap, .context = s});
    engine_forget_peak();
    ENGINE_OK(sluice_load(model, &tight, &error), error);
    return model;
}

static void a_request_ends(void **state) {
    static const char *const subjects[] = {"models/qwen3_moe", "models/llama-tied-bias.gguf"};
    (void)state;
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        struct setup s;
        struct engine_ids want, ids;
        sluice_error error;
        subject = engine_path(subjects[i]);
        engine_prompt(prompt, PROMPT, 100, 5);
        sluice_model *model = load_stalling(&s, 0, 0);
        uint64_t loading = read_queue_faulty_submitted(s.faulty);
        ENGINE_OK(engine_generate(model, prompt, PROMPT, GENERATED, 0.7f, &want, &error), error);
        uint64_t all = read_queue_faulty_submitted(s.faulty);
        sluice_close(model);
        unsigned failed = 0;
        for (uint64_t from = loading + 1; from <= all; from += 1 + (all - loading) / 20) {
            model = load_stalling(&s, from, 1 + from % 3);
            for (int round = 0; round < 2; round++) {
                sluice_status status = engine_generate(model, prompt, PROMPT, GENERATED, 0.7f, &ids, &error);
                assert_true(memcmp(ids.ids, want.ids, ids.count * sizeof *ids.ids) == 0);
                assert_true(status == SLUICE_OK || status == SLUICE_IO);
                if (status == SLUICE_IO && (!strstr(error.text, "has not come back") || !strstr(error.text, "offset")))
                    fail_msg("%s", error.text);
                failed += status == SLUICE_IO;
            }
            read_queue_faulty_release(s.faulty);
            while (read_queue_in_flight(s.faulty) > 0) /* the late ones still come */
                store_poll(model->store);
            sluice_status status = engine_generate(model, prompt, PROMPT, GENERATED, 0.7f, &ids, &error);
            for (int tries = 0; status != SLUICE_OK && tries < 10; tries++) /* read-ahead may have failed before */
                status = engine_generate(model, prompt, PROMPT, GENERATED, 0.7f, &ids, &error);
            ENGINE_OK(status, error);
            assert_true(engine_same_ids(&ids, &want));
            sluice_close(model);
        }
        assert_true(failed > 5);
    }
}

static void close_a_stuck_model(void) {
    struct setup s;
    struct engine_ids ids;
    sluice_error error;
    sluice_model *model = load_stalling(&s, 0, 0);
    uint64_t loading = read_queue_faulty_submitted(s.faulty);
    sluice_close(model);
    model = load_stalling(&s, loading + 3, UINT64_MAX / 2);
    MUST(engine_generate(model, prompt, PROMPT, GENERATED, 0.7f, &ids, &error) == SLUICE_IO);
    uint64_t began_ns = clock_now_ns();
    sluice_close(model);
    MUST(clock_now_ns() - began_ns < 10000000000u);
    subject = engine_path("models/llama.gguf"); /* another one works meanwhile */
    model = load_stalling(&s, 0, 0);
    MUST(engine_generate(model, prompt, PROMPT, GENERATED, 0.7f, &ids, &error) == SLUICE_OK);
    sluice_close(model);
}

static void closing_a_model_ends(void **state) {
    (void)state;
    subject = engine_path("models/qwen3_moe");
    in_a_child(close_a_stuck_model);
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_read_is_held), cmocka_unit_test(all_reads_are_held), cmocka_unit_test(a_load_is_tried_again),
        cmocka_unit_test(closing_ends),      cmocka_unit_test(a_request_ends),     cmocka_unit_test(closing_a_model_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
