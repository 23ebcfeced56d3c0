/* test_read_queue_faulty: the double does what it is told to, the same for the same seed, and loses nothing. */
#include "test_support.h"

#include <errno.h>

#include "base/log.h"
#include "io/read_queue_faulty.h"
#include "io_fixture.h"

enum { COUNT = 200, DEPTH = 32, FILE_BYTES = 600000 };

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
    return f && io_files_open(&f->folder, FILE_BYTES, f->path, sizeof f->path, &f->files, &f->file) ? 0 : -1;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    io_files_close(&f->folder, f->path, f->files);
    free(f);
    return 0;
}

static struct read_queue *open_faulty(struct fixture *f, enum read_queue_kind kind, const struct read_faults *faults) {
    struct read_queue *inner, *queue;
    enum status status = read_queue_create(kind, f->files, DEPTH, &inner, &f->err);
    if (status == STATUS_UNSUPPORTED)
        status = read_queue_create(READ_QUEUE_THREADS, f->files, DEPTH, &inner, &f->err);
    ASSERT_OK(status, f->err);
    ASSERT_OK(read_queue_faulty_create(inner, faults, &queue, &f->err), f->err);
    assert_int_equal(queue->depth, DEPTH);
    return queue;
}

struct outcome {
    unsigned order[COUNT]; /* numbers of requests as they were reaped, from 0 */
    enum status statuses[COUNT];
    int errors[COUNT];
    unsigned failed;
};

/* The n-th request of every run: the same ranges each time. */
static struct read_request *nth_request(struct fixture *f, unsigned n) {
    uint64_t random = n * 1000u, offset = io_random(&random) % (FILE_BYTES - 30000);
    struct read_request *request = io_request_create(f->files, 0, offset, io_random(&random) % 30000 + 1);
    assert_non_null(request);
    request->owner = (void *)(uintptr_t)n;
    return request;
}

static void take_outcome(struct outcome *outcome, unsigned position, struct read_request *request) {
    unsigned n = (unsigned)(uintptr_t)request->owner;
    assert_true(n < COUNT && outcome->order[position] == 0);
    for (unsigned i = 0; i < position; i++)
        assert_int_not_equal(outcome->order[i], n);
    outcome->order[position] = n;
    outcome->statuses[n] = request->status;
    outcome->errors[n] = request->system_error;
    if (request->status == STATUS_OK)
        assert_true(io_bytes_match(request->dst + request->skip_bytes, request->offset_bytes, request->size_bytes));
    else
        outcome->failed++;
    io_request_destroy(request);
}

/* Submits COUNT requests as the queue takes them, and notes what came of each. */
static struct outcome run(struct fixture *f, enum read_queue_kind kind, const struct read_faults *faults) {
    struct outcome outcome;
    memset(&outcome, 0, sizeof outcome);
    struct read_queue *queue = open_faulty(f, kind, faults);
    unsigned submitted = 0, reaped = 0;
    struct read_request *waiting = nth_request(f, 0);
    while (reaped < COUNT) {
        while (submitted < COUNT && read_queue_submit(queue, waiting) == READ_ACCEPTED)
            waiting = ++submitted < COUNT ? nth_request(f, submitted) : NULL;
        assert_int_equal(read_queue_in_flight(queue), submitted - reaped);
        read_queue_flush(queue);
        struct read_request *done = read_queue_reap(queue, true, UINT64_MAX);
        assert_non_null(done);
        take_outcome(&outcome, reaped++, done);
    }
    assert_null(read_queue_reap(queue, true, UINT64_MAX));
    assert_int_equal(read_queue_faulty_submitted(queue), COUNT);
    read_queue_destroy(queue);
    return outcome;
}

static const struct read_faults everything = {.seed = 42,
                                              .fail_errno = EIO,
                                              .fail_rate = 0.2,
                                              .short_rate = 0.3,
                                              .delay_rate = 0.3,
                                              .delay_reaps = 6,
                                              .reorder = true,
                                              .corrupt_unread = true};

