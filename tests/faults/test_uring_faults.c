/*
 * test_uring_faults: E6, E7 and E9 for the io_uring queue, with completions that were tampered with: short reads, interruptions, EIO,
 * refused direct reads. Its pauses are timers of the kernel, which are real here.
 *
 * This program defines io_uring_submit_and_wait_timeout itself: it calls the library's and then changes results in the completion ring
 * before the queue looks at them. Results that the queue finds without waiting stay true.
 */
#include "../unit/test_support.h"

#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>

#include "../unit/io_fixture.h"
#include "base/clock.h"
#include "base/log.h"

#define FILE_BYTES ((uint64_t)(3 << 20) + 555)

static struct {
    bool halve;
    int code; /* for `count` read completions, after `skip` good ones */
    unsigned skip, count, changed;
} shim;

static void tamper(struct io_uring_cqe *cqe) {
    if (cqe->res <= 0)
        return; /* a timer, or an error of its own */
    if (shim.skip > 0) {
        shim.skip--;
    } else if (shim.count > 0) {
        shim.count--;
        shim.changed++;
        cqe->res = -shim.code;
    } else if (shim.halve && cqe->res > 1) {
        shim.changed++;
        cqe->res = cqe->res / 3 + 1;
    }
}

typedef int submit_and_wait_timeout(struct io_uring *, struct io_uring_cqe **, unsigned, struct __kernel_timespec *, sigset_t *);

