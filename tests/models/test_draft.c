/*
 * test_draft: drafters give the logits that their defining computation gives: while they follow given ids, and while they go on alone.
 *
 * Expected    input_ids, draft_logits [rows][vocab]: the last rows of what sluice_tool_draft hands out (tools/make_draft_references.py; two
 * come from another implementation). Each runs in exact and default arithmetic, with everything in memory and with the smallest budget and
 * an odd chunk, which changes no bit. Tolerances  largest difference by the largest logit: exact 5e-5, default 1e-2. The seeds give clear
 * steps, so that all go the same way.
 */
#include "../unit/engine_fixture.h"

#include <math.h>

#include "format/catalogue.h"

enum { STEPS = 6 };

static const struct draft_reference {
    const char *target, *drafter; /* below tests/data/models; drafter NULL: the target's prediction layer */
    const char *expected;
    bool exact_only; /* made elsewhere, without clear steps, each of which enlarges the difference before */
} references[] = {
    {"deepseek_v3-mtp", NULL, "deepseek_v3-mtp/expected", false},
    {"eagle", "eagle/drafter", "eagle/expected", false},
    {"gemma4_assistant", "gemma4_assistant/assistant", "gemma4_assistant/expected", true},
    {"glm4_moe-mtp", NULL, "glm4_moe-mtp/expected", false},
    {"glm4_moe-mtp.gguf", NULL, "glm4_moe-mtp.expected", false},
    {"llama-eagle", "llama-eagle/drafter", "llama-eagle/expected", false},
    {"llama-eagle3", "llama-eagle3/drafter", "llama-eagle3/expected", false},
    {"mimo-mtp", NULL, "mimo-mtp/expected", false},
    {"qwen3_next-mtp", NULL, "qwen3_next-mtp/expected", false},
    {"qwen3_next-mtp.gguf", NULL, "qwen3_next-mtp.expected", false},
};
enum { REFERENCES = sizeof references / sizeof *references };

struct rows {
    uint32_t count, vocab, taken;
    float *data;
};

struct expected {
    uint32_t *ids;
    uint32_t id_count;
    struct rows logits;
    double largest;
};

static const char *model_path(const char *name, const char *ending) {
    char path[256];
    (void)snprintf(path, sizeof path, "models/%s%s", name, ending);
    return engine_path(path);
}

static void read_tensor(const struct catalogue *catalogue, const struct file_set *files, const char *name, uint32_t rank, uint64_t shape[2],
                        void **data) {
    struct error err;
    const struct tensor_entry *tensor = catalogue_find(catalogue, text_of(name));
    assert_true(tensor && tensor->rank == rank);
    shape[0] = tensor->shape[0];
    shape[1] = rank > 1 ? tensor->shape[1] : 1;
    *data = malloc(tensor->size_bytes);
    assert_non_null(*data);
    ASSERT_OK(file_set_read(files, tensor->file, tensor->offset_bytes, *data, tensor->size_bytes, &err), err);
}

static void read_expected(const char *path, struct expected *e) {
    struct file_set *files;
    struct catalogue *catalogue;
    struct error err;
    uint64_t shape[2];
    ASSERT_OK(file_set_create(&files, &err), err);
    ASSERT_OK(catalogue_open(path, files, &catalogue, &err), err);
    *e = (struct expected){0};
    read_tensor(catalogue, files, "input_ids", 1, shape, (void **)&e->ids);
    e->id_count = (uint32_t)shape[0];
    read_tensor(catalogue, files, "draft_logits", 2, shape, (void **)&e->logits.data);
    e->logits.count = (uint32_t)shape[0];
    e->logits.vocab = (uint32_t)shape[1];
    for (size_t i = 0; i < (size_t)e->logits.count * e->logits.vocab; i++)
        e->largest = fmax(e->largest, fabs((double)e->logits.data[i]));
    catalogue_close(catalogue);
    file_set_destroy(files);
}

