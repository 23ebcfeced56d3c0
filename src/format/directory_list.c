/*
 * directory_list: readdir into a growing table.
 */
#include "format/directory_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define NAMES_MAX 100000

static enum status append(struct directory_list *list, const char *name, struct error *err) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        char **names = capacity <= NAMES_MAX * 2 ? memory_resize(list->names, capacity, sizeof *names) : NULL;
        if (!names)
            return error_set(err, STATUS_NO_MEMORY, "no memory for a folder of %zu names", capacity);
        list->names = names;
        list->capacity = capacity;
    }
    char *copy = memory_copy_text(name, strlen(name));
    if (!copy)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the names of a folder");
    ASSERT(list->count < list->capacity);
    list->names[list->count++] = copy;
    return STATUS_OK;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum status read_names(struct directory_list *list, DIR *stream, const char *directory, struct error *err) {
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (!entry && errno != 0)
            return error_set(err, STATUS_IO, "%s: cannot list the folder: %s", directory, strerror(errno));
        if (!entry)
            return STATUS_OK;
        if (entry->d_name[0] == '.')
            continue;
        if (list->count == NAMES_MAX)
            return error_set(err, STATUS_UNSUPPORTED, "%s: the folder has more than %d names; give the path of a model in it", directory,
                             NAMES_MAX);
        TRY(append(list, entry->d_name, err));
    }
}

enum status directory_list_init(struct directory_list *list, const char *directory, struct error *err) {
    CHECK(directory);
    *list = (struct directory_list){0};
    DIR *stream = opendir(directory);
    if (!stream)
        return error_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot list the folder: %s", directory, strerror(errno));
    enum status status = read_names(list, stream, directory, err);
    closedir(stream);
    if (status != STATUS_OK)
        directory_list_deinit(list);
    else if (list->count > 1)
        qsort(list->names, list->count, sizeof *list->names, compare_names);
    return status;
}

void directory_list_deinit(struct directory_list *list) {
    for (size_t i = 0; i < list->count; i++)
        memory_free(list->names[i]);
    memory_free(list->names);
    *list = (struct directory_list){0};
}
