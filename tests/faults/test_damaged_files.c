/*
 * test_damaged_files: small models cut at every byte and with thousands of bytes and bits changed from a fixed seed. Opening one must end
 * in an error or in a catalogue whose promises hold; it must not crash, hang, leak, or take more than a few megabytes.
 */
#include "../unit/model_fixture.h"

#include <fcntl.h>
#include <time.h>

#define GROWTH_BYTES ((uint64_t)16 << 20)
#define SECONDS_MAX 120 /* of all damage to one file; a few seconds are normal, ten times that under sanitizers */

static struct model_folder folder;
static volatile uint64_t sink; /* keeps reads of metadata alive */

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

static uint64_t next_random(uint64_t *state) {
    uint64_t x = (*state += 0x9E3779B97F4A7C15u);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* ---- what an open catalogue promises ---- */

static void touch_text(struct text text) {
    for (size_t i = 0; i < text.size_bytes; i++)
        sink += (uint8_t)text.data[i];
}

static void check_tensors(const struct opened *o) {
    uint64_t count = catalogue_tensor_count(o->catalogue);
    for (uint64_t i = 0; i < count; i++) {
        const struct tensor_entry *t = catalogue_tensor(o->catalogue, i);
        uint64_t elements = 1, size_bytes;
        assert_true(t->rank <= TENSOR_RANK_MAX && t->file < file_set_count(o->files));
        for (uint32_t d = 0; d < t->rank; d++)
            elements *= t->shape[d];
        assert_true(dtype_size(t->dtype, elements, &size_bytes));
        assert_int_equal(size_bytes, t->size_bytes);
        assert_true(t->offset_bytes <= file_set_size_bytes(o->files, t->file));
        assert_true(t->size_bytes <= file_set_size_bytes(o->files, t->file) - t->offset_bytes);
        assert_ptr_equal(catalogue_find(o->catalogue, t->name), t);
    }
}

static void check_metadata(const struct opened *o) {
    for (uint64_t i = 0; i < catalogue_meta_count(o->catalogue); i++) {
        const struct meta_value *value = catalogue_meta_at(o->catalogue, i);
        struct text text;
        double number;
        touch_text(catalogue_meta_key(o->catalogue, i));
        if (meta_text(value, &text))
            touch_text(text);
        for (uint64_t k = 0; value->type == META_ARRAY && value->array.items && k < value->array.count; k++)
            if (meta_array_text(value, k, &text))
                touch_text(text);
            else
                sink += meta_array_f64(value, k, &number);
    }
}

/* Returns whether it opened. */
static bool open_damaged(const char *path) {
    struct opened o;
    uint64_t heap_bytes = memory_owner_bytes(MEMORY_OTHER);
    enum status status = model_open(&o, path);
    if (status == STATUS_OK) {
        check_tensors(&o);
        check_metadata(&o);
        catalogue_drop_arrays(o.catalogue, 1);
        check_metadata(&o);
    } else {
        assert_int_equal(o.error.status, status);
        assert_true(o.error.text[0] != 0);
        if (status == STATUS_NO_MEMORY || status == STATUS_INTERNAL)
            fail_msg("%s: %s", status_name(status), o.error.text);
    }
    model_close(&o);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), heap_bytes);
    return status == STATUS_OK;
}

/* ---- damage ---- */

struct damage {
    const char *file;   /* the one that is damaged */
    const char *model;  /* what is opened */
    size_t range_bytes; /* damaged from the start of the file; 0: all of it */
    unsigned changes;   /* how many with random bytes, beside every bit of the first 4096 bytes and the cuts */
};

static void write_at(int fd, const void *bytes, size_t size_bytes, size_t offset) {
    assert_int_equal(pwrite(fd, bytes, size_bytes, (off_t)offset), (ssize_t)size_bytes);
}

static void flip_bits(const struct damage *damage, int fd, struct text whole, size_t range) {
    size_t stride = range > 1500 ? 7 : 1; /* in bits; an odd stride meets every place in a byte */
    for (size_t bit = 0; bit < range * 8; bit += stride) {
        char changed = (char)(whole.data[bit / 8] ^ (1 << bit % 8));
        write_at(fd, &changed, 1, bit / 8);
        (void)open_damaged(damage->model);
        write_at(fd, whole.data + bit / 8, 1, bit / 8);
    }
}

/* Runs of 1 to 9 bytes become random, zero, all ones or a copy from elsewhere, at one to three places. */
static void change_runs(const struct damage *damage, int fd, struct text whole, size_t range) {
    uint64_t seed = whole.size_bytes;
    char run[9];
    for (unsigned i = 0; i < damage->changes; i++) {
        size_t places[3], lengths[3], count = 1 + next_random(&seed) % 3;
        for (size_t k = 0; k < count; k++) {
            size_t length = 1 + next_random(&seed) % sizeof run, at = next_random(&seed) % range;
            length = length > whole.size_bytes - at ? whole.size_bytes - at : length;
            unsigned kind = next_random(&seed) % 4;
            for (size_t b = 0; b < length; b++)
                run[b] = kind == 0 ? (char)next_random(&seed) : kind == 1 ? 0 : kind == 2 ? -1 : whole.data[next_random(&seed) % range];
            places[k] = at;
            lengths[k] = length;
            write_at(fd, run, length, at);
        }
        (void)open_damaged(damage->model);
        for (size_t k = 0; k < count; k++)
            write_at(fd, whole.data + places[k], lengths[k], places[k]);
    }
}

