/*
 * catalogue: tensors and metadata in growing tables with an index by name, and the checks that hold for both worlds.
 */
#include "format/catalogue_internal.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/text_map.h"

#define TEXT_LIMIT_BYTES ((size_t)4 << 30) /* of all names and texts; readers refuse headers far below it */
#define ENTRIES_FIRST 64
#define MAP_SLOT_BYTES 24 /* of text_map, for catalogue_size_bytes */

struct catalogue {
    enum catalogue_world world;
    char *path, *directory;
    struct arena *texts;
    struct tensor_entry *tensors;
    uint64_t tensor_count, tensor_capacity;
    struct text_map tensor_index;
    struct text *meta_keys;
    struct meta_value *meta_values;
    uint64_t meta_count, meta_capacity;
    atomic_bool *meta_asked; /* [meta_count] once finished */
    struct text_map meta_index;
    uint64_t array_bytes; /* of all meta_array blocks */
};

enum status catalogue_create(enum catalogue_world world, const char *path, const char *directory, struct catalogue **out,
                             struct error *err) {
    CHECK(path && directory);
    *out = NULL;
    struct catalogue *catalogue = memory_alloc(sizeof *catalogue);
    if (!catalogue)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for its table of contents", path);
    catalogue->world = world;
    catalogue->path = memory_copy_text(path, strlen(path));
    catalogue->directory = memory_copy_text(directory, strlen(directory));
    enum status status = catalogue->path && catalogue->directory
                             ? arena_create(TEXT_LIMIT_BYTES, &catalogue->texts, err)
                             : error_set(err, STATUS_NO_MEMORY, "%s: no memory for its table of contents", path);
    if (status == STATUS_OK)
        status = text_map_init(&catalogue->tensor_index, ENTRIES_FIRST, err);
    if (status == STATUS_OK)
        status = text_map_init(&catalogue->meta_index, ENTRIES_FIRST, err);
    if (status != STATUS_OK) {
        catalogue_close(catalogue);
        return status;
    }
    *out = catalogue;
    return STATUS_OK;
}

void catalogue_close(struct catalogue *catalogue) {
    if (!catalogue)
        return;
    catalogue_drop_arrays(catalogue, 0);
    text_map_deinit(&catalogue->tensor_index);
    text_map_deinit(&catalogue->meta_index);
    memory_free(catalogue->tensors);
    memory_free(catalogue->meta_keys);
    memory_free(catalogue->meta_values);
    memory_free(catalogue->meta_asked);
    arena_destroy(catalogue->texts);
    memory_free(catalogue->path);
    memory_free(catalogue->directory);
    memory_free(catalogue);
}

/* ---- filling ---- */

enum status catalogue_keep_room(struct catalogue *catalogue, uint64_t size_bytes, char **out, struct error *err) {
    CHECK(out);
    *out = size_bytes < TEXT_LIMIT_BYTES ? arena_alloc(catalogue->texts, (size_t)size_bytes + 1) : NULL;
    if (!*out)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for a text of %" PRIu64 " bytes", catalogue->path, size_bytes);
    return STATUS_OK;
}

enum status catalogue_keep_text(struct catalogue *catalogue, struct text text, struct text *out, struct error *err) {
    char *copy;
    TRY(catalogue_keep_room(catalogue, text.size_bytes, &copy, err));
    if (text.size_bytes)
        memcpy(copy, text.data, text.size_bytes);
    *out = (struct text){copy, text.size_bytes};
    return STATUS_OK;
}

/* Grows a table that holds *capacity elements to at least `needed`. */
static enum status grow(void **table, uint64_t capacity, uint64_t element_bytes, struct error *err) {
    void *grown = capacity < UINT32_MAX ? memory_resize(*table, (size_t)capacity, (size_t)element_bytes) : NULL;
    if (!grown)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a table of %" PRIu64 " entries", capacity);
    *table = grown;
    return STATUS_OK;
}

