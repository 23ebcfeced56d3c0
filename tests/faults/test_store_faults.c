/*
 * test_store_faults: a store over a queue that fails, cuts short, delays and reorders. Every lease has the right bytes or there is an error
 * that names the file; afterwards, with or without a reset, the same store works again; nothing leaks; every invariant holds at every step.
 */
#include "../unit/store_fixture.h"

#include <errno.h>

static struct fixture f;

static const struct fixture_spec small = {.resident = 5,
                                          .streamed = 6,
                                          .layers = 2,
                                          .experts = 6,
                                          .ring_quarters = 9,
                                          .slots = 3,
                                          .kind = READ_QUEUE_SYNC,
                                          .depth = 6,
                                          .seed = 9};

/* What a caller does after an error. */
enum recovery {
    RECOVER_RESET,    /* gives up the request, resets the store */
    RECOVER_END_STEP, /* ends the step in order, then resets */
    RECOVER_RETRY,    /* asks again for what failed, without a reset */
};

struct run {
    enum recovery recovery;
    uint32_t errors;
};

static void expect_clean_error(struct run *run, enum status status) {
    run->errors++;
    assert_true(status == STATUS_IO);
    assert_int_equal(f.err.status, status);
    assert_non_null(strstr(f.err.text, "/tmp/sluice-store-")); /* the file */
    assert_non_null(strstr(f.err.text, "offset"));
    store_check(f.store);
}

static enum status use_resident(void) {
    for (weight_id id = 0; id < f.record_count; id++) {
        if (f.lives[id] != WEIGHT_RESIDENT)
            continue;
        struct weight_lease lease;
        enum status status = store_acquire(f.store, id, &lease, &f.err);
        if (status != STATUS_OK)
            return status;
        assert_true(fixture_right(&f, &lease, lease.piece_count));
        store_release(f.store, &lease);
    }
    return STATUS_OK;
}

/* Takes all of a step. ids[0 .. *failed_count) are those that failed, for another try. */
static enum status take_all(struct run *run, weight_id *ids, uint32_t count, enum store_order order, uint32_t *failed_count) {
    weight_id failed[FIXTURE_RECORDS_MAX];
    *failed_count = 0;
    enum status status = store_want(f.store, ids, count, order, &f.err);
    for (uint32_t taken = 0; taken < count && status == STATUS_OK; taken++) {
        uint32_t index;
        struct weight_lease lease;
        status = store_take(f.store, 1 + fixture_below(&f, 3), true, &index, &lease, &f.err);
        store_check(f.store);
        assert_true(index < count);
        if (status == STATUS_OK) {
            assert_true(lease.id == ids[index] && (order == STORE_ANY || index == taken));
            assert_true(fixture_right(&f, &lease, 1));
            status = store_wait_pieces(f.store, &lease, &f.err);
            assert_true(status != STATUS_OK || fixture_right(&f, &lease, 3));
            store_release(f.store, &lease);
            store_check(f.store);
        }
        if (status != STATUS_OK) {
            assert_non_null(strstr(f.err.text, "expert"));
            if (run->recovery == RECOVER_RETRY) {
                expect_clean_error(run, status);
                failed[(*failed_count)++] = ids[index];
                status = STATUS_OK;
            }
        }
    }
    if (status == STATUS_OK || run->recovery == RECOVER_END_STEP)
        store_want_end(f.store);
    store_check(f.store);
    memcpy(ids, failed, *failed_count * sizeof ids[0]);
    return status;
}

static enum status use_experts(struct run *run, uint32_t layer, uint32_t count, enum store_order order) {
    weight_id ids[FIXTURE_RECORDS_MAX];
    fixture_choose(&f, layer, count, ids);
    while (count > 0)
        TRY(take_all(run, ids, count, order, &count));
    return STATUS_OK;
}

