/*
 * test_read_queue: the contract of read_queue.h, the same tests for every kind of queue, bare and inside the faulty double.
 *
 * Where io_uring is forbidden its creation must fail with a text; its other tests are skipped.
 */
#include "test_support.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/read_queue_faulty.h"
#include "io_fixture.h"

#define FILE_BYTES ((uint64_t)(5 << 20) + 1234) /* not a multiple of any block; several parts */
#define FOR_EVER UINT64_MAX

enum wrapping { BARE, WRAPPED, SHAKEN, WRAPPING_COUNT }; /* the double without faults; with short reads, delays and reordering */

struct variant {
    enum read_queue_kind kind;
    enum wrapping wrapping;
};

struct fixture {
    struct variant variant;
    struct io_folder folder;
    char path[128];
    struct file_set *files;
    uint32_t file;
    struct error err;
};

static int fixture_create(void **state, const char *parent) {
    struct fixture *f = calloc(1, sizeof *f);
    f->variant = *(const struct variant *)*state;
    *state = f;
    return io_folder_create(&f->folder, parent) && io_file_create(&f->folder, "model.bin", FILE_BYTES, f->path, sizeof f->path) &&
                   file_set_create(&f->files, &f->err) == STATUS_OK && file_set_add(f->files, f->path, &f->file, &f->err) == STATUS_OK
               ? 0
               : -1;
}

static int setup(void **state) { return fixture_create(state, "/var/tmp"); }
static int setup_memory(void **state) { return fixture_create(state, "/dev/shm"); }

static int teardown(void **state) {
    struct fixture *f = *state;
    io_files_close(&f->folder, f->path, f->files);
    free(f);
    return 0;
}

static struct read_queue *open_queue(struct fixture *f, unsigned depth) {
    struct read_queue *queue, *wrapped;
    enum status status = read_queue_create(f->variant.kind, f->files, depth, &queue, &f->err);
    if (status == STATUS_UNSUPPORTED && f->variant.kind == READ_QUEUE_URING) {
        assert_null(queue);
        assert_non_null(strstr(f->err.text, "io_uring"));
        skip();
    }
    ASSERT_OK(status, f->err);
    if (f->variant.wrapping == BARE)
        return queue;
    struct read_faults faults = {.seed = 7};
    if (f->variant.wrapping == SHAKEN)
        faults = (struct read_faults){
            .seed = 7, .short_rate = 0.5, .delay_rate = 0.5, .delay_reaps = 5, .reorder = true, .corrupt_unread = true};
    ASSERT_OK(read_queue_faulty_create(queue, &faults, &wrapped, &f->err), f->err);
    return wrapped;
}

/* Checks results and bytes of a request that must have gone well, and frees it. */
static void expect_bytes(struct fixture *f, struct read_request *request) {
    struct read_window window = read_queue_window(f->files, request->file, request->offset_bytes, request->size_bytes);
    if (request->status != STATUS_OK)
        (void)read_request_error(f->files, request, &f->err);
    ASSERT_OK(request->status, f->err);
    assert_int_equal(request->system_error, 0);
    assert_int_equal(request->skip_bytes, window.skip_bytes);
    assert_true(request->read_bytes >= request->size_bytes);
    assert_true(f->variant.wrapping == SHAKEN || request->read_bytes <= window.window_bytes);
    assert_true(io_bytes_match(request->dst + request->skip_bytes, request->offset_bytes, request->size_bytes));
    io_request_destroy(request);
}

static struct read_request *expect_reaped(struct read_queue *queue) {
    struct read_request *request = read_queue_reap(queue, true, FOR_EVER);
    assert_non_null(request);
    return request;
}

static void windows_enclose_their_range(void **state) {
    struct fixture *f = *state;
    uint64_t alignment = file_set_alignment(f->files, 0), random = 3;
    for (int i = 0; i < 1000; i++) {
        uint64_t offset = io_random(&random) % FILE_BYTES, size = io_random(&random) % 100000 + 1;
        struct read_window window = read_queue_window(f->files, 0, offset, size);
        assert_int_equal(window.begin_bytes % alignment, 0);
        assert_int_equal(window.window_bytes % alignment, 0);
        assert_int_equal(window.begin_bytes + window.skip_bytes, offset);
        assert_true(window.skip_bytes < alignment);
        assert_true(window.skip_bytes + size <= window.window_bytes);
        assert_true(window.window_bytes < size + 2 * alignment);
    }
    assert_int_equal(read_queue_window(f->files, 0, alignment, alignment).window_bytes, alignment);
    assert_int_equal(read_queue_window(f->files, 0, 5, 0).window_bytes, 0);
}