__attribute__((visibility("default"))) int io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **first,
                                                                            unsigned count, struct __kernel_timespec *limit,
                                                                            sigset_t *signals) {
    union {
        void *object;
        submit_and_wait_timeout *function;
    } real = {.object = dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout")};
    assert_non_null(real.object);
    int result = real.function(ring, first, count, limit, signals);
    struct io_uring_cqe *cqe;
    unsigned head;
    io_uring_for_each_cqe(ring, head, cqe) tamper(cqe);
    return result;
}

struct fixture {
    struct io_folder folder;
    char path[128];
    struct file_set *files;
    uint32_t file;
    struct read_queue *queue;
    struct error err;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    memset(&shim, 0, sizeof shim);
    if (!f || !io_folder_create(&f->folder, "/var/tmp") || !io_file_create(&f->folder, "model.bin", FILE_BYTES, f->path, sizeof f->path) ||
        file_set_create(&f->files, &f->err) != STATUS_OK || file_set_add(f->files, f->path, &f->file, &f->err) != STATUS_OK)
        return -1;
    enum status status = read_queue_create(READ_QUEUE_URING, f->files, 8, &f->queue, &f->err);
    return status == STATUS_OK || status == STATUS_UNSUPPORTED ? 0 : -1; /* unsupported: the tests are skipped */
}

static int teardown(void **state) {
    struct fixture *f = *state;
    read_queue_destroy(f->queue);
    io_files_close(&f->folder, f->path, f->files);
    free(f);
    return 0;
}

/* Submits and waits. The request's result is the caller's to judge; *request is to be destroyed. */
static struct read_request *read_one(struct fixture *f, uint64_t offset_bytes, uint64_t size_bytes) {
    if (!f->queue)
        skip();
    struct read_request *request = io_request_create(f->files, 0, offset_bytes, size_bytes);
    assert_int_equal(read_queue_submit(f->queue, request), READ_ACCEPTED);
    assert_ptr_equal(read_queue_reap(f->queue, true, UINT64_MAX), request);
    return request;
}

static void expect_bytes(struct fixture *f, uint64_t offset_bytes, uint64_t size_bytes) {
    struct read_request *request = read_one(f, offset_bytes, size_bytes);
    if (request->status != STATUS_OK)
        (void)read_request_error(f->files, request, &f->err);
    ASSERT_OK(request->status, f->err);
    assert_true(io_bytes_match(request->dst + request->skip_bytes, offset_bytes, size_bytes));
    io_request_destroy(request);
}

/* A reap that need not wait sees the true result, so a test tries until the shim has had its turn. */
static void expect_bytes_until(struct fixture *f, unsigned changed) {
    for (uint64_t i = 0; i < 1000 && shim.changed < changed; i++)
        expect_bytes(f, i * 1001 + 7, 100000);
    assert_true(shim.changed >= changed);
}

static void E7_short_reads(void **state) {
    shim.halve = true;
    expect_bytes_until(*state, 100);
}

static void E7_interruptions(void **state) {
    shim.code = EINTR;
    shim.count = 20;
    expect_bytes_until(*state, 20);
    shim.code = EAGAIN;
    shim.count = 20;
    uint64_t begin_ns = clock_now_ns();
    expect_bytes_until(*state, 40);
    assert_true(clock_now_ns() - begin_ns >= 20 * 1000 * 1000); /* twenty pauses of a millisecond */
}

static void E6_refused_direct_reads(void **state) {
    struct fixture *f = *state;
    if (file_set_direct_fd(f->files, 0) < 0)
        skip();
    shim.code = EINVAL;
    shim.count = 1;
    expect_bytes_until(f, 1);
    assert_int_equal(file_set_direct_fd(f->files, 0), -1);
    expect_bytes(f, 5, 3 << 20);
}

static void E9_two_errors_are_survived(void **state) {
    shim.code = EIO;
    shim.count = 2;
    uint64_t begin_ns = clock_now_ns();
    expect_bytes_until(*state, 2);
    assert_true(clock_now_ns() - begin_ns >= 40 * 1000 * 1000); /* two pauses */
}

static void E9_lasting_errors_fail_their_request_only(void **state) {
    struct fixture *f = *state;
    struct read_request *request = NULL;
    shim.code = EIO;
    for (unsigned i = 0; i < 100; i++) {
        shim.count = 3;
        shim.changed = 0;
        request = read_one(f, 30000, 5000);
        if (request->status != STATUS_OK)
            break;
        io_request_destroy(request); /* some of its completions were found without waiting */
        request = NULL;
    }
    shim.count = 0;
    assert_non_null(request);
    ASSERT_FAILS(read_request_error(f->files, request, &f->err), STATUS_IO, f->err);
    assert_non_null(strstr(f->err.text, "5000 bytes at offset 30000"));
    assert_non_null(strstr(f->err.text, strerror(EIO)));
    assert_non_null(strstr(f->err.text, "tries: 3"));
    io_request_destroy(request);
    expect_bytes(f, 30000, 5000);
}

static void one_failed_part_fails_a_large_request(void **state) {
    struct fixture *f = *state;
    struct read_request *request = NULL;
    shim.code = ENXIO;
    for (unsigned i = 0; i < 100; i++) {
        shim.skip = 1;
        shim.count = 1;
        request = read_one(f, 0, 3 << 20);
        if (request->status != STATUS_OK)
            break;
        io_request_destroy(request);
        request = NULL;
    }
    assert_non_null(request);
    assert_int_equal(request->system_error, ENXIO);
    assert_int_equal(read_queue_in_flight(f->queue), 0);
    io_request_destroy(request);
    shim.skip = shim.count = 0;
    expect_bytes(f, 0, 3 << 20);
}

static void a_pause_does_not_hold_destroy_for_long(void **state) {
    struct fixture *f = *state;
    if (!f->queue)
        skip();
    shim.code = EIO;
    shim.count = 1;
    struct read_request *request = io_request_create(f->files, 0, 0, 5000);
    assert_int_equal(read_queue_submit(f->queue, request), READ_ACCEPTED);
    struct read_request *reaped = read_queue_reap(f->queue, true, 5 * 1000 * 1000); /* most times it is pausing when this ends */
    uint64_t begin_ns = clock_now_ns();
    read_queue_destroy(f->queue);
    f->queue = NULL;
    assert_true(reaped == NULL || reaped == request);
    assert_true(clock_now_ns() - begin_ns < 1000000000u);
    io_request_destroy(request);
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(E7_short_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(E7_interruptions, setup, teardown),
        cmocka_unit_test_setup_teardown(E6_refused_direct_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(E9_two_errors_are_survived, setup, teardown),
        cmocka_unit_test_setup_teardown(E9_lasting_errors_fail_their_request_only, setup, teardown),
        cmocka_unit_test_setup_teardown(one_failed_part_fails_a_large_request, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pause_does_not_hold_destroy_for_long, setup, teardown),
    };
    return cmocka_run_group_tests_name("uring_faults", tests, NULL, NULL);
}
