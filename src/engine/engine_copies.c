/*
 * engine_copies: include/sluice.h, opening: further copies of a model's files.
 */
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "io/file_copy.h"

#define PATH_BYTES 4096

/* Where the files of a copy lie. */
struct place {
    const char *given;
    char folder[PATH_BYTES]; /* or "": `given` is the only file */
};

static enum status find_place(const struct sluice_model *m, const char *given, struct place *place, struct error *err) {
    place->given = given;
    size_t length = strlen(given);
    const char *slash = strrchr(given, '/');
    if (length >= sizeof place->folder)
        return error_set(err, STATUS_INVALID, "a path of %zu bytes is too long", length);
    if (file_is_directory(given))
        memcpy(place->folder, given, length + 1);
    else if (m->file_count == 1)
        place->folder[0] = 0;
    else if (!slash)
        memcpy(place->folder, ".", 2);
    else
        memcpy(stpncpy(place->folder, given, slash == given ? 1 : (size_t)(slash - given)), "", 1);
    return STATUS_OK;
}

/* The file's name inside of the model's folder. */
static const char *inner_name(const struct sluice_model *m, uint32_t file) {
    const char *path = file_set_path(m->files, file), *directory = catalogue_directory(m->model->catalogue), *slash = strrchr(path, '/');
    size_t length = strlen(directory);
    if (strncmp(path, directory, length) == 0 && (path[length] == '/' || (length > 0 && path[length - 1] == '/'))) {
        path += length;
        return path + strspn(path, "/");
    }
    return slash ? slash + 1 : path;
}

static uint64_t header_bytes(const struct sluice_model *m, uint32_t file) {
    const struct catalogue *catalogue = m->model->catalogue;
    uint64_t begin = file_set_size_bytes(m->files, file);
    for (uint64_t i = 0; i < catalogue_tensor_count(catalogue); i++) {
        const struct tensor_entry *tensor = catalogue_tensor(catalogue, i);
        if (tensor->file == file && tensor->offset_bytes < begin)
            begin = tensor->offset_bytes;
    }
    return begin;
}

static enum status add_file(struct sluice_model *m, const struct place *place, uint32_t file, uint32_t *copy, struct error *err) {
    char path[PATH_BYTES];
    const char *name = place->given;
    if (place->folder[0]) {
        TRY(file_join(place->folder, inner_name(m, file), path, sizeof path, err));
        name = path;
    }
    enum status status = file_set_add_copy(m->files, file, name, copy, err);
    if (status == STATUS_NOT_FOUND)
        return error_set(err, status, "%s: there is no such file; a copy of %s has all its %u files, under the same names", name,
                         catalogue_path(m->model->catalogue), m->file_count);
    TRY(status);
    return file_copy_check(m->files, file, *copy, header_bytes(m, file), err);
}

static enum status add_copy(struct sluice_model *m, const char *given, struct error *err) {
    struct place place;
    bool other = false;
    if (m->loaded || m->draft_model)
        return error_set(err, STATUS_INVALID, "%s: copies are named right after the model is opened", given);
    TRY(find_place(m, given, &place, err));
    for (uint32_t file = 0; file < m->file_count; file++) {
        uint32_t copy;
        TRY(add_file(m, &place, file, &copy, err));
        other = other || !file_set_same(m->files, file, copy);
    }
    if (!other)
        return error_set(err, STATUS_INVALID, "%s: is the model itself; name a copy on another disk", given);
    return STATUS_OK;
}

sluice_status sluice_add_copy(sluice_model *m, const char *path, sluice_error *error) {
    struct error err = {0};
    enum status status = path && *path ? add_copy(m, path, &err) : error_set(&err, STATUS_INVALID, "the path of a copy is empty");
    return engine_report(status, &err, error);
}
