/*
 * test_engine_faults: the whole engine over reads that fail, come short, late and out of order, and over a heap that gives nothing at the
 * n-th time. A request ends with the right tokens or with an error that says what happened; the next one on the same model is right;
 * nothing leaks.
 *
 * Model   `want` holds the logits and ids of an undisturbed run. Reads are disturbed by a faulty queue around the engine's own
 *         (engine_set_queue_wrapper); what was not read is full of 0xA5, so that computing with it would show.
 */
#include "../unit/engine_fixture.h"

#include <errno.h>

#include "engine/engine_internal.h"
#include "io/read_queue_faulty.h"

enum { PROMPT = 20, GENERATED = 6, READS_PER_MODEL = 150, ALLOCATIONS_MAX = 100000 };

static const char *const subjects[] = {"models/qwen3_moe", "models/llama-tied-bias.gguf", "gguf/split/qwen3_moe-00003-of-00005.gguf"};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

struct setup {
    char path[4096];
    uint32_t prompt[PROMPT];
    struct engine_logits want;
    struct engine_ids want_ids;
    struct read_faults faults;
    struct read_queue *faulty; /* of the last load */
};

static const sluice_load_options tight = {.ram = SLUICE_RAM_MIN, .context = PROMPT + GENERATED, .threads = 2, .logit_rows = 4};

static void set_up(struct setup *s, const char *name) {
    sluice_error error;
    sluice_info info;
    *s = (struct setup){.faults = {.seed = 1}};
    (void)snprintf(s->path, sizeof s->path, "%s", engine_path(name));
    sluice_model *model = engine_load(s->path, &tight);
    sluice_get_info(model, &info);
    engine_prompt(s->prompt, PROMPT, info.vocab, 5);
    engine_logits_init(&s->want, model, PROMPT);
    ENGINE_OK(engine_logits(model, s->prompt, PROMPT, &s->want, &error), error);
    ENGINE_OK(engine_generate(model, s->prompt, PROMPT, GENERATED, 0.7f, &s->want_ids, &error), error);
    sluice_close(model);
}

static void tear_down(struct setup *s) { free(s->want.rows); }

static enum status wrap(void *context, struct read_queue *inner, struct read_queue **out, struct error *err) {
    struct setup *s = context;
    enum status status = read_queue_faulty_create(inner, &s->faults, out, err);
    s->faulty = *out;
    return status;
}

static sluice_model *open_faulty(struct setup *s) {
    sluice_model *model = engine_open(s->path);
    engine_set_queue_wrapper(model, (struct queue_wrapper){.wrap = wrap, .context = s});
    engine_forget_peak();
    return model;
}

/* ---- what a request may end with ---- */

static void right_logits(struct setup *s, sluice_model *model) {
    struct engine_logits logits;
    sluice_error error;
    engine_logits_init(&logits, model, PROMPT);
    ENGINE_OK(engine_logits(model, s->prompt, PROMPT, &logits, &error), error);
    bool same = engine_same_logits(&logits, &s->want);
    free(logits.rows);
    assert_true(same);
}

static void right_ids(struct setup *s, sluice_model *model) {
    struct engine_ids ids;
    sluice_error error;
    ENGINE_OK(engine_generate(model, s->prompt, PROMPT, GENERATED, 0.7f, &ids, &error), error);
    assert_true(engine_same_ids(&ids, &s->want_ids));
}

/* What came before the error is right too. */
static void right_beginning(const struct setup *s, const struct engine_ids *ids) {
    assert_true(ids->count <= s->want_ids.count && memcmp(ids->ids, s->want_ids.ids, ids->count * sizeof ids->ids[0]) == 0);
}

static void clean_read_error(const struct setup *s, sluice_status status, const sluice_error *error) {
    const char *slash = strrchr(s->path, '/');
    char folder[4096];
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - s->path), s->path);
    if (status != SLUICE_IO || error->status != SLUICE_IO || !strstr(error->text, folder) || !strstr(error->text, "offset") ||
        !strstr(error->text, strerror(EIO)))
        fail_msg("not a clean read error: %s: %s", sluice_status_name(status), error->text);
}