static void random_ranges(struct fixture *f, unsigned depth, unsigned count, uint64_t size_limit_bytes) {
    struct read_queue *queue = open_queue(f, depth);
    uint64_t random = depth;
    unsigned submitted = 0, reaped = 0;
    struct read_request *request = NULL;
    while (reaped < count) {
        while (submitted < count) {
            if (!request) {
                uint64_t offset = io_random(&random) % FILE_BYTES, size = io_random(&random) % size_limit_bytes + 1;
                request = io_request_create(f->files, 0, offset, size < FILE_BYTES - offset ? size : FILE_BYTES - offset);
                assert_non_null(request);
                memset(request->dst, 0xEE, request->dst_size_bytes);
            }
            if (read_queue_submit(queue, request) == READ_BUSY)
                break;
            request = NULL;
            submitted++;
        }
        assert_true(read_queue_in_flight(queue) <= depth);
        read_queue_flush(queue);
        expect_bytes(f, expect_reaped(queue));
        reaped++;
    }
    assert_int_equal(read_queue_in_flight(queue), 0);
    assert_null(read_queue_reap(queue, true, FOR_EVER)); /* nothing is in flight: does not wait */
    read_queue_destroy(queue);
}

static void small_random_ranges(void **state) { random_ranges(*state, 32, 600, 20000); }
static void large_random_ranges(void **state) { random_ranges(*state, 5, 40, FILE_BYTES); }
static void depth_one(void **state) { random_ranges(*state, 1, 50, 100000); }
static void more_requests_than_parts(void **state) { random_ranges(*state, 256, 700, 9000); }

static void ranges_at_every_edge(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 8);
    const uint64_t ranges[][2] = {
        {0, 1},    {0, FILE_BYTES}, {FILE_BYTES - 1, 1},      {FILE_BYTES - 1234, 1234},
        {4095, 2}, {4096, 4096},    {4096 * 3 + 32, 2 << 20}, {511, 513},
    };
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, ranges[i][0], ranges[i][1])), READ_ACCEPTED);
    for (unsigned i = 0; i < 8; i++) /* without a flush: reap starts what was submitted */
        expect_bytes(f, expect_reaped(queue));
    read_queue_destroy(queue);
}

static void each_request_comes_back_once(void **state) {
    struct fixture *f = *state;
    enum { COUNT = 64 };
    struct read_queue *queue = open_queue(f, COUNT);
    bool seen[COUNT] = {false};
    for (uintptr_t i = 0; i < COUNT; i++) {
        struct read_request *request = io_request_create(f->files, 0, i * 4097, 5000);
        request->owner = &seen[i];
        assert_int_equal(read_queue_submit(queue, request), READ_ACCEPTED);
        assert_int_equal(read_queue_in_flight(queue), i + 1);
    }
    read_queue_flush(queue);
    for (unsigned left = COUNT; left > 0; left--) {
        struct read_request *request = expect_reaped(queue);
        bool *mark = request->owner;
        assert_false(*mark);
        *mark = true;
        expect_bytes(f, request);
        assert_int_equal(read_queue_in_flight(queue), left - 1);
    }
    read_queue_destroy(queue);
}

static void a_full_queue_is_busy(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 2);
    struct read_request *requests[3];
    for (unsigned i = 0; i < 3; i++)
        requests[i] = io_request_create(f->files, 0, i, 100);
    assert_int_equal(read_queue_submit(queue, requests[0]), READ_ACCEPTED);
    assert_int_equal(read_queue_submit(queue, requests[1]), READ_ACCEPTED);
    assert_int_equal(read_queue_submit(queue, requests[2]), READ_BUSY);
    assert_int_equal(read_queue_in_flight(queue), 2);
    expect_bytes(f, expect_reaped(queue));
    assert_int_equal(read_queue_submit(queue, requests[2]), READ_ACCEPTED);
    expect_bytes(f, expect_reaped(queue));
    expect_bytes(f, expect_reaped(queue));
    read_queue_destroy(queue);
}

static void polling_does_not_wait(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 4);
    struct read_request *request;
    assert_null(read_queue_reap(queue, false, 0));
    assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, 12345, FILE_BYTES - 12345)), READ_ACCEPTED);
    read_queue_flush(queue);
    uint64_t begin_ns = clock_now_ns();
    while ((request = read_queue_reap(queue, false, 0)) == NULL)
        assert_true(clock_now_ns() - begin_ns < 20000000000u);
    expect_bytes(f, request);
    read_queue_destroy(queue);
}