static enum status use_ranges(struct run *run) {
    enum { COUNT = 8 };
    struct weight_piece pieces[COUNT];
    uint8_t bytes[COUNT][9000], *dst[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t file = i % FIXTURE_FILES;
        uint64_t size = 1 + fixture_below(&f, 9000);
        pieces[i] = (struct weight_piece){
            .file = file, .offset_bytes = fixture_below(&f, (uint32_t)(f.size_bytes[file] - size)), .size_bytes = size};
        dst[i] = bytes[i];
    }
    enum status status;
    while ((status = store_read_ranges(f.store, pieces, COUNT, dst, &f.err)) != STATUS_OK) {
        if (run->recovery != RECOVER_RETRY)
            return status;
        expect_clean_error(run, status);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        assert_memory_equal(dst[i], f.bytes[pieces[i].file] + pieces[i].offset_bytes, pieces[i].size_bytes);
    return STATUS_OK;
}

static enum status pass(struct run *run, uint32_t records) {
    for (uint32_t i = 0; i < records; i++) {
        struct weight_lease lease;
        enum status status;
        while ((status = store_acquire(f.store, f.order[i], &lease, &f.err)) != STATUS_OK) {
            assert_non_null(strstr(f.err.text, "attn"));
            if (run->recovery != RECOVER_RETRY)
                return status;
            expect_clean_error(run, status);
        }
        store_check(f.store);
        assert_true(fixture_right(&f, &lease, lease.piece_count));
        if (i % 2 == 0)
            status = use_experts(run, i / 2 % f.layers, 4, i % 4 ? STORE_ANY : STORE_LISTED);
        store_poll(f.store);
        assert_true(fixture_right(&f, &lease, lease.piece_count));
        store_release(f.store, &lease);
        store_check(f.store);
        TRY(status);
    }
    return STATUS_OK;
}

/* One request: everything that a store does. */
static enum status request(struct run *run) {
    enum status status;
    while ((status = store_load_resident(f.store, NULL, NULL, &f.err)) != STATUS_OK) {
        if (run->recovery != RECOVER_RETRY)
            return status;
        expect_clean_error(run, status);
    }
    TRY(use_resident());
    TRY(pass(run, f.stream_count));
    TRY(use_ranges(run));
    TRY(pass(run, f.stream_count / 2));
    store_stream_rewind(f.store);
    store_check(f.store);
    return pass(run, f.stream_count);
}

/* Requests until `wanted_good` went well in a row. Returns how many errors there were. */
static uint32_t requests(struct run *run, uint32_t wanted_good) {
    for (uint32_t good = 0; good < wanted_good;) {
        enum status status = request(run);
        if (status == STATUS_OK) {
            good++;
        } else {
            expect_clean_error(run, status);
            store_reset(f.store);
            assert_int_equal(read_queue_in_flight(f.queue), 0);
            store_check(f.store);
            good = 0;
        }
        store_reset(f.store); /* also after success it changes nothing but the stream's place */
        store_check(f.store);
    }
    return run->errors;
}

static void memory_now(uint64_t bytes[MEMORY_OWNER_COUNT]) {
    for (int owner = 0; owner < MEMORY_OWNER_COUNT; owner++)
        bytes[owner] = memory_owner_bytes((enum memory_owner)owner);
}

/* E9: the n-th read fails, for every n up to the last. */
static void fail_each_read(enum read_queue_kind kind, enum recovery recovery, uint64_t stride) {
    struct fixture_spec spec = small;
    spec.kind = kind;
    fixture_model(&f, &spec);
    uint64_t failures = 0;
    for (uint64_t n = 1, submitted = n; n <= submitted; n += stride) {
        uint64_t before[MEMORY_OWNER_COUNT], after[MEMORY_OWNER_COUNT];
        memory_now(before);
        struct read_faults faults = {.seed = n, .fail_at = n, .fail_errno = n % 2 ? EIO : EREMOTEIO, .corrupt_unread = true};
        spec.faults = &faults;
        f.random = n;
        fixture_open_store(&f, &spec);
        struct run run = {.recovery = recovery};
        failures += requests(&run, 1);
        submitted = read_queue_faulty_submitted(f.queue);
        fixture_close_store(&f);
        memory_now(after);
        assert_memory_equal(before, after, sizeof before);
    }
    fixture_close(&f);
    assert_true(failures >= 100 / stride);
}

static void test_each_read_fails_then_reset(void **state) {
    (void)state;
    fail_each_read(READ_QUEUE_SYNC, RECOVER_RESET, 1);
}

static void test_each_read_fails_then_the_step_ends(void **state) {
    (void)state;
    fail_each_read(READ_QUEUE_SYNC, RECOVER_END_STEP, 1);
}

static void test_each_read_fails_then_it_is_asked_for_again(void **state) {
    (void)state;
    fail_each_read(READ_QUEUE_SYNC, RECOVER_RETRY, 1);
}

static void test_reads_fail_in_threads(void **state) {
    (void)state;
    fail_each_read(READ_QUEUE_THREADS, RECOVER_RESET, 7);
    fail_each_read(READ_QUEUE_THREADS, RECOVER_RETRY, 7);
}

/* Short reads, delays and reordering are no errors. */
static void test_disorder_changes_no_byte(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct read_faults faults = {
            .seed = seed, .short_rate = 0.4, .delay_rate = 0.5, .delay_reaps = 9, .reorder = true, .corrupt_unread = true};
        struct fixture_spec spec = small;
        spec.kind = seed % 2 ? READ_QUEUE_SYNC : READ_QUEUE_THREADS;
        spec.faults = &faults;
        spec.seed = seed;
        spec.slots = 1 + (uint32_t)seed % 4;
        spec.depth = 1 + (unsigned)seed % 7;
        spec.ring_quarters = 4 + (uint32_t)seed % 9;
        fixture_open(&f, &spec);
        struct run run = {.recovery = RECOVER_RESET};
        assert_int_equal(requests(&run, 3), 0);
        fixture_close(&f);
    }
}