static bool take_row(void *context, uint32_t row, const float *logits) {
    struct rows *rows = context;
    assert_int_equal(row, rows->taken);
    assert_true(row < rows->count);
    memcpy(rows->data + (size_t)row * rows->vocab, logits, rows->vocab * sizeof *logits);
    rows->taken++;
    return true;
}

static void draft(const struct draft_reference *r, const struct expected *e, const sluice_load_options *options, struct rows *rows) {
    sluice_error error;
    sluice_model *model = engine_open(model_path(r->target, ""));
    ENGINE_OK(sluice_tool_open_draft(model, r->drafter ? model_path(r->drafter, "") : NULL, &error), error);
    engine_forget_peak();
    ENGINE_OK(sluice_load(model, options, &error), error);
    *rows = (struct rows){.count = e->id_count - 1 + STEPS, .vocab = sluice_tool_draft_vocab(model)};
    assert_int_equal(rows->vocab, e->logits.vocab);
    rows->data = calloc((size_t)rows->count * rows->vocab, sizeof *rows->data);
    assert_non_null(rows->data);
    ENGINE_OK(sluice_tool_draft(model, e->ids, e->id_count, STEPS, take_row, rows, &error), error);
    assert_int_equal(rows->taken, rows->count);
    sluice_close(model);
}

static bool near_enough(const struct draft_reference *r, const struct expected *e, const struct rows *got, bool exact) {
    size_t floats = (size_t)e->logits.count * e->logits.vocab, skipped = (size_t)(got->count - e->logits.count) * got->vocab;
    double difference = 0, limit = !exact ? 1e-2 : r->exact_only ? 1e-2 : 5e-5;
    for (size_t i = 0; i < floats; i++) {
        float value = got->data[skipped + i];
        difference = isfinite(value) ? fmax(difference, fabs((double)value - (double)e->logits.data[i])) : (double)INFINITY;
    }
    difference /= e->largest;
    if (difference > limit)
        print_error("%s, %s: difference %.1e\n", r->expected, exact ? "exact" : "default", difference);
    return difference <= limit;
}

static void check_draft(void **state) {
    const struct draft_reference *r = *state;
    struct expected e;
    bool good = true;
    uint64_t live_bytes = engine_live_bytes();
    read_expected(model_path(r->expected, ".safetensors"), &e);
    for (int exact = 0; exact < 2; exact++) {
        struct rows all, small;
        sluice_load_options options = {
            .ram = SLUICE_RAM_ALL, .exact = exact, .context = e.id_count + STEPS, .logit_rows = 16, .threads = 2};
        draft(r, &e, &options, &all);
        options.ram = SLUICE_RAM_MIN;
        options.chunk = 7;
        draft(r, &e, &options, &small);
        assert_memory_equal(all.data, small.data, (size_t)all.count * all.vocab * sizeof *all.data);
        good = (!exact && r->exact_only) || (near_enough(r, &e, &all, exact) && good);
        free(all.data);
        free(small.data);
    }
    free(e.ids);
    free(e.logits.data);
    assert_int_equal(engine_live_bytes(), live_bytes);
    assert_true(good);
}

/* ---- what cannot draft ---- */

static void refused(const char *target, const char *drafter, sluice_status status, const char *words) {
    sluice_error error;
    sluice_model *model = engine_open(model_path(target, ""));
    assert_int_equal(sluice_tool_open_draft(model, drafter ? model_path(drafter, "") : NULL, &error), status);
    if (!strstr(error.text, words))
        fail_msg("'%s' is not in: %s", words, error.text);
    sluice_close(model);
}

static void test_no_prediction_layer(void **state) {
    (void)state;
    refused("llama", NULL, SLUICE_NOT_FOUND, "no prediction layer");
}

static void test_no_drafter(void **state) {
    (void)state;
    refused("llama", "qwen3", SLUICE_UNSUPPORTED, "no drafter of a known kind");
}

