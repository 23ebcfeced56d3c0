/* test_file_set: opening by kind of file, sizes, blocking reads, alignment, refusal of direct reads, and changes under us. */
#include "test_support.h"

#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#include "base/log.h"
#include "io/file_set.h"
#include "io_fixture.h"

#define FILE_BYTES 100001u

struct fixture {
    struct io_folder folder;
    char path[128];
    struct file_set *files;
    uint32_t file;
    struct error err;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    log_set_level(LOG_ERROR);
    return f && io_files_open(&f->folder, FILE_BYTES, f->path, sizeof f->path, &f->files, &f->file) ? 0 : -1;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    io_files_close(&f->folder, f->path, f->files);
    free(f);
    return 0;
}

static void numbers_and_sizes(void **state) {
    struct fixture *f = *state;
    uint32_t again = 99;
    assert_int_equal(f->file, 0);
    ASSERT_OK(file_set_add(f->files, f->path, &again, &f->err), f->err);
    assert_int_equal(again, 1);
    assert_int_equal(file_set_count(f->files), 2);
    assert_int_equal(file_set_size_bytes(f->files, 0), FILE_BYTES);
    assert_string_equal(file_set_path(f->files, 1), f->path);
    assert_true(file_set_buffered_fd(f->files, 0) >= 0);
}

static void refuses(struct fixture *f, const char *path, enum status status, const char *word) {
    uint32_t file = 77;
    ASSERT_FAILS(file_set_add(f->files, path, &file, &f->err), status, f->err);
    assert_non_null(strstr(f->err.text, word));
    assert_int_equal(file, 77);
    assert_int_equal(file_set_count(f->files), 1);
}

static void other_kinds_of_files_are_refused_by_name(void **state) {
    struct fixture *f = *state;
    char pipe_path[128];
    refuses(f, "", STATUS_INVALID, "empty");
    refuses(f, f->folder.path, STATUS_INVALID, "a directory");
    refuses(f, "/dev/null", STATUS_INVALID, "a device");
    refuses(f, "/nonexistent/model.gguf", STATUS_NOT_FOUND, "/nonexistent/model.gguf");
    (void)snprintf(pipe_path, sizeof pipe_path, "%s/pipe", f->folder.path);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    refuses(f, pipe_path, STATUS_INVALID, "a pipe"); /* and does not wait for a writer */
    assert_int_equal(unlink(pipe_path), 0);
}

static void an_empty_file_opens(void **state) {
    struct fixture *f = *state;
    char path[128];
    uint32_t file;
    uint8_t byte;
    assert_true(io_file_create(&f->folder, "empty", 0, path, sizeof path));
    ASSERT_OK(file_set_add(f->files, path, &file, &f->err), f->err);
    assert_int_equal(file_set_size_bytes(f->files, file), 0);
    ASSERT_OK(file_set_read(f->files, file, 0, &byte, 0, &f->err), f->err);
    ASSERT_FAILS(file_set_read(f->files, file, 0, &byte, 1, &f->err), STATUS_CORRUPT, f->err);
    (void)unlink(path);
}

static void reads_any_range(void **state) {
    struct fixture *f = *state;
    static uint8_t data[FILE_BYTES];
    uint64_t random = 1;
    for (int i = 0; i < 300; i++) {
        uint64_t offset = io_random(&random) % (FILE_BYTES + 1), size = io_random(&random) % (FILE_BYTES - offset + 1);
        ASSERT_OK((i % 2 ? file_set_read_small : file_set_read)(f->files, 0, offset, data, size, &f->err), f->err);
        assert_true(io_bytes_match(data, offset, size));
    }
}

static void reads_past_the_end_name_file_and_range(void **state) {
    struct fixture *f = *state;
    uint8_t data[16];
    ASSERT_FAILS(file_set_read(f->files, 0, FILE_BYTES - 3, data, 4, &f->err), STATUS_CORRUPT, f->err);
    assert_non_null(strstr(f->err.text, f->path));
    assert_non_null(strstr(f->err.text, "99998"));
    assert_non_null(strstr(f->err.text, "100001"));
    ASSERT_FAILS(file_set_read(f->files, 0, UINT64_MAX, data, 2, &f->err), STATUS_CORRUPT, f->err); /* the sum overflows */
    ASSERT_FAILS(file_set_read_small(f->files, 0, UINT64_MAX, data, 2, &f->err), STATUS_CORRUPT, f->err);
    assert_int_equal(truncate(f->path, 50000), 0);
    ASSERT_FAILS(file_set_read_small(f->files, 0, 49990, data, 16, &f->err), STATUS_CORRUPT, f->err);
    ASSERT_FAILS(file_set_read(f->files, 0, 49990, data, 16, &f->err), STATUS_CORRUPT, f->err);
    assert_non_null(strstr(f->err.text, "50000"));
}

static void alignment_is_a_power_of_two(void **state) {
    struct fixture *f = *state;
    uint32_t alignment = file_set_alignment(f->files, 0);
    assert_true(alignment >= 1 && alignment <= 65536);
    assert_int_equal(alignment & (alignment - 1), 0);
}

static void direct_reads_can_be_given_up(void **state) {
    struct fixture *f = *state;
    uint32_t alignment = file_set_alignment(f->files, 0);
    file_set_refuse_direct(f->files, 0, 22);
    file_set_refuse_direct(f->files, 0, 22);
    assert_int_equal(file_set_direct_fd(f->files, 0), -1);
    assert_int_equal(file_set_alignment(f->files, 0), alignment); /* windows that were computed stay right */
}

