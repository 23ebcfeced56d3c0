/* pack_directory: see pack_directory.h. */
#include "pack/pack_directory.h"

#include <string.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/directory_list.h"

#define COPY_MAX_BYTES ((size_t)1 << 30)
#define GROUP_SIZE 64

bool pack_is_of_weights(const char *name) {
    static const char *const endings[] = {".safetensors", ".safetensors.index.json", ".gguf", ".bin", ".pth", ".pt", ".partial", ".h5",
                                          ".onnx"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (text_ends_with(text_of(name), text_of(endings[i])))
            return true;
    return name[0] == '.' || strcmp(name, CHECKSUMS_NAME) == 0;
}

/* config.json with what MLX's loaders look for, and without what the weights were before. */
static enum status edit_config(struct text *text, const char *path, const struct pack_type *type, bool keeps_fp8, struct error *err) {
    json_t *config;
    TRY(json_read_file(path, COPY_MAX_BYTES, &config, err));
    static const char *const keys[] = {"quantization", "quantization_config"};
    bool made = true;
    for (size_t i = 0; i < (keeps_fp8 ? 1u : 2u); i++)
        made = made && json_object_set_new(
                           config, keys[i],
                           json_pack("{s:i,s:i,s:s}", "group_size", GROUP_SIZE, "bits", (int)type->affine_bits, "mode", "affine")) == 0;
    char *edited = made ? json_dumps(config, JSON_INDENT(2)) : NULL;
    json_decref(config);
    if (!edited)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to change it", path);
    memory_free((char *)text->data);
    *text = text_of(edited);
    return STATUS_OK;
}

static enum status copy_file(const struct pack_plan *plan, const char *folder, const char *name, json_t *sums, struct error *err) {
    char from[4096], to[4096];
    struct text text;
    TRY(file_join(catalogue_directory(plan->model->catalogue), name, from, sizeof from, err));
    TRY(file_join(folder, name, to, sizeof to, err));
    if (file_is_directory(from))
        return STATUS_OK;
    TRY(file_read(from, COPY_MAX_BYTES, &text, err));
    enum status status = STATUS_OK;
    if (plan->encoded && strcmp(name, "config.json") == 0)
        status = edit_config(&text, from, plan->type, plan->kept_fp8, err);
    if (status == STATUS_OK)
        status = file_write(to, text.data, text.size_bytes, err);
    if (status == STATUS_OK)
        status = checksums_add(sums, "files", text_of(name), XXH3_64bits(text.data, text.size_bytes), err);
    memory_free((char *)text.data);
    return status;
}

enum status pack_directory_copy(const struct pack_plan *plan, const char *folder, json_t *sums, struct error *err) {
    struct directory_list list;
    CHECK(catalogue_world(plan->model->catalogue) == CATALOGUE_HF);
    TRY(directory_list_init(&list, catalogue_directory(plan->model->catalogue), err));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < list.count && status == STATUS_OK; i++)
        if (!pack_is_of_weights(list.names[i]))
            status = copy_file(plan, folder, list.names[i], sums, err);
    directory_list_deinit(&list);
    return status;
}