/* Returns whether it was disturbed. Right or a clean error, nothing else. */
static bool generate_disturbed(struct setup *s, sluice_model *model) {
    struct engine_ids ids;
    sluice_error error;
    sluice_status status = engine_generate(model, s->prompt, PROMPT, GENERATED, 0.7f, &ids, &error);
    right_beginning(s, &ids);
    if (status == SLUICE_OK)
        assert_int_equal(ids.count, GENERATED);
    else
        clean_read_error(s, status, &error);
    return status != SLUICE_OK;
}

/* ---- an error at every read in turn ---- */

static uint64_t count_reads(struct setup *s) {
    sluice_error error;
    s->faults = (struct read_faults){.seed = 1, .corrupt_unread = true};
    sluice_model *model = open_faulty(s);
    ENGINE_OK(sluice_load(model, &tight, &error), error);
    right_ids(s, model);
    uint64_t reads = read_queue_faulty_submitted(s->faulty);
    sluice_close(model);
    return reads;
}

/* Returns how often the error was seen: while loading or while answering. */
static unsigned fail_read(struct setup *s, uint64_t number, sluice_reader reader) {
    sluice_load_options options = tight;
    sluice_error error;
    uint64_t live_bytes = engine_live_bytes();
    bool disturbed = false;
    options.reader = reader;
    s->faults = (struct read_faults){.seed = number, .fail_at = number, .fail_errno = EIO, .corrupt_unread = true};
    sluice_model *model = open_faulty(s);
    sluice_status status = sluice_load(model, &options, &error);
    if (status != SLUICE_OK) {
        clean_read_error(s, status, &error);
        disturbed = true;
        s->faults.fail_at = 0;
        ENGINE_OK(sluice_load(model, &options, &error), error); /* the model can be loaded again */
    }
    if (!disturbed) /* one error disturbs one request: perhaps the second, when it met read-ahead at the end of the first */
        disturbed = generate_disturbed(s, model) || generate_disturbed(s, model);
    right_ids(s, model);
    right_logits(s, model);
    sluice_close(model);
    assert_int_equal(engine_live_bytes(), live_bytes);
    return disturbed;
}

static void error_at_every_read(void **state) {
    static const sluice_reader readers[] = {SLUICE_READER_SYNC, SLUICE_READER_THREADS, SLUICE_READER_BEST};
    struct setup s;
    (void)state;
    for (size_t i = 0; i < SUBJECTS; i++) {
        set_up(&s, subjects[i]);
        uint64_t reads = count_reads(&s), step = reads / READS_PER_MODEL + 1;
        unsigned seen = 0, tried = 0;
        for (uint64_t number = 1; number <= reads; number += number < READS_PER_MODEL / 2 ? 1 : step, tried++)
            seen += fail_read(&s, number, readers[number % 3]);
        print_message("%s: %u of %u read errors (of %u reads) were seen, the others met read-ahead that nobody needed\n", subjects[i], seen,
                      tried, (unsigned)reads);
        assert_true(seen > tried / 2);
        tear_down(&s);
    }
}

/* ---- disturbances that change nothing ---- */

static void run_disturbed(struct setup *s, const struct read_faults *faults) {
    sluice_error error;
    uint64_t live_bytes = engine_live_bytes();
    s->faults = *faults;
    sluice_model *model = open_faulty(s);
    ENGINE_OK(sluice_load(model, &tight, &error), error);
    right_ids(s, model);
    right_logits(s, model);
    right_ids(s, model);
    sluice_close(model);
    assert_int_equal(engine_live_bytes(), live_bytes);
}

/* How often gate and up of experts were computed before down was there. */
static unsigned halves;

enum status __real_store_wait_pieces(struct weight_store *store, struct weight_lease *lease, struct error *err);
enum status __wrap_store_wait_pieces(struct weight_store *store, struct weight_lease *lease, struct error *err);
enum status __wrap_store_wait_pieces(struct weight_store *store, struct weight_lease *lease, struct error *err) {
    halves++;
    return __real_store_wait_pieces(store, lease, err);
}

