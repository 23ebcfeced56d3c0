/* test_catalogue: models of several files and folders: what belongs together, what is missing, what is chosen. */
#include "model_fixture.h"

#include <sys/stat.h>

#define PARTS 5 /* of tests/data/gguf/split */

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

static const char *in_folder(const char *name) { return model_path(&folder, name); }

static void copy_file(const char *from, const char *to) {
    struct error err;
    struct text bytes;
    ASSERT_OK(file_read(from, 1 << 20, &bytes, &err), err);
    model_write(to, bytes.data, bytes.size_bytes);
    memory_free((char *)bytes.data);
}

static const char *part_name(unsigned number) {
    static char names[2][64];
    static unsigned next;
    char *name = names[next++ % 2];
    snprintf(name, sizeof names[0], "qwen3_moe-%05u-of-%05u.gguf", number, PARTS);
    return name;
}

static const char *part_data(unsigned number) {
    char name[96];
    snprintf(name, sizeof name, "gguf/split/%s", part_name(number));
    return data_path(name);
}

static void copy_parts(void) {
    model_folder_empty(&folder);
    for (unsigned i = 1; i <= PARTS; i++)
        copy_file(part_data(i), in_folder(part_name(i)));
}

static void small_gguf(const char *name) {
    struct gguf_file g;
    gguf_init_small(&g);
    gguf_write(&g, in_folder(name));
    gguf_deinit(&g);
}

static const char one_tensor[] = "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";

static void small_safetensors(const char *name, const char *tensor) {
    char header[128];
    snprintf(header, sizeof header, one_tensor, tensor);
    safetensors_write(in_folder(name), header, 1);
}

static void assert_opens_with(const char *path, uint64_t tensor_count, uint32_t file_count) {
    struct opened o;
    ASSERT_OK(model_open(&o, path), o.error);
    assert_int_equal(catalogue_tensor_count(o.catalogue), tensor_count);
    assert_int_equal(file_set_count(o.files), file_count);
    model_close(&o);
}

/* ---- GGUF sets ---- */

static void d4_any_part_opens_the_set(void **state) {
    (void)state;
    struct opened first;
    copy_parts();
    ASSERT_OK(model_open(&first, in_folder(part_name(1))), first.error);
    assert_int_equal(catalogue_tensor_count(first.catalogue), 39);
    assert_int_equal(catalogue_meta_count(first.catalogue), 24);
    assert_int_equal(file_set_count(first.files), PARTS);
    for (unsigned given = 0; given <= PARTS; given++) { /* 0: the folder */
        struct opened o;
        ASSERT_OK(model_open(&o, given ? in_folder(part_name(given)) : folder.path), o.error);
        assert_int_equal(catalogue_meta_count(o.catalogue), catalogue_meta_count(first.catalogue));
        assert_int_equal(catalogue_tensor_count(o.catalogue), 39);
        assert_string_equal(catalogue_directory(o.catalogue), folder.path);
        for (uint64_t i = 0; i < 39; i++) { /* in the order of the parts, whichever was given */
            const struct tensor_entry *a = catalogue_tensor(o.catalogue, i), *b = catalogue_tensor(first.catalogue, i);
            assert_true(text_equal(a->name, b->name));
            assert_int_equal(a->offset_bytes, b->offset_bytes);
            assert_string_equal(file_set_path(o.files, a->file), file_set_path(first.files, b->file));
        }
        model_close(&o);
    }
    model_close(&first);
}

static void d4_names_that_look_like_parts(void **state) {
    (void)state;
    model_folder_empty(&folder);
    small_gguf("x-00001-of-00001.gguf"); /* whole files */
    assert_opens_with(in_folder("x-00001-of-00001.gguf"), 2, 1);
    assert_opens_with(folder.path, 2, 1);
    model_folder_empty(&folder);
    small_gguf("x-00002-of-00003.gguf");
    assert_opens_with(in_folder("x-00002-of-00003.gguf"), 2, 1);
    const char *inner = in_folder("x-00001-of-00003.gguf"); /* a folder that has such a name */
    char path[4200];
    assert_int_equal(mkdir(inner, 0700), 0);
    snprintf(path, sizeof path, "%s/m.gguf", inner);
    assert_int_equal(rename(in_folder("x-00002-of-00003.gguf"), path), 0);
    assert_opens_with(path, 2, 1);
    assert_opens_with(inner, 2, 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(inner), 0);
}

