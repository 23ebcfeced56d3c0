/*
 * test_pread_faults: E6, E7 and E9 with a system call that misbehaves: half reads, interruptions, EIO, refused direct reads.
 *
 * This program defines pread itself, so the library's calls come here. It is asked by 16 threads at once. The io_uring queue makes no such
 * call; what it does with the same results is in test_read_part.
 */
#include "../unit/test_support.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "../unit/io_fixture.h"
#include "base/log.h"

#define FILE_BYTES ((uint64_t)(3 << 20) + 555)

static struct {
    atomic_uint calls, direct_calls, interruptions;
    atomic_bool half, interrupt, refuse_direct;
    atomic_uint fail_first, fail_count; /* calls fail_first .. fail_first + fail_count - 1 answer EIO; counted from 1 */
} shim;

static ssize_t misbehave(int fd, void *data, size_t size_bytes, off_t offset) {
    unsigned call = 1 + atomic_fetch_add(&shim.calls, 1);
    bool direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
    atomic_fetch_add(&shim.direct_calls, direct ? 1u : 0u);
    int code = 0;
    if (direct && atomic_load(&shim.refuse_direct))
        code = EINVAL;
    else if (call - atomic_load(&shim.fail_first) < atomic_load(&shim.fail_count))
        code = EIO;
    else if (atomic_load(&shim.interrupt) && call % 3 != 0)
        code = call % 3 == 1 ? EINTR : EAGAIN;
    atomic_fetch_add(&shim.interruptions, code == EINTR || code == EAGAIN ? 1u : 0u);
    if (code) {
        errno = code;
        return -1;
    }
    if (atomic_load(&shim.half) && size_bytes > 1)
        size_bytes /= 2;
    if (direct && size_bytes % 4096 != 0) { /* the system would refuse this length; the shim must answer it nevertheless */
        void *aligned = NULL;
        size_t whole = (size_bytes + 4095) / 4096 * 4096;
        if (posix_memalign(&aligned, 4096, whole) != 0)
            return -1;
        ssize_t got = syscall(SYS_pread64, fd, aligned, whole, offset);
        size_t wanted = got < 0 ? 0 : (size_t)got < size_bytes ? (size_t)got : size_bytes;
        memcpy(data, aligned, wanted);
        free(aligned);
        return got < 0 ? got : (ssize_t)wanted;
    }
    return syscall(SYS_pread64, fd, data, size_bytes, offset);
}

/* Under the name, pread or pread64, that the headers give it with the flags of this build, as the library's calls. */
#pragma GCC visibility push(default)
ssize_t pread(int fd, void *data, size_t size_bytes, off_t offset) { return misbehave(fd, data, size_bytes, offset); }
#pragma GCC visibility pop

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
    memset(&shim, 0, sizeof shim);
    return f && io_files_open(&f->folder, FILE_BYTES, f->path, sizeof f->path, &f->files, &f->file) ? 0 : -1;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    io_files_close(&f->folder, f->path, f->files);
    free(f);
    return 0;
}

/* Reads `count` ranges of each kind of queue that uses pread; all must arrive whole. Returns the retries that their requests tell. */
static unsigned expect_all_bytes(struct fixture *f, unsigned count, uint64_t size_limit_bytes) {
    const enum read_queue_kind kinds[] = {READ_QUEUE_THREADS, READ_QUEUE_SYNC};
    unsigned retries = 0;
    for (unsigned k = 0; k < 2; k++) {
        struct read_queue *queue;
        ASSERT_OK(read_queue_create(kinds[k], f->files, 16, &queue, &f->err), f->err);
        uint64_t random = k;
        for (unsigned submitted = 0, reaped = 0; reaped < count; reaped++) {
            while (submitted < count && read_queue_in_flight(queue) < 16) {
                uint64_t size = io_random(&random) % size_limit_bytes + 1, offset = io_random(&random) % (FILE_BYTES - size);
                assert_int_equal(read_queue_submit(queue, io_request_create(f->files, 0, offset, size)), READ_ACCEPTED);
                submitted++;
            }
            struct read_request *done = read_queue_reap(queue, true, UINT64_MAX);
            assert_non_null(done);
            if (done->status != STATUS_OK)
                (void)read_request_error(f->files, done, &f->err);
            ASSERT_OK(done->status, f->err);
            assert_true(io_bytes_match(done->dst + done->skip_bytes, done->offset_bytes, done->size_bytes));
            retries += done->retries;
            io_request_destroy(done);
        }
        read_queue_destroy(queue);
    }
    return retries;
}

