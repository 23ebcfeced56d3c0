/*
 * test_give_way: a model larger than memory gives weights back and takes them again, and nobody sees it in a bit: not in the logits of
 * prompts cut in any way, nor in ids that are drawn, of one sequence or several, nor in a drafter's rows; and a read that fails meanwhile
 * ends one request alone.
 *
 * Model   Limits are set as the engine sets them, between steps of passes, but by chance and many times a pass (`restless`),
 * or level by level between requests. What is compared comes from the same model with all of its weights in memory.
 */
#include "../unit/engine_fixture.h"
#include "../unit/share_fixture.h"

#include <errno.h>

#include "engine/engine_internal.h"
#include "io/read_queue_faulty.h"
#include "run/executor_internal.h"
#include "store/store_internal.h"

enum { PROMPT = 64, GENERATED = 12, LEVELS = 6, SEQUENCES = 3, PASSES = 24, STEPS = 6, ROWS_MAX = 48 };

static const struct subject {
    const char *path;
    double share; /* of the way from the smallest memory to all */
} subjects[] = {
    {"models/llama.gguf", 0.7},
    {"models/llama-tied-bias.gguf", 0.5}, /* a table that is embedding and head */
    {"models/gemma3", 0.6},               /* windows */
    {"models/falcon_h1.gguf", 0.5},       /* state space */
    {"models/llama-awq", 0.6},            /* scales apart from weights */
    {"models/deepseek_v32", 0.1},         /* a mixture whose trunk streams too */
    {"../../demo/novels-moe-Q4_K_M.gguf", 0.02},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static void expect_keep(const struct sluice_model *m) {
    if (m->memory.placement.keep_count < 4)
        fail_msg("%s: %u weights may be given back", m->model->arch->name, m->memory.placement.keep_count);
}

/* ---- limits ---- */

struct restless {
    struct sluice_model *model;
    uint64_t random;
    uint32_t changes;
};

static uint32_t draw(struct restless *r, uint32_t below) {
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((r->random >> 33) % below);
}

static void set_level(const struct sluice_model *m, uint64_t level, uint64_t levels) {
    store_trunk_limit(m->store, m->memory.placement.keep_bytes * level / levels);
    store_cache_limit(m->store, m->memory.placement.cache_bytes * level / levels);
}

static void between_steps(void *context) {
    struct restless *r = context;
    if (draw(r, 3) > 0)
        return;
    set_level(r->model, draw(r, LEVELS + 1), LEVELS);
    store_check(r->model->store);
    r->changes++;
}

static void make_restless(struct restless *r, struct sluice_model *m, uint64_t seed) {
    struct executor *const executors[] = {m->executor, m->draft_executor};
    *r = (struct restless){.model = m, .random = seed};
    for (int i = 0; i < 2; i++)
        if (executors[i]) {
            executors[i]->options.between_steps = between_steps;
            executors[i]->options.context_pointer = r;
        }
}

static void make_calm(struct sluice_model *m) { m->executor->options.between_steps = NULL; }

static bool all_is_back(const struct sluice_model *m) { return store_trunk_used_bytes(m->store) == m->memory.placement.keep_bytes; }

/* ---- one sequence ---- */

struct want {
    char path[4096];
    uint32_t prompt[PROMPT];
    struct engine_logits logits;
    struct engine_ids ids;
};

static const sluice_load_options usual = {.context = PROMPT + GENERATED, .threads = 2, .logit_rows = 16};

static void wanted(struct want *w, const struct subject *subject) {
    sluice_error error;
    sluice_load_options options = usual;
    options.ram = SLUICE_RAM_ALL;
    (void)snprintf(w->path, sizeof w->path, "%s", engine_path(subject->path));
    sluice_model *model = engine_load(w->path, &options);
    engine_prompt(w->prompt, PROMPT, model->model->plan.vocab, 11);
    engine_logits_init(&w->logits, model, PROMPT);
    ENGINE_OK(engine_logits(model, w->prompt, PROMPT, &w->logits, &error), error);
    ENGINE_OK(engine_generate(model, w->prompt, PROMPT, GENERATED, 0.8f, &w->ids, &error), error);
    sluice_close(model);
}

static void same_logits(const struct want *w, sluice_model *model) {
    struct engine_logits logits;
    sluice_error error;
    engine_logits_init(&logits, model, PROMPT);
    ENGINE_OK(engine_logits(model, w->prompt, PROMPT, &logits, &error), error);
    bool same = engine_same_logits(&logits, &w->logits);
    free(logits.rows);
    store_check(model->store);
    assert_true(same);
}

static void same_ids(const struct want *w, sluice_model *model) {
    struct engine_ids ids;
    sluice_error error;
    ENGINE_OK(engine_generate(model, w->prompt, PROMPT, GENERATED, 0.8f, &ids, &error), error);
    store_check(model->store);
    assert_true(engine_same_ids(&ids, &w->ids));
}

/* Down to the least and up again, a request at each level; what is accounted and reported follows. */
static void level_by_level(const struct want *w, sluice_model *model) {
    uint64_t full = memory_owner_bytes(MEMORY_TRUNK), keep_bytes = model->memory.placement.keep_bytes;
    for (int level = LEVELS; level >= -LEVELS; level--) {
        set_level(model, (uint64_t)abs(level), LEVELS);
        same_ids(w, model);
        uint64_t used = store_trunk_used_bytes(model->store);
        assert_int_equal(memory_owner_bytes(MEMORY_TRUNK), full - (keep_bytes - used));
        assert_int_equal(used, (uint64_t)engine_number(model, "memory", "trunk_limit_bytes"));
        assert_true(used <= keep_bytes * (uint64_t)abs(level) / LEVELS);
    }
    assert_true(all_is_back(model));
    assert_true(engine_number(model, "memory", "given_back_bytes") >= (double)keep_bytes);
    assert_true(engine_number(model, "memory", "given_back_times") >= LEVELS / 2);
}

static void prompts_and_answers(void **state) {
    static const uint32_t chunks[] = {1, 7, 0};
    const struct subject *subject = *state;
    static struct want w;
    wanted(&w, subject);
    for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        sluice_load_options options = usual;
        struct restless r;
        options.chunk = chunks[c];
        options.ram = SLUICE_RAM_MIN;
        weights_share = subject->share;
        sluice_model *model = engine_load(w.path, &options);
        expect_keep(model);
        if (chunks[c] == 0)
            level_by_level(&w, model);
        make_restless(&r, model, c + 1);
        same_logits(&w, model);
        same_ids(&w, model);
        assert_true(r.changes > 20);
        make_calm(model);
        set_level(model, 1, 1);
        same_ids(&w, model);
        same_logits(&w, model);
        assert_true(all_is_back(model));
        sluice_close(model);
    }
    free(w.logits.rows);
}