enum status catalogue_reserve_tensors(struct catalogue *catalogue, uint64_t count, struct error *err) {
    uint64_t needed;
    ASSERT(catalogue->tensor_count <= catalogue->tensor_capacity);
    if (!size_add(catalogue->tensor_count, count, &needed))
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " tensors", count);
    if (needed <= catalogue->tensor_capacity)
        return STATUS_OK;
    if (needed < catalogue->tensor_capacity * 2)
        needed = catalogue->tensor_capacity * 2;
    TRY(grow((void **)&catalogue->tensors, needed, sizeof *catalogue->tensors, err));
    catalogue->tensor_capacity = needed;
    return STATUS_OK;
}

/* "[2, 3]" into buffer. */
static const char *format_shape(const struct tensor_entry *tensor, char *buffer, size_t buffer_bytes) {
    size_t used = 0;
    CHECK(tensor->rank <= TENSOR_RANK_MAX && buffer_bytes >= 24 * TENSOR_RANK_MAX);
    buffer[used++] = '[';
    for (uint32_t i = 0; i < tensor->rank; i++)
        used += (size_t)snprintf(buffer + used, buffer_bytes - used, "%s%" PRIu64, i ? ", " : "", tensor->shape[i]);
    buffer[used++] = ']';
    buffer[used] = 0;
    return buffer;
}

/* Sets tensor->size_bytes, or says what is wrong with the shape. */
static enum status compute_size(struct tensor_entry *tensor, const char *path, struct error *err) {
    char shape[24 * TENSOR_RANK_MAX + 8];
    const struct dtype_info *info = dtype_info(tensor->dtype);
    uint64_t elements = 1, bound = 1; /* bound: as if empty dimensions were 1, so that no product of a part overflows either */
    for (uint32_t i = 0; i < tensor->rank; i++) {
        uint64_t length = tensor->shape[i];
        if (!size_multiply(bound, length ? length : 1, &bound) || bound > INT64_MAX / 16)
            return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s: the shape %s overflows; the file is damaged or hostile", path,
                             SHOWN(tensor->name), format_shape(tensor, shape, sizeof shape));
        elements *= length;
    }
    uint64_t row = tensor->rank ? tensor->shape[tensor->rank - 1] : 1;
    if (row % info->block_elements != 0 || !dtype_size(tensor->dtype, elements, &tensor->size_bytes))
        return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s: rows of %" PRIu64 " elements (shape %s) are not whole %s blocks of %u",
                         path, SHOWN(tensor->name), row, format_shape(tensor, shape, sizeof shape), info->name, info->block_elements);
    return STATUS_OK;
}

static enum status check_inside(const struct tensor_entry *tensor, const struct file_set *files, struct error *err) {
    uint64_t end, file_bytes = file_set_size_bytes(files, tensor->file);
    if (size_add(tensor->offset_bytes, tensor->size_bytes, &end) && end <= file_bytes)
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT,
                     "%s: tensor %.*s (%s) needs %" PRIu64 " bytes from offset %" PRIu64 ", but the file has %" PRIu64
                     " bytes: it is incomplete; download it again",
                     file_set_path(files, tensor->file), SHOWN(tensor->name), dtype_info(tensor->dtype)->name, tensor->size_bytes,
                     tensor->offset_bytes, file_bytes);
}

enum status catalogue_add_tensor(struct catalogue *catalogue, const struct file_set *files, const struct tensor_entry *tensor,
                                 struct error *err) {
    CHECK(tensor->rank <= TENSOR_RANK_MAX && tensor->name.data);
    const char *path = file_set_path(files, tensor->file);
    struct tensor_entry entry = *tensor;
    uint32_t other;
    if (text_map_find(&catalogue->tensor_index, entry.name, &other)) {
        const struct tensor_entry *first = &catalogue->tensors[other];
        return error_set(err, STATUS_CORRUPT,
                         "tensor %.*s occurs twice: in %s at offset %" PRIu64 " and in %s at offset %" PRIu64
                         "; the files do not belong together or are damaged",
                         SHOWN(entry.name), file_set_path(files, first->file), first->offset_bytes, path, entry.offset_bytes);
    }
    TRY(compute_size(&entry, path, err));
    TRY(check_inside(&entry, files, err));
    TRY(catalogue_reserve_tensors(catalogue, 1, err));
    TRY(text_map_add(&catalogue->tensor_index, entry.name, (uint32_t)catalogue->tensor_count, NULL, err));
    ASSERT(catalogue->tensor_count < catalogue->tensor_capacity);
    catalogue->tensors[catalogue->tensor_count++] = entry;
    return STATUS_OK;
}

