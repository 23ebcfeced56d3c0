/*
 * test_pack_io: a disk that fails, that is full, that does not answer, at every call of a pack and of a verify: an error that says what and
 * where, nothing half-written that passes for whole, and a next call that goes on to the same bytes.
 *
 * This program defines the system's calls itself, so the library's come here, and wraps read_queue_create_best: its queues read with pread
 * in the calling thread, behind the faulty double.
 */
#include "../unit/test_support.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "io/read_queue_faulty.h"
#include "model/model.h"
#include "pack/pack.h"
#include "pack/verify.h"

#define TIMEOUT_NS 20000000u

/* ---- the system ---- */

enum kind { NOTHING, PREADS, READS, WRITES }; /* WRITES: all that may need space */

static struct {
    _Atomic enum kind kind;
    atomic_uint calls, first, count; /* calls first .. first + count - 1 fail; counted from 1 */
    int code;
    bool half; /* the first of them takes or gives half */
} shim;

enum outcome { AS_USUAL, HALF, FAILS };

static enum outcome outcome_of(enum kind kind) {
    if (atomic_load(&shim.kind) != kind)
        return AS_USUAL;
    unsigned past = 1 + atomic_fetch_add(&shim.calls, 1) - atomic_load(&shim.first);
    if (past >= atomic_load(&shim.count))
        return AS_USUAL;
    errno = shim.code;
    return past == 0 && shim.half ? HALF : FAILS;
}

static size_t part(enum outcome outcome, size_t size_bytes) { return outcome == HALF ? (size_bytes + 1) / 2 : size_bytes; }

#pragma GCC visibility push(default)
ssize_t pread(int fd, void *data, size_t size_bytes, off_t offset) {
    enum outcome o = outcome_of(PREADS);
    return o == FAILS ? -1 : syscall(SYS_pread64, fd, data, part(o, size_bytes), offset);
}
ssize_t read(int fd, void *data, size_t size_bytes) {
    enum outcome o = outcome_of(READS);
    return o == FAILS ? -1 : syscall(SYS_read, fd, data, part(o, size_bytes));
}
ssize_t pwrite(int fd, const void *data, size_t size_bytes, off_t offset) {
    enum outcome o = outcome_of(WRITES);
    return o == FAILS ? -1 : syscall(SYS_pwrite64, fd, data, part(o, size_bytes), offset);
}
ssize_t write(int fd, const void *data, size_t size_bytes) {
    enum outcome o = fd > STDERR_FILENO ? outcome_of(WRITES) : AS_USUAL;
    return o == FAILS ? -1 : syscall(SYS_write, fd, data, part(o, size_bytes));
}
int fsync(int fd) { return outcome_of(WRITES) == AS_USUAL ? (int)syscall(SYS_fsync, fd) : -1; }
int fdatasync(int fd) { return outcome_of(WRITES) == AS_USUAL ? (int)syscall(SYS_fdatasync, fd) : -1; }
int ftruncate(int fd, off_t size) { return outcome_of(WRITES) == AS_USUAL ? (int)syscall(SYS_ftruncate, fd, size) : -1; }
int rename(const char *from, const char *to) {
    return outcome_of(WRITES) == AS_USUAL ? (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0) : -1;
}
int mkdir(const char *path, mode_t mode) { return outcome_of(WRITES) == AS_USUAL ? (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode) : -1; }
#pragma GCC visibility pop

/* ---- the queue ---- */

static struct read_faults faults;
static struct read_queue *last_queue;

enum status __wrap_read_queue_create_best(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err);
enum status __wrap_read_queue_create_best(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err) {
    struct read_queue *inner;
    *out = NULL;
    TRY(read_queue_create(READ_QUEUE_SYNC, files, depth, &inner, err));
    enum status status = read_queue_faulty_create(inner, &faults, out, err);
    if (status != STATUS_OK)
        read_queue_destroy(inner);
    last_queue = *out;
    return status;
}

/* ---- a pack and a verify ---- */

static char folder[64], cache[80], source[512], out[128], partial[160];
static const char *const *inside; /* files of the pack that are compared; "" for the pack itself */
static struct text want[4];
static const char *type;
static struct error err;
static struct pack_result result;