static void without_faults_nothing_changes(void **state) {
    const struct read_faults none = {.seed = 1};
    struct outcome outcome = run(*state, READ_QUEUE_SYNC, &none);
    assert_int_equal(outcome.failed, 0);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(outcome.order[i], i);
}

static void the_same_seed_gives_the_same_faults(void **state) {
    struct outcome first = run(*state, READ_QUEUE_SYNC, &everything), second = run(*state, READ_QUEUE_SYNC, &everything);
    assert_memory_equal(&first, &second, sizeof first); /* the order too: nothing else is random here */
    assert_in_range(first.failed, COUNT / 10, COUNT * 3 / 10);
    struct read_faults other = everything;
    other.seed = 43;
    second = run(*state, READ_QUEUE_SYNC, &other);
    assert_memory_not_equal(first.statuses, second.statuses, sizeof first.statuses);
}

static void faults_do_not_depend_on_the_inner_queue(void **state) {
    struct outcome sync = run(*state, READ_QUEUE_SYNC, &everything);
    for (unsigned kind = 0; kind < READ_QUEUE_SYNC; kind++) {
        struct outcome other = run(*state, (enum read_queue_kind)kind, &everything);
        assert_memory_equal(sync.statuses, other.statuses, sizeof sync.statuses);
        assert_memory_equal(sync.errors, other.errors, sizeof sync.errors);
    }
}

static void the_nth_read_fails_for_every_n(void **state) {
    struct fixture *f = *state;
    enum { N = 20 };
    for (uint64_t n = 1; n <= N; n++) {
        const struct read_faults faults = {.fail_at = n, .fail_errno = ENXIO};
        struct read_queue *queue = open_faulty(f, n % 2 ? READ_QUEUE_SYNC : READ_QUEUE_THREADS, &faults);
        for (unsigned i = 0; i < N; i++)
            assert_int_equal(read_queue_submit(queue, nth_request(f, i)), READ_ACCEPTED);
        for (unsigned i = 0; i < N; i++) {
            struct read_request *request = read_queue_reap(queue, true, UINT64_MAX);
            bool is_nth = (uintptr_t)request->owner == n - 1;
            assert_int_equal(request->status, is_nth ? STATUS_IO : STATUS_OK);
            assert_int_equal(request->system_error, is_nth ? ENXIO : 0);
            if (is_nth) {
                ASSERT_FAILS(read_request_error(f->files, request, &f->err), STATUS_IO, f->err);
                assert_non_null(strstr(f->err.text, f->path));
                assert_non_null(strstr(f->err.text, strerror(ENXIO)));
            } else {
                assert_true(io_bytes_match(request->dst + request->skip_bytes, request->offset_bytes, request->size_bytes));
            }
            io_request_destroy(request);
        }
        read_queue_destroy(queue);
    }
}

static void unread_memory_is_spoiled(void **state) {
    struct fixture *f = *state;
    const struct read_faults faults = {.fail_at = 2, .corrupt_unread = true};
    struct read_queue *queue = open_faulty(f, READ_QUEUE_SYNC, &faults);
    struct read_request *good = nth_request(f, 0), *bad = nth_request(f, 1);
    memset(bad->dst, 0, bad->dst_size_bytes);
    assert_int_equal(read_queue_submit(queue, good), READ_ACCEPTED);
    assert_int_equal(read_queue_submit(queue, bad), READ_ACCEPTED);
    assert_ptr_equal(read_queue_reap(queue, true, UINT64_MAX), bad); /* its failure is known at once */
    assert_ptr_equal(read_queue_reap(queue, true, UINT64_MAX), good);
    assert_int_equal(bad->system_error, EIO); /* unless told otherwise */
    for (size_t i = 0; i < bad->dst_size_bytes; i++)
        assert_int_equal(bad->dst[i], 0xA5);
    assert_true(io_bytes_match(good->dst + good->skip_bytes, good->offset_bytes, good->size_bytes));
    io_request_destroy(good);
    io_request_destroy(bad);
    read_queue_destroy(queue);
}

