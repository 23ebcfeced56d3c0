/*
 * hf_config: flattening. An object becomes its members under KEY/, a list of plain values of one kind becomes an array, any other list
 * becomes its items under KEY/0, KEY/1 ... beside a META_ARRAY at KEY that tells only the count.
 */
#include "format/hf_config.h"

#include "base/byte_buffer.h"
#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

#define CONFIG_MAX_BYTES ((size_t)64 << 20)
#define KEY_MAX_BYTES 4096
#define DEPTH_MAX 32

struct flatten {
    struct catalogue *catalogue;
    const char *path;       /* of the file */
    struct byte_buffer key; /* of the current value */
    unsigned depth;
};

static enum status flatten_value(struct flatten *f, const json_t *value, struct error *err);

static enum status add(struct flatten *f, const struct meta_value *value, struct error *err) {
    struct text key;
    enum status status = catalogue_keep_text(f->catalogue, byte_buffer_text(&f->key), &key, err);
    if (status == STATUS_OK)
        return catalogue_add_meta(f->catalogue, key, value, f->path, err);
    if (value->type == META_ARRAY)
        memory_free((void *)value->array.items);
    return status;
}

/* Flattens `value` as the member `name` of the current key. */
static enum status flatten_member(struct flatten *f, const char *name, const json_t *value, struct error *err) {
    size_t key_bytes = f->key.size_bytes;
    bool top = key_bytes == 0 || f->key.data[key_bytes - 1] == '/';
    if (f->depth == DEPTH_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "%s: nested deeper than %d levels", f->path, DEPTH_MAX);
    f->depth++;
    enum status status = byte_buffer_printf(&f->key, err, "%s%s", top ? "" : "/", name);
    if (status == STATUS_OVER_BUDGET)
        status = error_set(err, STATUS_UNSUPPORTED, "%s: a key has more than %d bytes", f->path, KEY_MAX_BYTES);
    if (status == STATUS_OK)
        status = flatten_value(f, value, err);
    f->depth--;
    if (f->key.data) {
        ASSERT(key_bytes <= f->key.size_bytes);
        f->key.size_bytes = key_bytes;
        f->key.data[key_bytes] = 0;
    }
    return status;
}

static struct meta_value plain_value(const json_t *value) {
    if (json_is_boolean(value))
        return (struct meta_value){.type = META_BOOL, .boolean = json_is_true(value)};
    if (json_is_real(value))
        return (struct meta_value){.type = META_F64, .f64 = json_real_value(value)};
    if (json_is_integer(value)) {
        int64_t number = json_integer_value(value);
        if (number < 0)
            return (struct meta_value){.type = META_I64, .i64 = number};
        return (struct meta_value){.type = META_U64, .u64 = (uint64_t)number};
    }
    return (struct meta_value){.type = META_NULL};
}

/* ---- lists ---- */

/* How the items of a list are stored as an array; META_ARRAY_FORMAT_COUNT: they are of several kinds, or no plain values. */
static enum meta_array_format list_format(const json_t *list) {
    bool texts = true, bools = true, integers = true, numbers = true;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        texts &= json_is_string(item);
        bools &= json_is_boolean(item);
        integers &= json_is_integer(item);
        numbers &= json_is_number(item);
    }
    return texts      ? META_ARRAY_TEXT
           : bools    ? META_ARRAY_BOOL
           : integers ? META_ARRAY_I64
           : numbers  ? META_ARRAY_F64
                      : META_ARRAY_FORMAT_COUNT;
}

static void fill_item(struct meta_array *array, size_t index, const json_t *item) {
    ASSERT((index + 1) * meta_array_item_bytes(array->format) <= array->size_bytes);
    if (array->format == META_ARRAY_BOOL) {
        array->data[index] = json_is_true(item);
    } else if (array->format == META_ARRAY_I64) {
        int64_t number = json_integer_value(item);
        memcpy(array->data + index * sizeof number, &number, sizeof number);
    } else {
        double number = json_number_value(item);
        memcpy(array->data + index * sizeof number, &number, sizeof number);
    }
}

