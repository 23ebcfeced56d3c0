/*
 * test_copies: a model that is read from several copies gives the same bits, whatever the copies do; what is no copy is refused by name.
 *
 * Copies lie on a disk and in memory, so that there are two devices. Faults are put into single files by the double around the queue.
 */
#include "../unit/copy_fixture.h"
#include "../unit/engine_fixture.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_internal.h"
#include "io/read_queue_faulty.h"

enum { PROMPT = 40, GENERATED = 12 };

static const char *const subjects[] = {"models/llama-tied-bias.gguf", "models/qwen3_moe", "gguf/split/qwen3_moe-00001-of-00005.gguf"};
enum { SUBJECTS = sizeof subjects / sizeof *subjects, MIXTURE = 1 };
static struct copies copies[SUBJECTS];
static uint32_t prompt[PROMPT];

struct setup {
    struct read_faults faults;
    struct read_queue *faulty;
    uint64_t timeout_ns;
};

static enum status wrap(void *context, struct read_queue *inner, struct read_queue **out, struct error *err) {
    struct setup *s = context;
    enum status status = read_queue_faulty_create(inner, &s->faults, out, err);
    s->faulty = *out;
    return status;
}

/* Nearly everything streams with SLUICE_RAM_MIN. faults: or NULL. */
static sluice_model *load(size_t subject, unsigned count, sluice_ram ram, sluice_reader reader, struct setup *faults) {
    const sluice_load_options options = {.ram = ram, .context = PROMPT + GENERATED, .threads = 2, .reader = reader};
    sluice_error error;
    sluice_model *model = engine_open(engine_path(subjects[subject]));
    for (unsigned i = 0; i < count; i++)
        ENGINE_OK(sluice_add_copy(model, copies[subject].path[i], &error), error);
    if (faults)
        engine_set_queue_wrapper(model, (struct queue_wrapper){.wrap = wrap, .context = faults, .read_timeout_ns = faults->timeout_ns});
    engine_forget_peak();
    ENGINE_OK(sluice_load(model, &options, &error), error);
    return model;
}

static sluice_status answer(sluice_model *model, struct engine_ids *ids, sluice_error *error) {
    return engine_generate(model, prompt, PROMPT, GENERATED, 0.7f, ids, error);
}

static void what_one_copy_gives(size_t subject, struct engine_ids *want) {
    sluice_error error;
    sluice_model *model = load(subject, 0, SLUICE_RAM_MIN, SLUICE_READER_SYNC, NULL);
    ENGINE_OK(answer(model, want, &error), error);
    sluice_close(model);
}

/* A member of the n-th copy in the metrics; the caller owns it. */
static json_t *of_copy(sluice_model *model, size_t n, const char *key) {
    sluice_error error;
    char *text;
    ENGINE_OK(sluice_metrics(model, false, &text, &error), error);
    json_t *root = json_loads(text, 0, NULL), *value = json_object_get(json_array_get(json_object_get(root, "copies"), n), key);
    sluice_free(text);
    assert_non_null(value);
    json_incref(value);
    json_decref(root);
    return value;
}

static uint64_t bytes_of(sluice_model *model, size_t n) {
    json_t *value = of_copy(model, n, "read_bytes");
    uint64_t bytes = (uint64_t)json_integer_value(value);
    json_decref(value);
    return bytes;
}

static bool left_out(sluice_model *model, size_t n) {
    json_t *value = of_copy(model, n, "left_out");
    bool out = json_is_true(value);
    json_decref(value);
    return out;
}

/* ---- the same bits ---- */

static void the_same_ids_from_all_copies(void **state) {
    static const sluice_reader readers[] = {SLUICE_READER_BEST, SLUICE_READER_THREADS, SLUICE_READER_SYNC};
    (void)state;
    for (size_t i = 0; i < SUBJECTS; i++) {
        struct engine_ids want, ids;
        sluice_error error;
        what_one_copy_gives(i, &want);
        for (size_t run = 0; run < 3 * 2; run++) {
            unsigned count = run / 3 ? 3 : 1;
            sluice_model *model = load(i, count, SLUICE_RAM_MIN, readers[run % 3], NULL);
            ENGINE_OK(answer(model, &ids, &error), error);
            assert_true(engine_same_ids(&ids, &want));
            unsigned used = 0;
            for (size_t n = 0; n <= count; n++) {
                used += bytes_of(model, n) > 0;
                assert_true(!left_out(model, n));
            }
            assert_true(used >= 2); /* all, when so much is in flight; these models are small */
            sluice_close(model);
        }
    }
}

