/*
 * test_variants: the weights of reference models under other config.json files: what transformers computes then (tests/data/variants.json
 * by tools/make_variants.py), or a refusal. For keys that no reference model has, and for what a missing key means.
 */
#include "../unit/engine_fixture.h"
#include "../unit/folder_fixture.h"

#include <math.h>

enum { TOKENS = 32, CASES_MAX = 64 };

static void make_config(const json_t *c, const char *source, const char *folder) {
    char path[4200];
    size_t index;
    const json_t *key;
    json_error_t error;
    (void)snprintf(path, sizeof path, "%s/config.json", source);
    char text[16384] = {0}, *infinity;
    FILE *file = fopen(path, "rb");
    assert_true(file && fread(text, 1, sizeof text - 1, file) > 0 && fclose(file) == 0);
    while ((infinity = strstr(text, "Infinity")) != NULL) /* Python's JSON */
        memcpy(infinity, "1.00e300", 8);
    json_t *config = json_loads(text, 0, &error);
    assert_non_null(config);
    json_array_foreach(json_object_get(c, "unset"), index, key)(void) json_object_del(config, json_string_value(key));
    assert_int_equal(json_object_update(config, json_object_get(c, "set")), 0);
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
}

static void check_logits(const json_t *c, const char *folder) {
    sluice_error error;
    struct engine_logits logits;
    uint32_t ids[TOKENS];
    size_t i;
    const json_t *wanted;
    const sluice_load_options options = {.ram = SLUICE_RAM_ALL, .exact = true, .context = TOKENS, .logit_rows = 16, .threads = 1};
    for (uint32_t t = 0; t < TOKENS; t++)
        ids[t] = 3 + t * 37 % 100;
    sluice_model *model = engine_load(folder, &options);
    engine_logits_init(&logits, model, TOKENS);
    ENGINE_OK(engine_logits(model, ids, TOKENS, &logits, &error), error);
    sluice_close(model);
    const float *last = logits.rows + (size_t)(TOKENS - 1) * logits.vocab;
    double largest = json_number_value(json_object_get(c, "largest"));
    assert_true(largest > 0 && json_array_size(json_object_get(c, "last")) >= 12);
    json_array_foreach(json_object_get(c, "last"), i, wanted) if (!(fabs((double)last[i] - json_number_value(wanted)) <= 5e-4 * largest))
        fail_msg("logit %zu is %.5f, wanted %.5f", i, (double)last[i], json_number_value(wanted));
    free(logits.rows);
}

static void check_case(void **state) {
    const json_t *c = *state;
    const char *refused = json_string_value(json_object_get(c, "refused"));
    char name[128], link[4200], folder[] = "/tmp/sluice-variant-XXXXXX";
    (void)snprintf(name, sizeof name, "models/%s", json_string_value(json_object_get(c, "model")));
    char source[4096];
    assert_non_null(realpath(engine_path(name), source));
    assert_non_null(mkdtemp(folder));
    make_config(c, source, folder);
    (void)snprintf(name, sizeof name, "%s/model.safetensors", folder);
    (void)snprintf(link, sizeof link, "%s/model.safetensors", source);
    assert_int_equal(symlink(link, name), 0);
    if (refused) {
        sluice_model *model;
        sluice_error error;
        assert_int_equal(sluice_open(folder, &model, &error), SLUICE_UNSUPPORTED);
        assert_non_null(strstr(error.text, refused));
    } else {
        check_logits(c, folder);
    }
    assert_int_equal(remove_folder(folder), 0);
}

int main(void) {
    static struct CMUnitTest tests[CASES_MAX];
    json_error_t error;
    size_t i, count = 0;
    json_t *c, *cases = json_load_file(engine_path("variants.json"), 0, &error);
    if (!cases || json_array_size(cases) > CASES_MAX)
        return 1;
    json_array_foreach(cases, i, c) {
        tests[count] = (struct CMUnitTest)cmocka_unit_test_prestate(check_case, c);
        tests[count++].name = json_string_value(json_object_get(c, "name"));
    }
    int failed = _cmocka_run_group_tests("variants", tests, count, NULL, NULL);
    json_decref(cases);
    return failed;
}