/* The file is at most 64 MiB, so that its texts fit offsets of 32 bits. */
static struct meta_array *text_list(const json_t *list) {
    size_t count = json_array_size(list), bytes = (count + 1) * sizeof(uint32_t);
    for (size_t i = 0; i < count; i++)
        bytes += json_string_length(json_array_get(list, i));
    struct meta_array *array = meta_array_create(META_ARRAY_TEXT, bytes);
    if (!array)
        return NULL;
    uint8_t *texts = array->data + (count + 1) * sizeof(uint32_t);
    uint32_t offset = 0;
    for (size_t i = 0; i <= count; i++) {
        memcpy(array->data + i * sizeof offset, &offset, sizeof offset);
        if (i == count)
            break;
        const json_t *item = json_array_get(list, i);
        ASSERT(texts + offset + json_string_length(item) <= array->data + array->size_bytes);
        memcpy(texts + offset, json_string_value(item), json_string_length(item));
        offset += (uint32_t)json_string_length(item);
    }
    return array;
}

static enum status add_array(struct flatten *f, const json_t *list, enum meta_array_format format, struct error *err) {
    size_t count = json_array_size(list);
    struct meta_array *array =
        format == META_ARRAY_TEXT ? text_list(list) : meta_array_create(format, (uint64_t)count * meta_array_item_bytes(format));
    if (!array)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for a list of %zu items", f->path, count);
    for (size_t i = 0; i < count && format != META_ARRAY_TEXT; i++)
        fill_item(array, i, json_array_get(list, i));
    ASSERT(count > 0);
    struct meta_value value = meta_array_value(array, count);
    return add(f, &value, err);
}

static enum status flatten_list(struct flatten *f, const json_t *list, struct error *err) {
    size_t count = json_array_size(list);
    struct meta_value value = {.type = META_ARRAY, .element = META_NULL, .array = {count, NULL}};
    if (count == 0)
        return add(f, &value, err);
    enum meta_array_format format = list_format(list);
    if (format != META_ARRAY_FORMAT_COUNT)
        return add_array(f, list, format, err);
    value.element = META_ARRAY;
    TRY(add(f, &value, err));
    for (size_t i = 0; i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        TRY(flatten_member(f, name, json_array_get(list, i), err));
    }
    return STATUS_OK;
}

/* ---- values ---- */

static enum status flatten_object(struct flatten *f, const json_t *object, struct error *err) {
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)object, name, member) /* the loop reads only */
        TRY(flatten_member(f, name, member, err));
    return STATUS_OK;
}

static enum status flatten_value(struct flatten *f, const json_t *value, struct error *err) {
    if (json_is_object(value))
        return flatten_object(f, value, err);
    if (json_is_array(value))
        return flatten_list(f, value, err);
    struct meta_value plain = plain_value(value);
    if (json_is_string(value)) {
        plain.type = META_TEXT;
        TRY(catalogue_keep_text(f->catalogue, (struct text){json_string_value(value), json_string_length(value)}, &plain.text, err));
    }
    return add(f, &plain, err);
}

static enum status load_file(struct catalogue *catalogue, const char *path, const char *prefix, struct error *err) {
    json_t *root;
    TRY(json_read_file(path, CONFIG_MAX_BYTES, &root, err));
    struct flatten f = {.catalogue = catalogue, .path = path};
    byte_buffer_init(&f.key, KEY_MAX_BYTES);
    enum status status = json_is_object(root) ? byte_buffer_append_text(&f.key, text_of(prefix), err)
                                              : error_set(err, STATUS_CORRUPT, "%s: is JSON, but no object; the file is damaged", path);
    if (status == STATUS_OK)
        status = flatten_object(&f, root, err);
    ASSERT(f.depth == 0);
    byte_buffer_deinit(&f.key);
    json_decref(root);
    return status;
}

enum status hf_config_load(struct catalogue *catalogue, const char *directory, struct error *err) {
    char path[CATALOGUE_PATH_BYTES];
    TRY(file_join(directory, "config.json", path, sizeof path, err));
    if (!file_exists(path))
        return error_set(err, STATUS_NOT_FOUND,
                         "%s: has safetensors files but no config.json, which says what model they are; download it beside them",
                         directory);
    TRY(load_file(catalogue, path, "", err));
    TRY(file_join(directory, "generation_config.json", path, sizeof path, err));
    return file_exists(path) ? load_file(catalogue, path, "generation_config/", err) : STATUS_OK;
}