static void short_late_and_out_of_order(void **state) {
    struct setup s;
    (void)state;
    halves = 0;
    for (size_t i = 0; i < SUBJECTS; i++) {
        set_up(&s, subjects[i]);
        for (uint64_t seed = 1; seed <= 5; seed++) {
            run_disturbed(&s, &(struct read_faults){.seed = seed, .short_rate = 0.5, .corrupt_unread = true});
            run_disturbed(&s, &(struct read_faults){.seed = seed, .delay_rate = 0.4, .delay_reaps = 9, .corrupt_unread = true});
            run_disturbed(&s, &(struct read_faults){.seed = seed, .reorder = true, .corrupt_unread = true});
            run_disturbed(
                &s, &(struct read_faults){
                        .seed = seed, .short_rate = 0.3, .delay_rate = 0.3, .delay_reaps = 5, .reorder = true, .corrupt_unread = true});
        }
        tear_down(&s);
    }
    print_message("%u experts were computed in two halves\n", halves);
    assert_true(halves > 100);
}

static void everything_at_once(void **state) {
    struct setup s;
    unsigned failed = 0, right = 0;
    (void)state;
    for (size_t i = 0; i < SUBJECTS; i++) {
        set_up(&s, subjects[i]);
        uint64_t live_bytes = engine_live_bytes();
        for (uint64_t seed = 1; seed <= 12; seed++) {
            sluice_error error;
            s.faults = (struct read_faults){.seed = seed,
                                            .fail_rate = 0.004,
                                            .fail_errno = EIO,
                                            .short_rate = 0.2,
                                            .delay_rate = 0.2,
                                            .delay_reaps = 4,
                                            .reorder = true,
                                            .corrupt_unread = true};
            sluice_model *model = open_faulty(&s);
            sluice_status status = sluice_load(model, &tight, &error);
            if (status != SLUICE_OK)
                clean_read_error(&s, status, &error);
            for (int request = 0; request < 6 && status == SLUICE_OK; request++)
                if (generate_disturbed(&s, model))
                    failed++;
                else
                    right++;
            sluice_close(model);
        }
        assert_int_equal(engine_live_bytes(), live_bytes);
        tear_down(&s);
    }
    print_message("%u requests were right, %u ended with an error\n", right, failed);
    assert_true(right > 20 && failed > 20);
}

/* ---- requests that are given up ---- */

struct stopping {
    struct engine_ids ids;
    sluice_model *model;
    uint32_t after;
    bool cancel; /* by sluice_cancel, else by the callback's answer */
};

static bool stop_after(void *context, const sluice_piece *piece) {
    struct stopping *s = context;
    (void)engine_take_piece(&s->ids, piece);
    if (s->ids.count < s->after)
        return true;
    if (s->cancel)
        sluice_cancel(s->model);
    return s->cancel;
}

static void stopped_and_cancelled(void **state) {
    struct setup s;
    (void)state;
    for (size_t i = 0; i < SUBJECTS; i++) {
        set_up(&s, subjects[i]);
        uint64_t live_bytes = engine_live_bytes();
        s.faults = (struct read_faults){.seed = 3, .delay_rate = 0.5, .delay_reaps = 6, .reorder = true, .corrupt_unread = true};
        sluice_model *model = open_faulty(&s);
        sluice_error error;
        ENGINE_OK(sluice_load(model, &tight, &error), error);
        for (uint32_t after = 1; after < GENERATED; after++)
            for (int cancel = 0; cancel < 2; cancel++) {
                struct stopping stopping = {.model = model, .after = after, .cancel = cancel};
                sluice_result result;
                const sluice_request request = {.prompt = s.prompt,
                                                .prompt_count = PROMPT,
                                                .max_tokens = GENERATED,
                                                .temperature = 0.7f,
                                                .seed = 42,
                                                .ignore_end = true,
                                                .on_piece = stop_after,
                                                .context_pointer = &stopping};
                sluice_status status = sluice_generate(model, &request, &result, &error);
                assert_int_equal(status, cancel ? SLUICE_CANCELLED : SLUICE_OK);
                assert_true(cancel || result.stop == SLUICE_STOP_CALLER);
                assert_int_equal(stopping.ids.count, after);
                right_beginning(&s, &stopping.ids);
                right_ids(&s, model);
            }
        right_logits(&s, model);
        sluice_close(model);
        assert_int_equal(engine_live_bytes(), live_bytes);
        tear_down(&s);
    }
}

