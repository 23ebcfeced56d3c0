/*
 * test_usage_history: counts come back, fade, and are ignored when the file is not whole or not this model's; a folder that cannot be
 * written to bothers nobody; and a model reads ahead what it used before, and answers the same.
 */
#include "engine_fixture.h"
#include "folder_fixture.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/log.h"
#include "engine/usage_history.h"

enum { COUNT = 300 };

static char folder[64];
static uint8_t identity[32] = {1, 2, 3};
static uint32_t run[COUNT], got[COUNT];

static int begin(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/var/tmp/sluice-history-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    for (uint32_t i = 0; i < COUNT; i++)
        run[i] = i * i % 97;
    return 0;
}

static int end(void **state) {
    (void)state;
    return remove_folder(folder);
}

static const char *own_path(void) {
    static char path[4096];
    assert_true(usage_history_path(identity, path, sizeof path));
    return path;
}

static bool read_it(void) {
    memset(got, 0xA5, sizeof got);
    return usage_history_read(own_path(), identity, got, COUNT);
}

static void all_zero(void) {
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(got[i], 0);
}

static void counts_come_back_and_fade(void **state) {
    (void)state;
    assert_false(read_it());
    all_zero();
    usage_history_add(own_path(), identity, run, COUNT);
    assert_true(read_it());
    assert_memory_equal(got, run, sizeof run);
    usage_history_add(own_path(), identity, run, COUNT);
    assert_true(read_it());
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(got[i], run[i] + run[i] / 2);
    static const uint32_t none[COUNT], most[COUNT] = {UINT32_MAX, UINT32_MAX};
    usage_history_add(own_path(), identity, none, COUNT); /* a run without a token is no run */
    assert_true(read_it());
    assert_int_equal(got[2], run[2] + run[2] / 2);
    usage_history_add(own_path(), identity, most, COUNT);
    usage_history_add(own_path(), identity, most, COUNT);
    assert_true(read_it());
    assert_int_equal(got[0], UINT32_MAX);
}

static void anything_else_is_as_none(void **state) {
    struct text whole;
    struct error err;
    (void)state;
    (void)remove(own_path());
    usage_history_add(own_path(), identity, run, COUNT);
    ASSERT_OK(file_read(own_path(), 1 << 20, &whole, &err), err);
    char *bytes = memory_alloc(whole.size_bytes + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < whole.size_bytes; i += i < 60 ? 1 : 37) { /* a bit anywhere */
        memcpy(bytes, whole.data, whole.size_bytes);
        bytes[i] ^= (char)(1 << i % 8);
        ASSERT_OK(file_write(own_path(), bytes, whole.size_bytes, &err), err);
        assert_false(read_it());
        all_zero();
    }
    for (size_t size = 0; size < whole.size_bytes; size += 41) { /* cut short, and one byte too long */
        ASSERT_OK(file_write(own_path(), whole.data, size, &err), err);
        assert_false(read_it());
    }
    memcpy(bytes, whole.data, whole.size_bytes);
    bytes[whole.size_bytes] = 0;
    ASSERT_OK(file_write(own_path(), bytes, whole.size_bytes + 1, &err), err);
    assert_false(read_it());
    ASSERT_OK(file_write(own_path(), whole.data, whole.size_bytes, &err), err);
    uint8_t other[32] = {9};
    assert_false(usage_history_read(own_path(), other, got, COUNT));
    assert_false(usage_history_read(own_path(), identity, got, COUNT - 1));
    assert_true(read_it());
    ASSERT_OK(file_write(own_path(), bytes, 100, &err), err); /* damaged: the next run begins anew */
    usage_history_add(own_path(), identity, run, COUNT);
    assert_true(read_it());
    assert_memory_equal(got, run, sizeof run);
    memory_free(bytes);
    memory_free((char *)(uintptr_t)whole.data);
}

