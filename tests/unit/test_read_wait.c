/*
 * test_read_wait: who is overdue, and when: a read that the device lost, all reads of a silent device, none of a slow one, and none while
 * nobody waits.
 */
#include "test_support.h"

#include "base/clock.h"
#include "base/log.h"
#include "io/read_wait.h"
#include "io_fixture.h"
#include "test_clock.h"

enum { DEPTH = 32, FILE_BYTES = 100000 };
#define TIMEOUT_NS UINT64_C(40000000)

/* A device that answers in order, one read at a time, and keeps some to itself. */
struct slow_queue {
    struct read_queue base;
    struct read_request *requests[DEPTH]; /* in flight, in order of submit */
    unsigned count;
    uint64_t submitted, answer_ns, keep_from, keep_count; /* of the submits, 1 is the first */
};

static struct slow_queue *of(struct read_queue *queue) { return (struct slow_queue *)queue; }

static bool kept(const struct slow_queue *q, const struct read_request *request) {
    return q->keep_count > 0 && request->number >= q->keep_from && request->number - q->keep_from < q->keep_count;
}

static enum read_submit slow_submit(struct read_queue *queue, struct read_request *request) {
    struct slow_queue *q = of(queue);
    if (q->count == DEPTH)
        return READ_BUSY;
    q->requests[q->count++] = request;
    q->submitted++;
    return READ_ACCEPTED;
}

static void slow_flush(struct read_queue *queue) { (void)queue; }

static struct read_request *slow_reap(struct read_queue *queue, bool wait, uint64_t timeout_ns) {
    struct slow_queue *q = of(queue);
    unsigned i = 0;
    while (i < q->count && kept(q, q->requests[i]))
        i++;
    if (!wait || q->count == 0)
        return NULL;
    clock_sleep_ns(i == q->count || timeout_ns < q->answer_ns ? timeout_ns : q->answer_ns);
    if (i == q->count || timeout_ns < q->answer_ns)
        return NULL;
    struct read_request *request = q->requests[i];
    memmove(&q->requests[i], &q->requests[i + 1], (--q->count - i) * sizeof q->requests[0]);
    return request;
}

static unsigned slow_in_flight(const struct read_queue *queue) { return ((const struct slow_queue *)queue)->count; }
static void slow_cancel(struct read_queue *queue) { (void)queue; }
static void slow_destroy(struct read_queue *queue) { (void)queue; }

static const struct read_queue_operations slow_operations = {.name = "slow",
                                                             .submit = slow_submit,
                                                             .flush = slow_flush,
                                                             .reap = slow_reap,
                                                             .in_flight = slow_in_flight,
                                                             .cancel = slow_cancel,
                                                             .destroy = slow_destroy};

struct fixture {
    struct io_folder folder;
    char path[128];
    struct file_set *files;
    uint32_t file;
    struct slow_queue queue;
    struct read_wait wait;
    struct read_request requests[200];
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    if (!f || !io_files_open(&f->folder, FILE_BYTES, f->path, sizeof f->path, &f->files, &f->file))
        return -1;
    f->queue = (struct slow_queue){.base = {.operations = &slow_operations, .files = f->files, .depth = DEPTH}, .answer_ns = 2000000};
    read_wait_init(&f->wait, &f->queue.base, TIMEOUT_NS);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    io_files_close(&f->folder, f->path, f->files);
    free(f);
    return 0;
}

static void submit(struct fixture *f, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        struct read_request *request = &f->requests[f->queue.submitted];
        *request = (struct read_request){.file = f->file, .offset_bytes = 100 * f->queue.submitted, .size_bytes = 100};
        assert_int_equal(read_wait_submit(&f->wait, request), READ_ACCEPTED);
    }
}