static enum status reserve_meta(struct catalogue *catalogue, struct error *err) {
    if (catalogue->meta_count < catalogue->meta_capacity)
        return STATUS_OK;
    uint64_t capacity = catalogue->meta_capacity ? catalogue->meta_capacity * 2 : ENTRIES_FIRST;
    TRY(grow((void **)&catalogue->meta_keys, capacity, sizeof *catalogue->meta_keys, err));
    TRY(grow((void **)&catalogue->meta_values, capacity, sizeof *catalogue->meta_values, err));
    catalogue->meta_capacity = capacity;
    return STATUS_OK;
}

static enum status add_meta(struct catalogue *catalogue, struct text key, const struct meta_value *value, const char *source,
                            struct error *err) {
    uint32_t other;
    if (text_map_find(&catalogue->meta_index, key, &other))
        return error_set(err, STATUS_CORRUPT, "%s: metadata key %.*s occurs twice: as entry %u and as entry %" PRIu64, source, SHOWN(key),
                         other + 1, catalogue->meta_count + 1);
    TRY(reserve_meta(catalogue, err));
    ASSERT(catalogue->meta_count < catalogue->meta_capacity);
    TRY(text_map_add(&catalogue->meta_index, key, (uint32_t)catalogue->meta_count, NULL, err));
    catalogue->meta_keys[catalogue->meta_count] = key;
    catalogue->meta_values[catalogue->meta_count++] = *value;
    return STATUS_OK;
}

enum status catalogue_add_meta(struct catalogue *catalogue, struct text key, const struct meta_value *value, const char *source,
                               struct error *err) {
    CHECK(key.data && source);
    const struct meta_array *array = value->type == META_ARRAY ? value->array.items : NULL;
    CHECK(!array || value->array.count > 0); /* an empty array has no block, so that catalogue_drop_arrays(0) finds all */
    enum status status = add_meta(catalogue, key, value, source, err);
    if (status != STATUS_OK)
        memory_free((void *)array);
    else if (array)
        catalogue->array_bytes += sizeof *array + array->size_bytes;
    return status;
}

static int compare_places(const void *a, const void *b) {
    const struct tensor_entry *x = *(const struct tensor_entry *const *)a, *y = *(const struct tensor_entry *const *)b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return (x->offset_bytes > y->offset_bytes) - (x->offset_bytes < y->offset_bytes);
}

uint64_t catalogue_by_place(const struct catalogue *catalogue, const struct tensor_entry **order) {
    uint64_t count = 0;
    bool sorted = true;
    for (uint64_t i = 0; i < catalogue->tensor_count; i++) {
        if (catalogue->tensors[i].size_bytes == 0)
            continue;
        order[count++] = &catalogue->tensors[i];
        sorted = sorted && (count < 2 || compare_places(&order[count - 2], &order[count - 1]) <= 0);
    }
    if (!sorted)
        qsort(order, (size_t)count, sizeof *order, compare_places);
    ASSERT(count <= catalogue->tensor_count);
    return count;
}

static enum status check_overlap(const struct tensor_entry **order, uint64_t count, const struct file_set *files, struct error *err) {
    for (uint64_t i = 1; i < count; i++) {
        const struct tensor_entry *a = order[i - 1], *b = order[i];
        ASSERT(compare_places(&a, &b) <= 0);
        if (a->file == b->file && a->offset_bytes + a->size_bytes > b->offset_bytes)
            return error_set(err, STATUS_CORRUPT,
                             "%s: tensors %.*s (offset %" PRIu64 ", %" PRIu64 " bytes) and %.*s (offset %" PRIu64
                             ") share bytes; the file is damaged or hostile",
                             file_set_path(files, a->file), SHOWN(a->name), a->offset_bytes, a->size_bytes, SHOWN(b->name),
                             b->offset_bytes);
    }
    return STATUS_OK;
}

static void give_back_spare(struct catalogue *catalogue) {
    void *tensors = memory_resize(catalogue->tensors, (size_t)catalogue->tensor_count, sizeof *catalogue->tensors);
    if (!tensors)
        return; /* the larger block stays valid */
    catalogue->tensors = tensors;
    catalogue->tensor_capacity = catalogue->tensor_count;
}

