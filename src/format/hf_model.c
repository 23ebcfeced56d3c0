/*
 * hf_model: see hf_model.h.
 */
#include "format/hf_model.h"

#include <stdio.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text_map.h"
#include "format/hf_config.h"
#include "format/json_walk.h"
#include "format/safetensors.h"
#include "format/split_files.h"

#define INDEX_NAME "model.safetensors.index.json"
#define INDEX_MAX_BYTES ((size_t)512 << 20)
#define SAFETENSORS ".safetensors"

struct hf_load {
    struct catalogue *catalogue;
    struct file_set *files;
    const char *directory;
    struct text_map shards; /* name -> 0, of the index; keys lie in the catalogue */
};

static bool is_listed(const struct directory_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->names[i], name) == 0)
            return true;
    return false;
}

bool hf_model_present(const struct directory_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (text_ends_with(text_of(list->names[i]), TEXT(SAFETENSORS)))
            return true;
    return is_listed(list, INDEX_NAME);
}

static enum status load_shard(struct hf_load *load, const char *name, const char *named_by, struct error *err) {
    char path[CATALOGUE_PATH_BYTES];
    uint32_t file;
    CHECK(named_by);
    TRY(file_join(load->directory, name, path, sizeof path, err));
    enum status status = file_set_add(load->files, path, &file, err);
    if (status == STATUS_NOT_FOUND)
        return error_set(err, STATUS_NOT_FOUND, "%s: is missing (named by %s); download it", path, named_by);
    TRY(status);
    return safetensors_load(load->catalogue, load->files, file, err);
}

/* ---- with an index ---- */

/* A name that stays inside the folder. */
static bool is_plain_name(struct text name) {
    static const char up[] = "..";
    return name.size_bytes > 0 && name.data[0] != '/' && !memchr(name.data, 0, name.size_bytes) &&
           !memmem(name.data, name.size_bytes, up, sizeof up - 1);
}

/* What is done with each member "tensor": "file" of weight_map. */
typedef enum status (*mapping_function)(struct hf_load *load, struct text tensor, struct text file, const char *index_path,
                                        struct error *err);

/* Opens the shard when it is met first. */
static enum status open_mapped(struct hf_load *load, struct text tensor, struct text file, const char *index_path, struct error *err) {
    struct text kept;
    uint32_t ignored;
    (void)tensor;
    if (text_map_find(&load->shards, file, &ignored))
        return STATUS_OK;
    if (!is_plain_name(file))
        return error_set(err, STATUS_CORRUPT, "%s: names the file %.*s, which is outside the folder", index_path, SHOWN(file));
    TRY(catalogue_keep_text(load->catalogue, file, &kept, err));
    TRY(text_map_add(&load->shards, kept, 0, NULL, err));
    return load_shard(load, kept.data, index_path, err);
}

static enum status check_mapped(struct hf_load *load, struct text tensor, struct text file, const char *index_path, struct error *err) {
    if (catalogue_find(load->catalogue, tensor))
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT,
                     "%s: says that tensor %.*s is in %.*s, which does not hold it: a file is of another model or damaged", index_path,
                     SHOWN(tensor), SHOWN(file));
}

static enum status walk_map(struct hf_load *load, struct json_walk *walk, mapping_function function, struct error *err) {
    for (;;) {
        bool more;
        struct text tensor;
        json_t *value;
        TRY(json_walk_next(walk, &more, &tensor, err));
        if (!more)
            return STATUS_OK;
        TRY(json_walk_value(walk, &value, err));
        enum status status;
        if (json_is_string(value))
            status = function(load, tensor, (struct text){json_string_value(value), json_string_length(value)}, walk->source, err);
        else
            status =
                error_set(err, STATUS_CORRUPT, "%s: weight_map/%.*s is no file name; the file is damaged", walk->source, SHOWN(tensor));
        json_decref(value);
        TRY(status);
    }
}