/* The device loses one, and goes on with as many others as anybody asks for. */
static void one_is_lost_while_others_come(void **state) {
    struct fixture *f = *state;
    struct read_request *lost = NULL;
    unsigned answered = 0;
    f->queue.keep_from = 3;
    f->queue.keep_count = 1;
    submit(f, 6);
    while (!lost) {
        struct read_request *request = read_wait_reap(&f->wait, true);
        lost = request ? NULL : read_wait_take_overdue(&f->wait);
        answered += request != NULL;
        assert_true(lost || answered < 100);
        if (request && f->queue.submitted < 150)
            submit(f, 1);
    }
    assert_ptr_equal(lost, &f->requests[2]);
    assert_int_equal(f->wait.waited_ns, TIMEOUT_NS + 2 * f->queue.answer_ns); /* from when the second came */
    assert_null(read_wait_take_overdue(&f->wait));                            /* the others are well */
    struct read_request failed = read_wait_failure(lost);
    struct error err;
    ASSERT_FAILS(read_request_error(f->files, &failed, &err), STATUS_IO, err);
    assert_non_null(strstr(err.text, f->path));
    assert_non_null(strstr(err.text, "100 bytes at offset 200 has not come back"));
    while (f->wait.awaited > 0)
        assert_non_null(read_wait_reap(&f->wait, true));
    assert_null(read_wait_reap(&f->wait, true)); /* nothing is awaited: does not block */
    f->queue.keep_count = 0;
    submit(f, 1);
    assert_ptr_equal(read_wait_reap(&f->wait, true), lost); /* it comes after all */
    assert_ptr_equal(read_wait_reap(&f->wait, true), &f->requests[f->queue.submitted - 1]);
    assert_true(read_wait_end(&f->wait));
}

/* Each is answered long after the time-out from its submit, since others stand before it. */
static void a_slow_device_loses_none(void **state) {
    struct fixture *f = *state;
    f->queue.answer_ns = TIMEOUT_NS / 5;
    submit(f, DEPTH);
    assert_int_equal(read_wait_submit(&f->wait, &f->requests[DEPTH]), READ_BUSY);
    for (unsigned i = 0; i < DEPTH; i++)
        assert_ptr_equal(read_wait_reap(&f->wait, true), &f->requests[i]);
    assert_true(f->wait.waited_ns > 2 * TIMEOUT_NS);
    assert_int_equal(f->wait.awaited, 0);
}

static void silence_loses_all_at_once(void **state) {
    struct fixture *f = *state;
    f->queue.keep_from = 5;
    f->queue.keep_count = UINT64_MAX / 2;
    submit(f, 10);
    for (unsigned i = 0; i < 4; i++)
        assert_ptr_equal(read_wait_reap(&f->wait, true), &f->requests[i]);
    submit(f, 3);
    uint64_t began_ns = f->wait.waited_ns;
    assert_null(read_wait_reap(&f->wait, true));
    assert_int_equal(f->wait.waited_ns - began_ns, TIMEOUT_NS);
    for (unsigned i = 4; i < 13; i++)
        assert_ptr_equal(read_wait_take_overdue(&f->wait), &f->requests[i]);
    assert_null(read_wait_take_overdue(&f->wait));
    assert_int_equal(f->wait.awaited, 0);
    assert_false(read_wait_end(&f->wait)); /* after a second: left behind */
    f->queue.keep_count = 0;
    assert_true(read_wait_end(&f->wait));
}

static void time_without_waiting_does_not_count(void **state) {
    struct fixture *f = *state;
    submit(f, 2);
    clock_sleep_ns(2 * TIMEOUT_NS);
    assert_null(read_wait_reap(&f->wait, false));
    assert_null(read_wait_take_overdue(&f->wait));
    assert_ptr_equal(read_wait_reap(&f->wait, true), &f->requests[0]);
    assert_true(read_wait_end(&f->wait)); /* waits for the other one */
    assert_int_equal(f->queue.count, 0);
}

int main(void) {
    log_set_level(LOG_ERROR);
    test_clock.stands = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_is_lost_while_others_come, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_device_loses_none, setup, teardown),
        cmocka_unit_test_setup_teardown(silence_loses_all_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(time_without_waiting_does_not_count, setup, teardown),
    };
    return cmocka_run_group_tests_name("read_wait", tests, NULL, NULL);
}