static void a_memory_file_system_works(void **state) {
    struct fixture *f = *state;
    struct io_folder folder;
    char path[128];
    uint32_t file;
    static uint8_t data[9999];
    if (!io_folder_create(&folder, "/dev/shm"))
        skip();
    assert_true(io_file_create(&folder, "model.bin", sizeof data, path, sizeof path));
    ASSERT_OK(file_set_add(f->files, path, &file, &f->err), f->err);
    ASSERT_OK(file_set_read(f->files, file, 0, data, sizeof data, &f->err), f->err);
    assert_true(io_bytes_match(data, 0, sizeof data));
    file_set_drop_behind(f->files, file, 0, sizeof data);
    (void)unlink(path);
    io_folder_destroy(&folder);
}

static void expect_changed(struct fixture *f, const char *word) {
    ASSERT_FAILS(file_set_check(f->files, &f->err), STATUS_IO, f->err);
    assert_non_null(strstr(f->err.text, f->path));
    assert_non_null(strstr(f->err.text, word));
}

static void an_unchanged_file_passes_the_check(void **state) {
    struct fixture *f = *state;
    uint8_t byte;
    ASSERT_OK(file_set_read(f->files, 0, 5, &byte, 1, &f->err), f->err);
    assert_int_equal(chmod(f->path, 0400), 0);
    ASSERT_OK(file_set_check(f->files, &f->err), f->err);
    assert_int_equal(unlink(f->path), 0); /* the open file still has its bytes */
    ASSERT_OK(file_set_check(f->files, &f->err), f->err);
}

static void a_resized_file_is_found(void **state) {
    struct fixture *f = *state;
    assert_int_equal(truncate(f->path, FILE_BYTES + 1), 0);
    expect_changed(f, "100002");
}

static void a_rewritten_file_is_found(void **state) {
    struct fixture *f = *state;
    struct stat info;
    assert_int_equal(stat(f->path, &info), 0);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, info.st_mtim};
    times[1].tv_nsec ^= 1 << 21; /* same size, two milliseconds beside, most times in the same second */
    times[1].tv_nsec %= 1000000000;
    assert_int_equal(utimensat(AT_FDCWD, f->path, times, 0), 0);
    expect_changed(f, "rewritten");
}

static void a_replaced_file_is_found(void **state) {
    struct fixture *f = *state;
    char other[128];
    struct stat info;
    assert_int_equal(stat(f->path, &info), 0);
    assert_true(io_file_create(&f->folder, "other.bin", FILE_BYTES, other, sizeof other));
    struct timespec times[2] = {info.st_mtim, info.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, other, times, 0), 0); /* same size and time, other inode */
    assert_int_equal(rename(other, f->path), 0);
    expect_changed(f, "replaced");
}

struct reader {
    struct fixture *f;
    uint64_t seed;
    bool ok;
};

static void *read_ranges(void *context) {
    struct reader *reader = context;
    uint8_t data[4000];
    struct error err;
    reader->ok = true;
    for (int i = 0; i < 200; i++) {
        uint64_t offset = io_random(&reader->seed) % (FILE_BYTES - sizeof data);
        reader->ok = reader->ok && file_set_read(reader->f->files, 0, offset, data, sizeof data, &err) == STATUS_OK &&
                     io_bytes_match(data, offset, sizeof data);
    }
    return NULL;
}

static void many_threads_read_while_files_are_added(void **state) {
    struct fixture *f = *state;
    struct reader readers[4];
    pthread_t threads[4];
    uint32_t file;
    for (unsigned i = 0; i < 4; i++) {
        readers[i] = (struct reader){.f = f, .seed = i};
        assert_int_equal(pthread_create(&threads[i], NULL, read_ranges, &readers[i]), 0);
    }
    for (int i = 0; i < 100; i++)
        ASSERT_OK(file_set_add(f->files, f->path, &file, &f->err), f->err);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(readers[i].ok);
    }
}

static void no_memory_is_an_error(void **state) {
    struct fixture *f = *state;
    struct file_set *files = NULL;
    uint32_t file;
    memory_fail_after(1);
    ASSERT_FAILS(file_set_create(&files, &f->err), STATUS_NO_MEMORY, f->err);
    assert_null(files);
    for (uint64_t n = 1; n <= 2; n++) {
        memory_fail_after(n);
        ASSERT_FAILS(file_set_add(f->files, f->path, &file, &f->err), STATUS_NO_MEMORY, f->err);
    }
    memory_fail_after(0);
    assert_int_equal(file_set_count(f->files), 1);
    file_set_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(numbers_and_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(other_kinds_of_files_are_refused_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_file_opens, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_any_range, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_past_the_end_name_file_and_range, setup, teardown),
        cmocka_unit_test_setup_teardown(alignment_is_a_power_of_two, setup, teardown),
        cmocka_unit_test_setup_teardown(direct_reads_can_be_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_memory_file_system_works, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unchanged_file_passes_the_check, setup, teardown),
        cmocka_unit_test_setup_teardown(a_resized_file_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rewritten_file_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(a_replaced_file_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(many_threads_read_while_files_are_added, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_is_an_error, setup, teardown),
    };
    return cmocka_run_group_tests_name("file_set", tests, NULL, NULL);
}