/* ---- several sequences ---- */

/* The rows of a pass: some of each sequence, as a prompt beside others that decode. */
static uint32_t rows_of(uint32_t pass, uint32_t vocab, struct row *rows, uint32_t *done) {
    uint32_t count = 0;
    for (uint32_t q = 0; q < SEQUENCES; q++)
        for (uint32_t i = 0, take = (pass + q) % 3 == 0 ? 9 : 1; i < take; i++, count++)
            rows[count] = (struct row){.token = 3 + (pass * 131 + q * 17 + i * 7) % (vocab - 3),
                                       .sequence = q,
                                       .position = done[q]++,
                                       .parent = i > 0 ? (int32_t)count - 1 : ROW_NO_PARENT,
                                       .wants_logits = true};
    return count;
}

/* All passes; their logits, one after the other, are written to `out`. Returns how many numbers. */
static size_t run_passes(sluice_model *model, float *out) {
    uint32_t done[SEQUENCES] = {0}, vocab = model->model->plan.vocab;
    size_t written = 0;
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        struct row rows[ROWS_MAX];
        struct error err;
        uint32_t count = rows_of(pass, vocab, rows, done);
        ASSERT_OK(executor_run(model->executor, rows, count, &err), err);
        for (uint32_t i = 0; i < count && out; i++)
            memcpy(out + written + (size_t)i * vocab, executor_logits(model->executor, i), vocab * sizeof *out);
        written += (size_t)count * vocab;
    }
    return written;
}

static void several_sequences(void **state) {
    (void)state;
    char path[4096];
    struct restless r;
    sluice_error error;
    sluice_load_options options = {.ram = SLUICE_RAM_ALL, .context = PASSES * 9, .threads = 2, .chunk = ROWS_MAX, .logit_rows = ROWS_MAX};
    (void)snprintf(path, sizeof path, "%s", engine_path("models/gemma3"));
    float *want = NULL, *got = NULL;
    size_t count = 0;
    for (int round = 0; round < 2; round++) {
        sluice_model *model = engine_open(path);
        engine_forget_peak();
        engine_set_sequences(model, SEQUENCES);
        ENGINE_OK(sluice_load(model, &options, &error), error);
        if (round == 0) {
            options.ram = SLUICE_RAM_MIN;
            weights_share = 0.6;
            want = calloc((size_t)PASSES * ROWS_MAX * model->model->plan.vocab, sizeof *want);
            got = calloc((size_t)PASSES * ROWS_MAX * model->model->plan.vocab, sizeof *got);
            assert_true(want && got);
            count = run_passes(model, want);
        } else {
            expect_keep(model);
            make_restless(&r, model, 5);
            assert_int_equal(run_passes(model, got), count);
            assert_true(r.changes > PASSES);
        }
        sluice_close(model);
    }
    assert_memory_equal(want, got, count * sizeof *want);
    free(want);
    free(got);
}

/* ---- a drafter ---- */

struct draft_rows {
    float *data;
    uint32_t vocab, count, capacity;
};

static bool take_row(void *context, uint32_t row, const float *logits) {
    struct draft_rows *rows = context;
    (void)row;
    assert_true(rows->count < rows->capacity);
    memcpy(rows->data + (size_t)rows->count++ * rows->vocab, logits, rows->vocab * sizeof *logits);
    return true;
}