/* ---- the n-th allocation fails ---- */

/* Everything that a user of the library does with a model. Stops at the first failure. */
static sluice_status whole_life(struct setup *s, struct engine_logits *logits, sluice_error *error) {
    sluice_model *model;
    sluice_plan plan;
    struct engine_ids ids = {.count = 0};
    char *text = NULL;
    sluice_status status = sluice_open(s->path, &model, error);
    if (status != SLUICE_OK) {
        assert_null(model);
        return status;
    }
    status = sluice_make_plan(model, &tight, &plan, error);
    if (status == SLUICE_OK)
        status = sluice_load(model, &tight, error);
    if (status == SLUICE_OK)
        status = engine_generate(model, s->prompt, PROMPT, GENERATED, 0.7f, &ids, error);
    right_beginning(s, &ids);
    if (status == SLUICE_OK)
        status = engine_logits(model, s->prompt, PROMPT, logits, error);
    if (status == SLUICE_OK) {
        assert_true(engine_same_logits(logits, &s->want) && engine_same_ids(&ids, &s->want_ids));
        status = sluice_print_steps(model, &text, error);
        sluice_free(text);
    }
    if (status == SLUICE_OK) {
        status = sluice_metrics(model, false, &text, error);
        sluice_free(text);
    }
    sluice_close(model);
    return status;
}

static void allocation_failures(void **state) {
    const char *subject = *state;
    struct setup s;
    sluice_error error;
    unsigned tolerated = 0;
    uint64_t number = 0;
    set_up(&s, subject);
    struct engine_logits logits = {.vocab = s.want.vocab, .capacity = PROMPT, .rows = s.want.rows};
    logits.rows = calloc((size_t)PROMPT * logits.vocab, sizeof *logits.rows);
    assert_non_null(logits.rows);
    uint64_t live_bytes = engine_live_bytes();
    for (bool came = true; came;) {
        assert_true(++number < ALLOCATIONS_MAX);
        uint64_t refusals = memory_refusals();
        engine_forget_peak();
        memory_fail_after(number);
        sluice_status status = whole_life(&s, &logits, &error);
        memory_fail_after(0);
        came = memory_refusals() != refusals;
        if (status != SLUICE_OK && (status != SLUICE_NO_MEMORY || error.status != status || error.text[0] == 0))
            fail_msg("allocation %u: %s: %s", (unsigned)number, sluice_status_name(status), error.text);
        assert_true(came || status == SLUICE_OK);
        tolerated += came && status == SLUICE_OK;
        if (engine_live_bytes() != live_bytes)
            fail_msg("allocation %u: %d bytes are lost (%s)", (unsigned)number, (int)(engine_live_bytes() - live_bytes), error.text);
    }
    print_message("%u allocations failed in turn, %u of them without consequence\n", (unsigned)number - 1, tolerated);
    free(logits.rows);
    tear_down(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_at_every_read),
        cmocka_unit_test(short_late_and_out_of_order),
        cmocka_unit_test(everything_at_once),
        cmocka_unit_test(stopped_and_cancelled),
        {"allocation_failures, GGUF", allocation_failures, NULL, NULL, (void *)(uintptr_t) "models/llama-tied-bias.gguf"},
        {"allocation_failures, GGUF in parts", allocation_failures, NULL, NULL,
         (void *)(uintptr_t) "gguf/split/qwen3_moe-00002-of-00005.gguf"},
        {"allocation_failures, directory", allocation_failures, NULL, NULL, (void *)(uintptr_t) "models/qwen3_moe"},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
