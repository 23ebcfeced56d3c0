/* test_file_stream: ranges come in their order with their bytes, whatever their sizes and places; a file that was cut short is told. */
#include "test_support.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack/file_stream.h"

#define FILES 3
#define RANGES 400

struct fixture {
    char path[FILES][64];
    uint8_t *bytes[FILES];
    uint64_t size_bytes[FILES];
    struct file_set *files;
    struct stream_range ranges[RANGES];
    uint32_t asked, count;
    uint64_t random;
};

static uint64_t next_random(struct fixture *f) {
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return f->random;
}

static bool next_range(void *context, struct stream_range *range) {
    struct fixture *f = context;
    if (f->asked == f->count)
        return false;
    *range = f->ranges[f->asked++];
    return true;
}

static void open_files(struct fixture *f) {
    static const uint64_t sizes[FILES] = {1, 3 * STREAM_CHUNK_BYTES + 777, 100001};
    struct error err;
    *f = (struct fixture){.random = 99};
    ASSERT_OK(file_set_create(&f->files, &err), err);
    for (int i = 0; i < FILES; i++) {
        uint32_t number;
        f->size_bytes[i] = sizes[i];
        f->bytes[i] = malloc(sizes[i]);
        assert_non_null(f->bytes[i]);
        for (uint64_t k = 0; k < sizes[i]; k++)
            f->bytes[i][k] = (uint8_t)(next_random(f) >> 20);
        (void)snprintf(f->path[i], sizeof f->path[i], "/var/tmp/sluice-stream-XXXXXX");
        int fd = mkstemp(f->path[i]);
        assert_true(fd >= 0 && write(fd, f->bytes[i], sizes[i]) == (ssize_t)sizes[i] && close(fd) == 0);
        ASSERT_OK(file_set_add(f->files, f->path[i], &number, &err), err);
    }
    f->count = RANGES;
    for (uint32_t r = 0; r < RANGES; r++) {
        uint32_t file = (uint32_t)(next_random(f) % FILES);
        uint64_t offset = next_random(f) % f->size_bytes[file], left = f->size_bytes[file] - offset;
        uint64_t most = r % 3 ? 5000 : STREAM_CHUNK_BYTES, size = 1 + next_random(f) % (left < most ? left : most);
        f->ranges[r] = (struct stream_range){.file = file, .offset_bytes = offset, .size_bytes = size, .tag = r};
    }
}

static void close_files(struct fixture *f) {
    file_set_destroy(f->files);
    for (int i = 0; i < FILES; i++) {
        assert_int_equal(unlink(f->path[i]), 0);
        free(f->bytes[i]);
    }
}

static void test_order_and_bytes(void **state) {
    (void)state;
    struct fixture f;
    struct file_stream *stream;
    struct stream_range range;
    struct error err;
    const uint8_t *data;
    open_files(&f);
    ASSERT_OK(file_stream_create(f.files, 0, next_range, &f, &stream, &err), err);
    for (uint32_t r = 0; r < RANGES; r++) {
        ASSERT_OK(file_stream_take(stream, &range, &data, &err), err);
        assert_non_null(data);
        assert_int_equal(range.tag, r);
        assert_int_equal(range.size_bytes, f.ranges[r].size_bytes);
        assert_true(f.asked <= r + STREAM_CHUNKS); /* no more is read ahead than there are places for */
        assert_memory_equal(data, f.bytes[range.file] + range.offset_bytes, range.size_bytes);
    }
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(file_stream_take(stream, &range, &data, &err), err);
        assert_null(data);
    }
    assert_true(file_stream_destroy(stream));
    close_files(&f);
}

static void test_given_up_half_way(void **state) {
    (void)state;
    struct fixture f;
    struct file_stream *stream;
    struct stream_range range;
    struct error err;
    const uint8_t *data;
    open_files(&f);
    ASSERT_OK(file_stream_create(f.files, 0, next_range, &f, &stream, &err), err);
    ASSERT_OK(file_stream_take(stream, &range, &data, &err), err);
    assert_true(file_stream_destroy(stream)); /* with reads in flight */
    assert_true(file_stream_destroy(NULL));
    close_files(&f);
}

static void test_a_file_that_was_cut_short(void **state) {
    (void)state;
    struct fixture f;
    struct file_stream *stream;
    struct stream_range range;
    struct error err;
    const uint8_t *data;
    enum status status = STATUS_OK;
    open_files(&f);
    assert_int_equal(truncate(f.path[1], 5000), 0);
    ASSERT_OK(file_stream_create(f.files, 0, next_range, &f, &stream, &err), err);
    for (uint32_t r = 0; r < RANGES && status == STATUS_OK; r++)
        status = file_stream_take(stream, &range, &data, &err);
    assert_int_equal(status, STATUS_CORRUPT);
    assert_non_null(strstr(err.text, f.path[1]));
    assert_non_null(strstr(err.text, "cut off"));
    assert_true(file_stream_destroy(stream));
    close_files(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_bytes),
        cmocka_unit_test(test_given_up_half_way),
        cmocka_unit_test(test_a_file_that_was_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