static void a_wait_ends_in_time(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 4);
    assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, 1, 3 << 20)), READ_ACCEPTED);
    struct read_request *request = NULL;
    unsigned waits = 0;
    for (; !request && waits < 100000; waits++)
        request = read_queue_reap(queue, true, waits < 10 ? 0 : 200000);
    assert_non_null(request);
    expect_bytes(f, request);
    read_queue_destroy(queue);
}

/* A request without window memory, since it will not be read. */
static struct read_request *request_past_the_end(uint64_t offset_bytes, uint64_t size_bytes) {
    struct read_request *request = memory_alloc(sizeof *request);
    assert_non_null(request);
    *request = (struct read_request){.offset_bytes = offset_bytes, .size_bytes = size_bytes};
    return request;
}

static void wanted_bytes_past_the_end_are_an_error(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 4);
    const uint64_t ranges[][2] = {{FILE_BYTES - 10, 11}, {FILE_BYTES + 1, 0}, {UINT64_MAX - 3, 100}, {5, UINT64_MAX - 5}};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(read_queue_submit(queue, request_past_the_end(ranges[i][0], ranges[i][1])), READ_ACCEPTED);
    for (unsigned i = 0; i < 4; i++) {
        struct read_request *request = expect_reaped(queue);
        assert_int_equal(request->status, STATUS_CORRUPT);
        ASSERT_FAILS(read_request_error(f->files, request, &f->err), STATUS_CORRUPT, f->err);
        assert_non_null(strstr(f->err.text, f->path));
        assert_non_null(strstr(f->err.text, "5244114 bytes"));
        memory_free(request);
    }
    read_queue_destroy(queue);
}

static void an_empty_range_is_no_read(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 2);
    assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, 77, 0)), READ_ACCEPTED);
    assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, FILE_BYTES, 0)), READ_ACCEPTED);
    for (unsigned i = 0; i < 2; i++) {
        struct read_request *request = expect_reaped(queue);
        assert_int_equal(request->read_bytes, 0);
        expect_bytes(f, request);
    }
    read_queue_destroy(queue);
}

static void E9_a_file_that_was_cut_off_is_named(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 4);
    assert_int_equal(truncate(f->path, 3000000), 0);
    assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, 100, 4000000)), READ_ACCEPTED);
    assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, 2990000, 10001)), READ_ACCEPTED);
    assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, 2990000, 10000)), READ_ACCEPTED);
    for (unsigned i = 0; i < 3; i++) {
        struct read_request *request = expect_reaped(queue);
        if (request->offset_bytes == 2990000 && request->size_bytes == 10000) {
            expect_bytes(f, request); /* all its bytes are still there */
            continue;
        }
        ASSERT_FAILS(read_request_error(f->files, request, &f->err), STATUS_CORRUPT, f->err);
        assert_non_null(strstr(f->err.text, f->path));
        assert_non_null(
            strstr(f->err.text, request->offset_bytes == 100 ? "4000000 bytes at offset 100 " : "10001 bytes at offset 2990000 "));
        assert_non_null(strstr(f->err.text, "3000000 bytes (5244114 when"));
        io_request_destroy(request);
    }
    read_queue_destroy(queue);
}

static void E6_a_file_that_refuses_direct_reads(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 8);
    for (unsigned i = 0; i < 8; i++) {
        if (i == 4) /* while reads are in flight */
            file_set_refuse_direct(f->files, 0, EINVAL);
        assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, 4096 * i + 32, 2 << 20)), READ_ACCEPTED);
        read_queue_flush(queue);
    }
    for (unsigned i = 0; i < 8; i++)
        expect_bytes(f, expect_reaped(queue));
    read_queue_destroy(queue);
    random_ranges(f, 16, 100, 200000);
}

static void files_that_came_after_the_queue(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 4);
    char path[128];
    uint32_t file;
    assert_true(io_file_create(&f->folder, "second.bin", 70000, path, sizeof path));
    ASSERT_OK(file_set_add(f->files, path, &file, &f->err), f->err);
    assert_int_equal(read_queue_submit(queue, io_request_create(f->files, file, 1, 69999)), READ_ACCEPTED);
    assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, 1, 69999)), READ_ACCEPTED);
    expect_bytes(f, expect_reaped(queue));
    expect_bytes(f, expect_reaped(queue));
    read_queue_destroy(queue);
    (void)unlink(path);
}

