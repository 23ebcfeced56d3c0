/* test_hf_config: config.json and generation_config.json as flat metadata. */
#include "model_fixture.h"

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

/* A folder with this configuration and a model of one tensor. */
static void write_model(const char *config, const char *generation_config) {
    model_folder_empty(&folder);
    safetensors_write(model_path(&folder, "model.safetensors"), "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    if (config)
        model_write_text(model_path(&folder, "config.json"), config);
    if (generation_config)
        model_write_text(model_path(&folder, "generation_config.json"), generation_config);
}

static void assert_opens(struct opened *o, const char *config, const char *generation_config) {
    write_model(config, generation_config);
    ASSERT_OK(model_open(o, folder.path), o->error);
}

static void assert_fails(const char *config, enum status wanted, const char *parts) {
    write_model(config, NULL);
    assert_open_fails(folder.path, wanted, parts);
}

static enum meta_type type_of(const struct opened *o, const char *key) {
    const struct meta_value *value = catalogue_meta(o->catalogue, key);
    if (!value)
        fail_msg("%s is missing", key);
    return value->type;
}

static void assert_number(const struct opened *o, const char *key, double wanted) {
    double number;
    if (!meta_f64(catalogue_meta(o->catalogue, key), &number) || number != wanted)
        fail_msg("%s is not %g", key, wanted);
}

static void levels_are_joined_by_slashes(void **state) {
    (void)state;
    struct opened o;
    struct text text;
    bool flag;
    assert_opens(&o,
                 "{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"rope_parameters\":{\"rope_theta\":1e6,\"rope_type\":\"default\"},"
                 "\"tie_word_embeddings\":false,\"sliding_window\":null,\"offset\":-7,\"eps\":1e-6,\"name\":\"na\\u00efve\",\"empty\":{},"
                 "\"deep\":{\"a\":{\"b\":{\"c\":3}}}}",
                 "{\"temperature\":0.6,\"eos_token_id\":[1,2],\"pad\":{\"id\":3}}");
    assert_int_equal(catalogue_world(o.catalogue), CATALOGUE_HF);
    assert_string_equal(catalogue_directory(o.catalogue), folder.path);
    assert_true(meta_text(catalogue_meta(o.catalogue, "model_type"), &text) && text_is(text, "qwen3_moe"));
    assert_number(&o, "hidden_size", 64);
    assert_int_equal(type_of(&o, "hidden_size"), META_U64);
    assert_number(&o, "rope_parameters/rope_theta", 1e6);
    assert_true(meta_text(catalogue_meta(o.catalogue, "rope_parameters/rope_type"), &text) && text_is(text, "default"));
    assert_true(meta_bool(catalogue_meta(o.catalogue, "tie_word_embeddings"), &flag) && !flag);
    assert_int_equal(type_of(&o, "sliding_window"), META_NULL); /* null is there, what is not there is not */
    assert_null(catalogue_meta(o.catalogue, "sliding"));
    assert_null(catalogue_meta(o.catalogue, "empty"));
    assert_int_equal(type_of(&o, "offset"), META_I64);
    assert_number(&o, "offset", -7);
    assert_number(&o, "eps", 1e-6);
    assert_true(meta_text(catalogue_meta(o.catalogue, "name"), &text) && text_is(text, "naïve"));
    assert_number(&o, "deep/a/b/c", 3);
    assert_number(&o, "generation_config/temperature", 0.6);
    assert_number(&o, "generation_config/pad/id", 3);
    assert_int_equal(catalogue_meta(o.catalogue, "generation_config/eos_token_id")->array.count, 2);
    assert_int_equal(catalogue_meta_count(o.catalogue), 13);
    model_close(&o);
}

static void lists(void **state) {
    (void)state;
    struct opened o;
    struct text text;
    int64_t number;
    double real;
    bool flag;
    assert_opens(
        &o,
        "{\"layer_types\":[\"full\",\"\",\"sliding\"],\"ids\":[1,2,3],\"signs\":[1,-2],\"mixed\":[1,2.5,-3],\"flags\":[true,false],"
        "\"none\":[],\"pairs\":[[1,2],[3]],\"experts\":[{\"size\":5},{\"size\":6,\"names\":[\"x\"]}],\"odd\":[1,\"two\",null]}",
        NULL);
    const struct catalogue *c = o.catalogue;
    const struct meta_value *value = catalogue_meta(c, "layer_types");
    assert_int_equal(value->element, META_TEXT);
    assert_int_equal(value->array.count, 3);
    assert_true(meta_array_text(value, 0, &text) && text_is(text, "full"));
    assert_true(meta_array_text(value, 1, &text) && text.size_bytes == 0);
    assert_true(meta_array_text(value, 2, &text) && text_is(text, "sliding"));
    assert_false(meta_array_text(value, 3, &text));
    assert_int_equal(catalogue_meta(c, "ids")->element, META_U64);
    assert_int_equal(catalogue_meta(c, "signs")->element, META_I64);
    assert_true(meta_array_i64(catalogue_meta(c, "signs"), 1, &number) && number == -2);
    assert_int_equal(catalogue_meta(c, "mixed")->element, META_F64);
    assert_true(meta_array_f64(catalogue_meta(c, "mixed"), 1, &real) && real == 2.5);
    assert_true(meta_array_i64(catalogue_meta(c, "mixed"), 2, &number) && number == -3);
    assert_int_equal(catalogue_meta(c, "flags")->element, META_BOOL);
    assert_true(meta_array_bool(catalogue_meta(c, "flags"), 0, &flag) && flag);
    assert_int_equal(catalogue_meta(c, "none")->array.count, 0);
    assert_int_equal(catalogue_meta(c, "pairs")->element, META_ARRAY); /* lists in lists: the count, and each item below */
    assert_int_equal(catalogue_meta(c, "pairs")->array.count, 2);
    assert_int_equal(catalogue_meta(c, "pairs/0")->array.count, 2);
    assert_true(meta_array_i64(catalogue_meta(c, "pairs/1"), 0, &number) && number == 3);
    assert_int_equal(catalogue_meta(c, "experts")->array.count, 2);
    assert_number(&o, "experts/0/size", 5);
    assert_number(&o, "experts/1/size", 6);
    assert_true(meta_array_text(catalogue_meta(c, "experts/1/names"), 0, &text) && text_is(text, "x"));
    assert_number(&o, "odd/0", 1);
    assert_true(meta_text(catalogue_meta(c, "odd/1"), &text) && text_is(text, "two"));
    assert_int_equal(type_of(&o, "odd/2"), META_NULL);
    model_close(&o);
}

/* What a model's checks need to tell apart: the values come through as they are. */
static void d25_odd_values_keep_their_type(void **state) {
    (void)state;
    struct opened o;
    uint64_t number;
    struct text text;
    assert_opens(&o,
                 "{\"a\":-1,\"b\":1000000000,\"c\":\"32\",\"d\":1.5,\"e\":0,\"f\":2.0,\"g\":true,\"h\":9223372036854775807,"
                 "\"time_step_limit\":[0.0,Infinity],\"length\":1000000000000000019884624838656}",
                 NULL);
    assert_false(meta_u64(catalogue_meta(o.catalogue, "a"), &number));
    assert_true(meta_u64(catalogue_meta(o.catalogue, "b"), &number) && number == 1000000000);
    assert_false(meta_u64(catalogue_meta(o.catalogue, "c"), &number));
    assert_true(meta_text(catalogue_meta(o.catalogue, "c"), &text) && text_is(text, "32"));
    assert_false(meta_u64(catalogue_meta(o.catalogue, "d"), &number));
    assert_true(meta_u64(catalogue_meta(o.catalogue, "e"), &number) && number == 0);
    assert_true(meta_u64(catalogue_meta(o.catalogue, "f"), &number) && number == 2);
    assert_false(meta_u64(catalogue_meta(o.catalogue, "g"), &number));
    assert_true(meta_u64(catalogue_meta(o.catalogue, "h"), &number) && number == INT64_MAX);
    assert_int_equal(type_of(&o, "time_step_limit"), META_ARRAY);
    assert_int_equal(type_of(&o, "length"), META_F64);
    model_close(&o);
}

static void d25_damaged_files(void **state) {
    (void)state;
    static const char whole[] = "{\"a\":{\"b\":[1,2,{\"c\":\"d\"}]},\"e\":null}";
    assert_fails(NULL, STATUS_NOT_FOUND, "no config.json");
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        char cut[sizeof whole];
        memcpy(cut, whole, length);
        cut[length] = 0;
        assert_fails(cut, STATUS_CORRUPT, "config.json");
    }
    assert_fails("[1,2]", STATUS_CORRUPT, "config.json|no object");
    assert_fails("<!DOCTYPE html>", STATUS_CORRUPT, "config.json");
    assert_fails("{\"a/b\":1,\"a\":{\"b\":2}}", STATUS_CORRUPT, "config.json|a/b occurs twice|entry 1|entry 2");
    write_model("{}", "{\"a\":");
    assert_open_fails(folder.path, STATUS_CORRUPT, "generation_config.json");
}