/* With several experts in flight every copy has its part, and together they gave all that was read. */
static void all_copies_take_part(void **state) {
    const char *path = engine_path("../../demo/novels-moe-Q4_K_M.gguf");
    sluice_load_options options = {.ram = SLUICE_RAM_MIN, .context = PROMPT + GENERATED};
    struct engine_ids alone, ids;
    struct copies own;
    sluice_error error;
    (void)state;
    sluice_model *model = engine_load(path, &options);
    ENGINE_OK(answer(model, &alone, &error), error);
    sluice_close(model);
    copies_make(&own, path, 3);
    model = engine_open(path);
    for (unsigned i = 0; i < 3; i++)
        ENGINE_OK(sluice_add_copy(model, own.path[i], &error), error);
    ENGINE_OK(sluice_load(model, &options, &error), error);
    ENGINE_OK(answer(model, &ids, &error), error);
    assert_true(engine_same_ids(&ids, &alone));
    double sum = 0, read = engine_number(model, "reads", "read_bytes") + engine_number(model, "reads", "load_bytes");
    for (size_t n = 0; n <= 3; n++) {
        assert_true((double)bytes_of(model, n) > read / 50);
        sum += (double)bytes_of(model, n);
    }
    assert_true(sum >= read && sum < read * 1.2); /* more by what was read ahead before the request */
    sluice_close(model);
    copies_remove(&own);
}

/* Then they are pages of the first copy, and the plan says that the others are for nothing. */
static void a_model_that_fits_reads_one(void **state) {
    struct engine_ids want, ids;
    sluice_error error;
    sluice_plan plan;
    (void)state;
    what_one_copy_gives(MIXTURE, &want);
    sluice_model *model = load(MIXTURE, 2, SLUICE_RAM_ALL, SLUICE_READER_BEST, NULL);
    sluice_get_plan(model, &plan);
    assert_true(plan.everything_resident && strstr(plan.note, "not used"));
    ENGINE_OK(answer(model, &ids, &error), error);
    assert_true(engine_same_ids(&ids, &want));
    sluice_close(model);
}

/* ---- refusals ---- */

static void refused(const char *model_path, const char *copy_path, sluice_status status, const char *word) {
    sluice_error error;
    sluice_model *model = engine_open(model_path);
    sluice_status got = sluice_add_copy(model, copy_path, &error);
    if (got != status || !strstr(error.text, word) || !strstr(error.text, copy_path))
        fail_msg("%s: %s", sluice_status_name(got), error.text);
    sluice_close(model);
}

static void flip(const char *path, off_t offset_bytes) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte = 0;
    assert_true(fd >= 0 && pread(fd, &byte, 1, offset_bytes) == 1);
    byte ^= 1;
    assert_true(pwrite(fd, &byte, 1, offset_bytes) == 1 && close(fd) == 0);
}

static void what_is_no_copy_is_refused(void **state) {
    struct copies bad;
    char path[2 * COPY_PATH_BYTES], *shard;
    (void)state;
    refused(engine_path(subjects[0]), engine_path(subjects[0]), SLUICE_INVALID, "is the model itself");
    refused(engine_path(subjects[1]), engine_path(subjects[1]), SLUICE_INVALID, "is the model itself");
    refused(engine_path(subjects[0]), "/var/tmp/nothing.gguf", SLUICE_NOT_FOUND, "all its 1 files");
    refused(engine_path(subjects[0]), engine_path("models/qwen3_moe.gguf"), SLUICE_INVALID, "119008");
    refused(engine_path(subjects[1]), copies[0].path[0], SLUICE_INVALID, "bytes, not");
    refused(engine_path(subjects[2]), copies[1].path[0], SLUICE_NOT_FOUND, "all its 5 files, under the same names");
    copies_make(&bad, engine_path(subjects[1]), 1);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", bad.folder[0]);
    flip(path, 300); /* its header */
    refused(engine_path(subjects[1]), bad.path[0], SLUICE_INVALID, "differ at offset 300;");
    flip(path, 300);
    flip(path, 177183);
    refused(engine_path(subjects[1]), path, SLUICE_INVALID, "differ at offset 177183;");
    copies_remove(&bad);
    copies_make(&bad, engine_path(subjects[2]), 1);
    shard = strrchr(bad.path[0], '/') + strlen("/qwen3_moe-0000");
    *shard = '5';
    assert_int_equal(truncate(bad.path[0], 12000), 0);
    *shard = '3';
    sluice_error error;
    sluice_model *model = engine_open(engine_path(subjects[2]));
    assert_int_equal(sluice_add_copy(model, bad.path[0], &error), SLUICE_INVALID);
    assert_true(strstr(error.text, "qwen3_moe-00005-of-00005.gguf: is no copy of") && strstr(error.text, "12000 bytes, not 12704"));
    sluice_close(model);
    copies_remove(&bad);
}