/* Each comes back once all the same, whole or failed, and the queue works on. */
static void what_is_cancelled_comes_back(void **state) {
    enum { COUNT = 60 };
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, COUNT);
    uint64_t random = 11;
    for (int round = 0; round < 12; round++) {
        unsigned failed = 0;
        for (int i = 0; i < COUNT; i++) {
            uint64_t size = 1 + io_random(&random) % (round % 2 ? 2000000 : 90000), offset = io_random(&random) % (FILE_BYTES - size);
            assert_int_equal(read_queue_submit(queue, io_request_create(f->files, f->file, offset, size)), READ_ACCEPTED);
            if (i == 20 && round % 3 == 0)
                read_queue_flush(queue);
        }
        for (int i = 0; i < COUNT; i++) {
            if (i == round * 5 % COUNT)
                read_queue_cancel(queue);
            struct read_request *request = expect_reaped(queue);
            if (request->status == STATUS_OK) {
                expect_bytes(f, request);
                continue;
            }
            assert_true(request->status == STATUS_CANCELLED || request->system_error == ECANCELED || request->system_error == EINTR);
            io_request_destroy(request);
            failed++;
        }
        assert_int_equal(read_queue_in_flight(queue), 0);
        assert_null(read_queue_reap(queue, true, FOR_EVER));
        assert_true(failed > 0 || f->variant.kind == READ_QUEUE_SYNC || round > 0);
        assert_int_equal(read_queue_submit(queue, io_request_create(f->files, f->file, 5000, 70000)), READ_ACCEPTED);
        expect_bytes(f, expect_reaped(queue));
    }
    read_queue_destroy(queue);
}

static void destroy_waits_for_running_reads(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 64);
    struct read_request *requests[64];
    for (unsigned i = 0; i < 64; i++) {
        requests[i] = io_request_create(f->files, 0, i, 3 << 20);
        assert_int_equal(read_queue_submit(queue, requests[i]), READ_ACCEPTED);
        if (i % 16 == 0)
            read_queue_flush(queue);
    }
    read_queue_destroy(queue);
    for (unsigned i = 0; i < 64; i++)
        memset(requests[i]->dst, 0x11, requests[i]->dst_size_bytes);
    clock_sleep_ns(20 * 1000 * 1000);
    for (unsigned i = 0; i < 64; i++) {
        for (size_t k = 0; k < requests[i]->dst_size_bytes; k += 512)
            assert_int_equal(requests[i]->dst[k], 0x11); /* a read that still ran would have written here */
        io_request_destroy(requests[i]);
    }
    read_queue_destroy(NULL);
}

struct second_owner {
    struct fixture *f;
    struct read_queue *queue;
    bool ok;
};

static void *read_as_owner(void *context) {
    struct second_owner *owner = context;
    struct read_request *request = io_request_create(owner->f->files, 0, 4711, 3 << 20);
    owner->ok = read_queue_submit(owner->queue, request) == READ_ACCEPTED;
    read_queue_flush(owner->queue);
    struct read_request *reaped = read_queue_reap(owner->queue, true, FOR_EVER);
    owner->ok =
        owner->ok && reaped == request && reaped->status == STATUS_OK && io_bytes_match(reaped->dst + reaped->skip_bytes, 4711, 3 << 20);
    io_request_destroy(request);
    return NULL;
}

static void the_owner_may_change_between_reads(void **state) {
    struct fixture *f = *state;
    struct second_owner owner = {.f = f, .queue = open_queue(f, 4)};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, read_as_owner, &owner), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(owner.ok);
        assert_int_equal(read_queue_submit(owner.queue, io_request_create(f->files, 0, 99, 2 << 20)), READ_ACCEPTED);
        expect_bytes(f, expect_reaped(owner.queue));
    }
    read_queue_destroy(owner.queue);
}

static void depths_have_limits(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue = open_queue(f, 1024);
    assert_int_equal(queue->depth, 1024);
    read_queue_destroy(queue);
    ASSERT_FAILS(read_queue_create(f->variant.kind, f->files, 0, &queue, &f->err), STATUS_INVALID, f->err);
    assert_null(queue);
    ASSERT_FAILS(read_queue_create(f->variant.kind, f->files, 1025, &queue, &f->err), STATUS_INVALID, f->err);
}