static struct text contents(const char *pack, const char *name) {
    char path[256];
    struct text text;
    (void)snprintf(path, sizeof path, "%s%s", pack, name);
    ASSERT_OK(file_read(path, (size_t)1 << 30, &text, &err), err);
    return text;
}

static unsigned files_seen;

static int count_file(const char *path, const struct stat *info, int what, struct FTW *place) {
    (void)path;
    (void)info;
    (void)place;
    files_seen += what == FTW_F;
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int what, struct FTW *place) {
    (void)info;
    (void)what;
    (void)place;
    return remove(path);
}

static void remove_all(const char *path) { (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

static void remove_pack(void) {
    char note[180];
    (void)snprintf(note, sizeof note, "%s.state", partial);
    remove_all(out);
    remove_all(partial);
    remove_all(note);
}

static enum status pack(void) {
    const struct pack_options options = {.path = source, .out = out, .type = type, .threads = 1, .read_timeout_ns = TIMEOUT_NS};
    return pack_model(&options, &result, &err);
}

/* With calls first .. first + count - 1 of this kind failing. False: there were not so many calls. */
static bool fails_at(enum kind kind, unsigned first, unsigned count, int code, bool half, enum status *status, enum status (*call)(void)) {
    atomic_store(&shim.calls, 0);
    atomic_store(&shim.first, first);
    atomic_store(&shim.count, count);
    shim.code = code;
    shim.half = half;
    atomic_store(&shim.kind, kind);
    *status = call();
    atomic_store(&shim.kind, NOTHING);
    return atomic_load(&shim.calls) >= first;
}

static void names(const char *what) {
    if (!strstr(err.text, what))
        fail_msg("%s is not in: %s", what, err.text);
}

static void compare(const char *pack) {
    for (int i = 0; inside[i]; i++) {
        struct text got = contents(pack, inside[i]);
        assert_int_equal(got.size_bytes, want[i].size_bytes);
        assert_memory_equal(got.data, want[i].data, want[i].size_bytes);
        memory_free((char *)got.data);
    }
}

/* What is there after an error is no model, unless only its name was not given: then it is whole. */
static void nothing_passes_for_whole(void) {
    struct error ignored;
    struct file_set *files;
    struct model *model;
    assert_false(file_exists(out));
    if (!file_exists(partial))
        return;
    ASSERT_OK(file_set_create(&files, &ignored), ignored);
    if (model_open(partial, files, &model, &ignored) == STATUS_OK)
        compare(partial);
    model_close(model);
    file_set_destroy(files);
}

static void same_bytes(void) {
    assert_false(file_exists(partial));
    compare(out);
    remove_pack();
}

static void goes_on(void) {
    ASSERT_OK(pack(), err);
    same_bytes();
}

static void begin(const char *model, const char *model_type, const char *name, const char *const *compared) {
    assert_true((size_t)snprintf(source, sizeof source, "%s/models/%s", getenv("SLUICE_TEST_DATA"), model) < sizeof source);
    (void)snprintf(out, sizeof out, "%s/%s", folder, name);
    (void)snprintf(partial, sizeof partial, "%s.partial", out);
    type = model_type;
    inside = compared;
    ASSERT_OK(pack(), err);
    for (int i = 0; inside[i]; i++)
        want[i] = contents(out, inside[i]);
    same_bytes();
}

static void end(void) {
    for (int i = 0; inside[i]; i++)
        memory_free((char *)want[i].data);
    remove_pack();
}

static const char *const file_itself[] = {"", NULL};
static const char *const files_inside[] = {"/model.safetensors", "/config.json", "/sluice-checksums.json", NULL};

static void each_model(void (*body)(void)) {
    begin("qwen3_moe.gguf", "q4_0", "out.gguf", file_itself);
    body();
    end();
    begin("qwen3_moe", NULL, "out", files_inside);
    body();
    end();
}

/* ---- reads that fail ---- */

/* A pack that was stopped near its end, so that a next one checks what is there and reads the rest. */
static void stop_late(unsigned preads) {
    enum status status;
    assert_true(fails_at(PREADS, preads, 10, EIO, false, &status, pack));
    assert_int_equal(status, STATUS_IO);
}

static void reads_fail_everywhere(void) {
    enum status status;
    unsigned total = 0, failed = 0, kept = 0;
    assert_false(fails_at(PREADS, 100000, 1, EIO, true, &status, pack));
    total = atomic_load(&shim.calls);
    assert_true(total > 20);
    same_bytes();
    for (unsigned resumed = 0; resumed < 2; resumed++)
        for (unsigned n = 1;; n += 1 + n / 4) {
            if (resumed)
                stop_late(total * 3 / 4);
            bool there = fails_at(PREADS, n, 2, EIO, false, &status, pack); /* two errors of a read are survived */
            if (status != STATUS_OK)
                fail_msg("pread %u failed twice: %s", n, err.text);
            kept += resumed && result.kept_bytes > 0;
            same_bytes();
            if (!there)
                break;
            if (resumed)
                stop_late(total * 3 / 4);
            (void)fails_at(PREADS, n, 10, EIO, false, &status, pack); /* lasting ones are told */
            assert_int_equal(status, STATUS_IO);
            names(strerror(EIO));
            names("/");
            nothing_passes_for_whole();
            failed++;
            goes_on();
        }
    assert_true(failed > 15 && kept > 5);
    for (unsigned n = 1; fails_at(READS, n, 1, EIO, false, &status, pack); n++) {
        if (status == STATUS_OK) { /* a note that cannot be read is none */
            same_bytes();
            continue;
        }
        names(strerror(EIO));
        nothing_passes_for_whole();
        goes_on();
    }
    assert_int_equal(status, STATUS_OK);
    same_bytes();
}

static void test_reads_fail(void **state) {
    (void)state;
    each_model(reads_fail_everywhere);
}

static void short_reads(void) {
    enum status status;
    for (unsigned n = 1;; n += 1 + n / 8) {
        bool there = fails_at(PREADS, n, 1, 0, true, &status, pack);
        ASSERT_OK(status, err);
        same_bytes();
        if (!there)
            break;
    }
    faults = (struct read_faults){.seed = 3, .short_rate = 1, .reorder = true, .corrupt_unread = true};
    goes_on();
    faults = (struct read_faults){0};
}

static void test_reads_are_short(void **state) {
    (void)state;
    each_model(short_reads);
}

/* ---- a full disk ---- */

static void disk_is_full_everywhere(void) {
    enum status status;
    unsigned failed = 0;
    for (int round = 0; round < 2; round++) /* one call alone; all from one on, which takes half of its bytes */
        for (unsigned n = 1;; n++) {
            bool there = fails_at(WRITES, n, round ? 100000 : 1, ENOSPC, round == 1, &status, pack);
            if (status == STATUS_OK) { /* nothing failed, or a folder's sync or a note that were not needed */
                same_bytes();
                if (!there)
                    break;
                continue;
            }
            assert_int_equal(status, STATUS_IO);
            names(strerror(ENOSPC));
            names(folder);
            nothing_passes_for_whole();
            failed++;
            goes_on();
        }
    assert_true(failed > 40);
}

static void test_the_disk_is_full(void **state) {
    (void)state;
    each_model(disk_is_full_everywhere);
}

/* ---- verify ---- */

static enum status verify(void) {
    FILE *sink = fopen("/dev/null", "w");
    assert_non_null(sink);
    const struct verify_options options = {.path = source, .threads = 1, .read_timeout_ns = TIMEOUT_NS};
    enum status status = verify_model(&options, sink, &err);
    (void)fclose(sink);
    return status;
}

static void forget_checksums(void) { remove_all(cache); }

static void count_checksums(unsigned count) {
    files_seen = 0;
    (void)nftw(cache, count_file, 8, FTW_PHYS);
    assert_int_equal(files_seen, count);
}

/* Reads and writes of a first verify, which makes checksums, and of a second one, which compares. */
static void verify_fails_everywhere(const char *model) {
    static const enum kind kinds[] = {PREADS, READS, WRITES};
    unsigned failed = 0;
    enum status status;
    assert_true((size_t)snprintf(source, sizeof source, "%s/models/%s", getenv("SLUICE_TEST_DATA"), model) < sizeof source);
    for (unsigned i = 0; i < 3; i++)
        for (int again = 0; again < 2; again++)
            for (unsigned n = 1;; n += 1 + n / 8) {
                forget_checksums();
                if (again)
                    ASSERT_OK(verify(), err);
                bool there = fails_at(kinds[i], n, 10, kinds[i] == WRITES ? ENOSPC : EIO, false, &status, verify);
                if (status != STATUS_OK) {
                    assert_int_equal(status, STATUS_IO);
                    names(strerror(shim.code));
                    names("/");
                    count_checksums((unsigned)again);
                    failed++;
                }
                ASSERT_OK(verify(), err);
                count_checksums(1);
                if (!there)
                    break;
            }
    assert_true(failed > 20);
    for (unsigned n = 1; fails_at(PREADS, n, 2, EIO, n % 2, &status, verify); n += 1 + n / 8)
        ASSERT_OK(status, err);
    forget_checksums();
}

static void test_verify_fails(void **state) {
    (void)state;
    verify_fails_everywhere("llama.gguf");
    verify_fails_everywhere("qwen3_moe");
}

/* ---- a disk that does not answer ---- */

#define MUST(condition)                                                           \
    do {                                                                          \
        if (!(condition)) {                                                       \
            print_error("line %d: not %s: %s\n", __LINE__, #condition, err.text); \
            _exit(1);                                                             \
        }                                                                         \
    } while (0)

/* In a process of its own, since what is left behind stays with it. */
static void stalls(enum status (*call)(void), uint64_t from, uint64_t count, bool resumable) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        faults = (struct read_faults){.seed = 1, .hold_from = from, .hold_count = count, .corrupt_unread = true};
        uint64_t began_ns = clock_now_ns();
        MUST(call() == STATUS_IO);
        MUST(clock_now_ns() - began_ns < 20000000000u); /* many times the time-out: this machine may be busy */
        MUST(strstr(err.text, "has not come back after") && strstr(err.text, "offset") && strstr(err.text, "dmesg"));
        MUST(strstr(err.text, source) || strstr(err.text, ".safetensors") || strstr(err.text, ".partial"));
        MUST(!resumable || strstr(err.text, "the same command goes on from there"));
        read_queue_faulty_release(last_queue); /* it comes after all: nothing breaks */
        while (read_queue_reap(last_queue, true, 1000000000u))
            continue;
        MUST(read_queue_in_flight(last_queue) == 0);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("the child ended with %d", status);
}

static void pack_stalls(void) {
    static const uint64_t froms[] = {1, 2, 14, 20};
    for (size_t i = 0; i < sizeof froms / sizeof *froms; i++) {
        stalls(pack, froms[i], i % 2 ? UINT64_MAX / 2 : 1, true);
        nothing_passes_for_whole();
        if (i == 3)
            stalls(pack, 1, 1, false); /* while it checks what is there */
        goes_on();
        assert_true(i < 2 || result.kept_bytes > 0);
    }
}

static void test_a_pack_ends(void **state) {
    (void)state;
    each_model(pack_stalls);
}

static void test_a_verify_ends(void **state) {
    (void)state;
    assert_true((size_t)snprintf(source, sizeof source, "%s/models/qwen3_moe", getenv("SLUICE_TEST_DATA")) < sizeof source);
    forget_checksums();
    stalls(verify, 1, 1, false);
    stalls(verify, 10, UINT64_MAX / 2, false);
    count_checksums(0);
    ASSERT_OK(verify(), err);
    forget_checksums();
}

/* ---- all ---- */

static int make_folder(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/dev/shm/sluice-pack-XXXXXX"); /* thousands of syncs: not on a disk */
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(cache, sizeof cache, "%s/cache", folder);
    return setenv("XDG_CACHE_HOME", cache, 1);
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_fail),   cmocka_unit_test(test_reads_are_short), cmocka_unit_test(test_the_disk_is_full),
        cmocka_unit_test(test_verify_fails), cmocka_unit_test(test_a_pack_ends),     cmocka_unit_test(test_a_verify_ends),
    };
    return cmocka_run_group_tests_name("pack_io", tests, make_folder, remove_folder);
}