static void only_before_loading(void **state) {
    sluice_error error;
    (void)state;
    sluice_model *model = load(MIXTURE, 0, SLUICE_RAM_MIN, SLUICE_READER_SYNC, NULL);
    assert_int_equal(sluice_add_copy(model, copies[MIXTURE].path[0], &error), SLUICE_INVALID);
    sluice_close(model);
    model = engine_open(engine_path(subjects[MIXTURE]));
    assert_int_equal(sluice_add_copy(model, "", &error), SLUICE_INVALID);
    sluice_close(model);
}

/* ---- copies that fail ---- */

/* What `body` writes to standard error. */
static void listen(void (*body)(void *), void *context, char *said, size_t said_bytes) {
    FILE *log = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_true(log && kept >= 0 && fflush(stderr) == 0 && dup2(fileno(log), STDERR_FILENO) >= 0);
    log_set_level(LOG_WARNING);
    body(context);
    log_set_level(LOG_ERROR);
    assert_true(dup2(kept, STDERR_FILENO) >= 0 && close(kept) == 0);
    rewind(log);
    said[fread(said, 1, said_bytes - 1, log)] = 0;
    assert_int_equal(fclose(log), 0);
}

struct failing_run {
    size_t subject, failing;
    sluice_reader reader;
    struct engine_ids want;
};

static void run_with_a_failing_copy(void *context) {
    struct failing_run *run = context;
    struct setup faults = {.faults = {.seed = 1, .fail_files = (uint64_t)1 << run->failing, .corrupt_unread = true}};
    struct engine_ids ids;
    sluice_error error;
    sluice_model *model = load(run->subject, 2, SLUICE_RAM_MIN, run->reader, &faults);
    for (int round = 0; round < 2; round++) {
        ENGINE_OK(answer(model, &ids, &error), error);
        assert_true(engine_same_ids(&ids, &run->want));
    }
    for (size_t n = 0; n < 3; n++) {
        assert_int_equal(left_out(model, n), n == run->failing);
        assert_int_equal(bytes_of(model, n) == 0, n == run->failing);
    }
    sluice_close(model);
}

static void a_copy_that_fails_is_left_out(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (size_t failing = 0; failing < 3; failing++) {
            struct failing_run run = {
                .subject = i, .failing = failing, .reader = failing == 1 ? SLUICE_READER_THREADS : SLUICE_READER_BEST};
            char said[4000];
            what_one_copy_gives(i, &run.want);
            listen(run_with_a_failing_copy, &run, said, sizeof said);
            const char *warning = strstr(said, "left out"), *path = failing ? copies[i].path[failing - 1] : engine_path(subjects[i]);
            if (!warning || strstr(warning + 1, "left out") || !strstr(said, path) || !strstr(said, "Input/output error"))
                fail_msg("%s", said);
        }
}

/* Every read in turn fails where it was sent first: nobody notices. */
static void one_failed_read_is_read_elsewhere(void **state) {
    struct engine_ids want, ids;
    sluice_error error;
    (void)state;
    what_one_copy_gives(MIXTURE, &want);
    struct setup faults = {.faults = {.seed = 1}};
    sluice_model *model = load(MIXTURE, 1, SLUICE_RAM_MIN, SLUICE_READER_SYNC, &faults);
    ENGINE_OK(answer(model, &ids, &error), error);
    uint64_t all = read_queue_faulty_submitted(faults.faulty);
    sluice_close(model);
    for (uint64_t at = 1; at <= all; at += 1 + all / 40) {
        faults = (struct setup){.faults = {.seed = at, .fail_at = at, .corrupt_unread = true}};
        model = load(MIXTURE, 1, SLUICE_RAM_MIN, at % 2 ? SLUICE_READER_SYNC : SLUICE_READER_BEST, &faults);
        ENGINE_OK(answer(model, &ids, &error), error);
        assert_true(engine_same_ids(&ids, &want));
        assert_true(!left_out(model, 0) && !left_out(model, 1));
        sluice_close(model);
    }
}

static void when_all_copies_fail_the_request_does(void **state) {
    struct engine_ids want, ids;
    sluice_error error;
    (void)state;
    what_one_copy_gives(MIXTURE, &want);
    struct setup faults = {.faults = {.seed = 3, .fail_rate = 0.5, .corrupt_unread = true}};
    sluice_load_options options = {.ram = SLUICE_RAM_MIN, .context = PROMPT + GENERATED};
    sluice_model *model = engine_open(engine_path(subjects[MIXTURE]));
    ENGINE_OK(sluice_add_copy(model, copies[MIXTURE].path[0], &error), error);
    engine_set_queue_wrapper(model, (struct queue_wrapper){.wrap = wrap, .context = &faults});
    unsigned failed = 0;
    sluice_status status;
    while ((status = sluice_load(model, &options, &error)) == SLUICE_IO && failed < 1000)
        failed++;
    ENGINE_OK(status, error);
    for (int round = 0; round < 30; round++) {
        status = answer(model, &ids, &error);
        assert_true(status == SLUICE_OK || (status == SLUICE_IO && strstr(error.text, "offset")));
        assert_true(memcmp(ids.ids, want.ids, ids.count * sizeof *ids.ids) == 0);
        failed += status == SLUICE_IO;
    }
    assert_true(failed > 0);
    assert_true(left_out(model, 0) != left_out(model, 1)); /* one stays */
    sluice_close(model);
}

