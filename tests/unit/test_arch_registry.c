/* test_arch_registry: which family a model belongs to; an unknown one is refused by name, with the nearest known; no name has two rows. */
#include "model_fixture.h"

#include "model/arch.h"

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

static enum status find(const char *config, const struct arch_spec **arch, char prefix[64], struct error *err) {
    struct opened o;
    model_folder_empty(&folder);
    safetensors_write(model_path(&folder, "model.safetensors"), "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    model_write_text(model_path(&folder, "config.json"), config);
    ASSERT_OK(model_open(&o, folder.path), o.error);
    enum status status = arch_find(o.catalogue, arch, prefix, 64, err);
    model_close(&o);
    return status;
}

static void assert_family(const char *config, const char *name, const char *wanted_prefix) {
    const struct arch_spec *arch;
    struct error err;
    char prefix[64];
    ASSERT_OK(find(config, &arch, prefix, &err), err);
    assert_string_equal(arch->name, name);
    assert_string_equal(prefix, wanted_prefix);
}

static void assert_refused(const char *config, enum status wanted, const char *const *words) {
    const struct arch_spec *arch;
    struct error err;
    char prefix[64];
    assert_int_equal(find(config, &arch, prefix, &err), wanted);
    assert_null(arch);
    for (; *words; words++)
        if (!strstr(err.text, *words))
            fail_msg("'%s' is not in: %s", *words, err.text);
}

static void models_are_found_by_type_wrapper_and_architecture(void **state) {
    (void)state;
    assert_family("{\"model_type\":\"qwen3_moe\",\"hidden_size\":64}", "qwen3_moe", "");
    assert_family("{\"model_type\":\"kimi_k2\",\"architectures\":[\"DeepseekV3ForCausalLM\"]}", "deepseek_v3", "");
    assert_family("{\"model_type\":\"unheard_of\",\"architectures\":[\"LlamaForCausalLM\"]}", "llama", "");
    assert_family("{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":\"ministral3\",\"hidden_size\":64}}", "ministral3",
                  "text_config/");
    assert_family("{\"model_type\":\"qwen3_5_moe\",\"text_config\":{\"model_type\":\"qwen3_5_moe_text\"}}", "qwen3_5_moe", "text_config/");
}

static void unknown_families_are_refused_with_the_nearest(void **state) {
    (void)state;
    assert_refused("{\"model_type\":\"qwen4_moe\",\"architectures\":[\"Qwen4MoeForCausalLM\"]}", STATUS_UNSUPPORTED,
                   (const char *const[]){"'qwen4_moe'", "not supported", "qwen3_moe", "qwen2_moe", NULL});
    assert_refused("{\"model_type\":\"wrapper\",\"text_config\":{\"model_type\":\"gemma9_text\"}}", STATUS_UNSUPPORTED,
                   (const char *const[]){"'wrapper'", "not supported", NULL});
    assert_refused("{\"hidden_size\":64}", STATUS_CORRUPT, (const char *const[]){"model_type", NULL});
}

static void unknown_gguf_architectures_are_refused_with_the_nearest(void **state) {
    (void)state;
    struct gguf_file g;
    struct opened o;
    const struct arch_spec *arch;
    struct error err;
    char prefix[64];
    model_folder_empty(&folder);
    gguf_init(&g);
    gguf_text(&g, "general.architecture", "qwen4moe");
    gguf_write(&g, model_path(&folder, "model.gguf"));
    gguf_deinit(&g);
    ASSERT_OK(model_open(&o, model_path(&folder, "model.gguf")), o.error);
    assert_int_equal(arch_find(o.catalogue, &arch, prefix, sizeof prefix, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "'qwen4moe'"));
    assert_non_null(strstr(err.text, "qwen3moe"));
    model_close(&o);
}

static void assert_unique(const char *const *names, const struct arch_spec *const *rows, uint32_t count, uint32_t row, int kind) {
    for (; names && *names; names++)
        for (uint32_t other = row + 1; other < count; other++) {
            const struct arch_spec *a = rows[other];
            const char *const *n = kind == 0 ? a->gguf : kind == 1 ? a->model_types : a->architectures;
            for (; n && *n; n++)
                if (strcmp(*n, *names) == 0)
                    fail_msg("%s is a name of %s and of %s", *n, rows[row]->name, a->name);
        }
}

static void no_name_has_two_rows(void **state) {
    (void)state;
    uint32_t count;
    const struct arch_spec *const *rows = arch_list(&count);
    for (uint32_t r = 0; r < count; r++) {
        assert_true(rows[r]->name && rows[r]->model_types && rows[r]->model_types[0]);
        assert_unique(rows[r]->gguf, rows, count, r, 0);
        assert_unique(rows[r]->model_types, rows, count, r, 1);
        assert_unique(rows[r]->architectures, rows, count, r, 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_found_by_type_wrapper_and_architecture),
        cmocka_unit_test(unknown_families_are_refused_with_the_nearest),
        cmocka_unit_test(unknown_gguf_architectures_are_refused_with_the_nearest),
        cmocka_unit_test(no_name_has_two_rows),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