static void no_memory_is_an_error(void **state) {
    struct fixture *f = *state;
    read_queue_destroy(open_queue(f, 4)); /* or skip */
    for (uint64_t n = 1;; n++) {
        struct read_queue *queue;
        memory_fail_after(n);
        enum status status = read_queue_create(f->variant.kind, f->files, 4, &queue, &f->err);
        memory_fail_after(0);
        if (status == STATUS_OK) { /* also when only something that it can do without was missing */
            read_queue_destroy(queue);
            if (n > 4)
                break;
            continue;
        }
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_null(queue);
    }
}

/* ---- io_uring forbidden, as containers do it ---- */

static bool forbid_io_uring(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct forbidden {
    struct fixture *f;
    bool forbidden, read;
    enum status status;
    struct error refusal;
    char best[20];
};

/* The filter is for this thread and those that it starts. */
static void *use_forbidden(void *context) {
    struct forbidden *x = context;
    struct read_queue *queue = NULL;
    x->forbidden = forbid_io_uring();
    x->status = read_queue_create(READ_QUEUE_URING, x->f->files, 4, &queue, &x->refusal);
    if (x->status == STATUS_OK || queue || read_queue_create_best(x->f->files, 4, &queue, &x->f->err) != STATUS_OK)
        return NULL;
    (void)snprintf(x->best, sizeof x->best, "%s", queue->operations->name);
    struct read_request *request = io_request_create(x->f->files, 0, 3, 100000);
    x->read = read_queue_submit(queue, request) == READ_ACCEPTED && read_queue_reap(queue, true, FOR_EVER) == request &&
              request->status == STATUS_OK && io_bytes_match(request->dst + request->skip_bytes, 3, 100000);
    read_queue_destroy(queue);
    io_request_destroy(request);
    return NULL;
}

static void forbidden_io_uring_is_refused_with_a_text(void **state) {
    struct forbidden x = {.f = *state};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, use_forbidden, &x), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (!x.forbidden)
        skip();
    ASSERT_FAILS(x.status, STATUS_UNSUPPORTED, x.refusal);
    assert_non_null(strstr(x.refusal.text, "io_uring"));
    assert_non_null(strstr(x.refusal.text, "threads"));
    assert_string_equal(x.best, "threads");
    assert_true(x.read);
}

int main(void) {
    log_set_level(LOG_ERROR);
    int failed = 0;
    static const char *const wrapping_names[] = {"bare", "wrapped", "wrapped with short reads, delays, reordering"};
    for (unsigned kind = 0; kind < READ_QUEUE_KIND_COUNT; kind++)
        for (unsigned wrapping = 0; wrapping < WRAPPING_COUNT; wrapping++) {
            struct variant variant = {(enum read_queue_kind)kind, (enum wrapping)wrapping};
#define TEST(function) \
    { #function, function, setup, teardown, &variant }
            const struct CMUnitTest tests[] = {
                TEST(windows_enclose_their_range),
                TEST(small_random_ranges),
                TEST(large_random_ranges),
                TEST(depth_one),
                TEST(more_requests_than_parts),
                TEST(ranges_at_every_edge),
                TEST(each_request_comes_back_once),
                TEST(a_full_queue_is_busy),
                TEST(polling_does_not_wait),
                TEST(a_wait_ends_in_time),
                TEST(wanted_bytes_past_the_end_are_an_error),
                TEST(an_empty_range_is_no_read),
                TEST(E9_a_file_that_was_cut_off_is_named),
                TEST(E6_a_file_that_refuses_direct_reads),
                TEST(files_that_came_after_the_queue),
                TEST(what_is_cancelled_comes_back),
                TEST(destroy_waits_for_running_reads),
                TEST(the_owner_may_change_between_reads),
                TEST(depths_have_limits),
                TEST(no_memory_is_an_error),
                {"E6_a_file_in_memory", small_random_ranges, setup_memory, teardown, &variant},
            };
            printf("# %s, %s\n", read_queue_kind_name((enum read_queue_kind)kind), wrapping_names[wrapping]);
            failed += cmocka_run_group_tests_name(read_queue_kind_name((enum read_queue_kind)kind), tests, NULL, NULL);
        }
    struct variant variant = {READ_QUEUE_URING, BARE};
    const struct CMUnitTest last[] = {TEST(forbidden_io_uring_is_refused_with_a_text)};
    return failed + cmocka_run_group_tests_name("forbidden", last, NULL, NULL);
}