/* Position behind the name "weight_map" and its colon. */
static enum status find_map(struct text text, const char *path, size_t *position, struct error *err) {
    struct json_walk walk;
    enum status status = json_walk_open(&walk, text, 0, path, err);
    while (status == STATUS_OK) {
        bool more = false;
        struct text key;
        json_t *value = NULL;
        status = json_walk_next(&walk, &more, &key, err);
        if (status == STATUS_OK && !more)
            status = error_set(err, STATUS_CORRUPT, "%s: has no weight_map; the file is damaged", path);
        if (status != STATUS_OK)
            break;
        if (text_is(key, "weight_map")) {
            *position = walk.position;
            break;
        }
        status = json_walk_value(&walk, &value, err);
        json_decref(value);
    }
    json_walk_close(&walk);
    return status;
}

static enum status each_mapped(struct hf_load *load, struct text index, const char *path, mapping_function function, struct error *err) {
    size_t position = 0;
    struct json_walk walk;
    CHECK(index.data);
    TRY(find_map(index, path, &position, err));
    TRY(json_walk_open(&walk, index, position, path, err));
    enum status status = walk_map(load, &walk, function, err);
    json_walk_close(&walk);
    return status;
}

static enum status load_index(struct hf_load *load, struct error *err) {
    char path[CATALOGUE_PATH_BYTES];
    struct text index;
    TRY(file_join(load->directory, INDEX_NAME, path, sizeof path, err));
    TRY(file_read(path, INDEX_MAX_BYTES, &index, err));
    enum status status = text_map_init(&load->shards, 64, err);
    if (status == STATUS_OK)
        status = each_mapped(load, index, path, open_mapped, err);
    if (status == STATUS_OK)
        status = each_mapped(load, index, path, check_mapped, err);
    text_map_deinit(&load->shards);
    memory_free((char *)index.data);
    return status;
}

/* ---- without ---- */

static enum status load_set(struct hf_load *load, const struct split_name *any, const char *any_name, struct error *err) {
    for (uint32_t number = 1; number <= any->count; number++) {
        char name[CATALOGUE_PATH_BYTES];
        TRY(split_name_format(any, number, name, sizeof name, err));
        TRY(load_shard(load, name, any_name, err));
    }
    return STATUS_OK;
}

/* Files that lie beside models and are none: adapters, the originals of Mistral and Meta. */
static bool is_beside(const char *name) {
    struct text text = text_of(name);
    return text_starts_with(text, TEXT("consolidated")) || text_starts_with(text, TEXT("adapter"));
}

/* The only file that can be meant, or an error that lists the choice. */
static enum status choose_only(const struct directory_list *list, const char *directory, const char **out, struct error *err) {
    const char *found = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->names[i];
        if (!text_ends_with(text_of(name), TEXT(SAFETENSORS)) || is_beside(name))
            continue;
        if (found)
            return error_set(err, STATUS_NOT_FOUND,
                             "%s: holds %s and %s but no " INDEX_NAME
                             " and no model.safetensors: which files make the model is not known; download "
                             "the index",
                             directory, found, name);
        found = name;
    }
    if (!found)
        return error_set(err, STATUS_NOT_FOUND, "%s: holds no model.safetensors; download it, or give a folder with one", directory);
    *out = found;
    return STATUS_OK;
}

static enum status load_without_index(struct hf_load *load, const struct directory_list *list, struct error *err) {
    const char *only = NULL;
    if (is_listed(list, "model" SAFETENSORS))
        return load_shard(load, "model" SAFETENSORS, "the folder", err);
    for (size_t i = 0; i < list->count; i++) {
        struct split_name name;
        if (split_name_parse(list->names[i], SAFETENSORS, &name) && text_is(name.prefix, "model"))
            return load_set(load, &name, list->names[i], err);
    }
    TRY(choose_only(list, load->directory, &only, err));
    return load_shard(load, only, "the folder", err);
}

enum status hf_model_open(struct catalogue *catalogue, struct file_set *files, const char *directory, const struct directory_list *list,
                          struct error *err) {
    struct hf_load load = {.catalogue = catalogue, .files = files, .directory = directory};
    CHECK(hf_model_present(list));
    TRY(hf_config_load(catalogue, directory, err));
    return is_listed(list, INDEX_NAME) ? load_index(&load, err) : load_without_index(&load, list, err);
}