static void a_delay_counts_reaps(void **state) {
    struct fixture *f = *state;
    const struct read_faults faults = {.seed = 5, .delay_rate = 1.0, .delay_reaps = 8};
    struct read_queue *queue = open_faulty(f, READ_QUEUE_SYNC, &faults);
    unsigned longest = 0;
    for (unsigned i = 0; i < 30; i++) {
        struct read_request *request = nth_request(f, i), *done;
        assert_int_equal(read_queue_submit(queue, request), READ_ACCEPTED);
        unsigned empty = 0;
        while ((done = read_queue_reap(queue, false, 0)) == NULL)
            assert_in_range(++empty, 1, 8);
        assert_ptr_equal(done, request);
        assert_true(empty > 0);
        longest = empty > longest ? empty : longest;
        io_request_destroy(request);
    }
    assert_in_range(longest, 5, 8);
    struct read_request *request = nth_request(f, 0);
    assert_int_equal(read_queue_submit(queue, request), READ_ACCEPTED);
    assert_ptr_equal(read_queue_reap(queue, true, UINT64_MAX), request); /* waiting sits the delay out */
    io_request_destroy(request);
    read_queue_destroy(queue);
}

static void reordering_changes_the_order_only(void **state) {
    const struct read_faults faults = {.seed = 9, .reorder = true};
    struct outcome outcome = run(*state, READ_QUEUE_SYNC, &faults);
    unsigned moved = 0;
    for (unsigned i = 0; i < COUNT; i++)
        moved += outcome.order[i] != i;
    assert_true(moved > COUNT / 2);
    assert_int_equal(outcome.failed, 0);
}

static void short_reads_are_continued(void **state) {
    struct fixture *f = *state;
    const struct read_faults faults = {.seed = 3, .short_rate = 1.0};
    struct read_queue *queue = open_faulty(f, READ_QUEUE_SYNC, &faults);
    unsigned twice = 0;
    for (unsigned i = 0; i < 60; i++) {
        struct read_request *request = nth_request(f, i);
        assert_int_equal(read_queue_submit(queue, request), READ_ACCEPTED);
        assert_ptr_equal(read_queue_reap(queue, true, UINT64_MAX), request);
        assert_int_equal(request->status, STATUS_OK);
        assert_true(io_bytes_match(request->dst + request->skip_bytes, request->offset_bytes, request->size_bytes));
        twice += request->read_bytes > request->dst_size_bytes; /* the block of the cut came twice */
        io_request_destroy(request);
    }
    assert_true(twice > 30);
    read_queue_destroy(queue);
}

static void no_memory_leaves_the_inner_queue_alone(void **state) {
    struct fixture *f = *state;
    const struct read_faults faults = {0};
    struct read_queue *inner, *queue;
    ASSERT_OK(read_queue_create(READ_QUEUE_SYNC, f->files, 4, &inner, &f->err), f->err);
    for (uint64_t n = 1; n <= 4; n++) {
        memory_fail_after(n);
        ASSERT_FAILS(read_queue_faulty_create(inner, &faults, &queue, &f->err), STATUS_NO_MEMORY, f->err);
        memory_fail_after(0);
        assert_null(queue);
    }
    struct read_request *request = nth_request(f, 0);
    assert_int_equal(read_queue_submit(inner, request), READ_ACCEPTED);
    assert_ptr_equal(read_queue_reap(inner, true, UINT64_MAX), request);
    io_request_destroy(request);
    read_queue_destroy(inner);
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_faults_nothing_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_seed_gives_the_same_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(faults_do_not_depend_on_the_inner_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(the_nth_read_fails_for_every_n, setup, teardown),
        cmocka_unit_test_setup_teardown(unread_memory_is_spoiled, setup, teardown),
        cmocka_unit_test_setup_teardown(a_delay_counts_reaps, setup, teardown),
        cmocka_unit_test_setup_teardown(reordering_changes_the_order_only, setup, teardown),
        cmocka_unit_test_setup_teardown(short_reads_are_continued, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_leaves_the_inner_queue_alone, setup, teardown),
    };
    return cmocka_run_group_tests_name("read_queue_faulty", tests, NULL, NULL);
}
