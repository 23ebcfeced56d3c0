/* Weights as pages of their files: the bytes, what is counted, and what happens when a file is cut short under the mapping. */
#include "store_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/bus_guard.h"

static struct fixture f;
static const struct fixture_spec all_resident = {.resident = 60, .kind = READ_QUEUE_SYNC, .depth = 4, .seed = 5};

static void open_mapped(void) {
    fixture_model(&f, &all_resident);
    fixture_open_queue(&f, &all_resident);
    fixture_options(&f, &all_resident);
    f.options.mapped = true;
    f.options.lock = true; /* may be refused, and is no error then */
    ASSERT_OK(store_create(&f.options, &f.store, &f.err), f.err);
}

static void test_gives_the_bytes_of_the_files(void **state) {
    (void)state;
    uint64_t trunk_before = memory_owner_bytes(MEMORY_TRUNK), size = 0;
    open_mapped();
    for (uint32_t file = 0; file < FIXTURE_FILES; file++)
        size += f.size_bytes[file];
    uint64_t counted = memory_owner_bytes(MEMORY_TRUNK) - trunk_before;
    assert_true(counted > size - size / 8 && counted <= size + 4096 * 2 * 8); /* gaps may be left out, whole pages are counted */
    ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
    fixture_check_resident(&f);
    ASSERT_OK(store_intact(f.store, &f.err), f.err);
    struct store_stats stats;
    store_stats_read(f.store, &stats);
    assert_int_equal(stats.read_bytes, 0);
    assert_true(stats.resident_bytes > 0 && stats.load_ns > 0);
    fixture_close(&f);
    assert_int_equal(memory_owner_bytes(MEMORY_TRUNK), trunk_before);
}

static uint64_t reported, total;
static bool stop_at_once(void *context, uint64_t done_bytes, uint64_t total_bytes) {
    (void)context;
    reported = done_bytes;
    total = total_bytes;
    return false;
}

static void test_can_be_cancelled_and_done_again(void **state) {
    (void)state;
    open_mapped();
    ASSERT_FAILS(store_load_resident(f.store, stop_at_once, NULL, &f.err), STATUS_CANCELLED, f.err);
    assert_true(reported > 0 && reported <= total);
    ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
    fixture_check_resident(&f);
    fixture_close(&f);
}

/* The record that lies furthest back in its file. */
static weight_id last_record(uint32_t file) {
    weight_id last = 0;
    uint64_t end = 0;
    for (weight_id id = 0; id < f.record_count; id++) {
        const struct weight_piece *piece = &f.pieces[f.records[id].first_piece + f.records[id].piece_count - 1];
        if (piece->file == file && piece->offset_bytes + piece->size_bytes > end) {
            end = piece->offset_bytes + piece->size_bytes;
            last = id;
        }
    }
    assert_int_equal(end, f.size_bytes[file]);
    return last;
}

static void rewrite(uint32_t file) {
    FILE *stream = fopen(f.path[file], "r+b");
    assert_non_null(stream);
    assert_int_equal(fwrite(f.bytes[file], 1, f.size_bytes[file], stream), f.size_bytes[file]);
    assert_int_equal(fclose(stream), 0);
}

static void test_a_file_cut_short_while_running_is_an_error(void **state) {
    (void)state;
    open_mapped();
    ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
    for (uint32_t file = 0; file < FIXTURE_FILES; file++) {
        struct weight_lease lease;
        ASSERT_OK(store_acquire(f.store, last_record(file), &lease, &f.err), f.err);
        const struct weight_piece *piece = &f.pieces[f.records[lease.id].first_piece + lease.piece_count - 1];
        const volatile uint8_t *last = lease.pieces[lease.piece_count - 1] + piece->size_bytes - 1;
        assert_int_equal(*last, f.bytes[file][f.size_bytes[file] - 1]);
        struct stat before;
        assert_int_equal(stat(f.path[file], &before), 0);
        assert_int_equal(truncate(f.path[file], 4096), 0);
        assert_int_equal(*last, 0); /* the page is gone, and the process is not */
        ASSERT_FAILS(store_intact(f.store, &f.err), STATUS_IO, f.err);
        assert_non_null(strstr(f.err.text, f.path[file]));
        assert_non_null(strstr(f.err.text, "offset"));
        rewrite(file);
        assert_int_equal(*last, f.bytes[file][f.size_bytes[file] - 1]); /* readable again */
        ASSERT_FAILS(store_intact(f.store, &f.err), STATUS_IO, f.err);  /* but may hold anything now */
        assert_non_null(strstr(f.err.text, "rewritten"));
        const struct timespec times[2] = {before.st_atim, before.st_mtim};
        assert_int_equal(utimensat(AT_FDCWD, f.path[file], times, 0), 0);
        ASSERT_OK(store_intact(f.store, &f.err), f.err); /* nothing is lost any more, and the file is as it was */
        store_release(f.store, &lease);
    }
    fixture_check_resident(&f);
    fixture_close(&f);
}

static void test_a_file_cut_short_before_loading_is_an_error(void **state) {
    (void)state;
    open_mapped();
    assert_int_equal(truncate(f.path[1], 8192), 0);
    ASSERT_FAILS(store_load_resident(f.store, NULL, NULL, &f.err), STATUS_IO, f.err);
    assert_non_null(strstr(f.err.text, f.path[1]));
    rewrite(1);
    ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
    fixture_check_resident(&f);
    fixture_close(&f);
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    open_mapped();
    store_destroy(f.store);
    f.store = NULL;
    unsigned failures = 0;
    for (uint64_t n = 1;; n++) {
        memory_fail_after(n);
        enum status status = store_create(&f.options, &f.store, &f.err);
        memory_fail_after(0);
        if (status == STATUS_OK)
            break;
        assert_int_equal(status, STATUS_NO_MEMORY);
        failures++;
    }
    assert_true(failures > 4);
    ASSERT_OK(store_load_resident(f.store, NULL, NULL, &f.err), f.err);
    fixture_check_resident(&f);
    fixture_close(&f);
}

static void test_guards_are_limited(void **state) {
    (void)state;
    static const uint8_t page[4096];
    static unsigned ranges[BUS_GUARD_RANGES_MAX];
    uint64_t offset;
    struct error err;
    for (unsigned i = 0; i < BUS_GUARD_RANGES_MAX; i++)
        ASSERT_OK(bus_guard_add(page, sizeof page, &ranges[i], &err), err);
    unsigned more;
    ASSERT_FAILS(bus_guard_add(page, sizeof page, &more, &err), STATUS_UNSUPPORTED, err);
    for (unsigned i = 0; i < BUS_GUARD_RANGES_MAX; i++) {
        assert_false(bus_guard_lost(ranges[i], &offset));
        bus_guard_remove(ranges[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_the_bytes_of_the_files),
        cmocka_unit_test(test_can_be_cancelled_and_done_again),
        cmocka_unit_test(test_a_file_cut_short_while_running_is_an_error),
        cmocka_unit_test(test_a_file_cut_short_before_loading_is_an_error),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_guards_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
