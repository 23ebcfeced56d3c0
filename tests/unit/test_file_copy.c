/* test_file_copy: what is taken for a copy of a file, and what the set knows of copies. */
#include "test_support.h"

#include "base/log.h"
#include "io/file_copy.h"
#include "io_fixture.h"

#define FILE_BYTES ((uint64_t)(5 << 20) + 777)

struct fixture {
    struct io_folder folder, memory;
    char path[128], copy[128];
    struct file_set *files;
    uint32_t file;
    struct error err;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    log_set_level(LOG_ERROR);
    return f && io_files_open(&f->folder, FILE_BYTES, f->path, sizeof f->path, &f->files, &f->file) &&
                   io_folder_create(&f->memory, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/var/tmp") &&
                   io_file_create(&f->memory, "copy", FILE_BYTES, f->copy, sizeof f->copy)
               ? 0
               : -1;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    (void)unlink(f->copy);
    io_folder_destroy(&f->memory);
    io_files_close(&f->folder, f->path, f->files);
    free(f);
    return 0;
}

static void flip(const char *path, uint64_t offset_bytes) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte = 0;
    assert_true(fd >= 0 && pread(fd, &byte, 1, (off_t)offset_bytes) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset_bytes), 1);
    assert_int_equal(close(fd), 0);
}

static void a_copy_has_a_number_and_the_strictest_alignment(void **state) {
    struct fixture *f = *state;
    uint32_t copy, alone;
    uint32_t before = file_set_alignment(f->files, 0);
    ASSERT_OK(file_set_add(f->files, f->copy, &alone, &f->err), f->err);
    uint32_t other = file_set_alignment(f->files, alone), larger = before > other ? before : other;
    ASSERT_OK(file_set_add_copy(f->files, 0, f->copy, &copy, &f->err), f->err);
    ASSERT_OK(file_copy_check(f->files, 0, copy, 4096, &f->err), f->err);
    assert_int_equal(copy, 2);
    assert_int_equal(file_set_copies(f->files, 0), 2);
    assert_int_equal(file_set_copies(f->files, copy), 2);
    assert_int_equal(file_set_copies(f->files, alone), 1);
    assert_int_equal(file_set_copy(f->files, copy, 0), 0);
    assert_int_equal(file_set_copy(f->files, 0, 1), copy);
    assert_int_equal(file_set_copy_number(f->files, copy), 1);
    assert_int_equal(file_set_alignment(f->files, 0), larger);
    assert_int_equal(file_set_alignment(f->files, copy), larger);
    assert_int_equal(file_set_device(f->files, copy), file_set_device(f->files, alone));
    assert_true(file_set_same(f->files, alone, copy) && !file_set_same(f->files, 0, copy));
}

static void another_byte_is_found(void **state) {
    struct fixture *f = *state;
    const uint64_t places[] = {0, 5000, (1 << 20) - 1, (1 << 20) + 3000000, FILE_BYTES - 1};
    uint32_t copy;
    ASSERT_OK(file_set_add_copy(f->files, 0, f->copy, &copy, &f->err), f->err);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char at[32];
        flip(f->copy, places[i]);
        /* the fourth lies in the header alone: the rest is sampled */
        ASSERT_FAILS(file_copy_check(f->files, 0, copy, i == 3 ? 4500000 : 100, &f->err), STATUS_INVALID, f->err);
        (void)snprintf(at, sizeof at, "offset %llu;", (unsigned long long)places[i]);
        assert_true(strstr(f->err.text, at) && strstr(f->err.text, f->copy) && strstr(f->err.text, f->path));
        flip(f->copy, places[i]);
    }
    ASSERT_OK(file_copy_check(f->files, 0, copy, FILE_BYTES, &f->err), f->err);
}

static void another_size_is_no_copy(void **state) {
    struct fixture *f = *state;
    uint32_t copy;
    assert_int_equal(truncate(f->copy, (off_t)FILE_BYTES - 1), 0);
    ASSERT_FAILS(file_set_add_copy(f->files, 0, f->copy, &copy, &f->err), STATUS_INVALID, f->err);
    assert_true(strstr(f->err.text, f->copy) && strstr(f->err.text, "5243656 bytes, not 5243657"));
    ASSERT_FAILS(file_set_add_copy(f->files, 0, "/var/tmp/not there", &copy, &f->err), STATUS_NOT_FOUND, f->err);
    assert_int_equal(file_set_copies(f->files, 0), 1);
}

static void seven_copies_at_most(void **state) {
    struct fixture *f = *state;
    uint32_t copy;
    for (int i = 1; i < FILE_COPIES_MAX; i++)
        ASSERT_OK(file_set_add_copy(f->files, 0, f->copy, &copy, &f->err), f->err);
    ASSERT_FAILS(file_set_add_copy(f->files, 0, f->copy, &copy, &f->err), STATUS_INVALID, f->err);
    assert_int_equal(file_set_copies(f->files, 0), FILE_COPIES_MAX);
}

/* A copy that changes is an error while it is read, and not when it is left out. */
static void a_changed_copy_is_found(void **state) {
    struct fixture *f = *state;
    uint32_t copy;
    ASSERT_OK(file_set_add_copy(f->files, 0, f->copy, &copy, &f->err), f->err);
    ASSERT_OK(file_set_check(f->files, &f->err), f->err);
    assert_int_equal(truncate(f->copy, 100), 0);
    ASSERT_FAILS(file_set_check(f->files, &f->err), STATUS_IO, f->err);
    assert_non_null(strstr(f->err.text, f->copy));
    file_set_leave_out(f->files, copy, "it was cut short");
    ASSERT_OK(file_set_check(f->files, &f->err), f->err);
    file_set_leave_out(f->files, 0, "it is the last"); /* and stays */
    assert_true(file_set_left_out(f->files, copy) && !file_set_left_out(f->files, 0));
}

static void no_memory_is_an_error(void **state) {
    struct fixture *f = *state;
    uint32_t copy;
    ASSERT_OK(file_set_add_copy(f->files, 0, f->copy, &copy, &f->err), f->err);
    memory_fail_after(1);
    ASSERT_FAILS(file_copy_check(f->files, 0, copy, 100, &f->err), STATUS_NO_MEMORY, f->err);
    memory_fail_after(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_has_a_number_and_the_strictest_alignment, setup, teardown),
        cmocka_unit_test_setup_teardown(another_byte_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(another_size_is_no_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(seven_copies_at_most, setup, teardown),
        cmocka_unit_test_setup_teardown(a_changed_copy_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_is_an_error, setup, teardown),
    };
    return cmocka_run_group_tests_name("file_copy", tests, NULL, NULL);
}