static void cut(const struct damage *damage, int fd, struct text whole, size_t range) {
    size_t stride = range > 2000 ? 13 : 1;
    for (size_t length = range; length > 0; length -= length > stride ? stride : length) {
        assert_int_equal(ftruncate(fd, (off_t)length - 1), 0);
        (void)open_damaged(damage->model);
    }
    assert_int_equal(ftruncate(fd, (off_t)whole.size_bytes), 0);
    write_at(fd, whole.data, whole.size_bytes, 0);
}

static void damage_everywhere(const struct damage *damage) {
    struct text whole;
    struct error err;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    ASSERT_OK(file_read(damage->file, 1 << 20, &whole, &err), err);
    assert_true(open_damaged(damage->model)); /* not yet */
    size_t range = damage->range_bytes ? damage->range_bytes : whole.size_bytes;
    int fd = open(damage->file, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    struct rlimit old = limit_growth(GROWTH_BYTES);
    flip_bits(damage, fd, whole, range);
    change_runs(damage, fd, whole, range);
    cut(damage, fd, whole, range);
    allow_growth(old);
    assert_true(open_damaged(damage->model)); /* whole again */
    assert_int_equal(close(fd), 0);
    memory_free((char *)whole.data);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - begin.tv_sec < SECONDS_MAX);
}

/* ---- models ---- */

static void copy_data(const char *data_name, const char *name) {
    struct error err;
    struct text bytes;
    ASSERT_OK(file_read(data_path(data_name), 1 << 20, &bytes, &err), err);
    model_write(model_path(&folder, name), bytes.data, bytes.size_bytes);
    memory_free((char *)bytes.data);
}

static void small_gguf(void **state) {
    (void)state;
    struct gguf_file g;
    char path[4096];
    snprintf(path, sizeof path, "%s", model_path(&folder, "m.gguf"));
    gguf_init_small(&g);
    gguf_key(&g, "nested", 9);
    put_u32(&g.entries, 9);
    put_u64(&g.entries, 1);
    put_u32(&g.entries, 7);
    put_u64(&g.entries, 2);
    put(&g.entries, "\0\1", 2);
    gguf_write(&g, path);
    gguf_deinit(&g);
    damage_everywhere(&(struct damage){.file = path, .model = path, .changes = 60000});
}

static void gguf_of_every_type(void **state) {
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s", model_path(&folder, "types.gguf"));
    copy_data("gguf/types.gguf", "types.gguf");
    damage_everywhere(&(struct damage){.file = path, .model = path, .range_bytes = 3000, .changes = 10000});
}

static void gguf_in_parts(void **state) {
    (void)state;
    char first[4096], second[4096];
    model_folder_empty(&folder);
    for (unsigned i = 1; i <= 5; i++) {
        char data_name[96], *name = data_name + strlen("gguf/split/");
        snprintf(data_name, sizeof data_name, "gguf/split/qwen3_moe-%05u-of-00005.gguf", i);
        copy_data(data_name, name);
    }
    snprintf(first, sizeof first, "%s", model_path(&folder, "qwen3_moe-00001-of-00005.gguf"));
    snprintf(second, sizeof second, "%s", model_path(&folder, "qwen3_moe-00002-of-00005.gguf"));
    damage_everywhere(&(struct damage){.file = first, .model = second, .changes = 3000});
    damage_everywhere(&(struct damage){.file = second, .model = first, .range_bytes = 600, .changes = 3000});
    model_folder_empty(&folder);
}

static void safetensors(void **state) {
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s", model_path(&folder, "m.safetensors"));
    safetensors_write(path,
                      "{\"__metadata__\":{\"format\":\"pt\"},\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                      "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
                      "\"c.\\u00e9\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[32,40]}}  ",
                      40);
    damage_everywhere(&(struct damage){.file = path, .model = path, .changes = 60000});
}

static void folder_of_hugging_face(void **state) {
    (void)state;
    char config[4096], generation[4096], list[4096], shard[4096];
    model_folder_empty(&folder);
    snprintf(config, sizeof config, "%s", model_path(&folder, "config.json"));
    snprintf(generation, sizeof generation, "%s", model_path(&folder, "generation_config.json"));
    snprintf(list, sizeof list, "%s", model_path(&folder, "model.safetensors.index.json"));
    snprintf(shard, sizeof shard, "%s", model_path(&folder, "model-00002-of-00002.safetensors"));
    model_write_text(config, "{\"architectures\":[\"Qwen3ForCausalLM\"],\"hidden_size\":64,\"rope_scaling\":{\"factor\":2.5,\"type\":null},"
                             "\"layer_types\":[\"full\",\"sliding\"],\"experts\":[{\"n\":1},[2,-3]],\"tie\":true}");
    model_write_text(generation, "{\"eos_token_id\":[1,2],\"temperature\":0.6}");
    model_write_text(list, "{\"metadata\":{\"total_size\":32},\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                           "\"b\":\"model-00002-of-00002.safetensors\"}}");
    safetensors_write(model_path(&folder, "model-00001-of-00002.safetensors"),
                      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 16);
    safetensors_write(shard, "{\"b\":{\"dtype\":\"F16\",\"shape\":[8],\"data_offsets\":[0,16]}}", 16);
    damage_everywhere(&(struct damage){.file = config, .model = folder.path, .changes = 6000});
    damage_everywhere(&(struct damage){.file = generation, .model = folder.path, .changes = 1500});
    damage_everywhere(&(struct damage){.file = list, .model = folder.path, .changes = 6000});
    damage_everywhere(&(struct damage){.file = shard, .model = folder.path, .changes = 1500});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_gguf),  cmocka_unit_test(gguf_of_every_type),     cmocka_unit_test(gguf_in_parts),
        cmocka_unit_test(safetensors), cmocka_unit_test(folder_of_hugging_face),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