/* Many processes end at once: the file is whole whenever it is looked at, and nothing is left beside it. */
static void many_write_at_once(void **state) {
    enum { PROCESSES = 8, ROUNDS = 12 };
    (void)state;
    pid_t children[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        assert_true(children[p] >= 0);
        if (children[p] == 0) {
            for (int round = 0; round < ROUNDS; round++)
                usage_history_add(own_path(), identity, run, COUNT);
            _exit(0);
        }
    }
    for (int round = 0; round < 300; round++)
        assert_true(read_it());
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        assert_true(waitpid(children[p], &status, 0) == children[p] && status == 0);
    }
    assert_true(read_it());
    char path[128];
    unsigned files = 0;
    (void)snprintf(path, sizeof path, "%s/sluice", folder);
    DIR *listing = opendir(path);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        files += entry->d_name[0] != '.';
    assert_int_equal(closedir(listing), 0);
    assert_int_equal(files, 1);
}

static void no_place_to_keep_it(void **state) {
    uint8_t other[32] = {7};
    char path[4096];
    (void)state;
    log_set_level(LOG_ERROR);
    assert_int_equal(setenv("XDG_CACHE_HOME", "/proc/nowhere", 1), 0);
    assert_false(usage_history_path(other, path, sizeof path));
    usage_history_add("/dev/full/usage", other, run, COUNT); /* no folder; then a folder that takes nothing */
    usage_history_add("/proc/usage", other, run, COUNT);
    assert_false(usage_history_read("/proc/usage", other, got, COUNT));
    const sluice_load_options options = {.ram = SLUICE_RAM_MIN, .context = 64, .threads = 1, .history = true};
    sluice_model *model = engine_load(engine_path("models/qwen3_moe"), &options);
    uint32_t prompt[8];
    struct engine_ids ids;
    sluice_error error;
    engine_prompt(prompt, 8, 100, 9);
    ENGINE_OK(engine_generate(model, prompt, 8, 8, 0, &ids, &error), error);
    assert_false(sluice_tend(model));
    sluice_close(model);
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
}

/* ---- a model ---- */

struct answer {
    struct engine_ids ids;
    double read_bytes, hit_rate, prefilled_bytes;
};

static void ask(bool history, bool idle_first, struct answer *answer) {
    const char *path = engine_path("../../demo/novels-moe-Q4_K_M.gguf");
    sluice_load_options options = {.ram = SLUICE_RAM_BYTES, .context = 96, .threads = 2, .history = history};
    options.ram_bytes = engine_budget(path, options, 0.9);
    sluice_model *model = engine_load(path, &options);
    uint32_t prompt[8];
    sluice_error error;
    while (idle_first && sluice_tend(model))
        continue;
    engine_prompt(prompt, 8, 2000, 9);
    ENGINE_OK(engine_generate(model, prompt, 8, 48, 0.7f, &answer->ids, &error), error);
    answer->read_bytes = engine_number(model, "reads", "read_bytes"); /* of the request: what idle time read is not in it */
    answer->hit_rate = engine_number(model, "reads", "hit_rate");
    answer->prefilled_bytes = engine_number(model, "reads", "prefilled_bytes");
    sluice_close(model);
}

static void a_warm_start_hits(void **state) {
    struct answer cold = {0}, counted = {0}, warm = {0}, off = {0};
    (void)state;
    ask(false, true, &cold);
    ask(true, true, &counted); /* nothing is known yet */
    ask(true, true, &warm);
    ask(false, true, &off);
    print_message("cold: hit rate %.3f, %.1f MiB read; warm: %.3f, %.1f MiB, %.1f MiB ahead\n", counted.hit_rate,
                  counted.read_bytes / 0x1p20, warm.hit_rate, warm.read_bytes / 0x1p20, warm.prefilled_bytes / 0x1p20);
    assert_true(engine_same_ids(&cold.ids, &counted.ids) && engine_same_ids(&cold.ids, &warm.ids) && engine_same_ids(&cold.ids, &off.ids));
    assert_true(counted.prefilled_bytes == 0 && off.prefilled_bytes == 0 && warm.prefilled_bytes > 0);
    assert_true(warm.hit_rate > counted.hit_rate && warm.read_bytes < counted.read_bytes * 0.7);
    assert_true(off.hit_rate < warm.hit_rate && cold.hit_rate < warm.hit_rate);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_come_back_and_fade), cmocka_unit_test(anything_else_is_as_none), cmocka_unit_test(many_write_at_once),
        cmocka_unit_test(no_place_to_keep_it),       cmocka_unit_test(a_warm_start_hits),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