static void test_other_target(void **state) {
    (void)state;
    refused("llama", "llama-eagle3/drafter", SLUICE_CORRUPT, "belongs to another"); /* too few layers */
    refused("qwen3_next-mtp", "gemma4_assistant/assistant", SLUICE_CORRUPT, "pre_projection");
}

/* ---- no memory ---- */

static bool ignore_row(void *context, uint32_t row, const float *logits) {
    (void)context;
    (void)row;
    return isfinite(logits[0]);
}

/* Opens, loads and drafts with the number-th allocation failing: all of it works, or what failed says so; nothing is left behind. False:
 * there is no such allocation. */
static bool fails_cleanly(const char *target, const char *drafter, uint64_t number) {
    static const uint32_t ids[8] = {5, 6, 7, 8, 9, 10, 11, 12};
    const sluice_load_options options = {.ram = SLUICE_RAM_ALL, .threads = 1, .context = 16, .logit_rows = 2};
    char target_path[512], drafter_path[512];
    sluice_error error;
    sluice_model *model;
    (void)snprintf(target_path, sizeof target_path, "%s", model_path(target, ""));
    (void)snprintf(drafter_path, sizeof drafter_path, "%s", drafter ? model_path(drafter, "") : "");
    uint64_t live_bytes = engine_live_bytes(), refusals = memory_refusals();
    engine_forget_peak();
    memory_fail_after(number);
    sluice_status status = sluice_open(target_path, &model, &error);
    if (status == SLUICE_OK)
        status = sluice_tool_open_draft(model, drafter ? drafter_path : NULL, &error);
    if (status == SLUICE_OK)
        status = sluice_load(model, &options, &error);
    if (status == SLUICE_OK)
        status = sluice_tool_draft(model, ids, 8, 3, ignore_row, NULL, &error);
    memory_fail_after(0);
    sluice_close(model);
    assert_int_equal(engine_live_bytes(), live_bytes);
    if (status != SLUICE_OK && status != SLUICE_NO_MEMORY)
        fail_msg("%s, allocation %llu: %s: %s", target, (unsigned long long)number, sluice_status_name(status), error.text);
    return memory_refusals() != refusals;
}

static void test_no_memory(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"llama-eagle3", "llama-eagle3/drafter"}, {"mimo-mtp", NULL}, {"gemma4_assistant", "gemma4_assistant/assistant"}};
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        uint64_t number = 1;
        while (fails_cleanly(pairs[p][0], pairs[p][1], number))
            assert_true(number++ < 100000);
        assert_true(number > 50);
    }
}

/* A drafter's weights are counted: a model with one needs more at least. */
static void test_plan(void **state) {
    (void)state;
    sluice_error error;
    sluice_plan alone, with;
    const sluice_load_options options = {.ram = SLUICE_RAM_ALL, .threads = 1, .context = 64};
    sluice_model *model = engine_open(model_path("glm4_moe-mtp", ""));
    ENGINE_OK(sluice_make_plan(model, &options, &alone, &error), error);
    ENGINE_OK(sluice_tool_open_draft(model, NULL, &error), error);
    ENGINE_OK(sluice_make_plan(model, &options, &with, &error), error);
    assert_true(with.trunk_bytes > alone.trunk_bytes && with.kv_bytes > alone.kv_bytes && with.minimum_bytes > alone.minimum_bytes);
    sluice_close(model);
}

int main(void) {
    enum { OTHERS = 5 };
    static struct CMUnitTest tests[REFERENCES + OTHERS] = {
        cmocka_unit_test(test_no_prediction_layer), cmocka_unit_test(test_no_drafter),
        cmocka_unit_test(test_other_target),        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_no_memory),
    };
    for (size_t i = 0; i < REFERENCES; i++) {
        tests[OTHERS + i] = (struct CMUnitTest)cmocka_unit_test_prestate(check_draft, (void *)&references[i]);
        tests[OTHERS + i].name = references[i].expected;
    }
    return _cmocka_run_group_tests("drafters", tests, REFERENCES + OTHERS, NULL, NULL);
}
