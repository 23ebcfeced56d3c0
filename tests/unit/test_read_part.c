/* test_read_part: cutting of requests and the judging of results, with results that no healthy disk gives. */
#include "test_support.h"

#include <errno.h>

#include "base/log.h"
#include "io/read_part.h"
#include "io_fixture.h"

#define FILE_BYTES ((uint64_t)(4 << 20) + 777)

struct fixture {
    struct io_folder folder;
    char path[128];
    struct file_set *files;
    uint32_t file;
    struct error err;
    struct read_request *request;
    struct read_request_list waiting;
    struct read_part part;
    uint64_t pause_ns;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    return f && io_files_open(&f->folder, FILE_BYTES, f->path, sizeof f->path, &f->files, &f->file) ? 0 : -1;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    io_request_destroy(f->request);
    io_files_close(&f->folder, f->path, f->files);
    free(f);
    return 0;
}

static void start(struct fixture *f, uint64_t offset_bytes, uint64_t size_bytes) {
    io_request_destroy(f->request);
    f->request = io_request_create(f->files, 0, offset_bytes, size_bytes);
    assert_true(read_request_start(f->files, f->request));
    f->waiting = (struct read_request_list){0};
    read_request_push(&f->waiting, f->request);
}

static void start_one_part(struct fixture *f, uint64_t offset_bytes, uint64_t size_bytes) {
    start(f, offset_bytes, size_bytes);
    assert_true(read_request_take_part(f->files, &f->waiting, &f->part));
    assert_null(f->waiting.first);
}

/* Makes the next call as the queue would and gives `result` for it. */
static enum read_step answer(struct fixture *f, int64_t result) {
    (void)read_part_call(f->files, &f->part);
    return read_part_result(f->files, &f->part, result, &f->pause_ns);
}

static bool has_direct(const struct fixture *f) { return file_set_direct_fd(f->files, 0) >= 0; }

static void parts_cover_the_window(void **state) {
    struct fixture *f = *state;
    const uint64_t sizes[] = {1, 5000, 1 << 20, (1 << 20) + 1, 2 << 20, (3 << 20) - 1, FILE_BYTES - 100};
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        start(f, 100, sizes[i]);
        struct read_window window = read_queue_window(f->files, 0, 100, sizes[i]);
        uint64_t place = 0, alignment = file_set_alignment(f->files, 0);
        unsigned open = 0;
        while (read_request_take_part(f->files, &f->waiting, &f->part)) {
            open++;
            assert_int_equal(f->part.position_bytes, place);
            assert_int_equal(f->part.base_bytes, window.begin_bytes);
            assert_true(f->part.end_bytes % alignment == 0 && f->part.end_bytes > place);
            uint64_t size = f->part.end_bytes - place;
            assert_true(size < 2 * READ_PART_BYTES + alignment);
            assert_true(window.window_bytes < READ_PART_BYTES || size > READ_PART_BYTES / 2);
            assert_true(f->part.needed_bytes <= 100 % alignment + sizes[i]);
            place = f->part.end_bytes;
        }
        assert_int_equal(place, window.window_bytes);
        assert_int_equal(f->request->open_parts, open);
        assert_int_equal(open, window.window_bytes < READ_PART_BYTES ? 1 : window.window_bytes / READ_PART_BYTES);
    }
}

static void E6_calls_are_aligned(void **state) {
    struct fixture *f = *state;
    uint64_t alignment = file_set_alignment(f->files, 0);
    start_one_part(f, 4096 * 7 + 32, 9000);
    struct read_call call = read_part_call(f->files, &f->part);
    assert_int_equal(call.direct, has_direct(f));
    assert_int_equal(call.offset_bytes % alignment, 0);
    assert_int_equal(call.size_bytes % alignment, 0);
    assert_int_equal((uintptr_t)call.dst % alignment, 0);
}

static void E7_short_reads_are_continued(void **state) {
    struct fixture *f = *state;
    start_one_part(f, 0, 100000);
    assert_int_equal(answer(f, 65536), READ_STEP_CALL);
    struct read_call call = read_part_call(f->files, &f->part);
    assert_int_equal(call.direct, has_direct(f));
    assert_int_equal(call.offset_bytes, 65536);
    assert_ptr_equal(call.dst, f->request->dst + 65536);
    assert_int_equal(answer(f, 100), READ_STEP_CALL); /* to a place where no direct read can start */
    call = read_part_call(f->files, &f->part);
    assert_false(call.direct);
    assert_int_equal(call.fd, file_set_buffered_fd(f->files, 0));
    assert_int_equal(call.offset_bytes, 65636);
    assert_int_equal(answer(f, 100000 - 65636 - 1), READ_STEP_CALL);
    assert_int_equal(answer(f, 1), READ_STEP_END); /* all wanted bytes are there, the window is not full */
    assert_int_equal(f->part.status, STATUS_OK);
    assert_true(read_request_end_part(&f->waiting, &f->part));
    assert_int_equal(f->request->read_bytes, 100000);
}