static void d5_lost_renamed_and_mixed_parts(void **state) {
    (void)state;
    copy_parts();
    assert_int_equal(unlink(in_folder(part_name(3))), 0);
    for (unsigned given = 1; given <= PARTS; given++)
        if (given != 3)
            assert_open_fails(in_folder(part_name(given)), STATUS_NOT_FOUND,
                              "qwen3_moe-00003-of-00005.gguf|part 3 of 5 is missing|one folder");
    assert_open_fails(folder.path, STATUS_NOT_FOUND, "part 3 of 5 is missing");
    copy_file(part_data(4), in_folder(part_name(3))); /* another part under this name */
    assert_open_fails(in_folder(part_name(1)), STATUS_CORRUPT, "00003-of-00005.gguf|name says part 3|header|part 4 of 5");
}

static void d5_renamed(void **state) {
    (void)state;
    copy_parts();
    assert_int_equal(rename(in_folder(part_name(2)), in_folder("second.gguf")), 0);
    assert_open_fails(in_folder("second.gguf"), STATUS_INVALID, "part 2 of a model in 5 files|-00002-of-00005.gguf");
    copy_parts();
    assert_int_equal(rename(in_folder(part_name(2)), in_folder("qwen3_moe-00002-of-00004.gguf")), 0);
    assert_open_fails(in_folder("qwen3_moe-00002-of-00004.gguf"), STATUS_CORRUPT, "name says part 2 of 4|part 2 of 5");
    copy_parts();
    assert_int_equal(rename(in_folder(part_name(2)), in_folder("qwen3_moe-00007-of-00005.gguf")), 0);
    assert_open_fails(in_folder("qwen3_moe-00007-of-00005.gguf"), STATUS_INVALID, "part 2 of a model in 5 files");
}

/* A set of two of our own making. */
static void write_pair(uint32_t number, uint32_t count, uint32_t total, const char *tensor) {
    struct gguf_file g;
    char name[64];
    gguf_init(&g);
    gguf_u32(&g, "split.no", number);
    gguf_u32(&g, "split.count", count);
    gguf_u32(&g, "split.tensors.count", total);
    gguf_tensor(&g, tensor, 1, (const uint64_t[]){4}, 0, 0);
    g.data_bytes = 32;
    snprintf(name, sizeof name, "p-%05u-of-00002.gguf", number + 1);
    gguf_write(&g, in_folder(name));
    gguf_deinit(&g);
}

static void d5_counts_and_d13_duplicates_over_parts(void **state) {
    (void)state;
    model_folder_empty(&folder);
    write_pair(0, 2, 2, "a");
    write_pair(1, 2, 2, "b");
    assert_opens_with(folder.path, 2, 2);
    write_pair(1, 2, 2, "a");
    assert_open_fails(folder.path, STATUS_CORRUPT, "tensor a occurs twice|p-00001-of-00002.gguf at offset|p-00002-of-00002.gguf at offset");
    write_pair(1, 2, 3, "b");
    assert_open_fails(folder.path, STATUS_CORRUPT, "split.tensors.count is 3|and 2|different models");
    write_pair(0, 2, 3, "a");
    assert_open_fails(folder.path, STATUS_CORRUPT, "split.tensors.count says 3|hold 2");
    write_pair(0, 2, 2, "a");
    write_pair(1, 3, 2, "b");
    assert_open_fails(in_folder("p-00001-of-00002.gguf"), STATUS_CORRUPT, "p-00002-of-00002.gguf|part 2 of 2|part 2 of 3");
    struct gguf_file g; /* not an integer */
    gguf_init(&g);
    gguf_text(&g, "split.count", "2");
    assert_gguf_fails(&g, in_folder("p-00001-of-00002.gguf"), STATUS_CORRUPT, "split.*");
}

/* ---- folders ---- */

