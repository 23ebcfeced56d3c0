/*
 * test_company: a row's bits do not depend on the rows of other sequences in its pass. Several sequences go on together, in every pass each
 * by some of its tokens (prompts beside rows that decode, as a server's passes are made of), and every row's logits are those that its
 * sequence gives alone, by memcmp.
 */
#include "../unit/engine_fixture.h"

#include "engine/engine_internal.h"

enum { SEQUENCES = 6, TOKENS_MAX = 160, ROWS = 48, SEED = 41 };

static const char *const subjects[] = {
    "models/qwen3_moe",
    "models/gemma3",        /* windows */
    "models/gpt_oss-mxfp4", /* sinks */
    "models/deepseek_v32",  /* latent attention, sparse index */
    "models/qwen3_next",    /* recurrence */
    "models/lfm2_moe",      /* short convolution */
    "models/llama-tied-bias.gguf",
};

struct timeline {
    uint32_t ids[TOKENS_MAX], count, done;
    struct engine_logits alone;
};

static sluice_model *load(const char *path, sluice_ram ram, uint32_t chunk) {
    sluice_error error;
    const sluice_load_options options = {.ram = ram, .threads = 2, .context = TOKENS_MAX, .chunk = chunk, .logit_rows = chunk};
    sluice_model *model = engine_open(path);
    engine_forget_peak();
    engine_set_sequences(model, SEQUENCES);
    ENGINE_OK(sluice_load(model, &options, &error), error);
    return model;
}

static uint32_t chance(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* Rows of a pass: of each sequence none, one, or as many as fit. */
static uint32_t fill(struct row *rows, struct timeline *timelines, uint64_t *state) {
    uint32_t count = 0;
    for (uint32_t q = 0; q < SEQUENCES; q++) {
        struct timeline *t = &timelines[q];
        uint32_t kind = chance(state, 4), left = t->count - t->done;
        uint32_t take = kind == 0 ? 0 : kind == 1 ? 1 + chance(state, ROWS) : 1;
        take = take < left ? take : left;
        take = take < ROWS - count ? take : ROWS - count;
        for (uint32_t i = 0; i < take; i++, count++, t->done++)
            rows[count] = (struct row){.token = t->ids[t->done],
                                       .sequence = q,
                                       .position = t->done,
                                       .parent = i > 0 ? (int32_t)count - 1 : ROW_NO_PARENT,
                                       .wants_logits = true};
    }
    return count;
}

static void check_pass(sluice_model *model, const struct row *rows, uint32_t count, const struct timeline *timelines) {
    struct error err;
    ASSERT_OK(executor_run(model->executor, rows, count, &err), err);
    for (uint32_t r = 0; r < count; r++) {
        const struct engine_logits *alone = &timelines[rows[r].sequence].alone;
        if (memcmp(executor_logits(model->executor, r), alone->rows + (size_t)rows[r].position * alone->vocab,
                   alone->vocab * sizeof(float)))
            fail_msg("sequence %u, position %u: other logits in a pass of %u rows", rows[r].sequence, rows[r].position, count);
    }
}

static void alone_and_in_company(void **state) {
    static struct timeline timelines[SEQUENCES];
    struct row rows[ROWS];
    char path[4096];
    uint64_t chances = SEED;
    uint32_t shared = 0, left = 0;
    (void)snprintf(path, sizeof path, "%s", engine_path(*state));
    sluice_model *model = load(path, SLUICE_RAM_ALL, 7);
    for (uint32_t q = 0; q < SEQUENCES; q++) {
        struct timeline *t = &timelines[q];
        sluice_error error;
        *t = (struct timeline){.count = TOKENS_MAX - 23 * q};
        left += t->count;
        engine_prompt(t->ids, t->count, model->model->plan.vocab, SEED + q);
        engine_logits_init(&t->alone, model, t->count);
        ENGINE_OK(engine_logits(model, t->ids, t->count, &t->alone, &error), error);
    }
    sluice_close(model);
    model = load(path, SLUICE_RAM_MIN, ROWS);
    while (left > 0) {
        uint32_t count = fill(rows, timelines, &chances);
        if (count > 0)
            check_pass(model, rows, count, timelines);
        shared += count > 0 && rows[0].sequence != rows[count - 1].sequence;
        left -= count;
    }
    assert_true(shared > 5);
    sluice_close(model);
    for (uint32_t q = 0; q < SEQUENCES; q++)
        free(timelines[q].alone.rows);
}

int main(void) {
    static struct CMUnitTest tests[sizeof subjects / sizeof *subjects];
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(alone_and_in_company, (void *)(uintptr_t)subjects[i]);
        tests[i].name = subjects[i];
    }
    return _cmocka_run_group_tests("alone and in company", tests, sizeof subjects / sizeof *subjects, NULL, NULL);
}
