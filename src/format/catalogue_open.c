/*
 * catalogue_open: from a path to the reader that wants it.
 */
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "format/catalogue_internal.h"
#include "format/directory_list.h"
#include "format/gguf.h"
#include "format/hf_model.h"
#include "format/safetensors.h"
#include "format/sniff.h"
#include "format/split_files.h"

/* Folder of a file: "." for a bare name. */
static enum status folder_of(const char *path, char *buffer, size_t buffer_bytes, struct error *err) {
    CHECK(buffer_bytes > 1);
    const char *slash = strrchr(path, '/');
    size_t length = !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= buffer_bytes)
        return error_set(err, STATUS_INVALID, "a path of %zu bytes is too long", strlen(path));
    memcpy(buffer, slash ? path : ".", slash ? length : 1);
    buffer[slash ? length : 1] = 0;
    return STATUS_OK;
}

/* `file` of `files` is open and of this kind; `given` is what the user gave. */
static enum status open_file(struct catalogue *catalogue, struct file_set *files, uint32_t file, enum sniff_kind kind, struct error *err) {
    switch (kind) {
    case SNIFF_GGUF:
        return gguf_open(catalogue, files, file, file_set_path(files, file), err);
    case SNIFF_SAFETENSORS:
        return safetensors_load(catalogue, files, file, err);
    case SNIFF_UNKNOWN:
        break;
    }
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s: is neither GGUF nor safetensors; give a .gguf file or the folder of a Hugging Face or MLX model",
                     file_set_path(files, file));
}

static enum status open_path(const char *path, const char *given, struct file_set *files, struct catalogue **out, struct error *err) {
    char folder[CATALOGUE_PATH_BYTES];
    uint32_t file;
    enum sniff_kind kind;
    TRY(file_set_add(files, path, &file, err));
    TRY(sniff_kind(files, file, &kind, err));
    TRY(folder_of(path, folder, sizeof folder, err));
    TRY(catalogue_create(kind == SNIFF_SAFETENSORS ? CATALOGUE_HF : CATALOGUE_GGUF, given, folder, out, err));
    return open_file(*out, files, file, kind, err);
}

/* ---- folders ---- */

static bool is_gguf(const char *name) {
    return text_ends_with(text_of(name), TEXT(".gguf"));
}
/* The vision part that is published beside a model. */
static bool is_projector(const char *name) {
    return text_starts_with(text_of(name), TEXT("mmproj"));
}

static bool same_set(const char *a, const char *b) {
    struct split_name x, y;
    return split_name_parse(a, ".gguf", &x) && split_name_parse(b, ".gguf", &y) && x.count == y.count && text_equal(x.prefix, y.prefix);
}

/* Name of the one GGUF model in the folder, NULL when there is none. */
static enum status choose_gguf(const struct directory_list *list, const char *directory, const char **out, struct error *err) {
    const char *found = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->names[i];
        if (!is_gguf(name) || is_projector(name) || (found && same_set(found, name)))
            continue;
        if (found)
            return error_set(err, STATUS_INVALID, "%s: holds several GGUF models (%s, %s ...); give the path of one", directory, found,
                             name);
        found = name;
    }
    *out = found;
    return STATUS_OK;
}

/* What the folder may have been meant to be. */
static enum status no_model(const struct directory_list *list, const char *directory, struct error *err) {
    for (size_t i = 0; i < list->count; i++) {
        struct text name = text_of(list->names[i]);
        if (text_ends_with(name, TEXT(".safetensors.partial")))
            return error_set(err, STATUS_INVALID, "%s: holds an unfinished pack (%s); give the same sluice pack again, it goes on",
                             directory, list->names[i]);
        if (text_ends_with(name, TEXT(".bin")) || text_ends_with(name, TEXT(".pth")) || text_ends_with(name, TEXT(".pt")))
            return error_set(
                err, STATUS_UNSUPPORTED,
                "%s: holds a PyTorch checkpoint (%s): those can run code and are not read; get the model as safetensors or GGUF", directory,
                list->names[i]);
    }
    return error_set(err, STATUS_NOT_FOUND, "%s: the folder holds no model (no .gguf, no .safetensors among %zu names)", directory,
                     list->count);
}

static enum status open_listed(const char *directory, const struct directory_list *list, struct file_set *files, struct catalogue **out,
                               struct error *err) {
    const char *name = NULL;
    char path[CATALOGUE_PATH_BYTES];
    bool has_config;
    CHECK(!*out);
    TRY(file_join(directory, "config.json", path, sizeof path, err));
    has_config = file_exists(path);
    if (!has_config || !hf_model_present(list)) {
        TRY(choose_gguf(list, directory, &name, err));
        if (name) {
            TRY(file_join(directory, name, path, sizeof path, err));
            return open_path(path, directory, files, out, err);
        }
    }
    if (!hf_model_present(list))
        return no_model(list, directory, err);
    TRY(catalogue_create(CATALOGUE_HF, directory, directory, out, err));
    return hf_model_open(*out, files, directory, list, err);
}

static enum status open_directory(const char *directory, struct file_set *files, struct catalogue **out, struct error *err) {
    struct directory_list list;
    TRY(directory_list_init(&list, directory, err));
    enum status status = open_listed(directory, &list, files, out, err);
    directory_list_deinit(&list);
    return status;
}

enum status catalogue_open(const char *path, struct file_set *files, struct catalogue **out, struct error *err) {
    CHECK(path && files);
    *out = NULL;
    enum status status = file_is_directory(path) ? open_directory(path, files, out, err) : open_path(path, path, files, out, err);
    if (status == STATUS_OK)
        status = catalogue_finish(*out, files, err);
    if (status != STATUS_OK) {
        catalogue_close(*out);
        *out = NULL;
    }
    return status;
}