static void folders_with_gguf(void **state) {
    (void)state;
    model_folder_empty(&folder);
    assert_open_fails(folder.path, STATUS_NOT_FOUND, "holds no model");
    small_gguf("m.gguf");
    small_gguf("mmproj-m.gguf"); /* the vision part is no model */
    assert_opens_with(folder.path, 2, 1);
    model_write_text(in_folder("config.json"), "{}"); /* a configuration alone makes no Hugging Face model */
    assert_opens_with(folder.path, 2, 1);
    small_gguf("n.gguf");
    assert_open_fails(folder.path, STATUS_INVALID, "several GGUF models|m.gguf|n.gguf");
    model_folder_empty(&folder);
    model_write_text(in_folder("pytorch_model.bin"), "PK");
    assert_open_fails(folder.path, STATUS_UNSUPPORTED, "PyTorch|pytorch_model.bin|safetensors");
    assert_open_fails(in_folder("none"), STATUS_NOT_FOUND, "none");
    assert_open_fails(in_folder("none.gguf"), STATUS_NOT_FOUND, "none.gguf");
}

static void folders_with_one_safetensors(void **state) {
    (void)state;
    model_folder_empty(&folder);
    small_safetensors("model.safetensors", "a");
    assert_open_fails(folder.path, STATUS_NOT_FOUND, "no config.json");
    model_write_text(in_folder("config.json"), "{\"x\":1}");
    assert_opens_with(folder.path, 1, 1);
    small_safetensors("consolidated.safetensors", "a"); /* beside model.safetensors nothing counts */
    small_safetensors("adapter_model.safetensors", "b");
    small_gguf("m.gguf");
    assert_opens_with(folder.path, 1, 1);
    assert_opens_with(in_folder("adapter_model.safetensors"), 1, 1); /* one file: tensors only */
    assert_int_equal(rename(in_folder("model.safetensors"), in_folder("weights.safetensors")), 0);
    assert_opens_with(folder.path, 1, 1);
    small_safetensors("other.safetensors", "a");
    assert_open_fails(folder.path, STATUS_NOT_FOUND, "other.safetensors|weights.safetensors|index");
    assert_open_fails(in_folder("config.json"), STATUS_INVALID, "JSON|folder");
}

static void folders_with_a_set_but_no_index(void **state) {
    (void)state;
    model_folder_empty(&folder);
    model_write_text(in_folder("config.json"), "{}");
    small_safetensors("model-00001-of-00003.safetensors", "a");
    small_safetensors("model-00002-of-00003.safetensors", "b");
    small_safetensors("model-00003-of-00003.safetensors", "c");
    assert_opens_with(folder.path, 3, 3);
    assert_int_equal(unlink(in_folder("model-00001-of-00003.safetensors")), 0);
    assert_open_fails(folder.path, STATUS_NOT_FOUND, "model-00001-of-00003.safetensors|missing");
}

static void d5_folders_with_an_index(void **state) {
    (void)state;
    static const char *const index = "model.safetensors.index.json";
    model_folder_empty(&folder);
    model_write_text(in_folder("config.json"), "{}");
    small_safetensors("one.safetensors", "a");
    small_safetensors("two.safetensors", "b");
    small_safetensors("consolidated.safetensors", "a"); /* not named: not opened */
    model_write_text(in_folder(index),
                     "{\"metadata\":{\"total_size\":2},\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}}");
    assert_opens_with(folder.path, 2, 2);
    struct {
        const char *text, *parts;
        enum status status;
    } rows[] = {
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"three.safetensors\"}}", "three.safetensors|is missing|index.json",
         STATUS_NOT_FOUND},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"c\":\"two.safetensors\"}}", "tensor c|two.safetensors|does not hold",
         STATUS_CORRUPT},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "outside the folder", STATUS_CORRUPT},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "outside the folder", STATUS_CORRUPT},
        {"{\"weight_map\":{\"a\":\"\"}}", "outside the folder", STATUS_CORRUPT},
        {"{\"weight_map\":{\"a\":1}}", "weight_map/a|no file name", STATUS_CORRUPT},
        {"{\"weight_map\":[]}", "not valid JSON", STATUS_CORRUPT},
        {"{\"metadata\":{}}", "no weight_map", STATUS_CORRUPT},
        {"{\"weight_map\":{\"a\":\"one.safe", "index.json", STATUS_CORRUPT},
        {"", "index.json", STATUS_CORRUPT},
        {"{\"weight_map\":{\"a\":\"one.safetensors\",\"x\":\"consolidated.safetensors\"}}",
         "tensor a occurs twice|one.saf|consolidated.saf", STATUS_CORRUPT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        model_write_text(in_folder(index), rows[i].text);
        assert_open_fails(folder.path, rows[i].status, rows[i].parts);
    }
    assert_int_equal(unlink(in_folder("one.safetensors")), 0);
    model_write_text(in_folder("one.safetensors"), "version https://git-lfs.github.com/spec/v1\n");
    model_write_text(in_folder(index), "{\"weight_map\":{\"a\":\"one.safetensors\"}}");
    assert_open_fails(folder.path, STATUS_CORRUPT, "one.safetensors|Git LFS");
}

