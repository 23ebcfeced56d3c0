/*
 * test_rope: rotations from config.json, in the new and the old fields, against the cosines and sines of transformers' formulas
 * (tests/data/rope_cases.json by tools/make_rope_cases.py). Case F4.
 */
#include "model_fixture.h"

#include <jansson.h>
#include <math.h>

#include "model/rope.h"

enum { HALF_MAX = 64 };

static struct model_folder folder;

static int set_up(void **state) {
    (void)state;
    model_folder_create(&folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    model_folder_destroy(&folder);
    return 0;
}

enum form { NEW_FIELDS, OLD_FIELDS, OLD_FIELDS_TYPE, FORMS }; /* rope_parameters; rope_scaling with rope_type; with type */

static json_t *config_of(const json_t *c, enum form form) {
    json_t *parameters = json_deep_copy(json_object_get(c, "parameters"));
    json_t *config = json_pack("{s:s,s:i,s:i,s:i,s:i,s:O,s:O}", "model_type", "llama", "hidden_size", 64, "num_hidden_layers", 1,
                               "num_attention_heads", 4, "vocab_size", 8, "head_dim", json_object_get(c, "head_dim"),
                               "max_position_embeddings", json_object_get(c, "max_position_embeddings"));
    json_t *partial = json_object_get(c, "partial"), *theta = json_object_get(c, "theta");
    json_t *place = form == NEW_FIELDS ? parameters : config;
    assert_int_equal(json_object_set(place, "rope_theta", theta), 0);
    if (json_is_number(partial))
        assert_int_equal(json_object_set(place, "partial_rotary_factor", partial), 0);
    if (form == OLD_FIELDS_TYPE) {
        assert_int_equal(json_object_set(parameters, "type", json_object_get(parameters, "rope_type")), 0);
        assert_int_equal(json_object_del(parameters, "rope_type"), 0);
    }
    assert_int_equal(json_object_set_new(config, form == NEW_FIELDS ? "rope_parameters" : "rope_scaling", parameters), 0);
    return config;
}

static void open_config(json_t *config, struct opened *o) {
    char *text = json_dumps(config, 0);
    model_write_text(model_path(&folder, "config.json"), text);
    memory_free(text);
    json_decref(config);
    safetensors_write(model_path(&folder, "model.safetensors"), "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    if (model_open(o, folder.path) != STATUS_OK)
        fail_msg("%s", o->error.text);
}

static double number(const json_t *rows, size_t row, size_t i) { return json_number_value(json_array_get(json_array_get(rows, row), i)); }

static void check(const json_t *c, enum form form) {
    struct opened o;
    struct params params;
    struct rope_spec rope;
    struct error err;
    double frequencies[HALF_MAX];
    open_config(config_of(c, form), &o);
    ASSERT_OK(params_read(&params, o.catalogue, "", NULL, &err), err);
    const struct rope_request request = {.kind = ROPE_FULL_LAYERS,
                                         .head_dim = (uint32_t)json_integer_value(json_object_get(c, "head_dim"))};
    ASSERT_OK(rope_read(&params, o.catalogue, &request, &rope, &err), err);
    const json_t *cosines = json_object_get(c, "cos"), *sines = json_object_get(c, "sin"), *position;
    const char *name = json_string_value(json_object_get(c, "name"));
    assert_true(rope.half <= HALF_MAX && rope.half == json_array_size(json_array_get(cosines, 0)));
    rope_frequencies(&rope, (uint32_t)json_integer_value(json_object_get(c, "context")), frequencies);
    size_t row;
    json_array_foreach(json_object_get(c, "positions"), row, position) {
        for (size_t i = 0; i < rope.half; i++) {
            double angle = (double)json_integer_value(position) * frequencies[i], m = (double)rope.magnitude;
            if (fabs(m * cos(angle) - number(cosines, row, i)) > 1e-6 || fabs(m * sin(angle) - number(sines, row, i)) > 1e-6)
                fail_msg("%s, form %d, position %d, pair %zu: %.9f and %.9f, wanted %.9f and %.9f", name, (int)form,
                         (int)json_integer_value(position), i, m * cos(angle), m * sin(angle), number(cosines, row, i),
                         number(sines, row, i));
        }
    }
    memory_free(rope.inverse_frequencies);
    params_deinit(&params);
    model_close(&o);
}

static void f04_rotations_of_transformers(void **state) {
    (void)state;
    json_error_t problem;
    size_t index;
    json_t *cases = json_load_file(data_path("rope_cases.json"), 0, &problem), *c;
    if (!cases)
        fail_msg("%s", problem.text);
    assert_true(json_array_size(cases) >= 15);
    json_array_foreach(cases, index, c) for (enum form form = 0; form < FORMS; form++) check(c, form);
    json_decref(cases);
}

static void f04_unknown_types_are_refused(void **state) {
    (void)state;
    for (enum form form = 0; form < FORMS; form++) {
        struct opened o;
        struct params params;
        struct rope_spec rope;
        struct error err;
        json_t *c = json_pack("{s:i,s:i,s:f,s:{s:s,s:f}}", "head_dim", 16, "max_position_embeddings", 256, "theta", 1e4, "parameters",
                              "rope_type", "spiral", "factor", 2.0);
        open_config(config_of(c, form), &o);
        ASSERT_OK(params_read(&params, o.catalogue, "", NULL, &err), err);
        const struct rope_request request = {.kind = ROPE_FULL_LAYERS, .head_dim = 16};
        ASSERT_FAILS(rope_read(&params, o.catalogue, &request, &rope, &err), STATUS_UNSUPPORTED, err);
        assert_non_null(strstr(err.text, "spiral"));
        params_deinit(&params);
        model_close(&o);
        json_decref(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(f04_rotations_of_transformers), cmocka_unit_test(f04_unknown_types_are_refused)};
    return cmocka_run_group_tests_name("rope", tests, set_up, tear_down);
}