static void E7_half_reads(void **state) {
    atomic_store(&shim.half, true);
    assert_int_equal(expect_all_bytes(*state, 60, 300000), 0);
    assert_true(atomic_load(&shim.calls) > 2 * 60 * 4);
}

static void E7_interruptions(void **state) {
    atomic_store(&shim.interrupt, true);
    unsigned retries = expect_all_bytes(*state, 40, 2 << 20);
    assert_int_equal(retries, atomic_load(&shim.interruptions));
}

static void E7_half_reads_and_interruptions(void **state) {
    atomic_store(&shim.half, true);
    atomic_store(&shim.interrupt, true);
    (void)expect_all_bytes(*state, 10, 50000);
}

static void E6_refused_direct_reads(void **state) {
    struct fixture *f = *state;
    if (file_set_direct_fd(f->files, 0) < 0)
        skip();
    atomic_store(&shim.refuse_direct, true);
    assert_int_equal(expect_all_bytes(f, 40, 1 << 20), 0);
    assert_int_equal(file_set_direct_fd(f->files, 0), -1);
    assert_in_range(atomic_load(&shim.direct_calls), 1, 16); /* those that were on their way when the first one was refused */
}

static void E9_two_errors_are_survived(void **state) {
    atomic_store(&shim.fail_first, 1);
    atomic_store(&shim.fail_count, 2);
    assert_int_equal(expect_all_bytes(*state, 1, 4096), 2);
}

static void E9_lasting_errors_fail_their_request_only(void **state) {
    struct fixture *f = *state;
    struct read_queue *queue;
    ASSERT_OK(read_queue_create(READ_QUEUE_SYNC, f->files, 16, &queue, &f->err), f->err);
    atomic_store(&shim.fail_first, 4);
    atomic_store(&shim.fail_count, 3);
    unsigned failed = 0;
    for (unsigned i = 0; i < 10; i++) { /* one call each; the fourth request uses up all three errors */
        struct read_request *request = io_request_create(f->files, 0, i * 10000, 5000);
        assert_int_equal(read_queue_submit(queue, request), READ_ACCEPTED);
        assert_ptr_equal(read_queue_reap(queue, true, UINT64_MAX), request);
        if (request->status == STATUS_OK) {
            assert_true(io_bytes_match(request->dst + request->skip_bytes, request->offset_bytes, request->size_bytes));
        } else {
            failed++;
            assert_int_equal(i, 3);
            ASSERT_FAILS(read_request_error(f->files, request, &f->err), STATUS_IO, f->err);
            assert_non_null(strstr(f->err.text, f->path));
            assert_non_null(strstr(f->err.text, "5000 bytes at offset 30000"));
            assert_non_null(strstr(f->err.text, strerror(EIO)));
            assert_non_null(strstr(f->err.text, "tries: 3"));
        }
        io_request_destroy(request);
    }
    assert_int_equal(failed, 1);
    read_queue_destroy(queue);
}

static void blocking_reads_alike(void **state) {
    struct fixture *f = *state;
    static uint8_t data[10000];
    atomic_store(&shim.half, true);
    atomic_store(&shim.interrupt, true);
    ASSERT_OK(file_set_read(f->files, 0, 777, data, sizeof data, &f->err), f->err);
    assert_true(io_bytes_match(data, 777, sizeof data));
    atomic_store(&shim.interrupt, false);
    atomic_store(&shim.calls, 0);
    atomic_store(&shim.fail_first, 2);
    atomic_store(&shim.fail_count, 2);
    ASSERT_OK(file_set_read(f->files, 0, 999, data, sizeof data, &f->err), f->err);
    assert_true(io_bytes_match(data, 999, sizeof data));
    atomic_store(&shim.calls, 0);
    atomic_store(&shim.fail_count, 3);
    ASSERT_FAILS(file_set_read(f->files, 0, 999, data, sizeof data, &f->err), STATUS_IO, f->err);
    assert_non_null(strstr(f->err.text, f->path));
    assert_non_null(strstr(f->err.text, strerror(EIO)));
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(E7_half_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(E7_interruptions, setup, teardown),
        cmocka_unit_test_setup_teardown(E7_half_reads_and_interruptions, setup, teardown),
        cmocka_unit_test_setup_teardown(E6_refused_direct_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(E9_two_errors_are_survived, setup, teardown),
        cmocka_unit_test_setup_teardown(E9_lasting_errors_fail_their_request_only, setup, teardown),
        cmocka_unit_test_setup_teardown(blocking_reads_alike, setup, teardown),
    };
    return cmocka_run_group_tests_name("pread_faults", tests, NULL, NULL);
}