/* ---- memory ---- */

/*
 * Every allocation in turn fails: an error each time, nothing leaks, and in the end it opens. jansson may call a failure of its heap
 * something else, or lose a byte of a text; there only the clean end is checked.
 */
static void assert_survives_allocation_failures(const char *path, bool has_json) {
    struct file_set *files;
    struct catalogue *catalogue;
    struct error err;
    uint64_t heap_bytes = memory_owner_bytes(MEMORY_OTHER);
    for (uint64_t n = 1;; n++) {
        assert_true(n < 100000);
        ASSERT_OK(file_set_create(&files, &err), err);
        memory_fail_after(n);
        enum status status = catalogue_open(path, files, &catalogue, &err);
        memory_fail_after(0);
        if (status != STATUS_OK) {
            assert_null(catalogue);
            if (status != STATUS_NO_MEMORY && !has_json)
                fail_msg("allocation %llu: %s: %s", (unsigned long long)n, status_name(status), err.text);
        }
        catalogue_close(catalogue);
        file_set_destroy(files);
        assert_int_equal(memory_owner_bytes(MEMORY_OTHER), heap_bytes);
        if (status == STATUS_OK && n > (has_json ? 200 : 1))
            break;
    }
}

static void allocation_failures(void **state) {
    (void)state;
    copy_parts();
    assert_survives_allocation_failures(in_folder(part_name(2)), false);
    assert_survives_allocation_failures(folder.path, false);
    assert_survives_allocation_failures(data_path("gguf/types.gguf"), false);
    model_folder_empty(&folder);
    model_write_text(in_folder("config.json"), "{\"a\":{\"b\":[1,2],\"c\":[\"x\",\"y\"]},\"d\":[{\"e\":\"f\"}]}");
    small_safetensors("one.safetensors", "a");
    model_write_text(in_folder("model.safetensors.index.json"), "{\"weight_map\":{\"a\":\"one.safetensors\"}}");
    assert_survives_allocation_failures(folder.path, true);
}

/* One more model in the same set of files, as a draft beside its target. */
static void two_models_in_one_set_of_files(void **state) {
    (void)state;
    struct opened o;
    struct catalogue *second;
    copy_parts();
    ASSERT_OK(model_open(&o, data_path("gguf/types.gguf")), o.error);
    ASSERT_OK(catalogue_open(in_folder(part_name(4)), o.files, &second, &o.error), o.error);
    assert_int_equal(file_set_count(o.files), 1 + PARTS);
    for (uint64_t i = 0; i < catalogue_tensor_count(second); i++)
        assert_true(catalogue_tensor(second, i)->file >= 1);
    catalogue_close(second);
    model_close(&o);
    catalogue_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d4_any_part_opens_the_set),
        cmocka_unit_test(d4_names_that_look_like_parts),
        cmocka_unit_test(d5_lost_renamed_and_mixed_parts),
        cmocka_unit_test(d5_renamed),
        cmocka_unit_test(d5_counts_and_d13_duplicates_over_parts),
        cmocka_unit_test(folders_with_gguf),
        cmocka_unit_test(folders_with_one_safetensors),
        cmocka_unit_test(folders_with_a_set_but_no_index),
        cmocka_unit_test(d5_folders_with_an_index),
        cmocka_unit_test(allocation_failures),
        cmocka_unit_test(two_models_in_one_set_of_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
