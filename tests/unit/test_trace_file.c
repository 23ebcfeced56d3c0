/*
 * test_trace_file: what is written is read again, and nothing cut, damaged or unfinished is taken for a trace.
 */
#include "test_support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/memory.h"
#include "engine/trace_file.h"

enum { LAYERS = 2, EXPERTS = 5, PASSES = 7 };

static char path[64], partial[80];

static int begin(void **state) {
    (void)state;
    (void)snprintf(path, sizeof path, "/var/tmp/sluice-trace-%d", (int)getpid());
    (void)snprintf(partial, sizeof partial, "%s.partial", path);
    return 0;
}

static int end(void **state) {
    (void)state;
    (void)unlink(path);
    return 0;
}

static const struct trace_totals totals = {.prompt = {1, 2, 0}, .decode = {3, 4, 0}};

static enum status write_trace(uint32_t passes, bool finish, struct error *err) {
    static struct trace_layer layers[LAYERS] = {{1, 0, EXPERTS}, {3, EXPERTS, EXPERTS}};
    static struct trace_record records[LAYERS * EXPERTS];
    for (uint32_t r = 0; r < LAYERS * EXPERTS; r++)
        records[r] = (struct trace_record){8192 + r, 8000 + r};
    const struct trace_head head = {.family = "toy",
                                    .identity = {7},
                                    .experts_per_token = 2,
                                    .cache_bytes = 99,
                                    .layer_count = LAYERS,
                                    .record_count = LAYERS * EXPERTS,
                                    .layers = layers,
                                    .records = records};
    struct trace_writer *writer;
    TRY(trace_writer_create(path, &head, &writer, err));
    for (uint32_t pass = 0; pass < passes; pass++)
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            const uint32_t experts[] = {pass % 3, 3 + pass % 2};
            const struct trace_wanted wanted = {.layer = layers[layer].layer,
                                                .position = pass,
                                                .rows = pass > 0 ? 1 : 65536,
                                                .experts = experts,
                                                .count = 2,
                                                .decode = pass > 0};
            enum status status = trace_writer_add(writer, &wanted, err);
            if (status != STATUS_OK) {
                trace_writer_abandon(writer);
                return status;
            }
        }
    if (finish)
        return trace_writer_finish(writer, &totals, err);
    trace_writer_abandon(writer);
    return STATUS_OK;
}

static void read_again(void **state) {
    struct error err;
    struct trace_file trace;
    (void)state;
    ASSERT_OK(write_trace(PASSES, true, &err), err);
    assert_false(file_exists(partial));
    ASSERT_OK(trace_file_read(path, &trace, &err), err);
    assert_string_equal(trace.head.family, "toy");
    assert_int_equal(trace.head.identity[0], 7);
    assert_int_equal(trace.head.cache_bytes, 99);
    assert_int_equal(trace.head.records[9].slot_bytes, 8192 + 9);
    assert_int_equal(trace.head.records[9].piece_bytes, 8000 + 9);
    assert_int_equal(trace.step_count, PASSES * LAYERS);
    assert_int_equal(trace.prompt_passes, 1);
    assert_int_equal(trace.decode_passes, PASSES - 1);
    assert_int_equal(trace.totals.decode.misses, 4);
    for (uint32_t s = 0; s < trace.step_count; s++) {
        uint32_t pass = s / LAYERS, first = s % LAYERS * EXPERTS;
        assert_int_equal(trace.steps[s].want_count, 2);
        assert_int_equal(trace.steps[s].decode, pass > 0);
        assert_int_equal(trace.ids[trace.steps[s].first_want], first + pass % 3);
        assert_int_equal(trace.ids[trace.steps[s].first_want + 1], first + 3 + pass % 2);
    }
    trace_file_deinit(&trace);
}

static void put(const void *data, size_t size_bytes) {
    (void)unlink(path); /* a new file: some systems write a shortened one out at once */
    FILE *file = fopen(path, "wb");
    assert_true(file && fwrite(data, 1, size_bytes, file) == size_bytes);
    assert_int_equal(fclose(file), 0);
}

static void expect_refused(const void *data, size_t size_bytes) {
    struct error err;
    struct trace_file trace;
    put(data, size_bytes);
    ASSERT_FAILS(trace_file_read(path, &trace, &err), err.status == STATUS_UNSUPPORTED ? STATUS_UNSUPPORTED : STATUS_CORRUPT, err);
    assert_non_null(strstr(err.text, path));
    trace_file_deinit(&trace);
}