static void test_everything_at_once(void **state) {
    (void)state;
    uint32_t errors = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t before[MEMORY_OWNER_COUNT], after[MEMORY_OWNER_COUNT];
        memory_now(before);
        struct read_faults faults = {.seed = seed,
                                     .fail_errno = EIO,
                                     .fail_rate = 0.01,
                                     .short_rate = 0.3,
                                     .delay_rate = 0.4,
                                     .delay_reaps = 6,
                                     .reorder = true,
                                     .corrupt_unread = true};
        struct fixture_spec spec = small;
        spec.kind = seed % 2 ? READ_QUEUE_SYNC : READ_QUEUE_THREADS;
        spec.faults = &faults;
        spec.seed = seed;
        spec.slots = 1 + (uint32_t)seed % 5;
        spec.depth = 1 + (unsigned)seed % 9;
        spec.ring_quarters = 4 + (uint32_t)seed % 11;
        fixture_open(&f, &spec);
        struct run run = {.recovery = (enum recovery)(seed % 3)};
        uint64_t requests_left = 6; /* at this rate a request seldom ends well: what counts is that each ends */
        while (requests_left-- > 0) {
            enum status status = request(&run);
            if (status != STATUS_OK) {
                expect_clean_error(&run, status);
                store_reset(f.store);
                store_check(f.store);
            }
        }
        errors += run.errors;
        store_reset(f.store);
        fixture_close(&f);
        memory_now(after);
        assert_memory_equal(before, after, sizeof before);
    }
    assert_true(errors >= 60);
}

/* A disk that is gone for good: every request ends with an error, none with a byte. */
static void test_all_reads_fail(void **state) {
    (void)state;
    struct read_faults faults = {.seed = 1, .fail_errno = EIO, .fail_rate = 1.0, .corrupt_unread = true};
    struct fixture_spec spec = small;
    spec.faults = &faults;
    spec.resident = 0;
    fixture_open(&f, &spec);
    for (int round = 0; round < 5; round++) {
        struct run run = {.recovery = RECOVER_END_STEP};
        enum status status = pass(&run, 1);
        assert_int_equal(status, STATUS_IO);
        expect_clean_error(&run, status);
        status = use_experts(&run, 0, 4, STORE_ANY);
        assert_int_equal(status, STATUS_IO);
        expect_clean_error(&run, status);
        status = use_ranges(&run);
        assert_int_equal(status, STATUS_IO);
        expect_clean_error(&run, status);
        store_stream_rewind(f.store); /* without a reset */
        store_check(f.store);
    }
    store_reset(f.store);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_read_fails_then_reset),
        cmocka_unit_test(test_each_read_fails_then_the_step_ends),
        cmocka_unit_test(test_each_read_fails_then_it_is_asked_for_again),
        cmocka_unit_test(test_reads_fail_in_threads),
        cmocka_unit_test(test_disorder_changes_no_byte),
        cmocka_unit_test(test_everything_at_once),
        cmocka_unit_test(test_all_reads_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