/* The drafter's own weights stay: its target's come and go before, in and behind its rows. */
static void beside_a_drafter(void **state) {
    (void)state;
    static const struct {
        const char *target, *drafter;
    } pairs[] = {{"models/llama-eagle3", "models/llama-eagle3/drafter"}, {"models/mimo-mtp", NULL}, {"models/glm4_moe-mtp.gguf", NULL}};
    for (size_t pair = 0; pair < sizeof pairs / sizeof *pairs; pair++) {
        struct draft_rows want = {0}, got = {0};
        uint32_t ids[PROMPT], changes = 0;
        sluice_load_options options = {.context = PROMPT + STEPS, .threads = 2, .chunk = 9};
        for (int round = 0; round < 2; round++) {
            struct draft_rows *rows = round == 0 ? &want : &got;
            struct restless r = {0};
            sluice_error error;
            sluice_model *model = engine_open(engine_path(pairs[pair].target));
            ENGINE_OK(sluice_tool_open_draft(model, pairs[pair].drafter ? engine_path(pairs[pair].drafter) : NULL, &error), error);
            engine_forget_peak();
            options.ram = round == 0 ? SLUICE_RAM_ALL : SLUICE_RAM_MIN;
            weights_share = 0.3;
            ENGINE_OK(sluice_load(model, &options, &error), error);
            if (round == 1) {
                expect_keep(model);
                make_restless(&r, model, 3 + pair);
            }
            *rows = (struct draft_rows){.vocab = sluice_tool_draft_vocab(model), .capacity = PROMPT + STEPS};
            rows->data = calloc((size_t)rows->capacity * rows->vocab, sizeof *rows->data);
            assert_non_null(rows->data);
            engine_prompt(ids, PROMPT, model->model->plan.vocab, 4);
            ENGINE_OK(sluice_tool_draft(model, ids, PROMPT, STEPS, take_row, rows, &error), error);
            changes += r.changes;
            sluice_close(model);
        }
        assert_true(changes > 20);
        assert_int_equal(want.count, got.count);
        assert_memory_equal(want.data, got.data, (size_t)want.count * want.vocab * sizeof *want.data);
        free(want.data);
        free(got.data);
    }
}

/* ---- failing reads ---- */

static enum status wrap(void *context, struct read_queue *inner, struct read_queue **out, struct error *err) {
    struct read_faults *faults = context;
    faults->seed += 1000; /* another load, other faults */
    return read_queue_faulty_create(inner, faults, out, err);
}

/* A request is right or ends with the error of a read, also while weights come back; the next ones are right, and all comes back. */
static void reads_that_fail(void **state) {
    (void)state;
    static struct want w;
    unsigned failed = 0;
    wanted(&w, &subjects[0]);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct read_faults faults = {.seed = seed, .fail_rate = 0.004, .fail_errno = EIO, .reorder = true, .corrupt_unread = true};
        sluice_load_options options = usual;
        struct restless r;
        sluice_error error;
        options.ram = SLUICE_RAM_MIN;
        weights_share = subjects[0].share;
        sluice_model *model = engine_open(w.path);
        engine_set_queue_wrapper(model, (struct queue_wrapper){.wrap = wrap, .context = &faults});
        engine_forget_peak();
        while (sluice_load(model, &options, &error) != SLUICE_OK)
            assert_int_equal(error.status, SLUICE_IO);
        expect_keep(model);
        make_restless(&r, model, seed);
        for (int request = 0; request < 12; request++) {
            struct engine_ids ids;
            sluice_status status = engine_generate(model, w.prompt, PROMPT, GENERATED, 0.8f, &ids, &error);
            store_check(model->store);
            assert_true(status == SLUICE_OK || (status == SLUICE_IO && strstr(error.text, strerror(EIO))));
            assert_true(memcmp(ids.ids, w.ids.ids, ids.count * sizeof ids.ids[0]) == 0 && (status != SLUICE_OK || ids.count == GENERATED));
            failed += status != SLUICE_OK;
            if (request == 8) {
                make_calm(model);
                set_level(model, 0, 1);
                set_level(model, 1, 1);
            }
        }
        assert_true(all_is_back(model));
        sluice_close(model);
    }
    assert_true(failed > 10);
    free(w.logits.rows);
}

int main(void) {
    static struct CMUnitTest tests[SUBJECTS + 3];
    for (size_t i = 0; i < SUBJECTS; i++) {
        tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(prompts_and_answers, (void *)(uintptr_t)&subjects[i]);
        tests[i].name = subjects[i].path;
    }
    tests[SUBJECTS] = (struct CMUnitTest)cmocka_unit_test(several_sequences);
    tests[SUBJECTS + 1] = (struct CMUnitTest)cmocka_unit_test(beside_a_drafter);
    tests[SUBJECTS + 2] = (struct CMUnitTest)cmocka_unit_test(reads_that_fail);
    return _cmocka_run_group_tests("give way", tests, sizeof tests / sizeof *tests, NULL, NULL);
}