static void the_end_of_the_file_is_corrupt(void **state) {
    struct fixture *f = *state;
    start_one_part(f, 0, 100000);
    assert_int_equal(answer(f, 4096), READ_STEP_CALL);
    assert_int_equal(answer(f, 0), READ_STEP_END);
    assert_true(read_request_end_part(&f->waiting, &f->part));
    assert_int_equal(f->request->status, STATUS_CORRUPT);
    assert_int_equal(f->request->system_error, 0);
}

static void E6_refused_direct_reads_become_buffered(void **state) {
    struct fixture *f = *state;
    if (!has_direct(f))
        skip();
    start_one_part(f, 0, 100000);
    assert_int_equal(answer(f, -EINVAL), READ_STEP_CALL);
    assert_int_equal(file_set_direct_fd(f->files, 0), -1); /* for all requests from now on */
    assert_false(read_part_call(f->files, &f->part).direct);
    assert_int_equal(answer(f, -EINVAL), READ_STEP_END); /* a buffered read has no such excuse */
    assert_int_equal(f->part.status, STATUS_IO);
    assert_int_equal(f->part.system_error, EINVAL);
}

static void E9_device_errors_are_repeated_twice(void **state) {
    struct fixture *f = *state;
    start_one_part(f, 0, 100000);
    assert_int_equal(answer(f, -EIO), READ_STEP_PAUSE);
    assert_true(f->pause_ns > 0);
    assert_int_equal(answer(f, -EIO), READ_STEP_PAUSE);
    assert_int_equal(answer(f, 4096), READ_STEP_CALL); /* bytes came: counted anew */
    assert_int_equal(answer(f, -EIO), READ_STEP_PAUSE);
    assert_int_equal(answer(f, -EIO), READ_STEP_PAUSE);
    assert_int_equal(answer(f, -EIO), READ_STEP_END);
    assert_true(read_request_end_part(&f->waiting, &f->part));
    assert_int_equal(f->request->status, STATUS_IO);
    assert_int_equal(f->request->system_error, EIO);
    assert_int_equal(f->request->attempts, 3);
    assert_int_equal(f->request->retries, 4);
    ASSERT_FAILS(read_request_error(f->files, f->request, &f->err), STATUS_IO, f->err);
    assert_non_null(strstr(f->err.text, f->path));
    assert_non_null(strstr(f->err.text, "100000 bytes at offset 0"));
    assert_non_null(strstr(f->err.text, strerror(EIO)));
}

static void other_errors_are_final(void **state) {
    struct fixture *f = *state;
    start_one_part(f, 0, 100);
    assert_int_equal(answer(f, -ENOMEM), READ_STEP_END);
    assert_int_equal(f->part.system_error, ENOMEM);
}

static void E7_interruptions_are_repeated_but_not_for_ever(void **state) {
    struct fixture *f = *state;
    start_one_part(f, 0, 100);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(answer(f, -EINTR), READ_STEP_CALL);
        assert_int_equal(answer(f, -EAGAIN), READ_STEP_PAUSE);
    }
    assert_int_equal(answer(f, -EAGAIN), READ_STEP_END);
    assert_int_equal(f->part.system_error, EAGAIN);
}

static void a_failed_part_ends_the_request(void **state) {
    struct fixture *f = *state;
    struct read_part first, second, third;
    start(f, 0, 4 << 20);
    assert_true(read_request_take_part(f->files, &f->waiting, &first));
    assert_true(read_request_take_part(f->files, &f->waiting, &second));
    assert_non_null(f->waiting.first);
    second.status = STATUS_IO;
    second.system_error = EIO;
    assert_false(read_request_end_part(&f->waiting, &second)); /* the first one still runs */
    assert_false(read_request_take_part(f->files, &f->waiting, &third));
    assert_true(read_request_end_part(&f->waiting, &first));
    assert_int_equal(f->request->status, STATUS_IO);
    assert_int_equal(f->request->system_error, EIO);
}

static void lists_are_first_in_first_out(void **state) {
    (void)state;
    struct read_request a = {0}, b = {0};
    struct read_request_list list = {0};
    assert_null(read_request_pop(&list));
    read_request_push(&list, &a);
    read_request_push(&list, &b);
    assert_ptr_equal(read_request_pop(&list), &a);
    read_request_push(&list, &a);
    assert_ptr_equal(read_request_pop(&list), &b);
    assert_ptr_equal(read_request_pop(&list), &a);
    assert_null(read_request_pop(&list));
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_cover_the_window, setup, teardown),
        cmocka_unit_test_setup_teardown(E6_calls_are_aligned, setup, teardown),
        cmocka_unit_test_setup_teardown(E7_short_reads_are_continued, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_the_file_is_corrupt, setup, teardown),
        cmocka_unit_test_setup_teardown(E6_refused_direct_reads_become_buffered, setup, teardown),
        cmocka_unit_test_setup_teardown(E9_device_errors_are_repeated_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(other_errors_are_final, setup, teardown),
        cmocka_unit_test_setup_teardown(E7_interruptions_are_repeated_but_not_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_part_ends_the_request, setup, teardown),
        cmocka_unit_test(lists_are_first_in_first_out),
    };
    return cmocka_run_group_tests_name("read_part", tests, NULL, NULL);
}