static void deep_and_long(void **state) {
    (void)state;
    struct byte_buffer text;
    byte_buffer_init(&text, 1 << 20);
    for (unsigned i = 0; i < 100; i++)
        put(&text, "{\"a\":", 5);
    put(&text, "1", 1);
    for (unsigned i = 0; i < 100; i++)
        put(&text, "}", 1);
    assert_fails(text.data, STATUS_UNSUPPORTED, "config.json|nested deeper than 32");
    byte_buffer_clear(&text);
    put(&text, "{\"", 2);
    for (unsigned i = 0; i < 5000; i++)
        put(&text, "k", 1);
    put(&text, "\":1}", 4);
    assert_fails(text.data, STATUS_UNSUPPORTED, "config.json|4096 bytes");
    byte_buffer_deinit(&text);
}

/* The maps that say how each module of an MLX model is quantised: paths with dots stay one level. */
static void d21_quantisation_map(void **state) {
    (void)state;
    struct opened o;
    bool flag;
    assert_opens(&o,
                 "{\"quantization\":{\"bits\":4,\"group_size\":128,\"mode\":\"affine\",\"model.language_model.layers.0.x\":{\"bits\":6,"
                 "\"group_size\":128},\"model.layers.1.mlp.gate\":false}}",
                 NULL);
    assert_number(&o, "quantization/bits", 4);
    assert_number(&o, "quantization/model.language_model.layers.0.x/bits", 6);
    assert_number(&o, "quantization/model.language_model.layers.0.x/group_size", 128);
    assert_true(meta_bool(catalogue_meta(o.catalogue, "quantization/model.layers.1.mlp.gate"), &flag) && !flag);
    model_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_are_joined_by_slashes),
        cmocka_unit_test(lists),
        cmocka_unit_test(d25_odd_values_keep_their_type),
        cmocka_unit_test(d25_damaged_files),
        cmocka_unit_test(deep_and_long),
        cmocka_unit_test(d21_quantisation_map),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