static void cut_and_damaged(void **state) {
    struct error err;
    struct text whole;
    (void)state;
    ASSERT_OK(write_trace(PASSES, true, &err), err);
    ASSERT_OK(file_read(path, 1u << 20, &whole, &err), err);
    char *bytes = (char *)(uintptr_t)whole.data;
    for (size_t size = 0; size < whole.size_bytes; size += 1 + size / 100)
        expect_refused(bytes, size);
    for (size_t i = 0; i < whole.size_bytes; i += 1 + i / 50) {
        bytes[i] ^= 4;
        expect_refused(bytes, whole.size_bytes);
        bytes[i] ^= 4;
    }
    memory_free(bytes);
}

/* A right checksum over nonsense: as from a program that writes wrong traces. */
static void nonsense_with_a_checksum(void **state) {
    struct error err;
    struct text whole;
    struct trace_file trace;
    (void)state;
    ASSERT_OK(write_trace(PASSES, true, &err), err);
    ASSERT_OK(file_read(path, 1u << 20, &whole, &err), err);
    uint8_t *bytes = (uint8_t *)(uintptr_t)whole.data;
    for (size_t i = 12; i < whole.size_bytes - 32; i++) {
        uint8_t kept = bytes[i];
        for (unsigned value = 0; value < 256; value += 51) {
            struct sha256 hash;
            bytes[i] = (uint8_t)value;
            sha256_init(&hash);
            sha256_update(&hash, bytes, whole.size_bytes - 32);
            sha256_finish(&hash, bytes + whole.size_bytes - 32);
            put(bytes, whole.size_bytes);
            enum status status = trace_file_read(path, &trace, &err); /* may be a trace; what it says must be inside its arrays */
            for (uint64_t id = 0; status == STATUS_OK && id < trace.id_count; id++)
                assert_true(trace.ids[id] < trace.head.record_count);
            trace_file_deinit(&trace);
        }
        bytes[i] = kept;
    }
    memory_free(bytes);
}

/* Sizes whose sum would be 0 in 64 bits, and a name that a terminal would obey. */
static void what_would_do_harm(void **state) {
    static const struct {
        size_t at;
        const char *bytes;
        size_t size_bytes;
    } changes[] = {{64, "\033[2J", 4}, {96 + LAYERS * 12, "\0\0\0\0\0\1\0", 8}, {96 + LAYERS * 12 + 8, "\0\0\0\0\0\0\0\x80", 8}};
    struct error err;
    struct text whole;
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        ASSERT_OK(write_trace(PASSES, true, &err), err);
        ASSERT_OK(file_read(path, 1u << 20, &whole, &err), err);
        uint8_t *bytes = (uint8_t *)(uintptr_t)whole.data;
        struct sha256 hash;
        memcpy(bytes + changes[i].at, changes[i].bytes, changes[i].size_bytes);
        sha256_init(&hash);
        sha256_update(&hash, bytes, whole.size_bytes - 32);
        sha256_finish(&hash, bytes + whole.size_bytes - 32);
        expect_refused(bytes, whole.size_bytes);
        memory_free(bytes);
    }
}

static void unfinished_is_not_there(void **state) {
    struct error err;
    (void)state;
    (void)unlink(path);
    ASSERT_OK(write_trace(PASSES, false, &err), err);
    assert_false(file_exists(path) || file_exists(partial));
}

/* E11: the disk is full; an older trace of that name stays. */
static void full_disk(void **state) {
    struct error err;
    struct trace_file trace;
    struct rlimit before, limit;
    (void)state;
    ASSERT_OK(write_trace(PASSES, true, &err), err);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t bytes = 0; bytes < 200000; bytes += 40000) {
        limit.rlim_cur = bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        enum status status = write_trace(10000, true, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, STATUS_IO);
        assert_non_null(strstr(err.text, path));
        assert_false(file_exists(partial));
        ASSERT_OK(trace_file_read(path, &trace, &err), err);
        assert_int_equal(trace.step_count, PASSES * LAYERS);
        trace_file_deinit(&trace);
    }
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_again),         cmocka_unit_test(cut_and_damaged),         cmocka_unit_test(nonsense_with_a_checksum),
        cmocka_unit_test(what_would_do_harm), cmocka_unit_test(unfinished_is_not_there), cmocka_unit_test(full_disk),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
