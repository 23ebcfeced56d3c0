/*
 * engine_fixture: opening, loading and asking models through include/sluice.h, for the tests of the whole engine.
 *
 * Budgets     a process never plans below the peak it has had, so each load here first lets the system forget the peak: then --ram min
 *             means the same for the tenth model of a test as for the first.
 * Failure     every function fails the running test with the library's own text.
 */
#pragma once

#include "test_support.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "sluice.h"
#include "sluice_tools.h"

enum { ENGINE_IDS_MAX = 1024 };

#define ENGINE_OK(expression, error)                                                            \
    do {                                                                                        \
        sluice_status engine_got_ = (expression);                                               \
        if (engine_got_ != SLUICE_OK)                                                           \
            fail_msg("%s: %s: %s", #expression, sluice_status_name(engine_got_), (error).text); \
    } while (0)

/* ---- files ---- */

/* A file of the test data; four can be in use. */
static inline const char *engine_path(const char *name) {
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];
    const char *folder = getenv("SLUICE_TEST_DATA");
    assert_true(snprintf(path, sizeof paths[0], "%s/%s", folder ? folder : "tests/data", name) < (int)sizeof paths[0]);
    return path;
}

/* ---- life ---- */

static inline void engine_forget_peak(void) {
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!write(fd, "5", 1);
    (void)close(fd);
}

static inline sluice_model *engine_open(const char *path) {
    sluice_model *model;
    sluice_error error;
    ENGINE_OK(sluice_open(path, &model, &error), error);
    return model;
}

static inline sluice_model *engine_load(const char *path, const sluice_load_options *options) {
    sluice_error error;
    sluice_model *model = engine_open(path);
    engine_forget_peak();
    ENGINE_OK(sluice_load(model, options, &error), error);
    return model;
}

/* A budget between the smallest (0) and all (1) of a model, whatever this process takes itself: with a sanitizer it takes more. */
static inline uint64_t engine_budget(const char *path, sluice_load_options options, double share) {
    sluice_model *model = engine_open(path);
    sluice_plan smallest, all;
    sluice_error error;
    engine_forget_peak();
    options.ram = SLUICE_RAM_MIN;
    ENGINE_OK(sluice_make_plan(model, &options, &smallest, &error), error);
    options.ram = SLUICE_RAM_ALL;
    ENGINE_OK(sluice_make_plan(model, &options, &all, &error), error);
    sluice_close(model);
    return smallest.minimum_bytes + (64u << 10) + (uint64_t)((double)(all.planned_bytes - smallest.minimum_bytes) * share);
}

/* Loads with such a budget; a little more where the process has grown since it was planned, as by pages that come back. */
static inline sluice_model *engine_load_share(const char *path, sluice_load_options options, double share) {
    options.ram = SLUICE_RAM_BYTES;
    for (uint64_t more_bytes = 0;; more_bytes += 512u << 10) {
        sluice_error error;
        options.ram_bytes = engine_budget(path, options, share) + more_bytes;
        sluice_model *model = engine_open(path);
        engine_forget_peak();
        sluice_status status = sluice_load(model, &options, &error);
        if (status == SLUICE_OK)
            return model;
        if (status != SLUICE_OVER_BUDGET || more_bytes > 4u << 20)
            fail_msg("%s: %s", path, error.text);
        sluice_close(model);
    }
}

/* ---- numbers of a run ---- */

/* "reads/read_bytes" and the like of sluice_metrics. */
static inline double engine_number(sluice_model *model, const char *group, const char *name) {
    sluice_error error;
    char *text;
    ENGINE_OK(sluice_metrics(model, false, &text, &error), error);
    json_t *root = json_loads(text, 0, NULL), *value = json_object_get(json_object_get(root, group), name);
    sluice_free(text);
    if (!json_is_number(value))
        fail_msg("metrics have no number %s/%s", group, name);
    double number = json_number_value(value);
    json_decref(root);
    return number;
}

/* Live bytes of all owners: the same before a model is opened and after it is closed. */
static inline uint64_t engine_live_bytes(void) {
    uint64_t bytes = 0;
    for (enum memory_owner owner = 0; owner < MEMORY_OWNER_COUNT; owner++)
        bytes += memory_owner_bytes(owner);
    return bytes;
}

/* ---- logits ---- */

struct engine_logits { /* rows of a prompt's positions, in order */
    float *rows;       /* [count][vocab]; freed with free() */
    uint32_t vocab, count, capacity;
    bool in_order;
};

static inline bool engine_take_logits(void *context, uint32_t position, const float *logits) {
    struct engine_logits *to = context;
    to->in_order = to->in_order && position == to->count && position < to->capacity;
    if (!to->in_order)
        return false;
    memcpy(to->rows + (size_t)position * to->vocab, logits, to->vocab * sizeof *logits);
    to->count++;
    return true;
}

static inline void engine_logits_init(struct engine_logits *logits, const sluice_model *model, size_t count) {
    sluice_info info;
    sluice_get_info(model, &info);
    *logits = (struct engine_logits){.vocab = info.vocab, .capacity = (uint32_t)count, .in_order = true};
    logits->rows = calloc(count * info.vocab, sizeof *logits->rows);
    assert_non_null(logits->rows);
}

/* Of all positions, or of none when it fails. */
static inline sluice_status engine_logits(sluice_model *model, const uint32_t *ids, size_t count, struct engine_logits *logits,
                                          sluice_error *error) {
    logits->count = 0;
    logits->in_order = true;
    sluice_status status = sluice_logits(model, ids, count, engine_take_logits, logits, error);
    assert_true(logits->in_order && (status != SLUICE_OK || logits->count == count));
    return status;
}

static inline bool engine_same_logits(const struct engine_logits *a, const struct engine_logits *b) {
    return a->vocab == b->vocab && a->count == b->count && memcmp(a->rows, b->rows, (size_t)a->count * a->vocab * sizeof *a->rows) == 0;
}

/* ---- generated ids ---- */

struct engine_ids {
    uint32_t ids[ENGINE_IDS_MAX];
    uint32_t count;
};

static inline bool engine_take_piece(void *context, const sluice_piece *piece) {
    struct engine_ids *to = context;
    if (piece->token != SLUICE_NO_TOKEN && to->count < ENGINE_IDS_MAX)
        to->ids[to->count++] = piece->token;
    return true;
}

static inline sluice_status engine_generate(sluice_model *model, const uint32_t *prompt, size_t count, uint32_t max_tokens,
                                            float temperature, struct engine_ids *out, sluice_error *error) {
    out->count = 0;
    const sluice_request request = {.prompt = prompt,
                                    .prompt_count = count,
                                    .max_tokens = max_tokens,
                                    .temperature = temperature,
                                    .seed = 42,
                                    .ignore_end = true,
                                    .on_piece = engine_take_piece,
                                    .context_pointer = out};
    return sluice_generate(model, &request, NULL, error);
}

static inline bool engine_same_ids(const struct engine_ids *a, const struct engine_ids *b) {
    return a->count == b->count && memcmp(a->ids, b->ids, a->count * sizeof a->ids[0]) == 0;
}

/* A prompt that no model knows: ids from 3 on, so that no control token is among them. */
static inline void engine_prompt(uint32_t *ids, size_t count, uint32_t vocab, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] = 3 + (uint32_t)((seed >> 33) % (vocab - 3));
    }
}