enum status catalogue_finish(struct catalogue *catalogue, const struct file_set *files, struct error *err) {
    const struct tensor_entry **order = memory_alloc_array((size_t)catalogue->tensor_count, sizeof *order);
    if (!order)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to check %" PRIu64 " tensors", catalogue->path, catalogue->tensor_count);
    enum status status = check_overlap(order, catalogue_by_place(catalogue, order), files, err);
    memory_free(order);
    if (status == STATUS_OK && catalogue->tensor_count < catalogue->tensor_capacity)
        give_back_spare(catalogue);
    catalogue->meta_asked = memory_alloc_array((size_t)catalogue->meta_count + 1, sizeof *catalogue->meta_asked);
    if (status == STATUS_OK && !catalogue->meta_asked)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to look at %" PRIu64 " keys", catalogue->path, catalogue->meta_count);
    return status;
}

/* ---- reading ---- */

enum catalogue_world catalogue_world(const struct catalogue *catalogue) {
    return catalogue->world;
}
const char *catalogue_path(const struct catalogue *catalogue) {
    return catalogue->path;
}
const char *catalogue_directory(const struct catalogue *catalogue) {
    return catalogue->directory;
}
uint64_t catalogue_tensor_count(const struct catalogue *catalogue) {
    return catalogue->tensor_count;
}

const struct tensor_entry *catalogue_tensor(const struct catalogue *catalogue, uint64_t index) {
    CHECK(index < catalogue->tensor_count);
    return &catalogue->tensors[index];
}

const struct tensor_entry *catalogue_find(const struct catalogue *catalogue, struct text name) {
    uint32_t index;
    CHECK(name.data || name.size_bytes == 0);
    return text_map_find(&catalogue->tensor_index, name, &index) ? &catalogue->tensors[index] : NULL;
}

uint64_t catalogue_meta_count(const struct catalogue *catalogue) {
    return catalogue->meta_count;
}

struct text catalogue_meta_key(const struct catalogue *catalogue, uint64_t index) {
    CHECK(index < catalogue->meta_count);
    return catalogue->meta_keys[index];
}

const struct meta_value *catalogue_meta_at(const struct catalogue *catalogue, uint64_t index) {
    CHECK(index < catalogue->meta_count);
    return &catalogue->meta_values[index];
}

const struct meta_value *catalogue_meta(const struct catalogue *catalogue, const char *key) {
    uint32_t index;
    CHECK(key);
    if (!text_map_find(&catalogue->meta_index, text_of(key), &index))
        return NULL;
    if (catalogue->meta_asked)
        atomic_store_explicit(&catalogue->meta_asked[index], true, memory_order_relaxed);
    return &catalogue->meta_values[index];
}

bool catalogue_meta_was_asked(const struct catalogue *catalogue, uint64_t index) {
    CHECK(index < catalogue->meta_count && catalogue->meta_asked);
    return atomic_load_explicit(&catalogue->meta_asked[index], memory_order_relaxed);
}

void catalogue_drop_arrays(struct catalogue *catalogue, uint64_t limit) {
    for (uint64_t i = 0; i < catalogue->meta_count; i++) {
        struct meta_value *value = &catalogue->meta_values[i];
        if (value->type != META_ARRAY || value->array.count <= limit)
            continue;
        const struct meta_array *array = value->array.items;
        ASSERT(!array || catalogue->array_bytes >= sizeof *array + array->size_bytes);
        if (array)
            catalogue->array_bytes -= sizeof *array + array->size_bytes;
        memory_free((void *)array);
        *value = (struct meta_value){.type = META_NULL};
    }
}

uint64_t catalogue_size_bytes(const struct catalogue *catalogue) {
    return sizeof *catalogue + strlen(catalogue->path) + strlen(catalogue->directory) + 2 + arena_used_bytes(catalogue->texts) +
           catalogue->tensor_capacity * sizeof *catalogue->tensors +
           catalogue->meta_capacity * (sizeof *catalogue->meta_keys + sizeof *catalogue->meta_values) +
           (catalogue->tensor_index.capacity + catalogue->meta_index.capacity) * MAP_SLOT_BYTES + catalogue->array_bytes;
}
