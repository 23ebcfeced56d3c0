/* test_file: whole files with limits, atomic writes, paths; every error names its path. */
#include "test_support.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

static char directory[] = "/tmp/sluice-test-file-XXXXXX";

static int make_directory(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    (void)state;
    return rmdir(directory);
}

static const char *path_of(const char *name) {
    static char path[200];
    struct error err;
    ASSERT_OK(file_join(directory, name, path, sizeof(path), &err), err);
    return path;
}

static unsigned files_in_directory(void) {
    DIR *listing = opendir(directory);
    unsigned count = 0;
    while (readdir(listing))
        count++;
    closedir(listing);
    return count - 2;
}

static void write_then_read(void **state) {
    (void)state;
    struct error err;
    struct text text;
    const char *path = path_of("a");
    ASSERT_OK(file_write(path, "one\0two", 7, &err), err);
    assert_true(file_exists(path));
    assert_false(file_is_directory(path));
    assert_int_equal(files_in_directory(), 1);
    ASSERT_OK(file_read(path, 7, &text, &err), err);
    assert_int_equal(text.size_bytes, 7);
    assert_memory_equal(text.data, "one\0two", 8); /* the terminating 0 too */
    memory_free((char *)text.data);
    ASSERT_OK(file_write(path, NULL, 0, &err), err);
    ASSERT_OK(file_read(path, 0, &text, &err), err);
    assert_int_equal(text.size_bytes, 0);
    assert_string_equal(text.data, "");
    memory_free((char *)text.data);
    assert_int_equal(unlink(path), 0);
}

static void reading_is_limited(void **state) {
    (void)state;
    struct error err;
    struct text text;
    const char *path = path_of("b");
    ASSERT_OK(file_write(path, "12345678", 8, &err), err);
    ASSERT_FAILS(file_read(path, 7, &text, &err), STATUS_UNSUPPORTED, err);
    assert_non_null(strstr(err.text, path));
    assert_null(text.data);
    assert_int_equal(unlink(path), 0);
    ASSERT_FAILS(file_read(path, 7, &text, &err), STATUS_NOT_FOUND, err);
    assert_non_null(strstr(err.text, path));
    ASSERT_FAILS(file_read(directory, 100, &text, &err), STATUS_INVALID, err);
    assert_true(file_is_directory(directory));
    assert_false(file_exists(path));
}

/* A pipe and /dev/zero have no size: the limit holds all the same. */
static void unsized_files(void **state) {
    (void)state;
    struct error err;
    struct text text;
    ASSERT_FAILS(file_read("/dev/zero", 200000, &text, &err), STATUS_UNSUPPORTED, err);
    int ends[2];
    char path[64];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "through a pipe", 14), 14);
    close(ends[1]);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    ASSERT_OK(file_read(path, 200000, &text, &err), err);
    assert_string_equal(text.data, "through a pipe");
    memory_free((char *)text.data);
    close(ends[0]);
}

static void failed_writes_leave_the_old_file(void **state) {
    (void)state;
    struct error err;
    struct text text;
    const char *path = path_of("c");
    ASSERT_OK(file_write(path, "old", 3, &err), err);
    ASSERT_FAILS(file_write("/nonexistent/x", "new", 3, &err), STATUS_IO, err);
    assert_non_null(strstr(err.text, "/nonexistent/x"));
    ASSERT_FAILS(file_write("/dev/full/x", "new", 3, &err), STATUS_IO, err);
    char partial[220];
    snprintf(partial, sizeof(partial), "%s.partial", path);
    assert_int_equal(symlink("/dev/full", partial), 0); /* the disk is full */
    ASSERT_FAILS(file_write(path, "new", 3, &err), STATUS_IO, err);
    assert_int_equal(files_in_directory(), 1);
    ASSERT_OK(file_read(path, 10, &text, &err), err);
    assert_string_equal(text.data, "old");
    memory_free((char *)text.data);
    assert_int_equal(unlink(path), 0);
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    struct error err;
    struct text text;
    const char *path = path_of("d");
    ASSERT_OK(file_write(path, "text", 4, &err), err);
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    memory_fail_after(1);
    ASSERT_FAILS(file_read(path, 100, &text, &err), STATUS_NO_MEMORY, err);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
    assert_int_equal(unlink(path), 0);
}

static void joined_paths(void **state) {
    (void)state;
    struct error err;
    char path[10];
    ASSERT_OK(file_join("dir", "name", path, sizeof(path), &err), err);
    assert_string_equal(path, "dir/name");
    ASSERT_OK(file_join("dir/", "name", path, sizeof(path), &err), err);
    assert_string_equal(path, "dir/name");
    ASSERT_OK(file_join("", "name", path, sizeof(path), &err), err);
    assert_string_equal(path, "name");
    ASSERT_FAILS(file_join("dir", "names12", path, sizeof(path), &err), STATUS_INVALID, err);
    assert_string_equal(path, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_then_read),       cmocka_unit_test(reading_is_limited),
        cmocka_unit_test(unsized_files),         cmocka_unit_test(failed_writes_leave_the_old_file),
        cmocka_unit_test(no_memory_is_an_error), cmocka_unit_test(joined_paths),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
