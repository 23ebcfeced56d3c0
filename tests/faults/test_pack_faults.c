/* test_pack_faults: every allocation of a pack fails once: an error that is told, no pack, and the next call makes the right one. */
#include "../unit/test_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "pack/pack.h"

static char folder[64];

static void in_folder(char *path, size_t path_bytes, const char *name) {
    assert_true((size_t)snprintf(path, path_bytes, "%s/%s", folder, name) < path_bytes);
}

static struct text contents(const char *path) {
    struct text text;
    struct error err;
    ASSERT_OK(file_read(path, (size_t)1 << 30, &text, &err), err);
    return text;
}

/* `inside`: the file of the pack that is compared; "" for the pack itself. */
static void fail_everywhere(const char *model, const char *type, const char *out_name, const char *inside) {
    char source[512], out[128], whole[128], partial[160], made[200];
    struct pack_result result;
    struct error err;
    assert_true((size_t)snprintf(source, sizeof source, "%s/models/%s", getenv("SLUICE_TEST_DATA"), model) < sizeof source);
    in_folder(out, sizeof out, out_name);
    (void)snprintf(whole, sizeof whole, "%s/whole-%s", folder, out_name);
    (void)snprintf(partial, sizeof partial, "%s.partial", out);
    struct pack_options options = {.path = source, .out = whole, .type = type, .threads = 2};
    ASSERT_OK(pack_model(&options, &result, &err), err);
    (void)snprintf(made, sizeof made, "%s%s", whole, inside);
    struct text want = contents(made);
    options.out = out;
    unsigned failures = 0;
    for (uint64_t n = 1;; n += 1 + n / 40) { /* all of the first, then samples: the tables are long */
        memory_fail_after(n);
        enum status status = pack_model(&options, &result, &err);
        memory_fail_after(0);
        if (status == STATUS_OK)
            break;
        failures++;
        if (status != STATUS_NO_MEMORY && status != STATUS_UNSUPPORTED && status != STATUS_IO)
            fail_msg("allocation %llu: %s: %s", (unsigned long long)n, status_name(status), err.text);
        assert_false(file_exists(out));
    }
    assert_true(failures > 40);
    (void)snprintf(made, sizeof made, "%s%s", out, inside);
    struct text got = contents(made);
    assert_int_equal(got.size_bytes, want.size_bytes);
    assert_memory_equal(got.data, want.data, want.size_bytes);
    assert_false(file_exists(partial));
    memory_free((char *)got.data);
    memory_free((char *)want.data);
}

static void test_gguf(void **state) {
    (void)state;
    fail_everywhere("qwen3_moe.gguf", "q4_0", "out.gguf", "");
}

static void test_folder(void **state) {
    (void)state;
    fail_everywhere("qwen3_moe", NULL, "out", "/model.safetensors");
}

static int remove_all(void **state) {
    static const char *const names[] = {"whole-out.gguf", "out.gguf"};
    static const char *const inside[] = {"model.safetensors", "config.json", "expected.safetensors", "sluice-checksums.json"};
    static const char *const folders[] = {"whole-out", "out"};
    char path[200];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        in_folder(path, sizeof path, names[i]);
        (void)unlink(path);
        for (size_t k = 0; k < 4; k++) {
            (void)snprintf(path, sizeof path, "%s/%s/%s", folder, folders[i], inside[k]);
            (void)unlink(path);
        }
        in_folder(path, sizeof path, folders[i]);
        (void)rmdir(path);
    }
    return rmdir(folder);
}

static int make_folder(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/var/tmp/sluice-pack-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gguf), cmocka_unit_test(test_folder)};
    return cmocka_run_group_tests(tests, make_folder, remove_all);
}
