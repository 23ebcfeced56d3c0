/* test_io_probe: results that can be, in the time that was promised, with the memory that was allowed. */
#include "test_support.h"

#include "base/clock.h"
#include "base/log.h"
#include "io/io_probe.h"
#include "io_fixture.h"

struct fixture {
    struct io_folder folder;
    char path[128];
    struct file_set *files;
    uint32_t file;
    struct error err;
};

static const struct io_sources one = {.count = 1};

static void open_file(struct fixture *f, uint64_t size_bytes) {
    assert_true(io_folder_create(&f->folder, "/var/tmp"));
    assert_true(io_file_create(&f->folder, "model.bin", size_bytes, f->path, sizeof f->path));
    ASSERT_OK(file_set_create(&f->files, &f->err), f->err);
    ASSERT_OK(file_set_add(f->files, f->path, &f->file, &f->err), f->err);
}

static void close_file(struct fixture *f) { io_files_close(&f->folder, f->path, f->files); }

static void expect_disk_result(struct fixture *f, uint64_t memory_bytes, uint32_t size_max_bytes) {
    struct io_probe_result result = {.memory_bytes_per_s = -1};
    uint64_t before = memory_owner_bytes(MEMORY_STAGING), heap_before = memory_owner_bytes(MEMORY_OTHER), begin_ns = clock_now_ns();
    ASSERT_OK(io_probe_disk(f->files, &one, memory_bytes, &result, &f->err), f->err);
    assert_true(clock_now_ns() - begin_ns < 5000000000u); /* half a second where nothing else runs */
    assert_int_equal(memory_owner_bytes(MEMORY_STAGING), before);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), heap_before);
    assert_true(result.disk_bytes_per_s > 1e4 && result.disk_bytes_per_s < 1e13);
    assert_in_range(result.best_depth, 1, 32);
    assert_in_range(result.best_size, 4096, size_max_bytes);
    assert_true((uint64_t)result.best_depth * result.best_size <= memory_bytes);
    assert_true(result.memory_bytes_per_s == -1);
}

static void measures_a_file(void **state) {
    (void)state;
    struct fixture f = {0};
    open_file(&f, (8 << 20) + 33);
    expect_disk_result(&f, UINT64_MAX, 2 << 20);
    expect_disk_result(&f, 3 << 20, 2 << 20);
    expect_disk_result(&f, 1 << 17, 1 << 17);
    close_file(&f);
}

static void measures_a_small_file(void **state) {
    (void)state;
    struct fixture f = {0};
    open_file(&f, 5000);
    expect_disk_result(&f, 1 << 20, 4096);
    close_file(&f);
}

/* Both at once: depths are of the two together. */
static void measures_two_files(void **state) {
    (void)state;
    struct fixture f = {0};
    struct io_folder memory;
    char path[128];
    uint32_t file;
    const struct io_sources both = {.count = 2, .files = {0, 1}};
    struct io_probe_result result;
    open_file(&f, 4 << 20);
    assert_true(io_folder_create(&memory, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/var/tmp"));
    assert_true(io_file_create(&memory, "model.bin", 3 << 20, path, sizeof path));
    ASSERT_OK(file_set_add(f.files, path, &file, &f.err), f.err);
    ASSERT_OK(io_probe_disk(f.files, &both, UINT64_MAX, &result, &f.err), f.err);
    assert_true(result.disk_bytes_per_s > 1e4 && result.point_count > 0);
    for (unsigned i = 0; i < result.point_count; i++)
        assert_true(result.points[i].depth % 2 == 0 && result.points[i].depth <= 64 && result.points[i].size_bytes <= 2 << 20);
    assert_int_equal(truncate(path, 100), 0); /* and both are read */
    ASSERT_FAILS(io_probe_disk(f.files, &both, UINT64_MAX, &result, &f.err), STATUS_CORRUPT, f.err);
    assert_non_null(strstr(f.err.text, path));
    ASSERT_FAILS(io_probe_disk(f.files, &both, 4 * 4096 - 1, &result, &f.err), STATUS_INVALID, f.err);
    (void)unlink(path);
    io_folder_destroy(&memory);
    close_file(&f);
}

static void too_little_is_refused(void **state) {
    (void)state;
    struct fixture f = {0};
    struct io_probe_result result;
    open_file(&f, 4000);
    ASSERT_FAILS(io_probe_disk(f.files, &one, 1 << 20, &result, &f.err), STATUS_INVALID, f.err);
    close_file(&f);
    open_file(&f, 100000);
    ASSERT_FAILS(io_probe_disk(f.files, &one, 4096, &result, &f.err), STATUS_INVALID, f.err);
    close_file(&f);
}

static void a_file_that_was_cut_off_is_an_error(void **state) {
    (void)state;
    struct fixture f = {0};
    struct io_probe_result result;
    open_file(&f, 3 << 20);
    assert_int_equal(truncate(f.path, 100), 0);
    ASSERT_FAILS(io_probe_disk(f.files, &one, 8 << 20, &result, &f.err), STATUS_CORRUPT, f.err);
    assert_non_null(strstr(f.err.text, f.path));
    close_file(&f);
}

static void measures_memory(void **state) {
    (void)state;
    struct thread_pool *pool;
    struct error err;
    struct io_probe_result result = {.best_depth = 9};
    ASSERT_OK(thread_pool_create(2, &pool, &err), err);
    uint64_t before = memory_owner_bytes(MEMORY_STAGING);
    ASSERT_OK(io_probe_memory(pool, 16 << 20, &result, &err), err);
    assert_true(result.memory_bytes_per_s > 1e7 && result.memory_bytes_per_s < 1e14);
    assert_int_equal(result.best_depth, 9);
    assert_int_equal(memory_owner_bytes(MEMORY_STAGING), before);
    ASSERT_FAILS(io_probe_memory(pool, 1000, &result, &err), STATUS_INVALID, err);
    thread_pool_destroy(pool);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    struct fixture f = {0};
    struct io_probe_result result;
    open_file(&f, 100000);
    uint64_t before = memory_owner_bytes(MEMORY_STAGING);
    for (uint64_t n = 1; n <= 3; n++) {
        memory_fail_after(n);
        ASSERT_FAILS(io_probe_disk(f.files, &one, 1 << 20, &result, &f.err), STATUS_NO_MEMORY, f.err);
        memory_fail_after(0);
        assert_int_equal(memory_owner_bytes(MEMORY_STAGING), before);
    }
    close_file(&f);
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_a_file),
        cmocka_unit_test(measures_a_small_file),
        cmocka_unit_test(measures_two_files),
        cmocka_unit_test(too_little_is_refused),
        cmocka_unit_test(a_file_that_was_cut_off_is_an_error),
        cmocka_unit_test(measures_memory),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("io_probe", tests, NULL, NULL);
}