/* ---- copies that stall, or change ---- */

static void a_copy_that_stalls_is_left_out(void **state) {
    struct engine_ids want, ids;
    sluice_error error;
    (void)state;
    what_one_copy_gives(MIXTURE, &want);
    struct setup faults = {.faults = {.seed = 1}};
    sluice_model *model = load(MIXTURE, 1, SLUICE_RAM_MIN, SLUICE_READER_SYNC, &faults);
    uint64_t loading = read_queue_faulty_submitted(faults.faulty);
    sluice_close(model);
    for (uint64_t from = loading + 1; from < loading + 40; from += 13) {
        faults = (struct setup){.faults = {.seed = 1, .hold_from = from, .hold_count = UINT64_MAX / 2, .hold_files = 2},
                                .timeout_ns = 100000000};
        model = load(MIXTURE, 1, SLUICE_RAM_MIN, SLUICE_READER_SYNC, &faults);
        assert_int_equal(answer(model, &ids, &error), SLUICE_IO); /* this one met it */
        assert_true(strstr(error.text, "has not come back") && strstr(error.text, copies[MIXTURE].folder[0]));
        assert_true(memcmp(ids.ids, want.ids, ids.count * sizeof *ids.ids) == 0);
        assert_true(left_out(model, 1) && !left_out(model, 0));
        read_queue_faulty_release(faults.faulty);
        int tries = 0;
        while (answer(model, &ids, &error) != SLUICE_OK && tries++ < 1000)
            clock_sleep_ns(1000000); /* the late ones still come */
        assert_true(engine_same_ids(&ids, &want));
        uint64_t bytes = bytes_of(model, 1);
        ENGINE_OK(answer(model, &ids, &error), error);
        assert_int_equal(bytes_of(model, 1), bytes); /* nobody asks it any more */
        sluice_close(model);
    }
}

static void a_copy_that_changes_ends_the_request(void **state) {
    struct engine_ids ids;
    sluice_error error;
    struct copies own;
    char path[2 * COPY_PATH_BYTES];
    (void)state;
    copies_make(&own, engine_path(subjects[MIXTURE]), 1);
    sluice_model *model = engine_open(engine_path(subjects[MIXTURE]));
    sluice_load_options options = {.ram = SLUICE_RAM_MIN, .context = PROMPT + GENERATED};
    ENGINE_OK(sluice_add_copy(model, own.path[0], &error), error);
    ENGINE_OK(sluice_load(model, &options, &error), error);
    ENGINE_OK(answer(model, &ids, &error), error);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", own.folder[0]);
    flip(path, 100000);
    assert_int_equal(answer(model, &ids, &error), SLUICE_IO);
    assert_true(strstr(error.text, path) && strstr(error.text, "rewritten"));
    sluice_close(model);
    copies_remove(&own);
}

static int make_all(void **state) {
    (void)state;
    log_set_level(LOG_ERROR);
    assert_int_equal(setenv("XDG_CACHE_HOME", "/dev/null", 1), 0); /* what doctor measured here once would decide who is read */
    engine_prompt(prompt, PROMPT, 100, 11);
    for (size_t i = 0; i < SUBJECTS; i++)
        copies_make(&copies[i], engine_path(subjects[i]), 3);
    return 0;
}

static int remove_all(void **state) {
    (void)state;
    for (size_t i = 0; i < SUBJECTS; i++)
        copies_remove(&copies[i]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_ids_from_all_copies),
        cmocka_unit_test(all_copies_take_part),
        cmocka_unit_test(a_model_that_fits_reads_one),
        cmocka_unit_test(what_is_no_copy_is_refused),
        cmocka_unit_test(only_before_loading),
        cmocka_unit_test(a_copy_that_fails_is_left_out),
        cmocka_unit_test(one_failed_read_is_read_elsewhere),
        cmocka_unit_test(when_all_copies_fail_the_request_does),
        cmocka_unit_test(a_copy_that_stalls_is_left_out),
        cmocka_unit_test(a_copy_that_changes_ends_the_request),
    };
    return cmocka_run_group_tests_name("copies", tests, make_all, remove_all);
}
