/*
 * tools_dump: include/sluice_tools.h: decoded copies of tensors.
 */
#include <string.h>

#include "base/memory.h"
#include "engine/engine_internal.h"
#include "format/safetensors_write.h"
#include "sluice_tools.h"

#define DECODE_ELEMENTS (1u << 16) /* decoded at a time; a multiple of every block */

static enum status dump_tensor(const struct file_set *files, const struct tensor_entry *tensor, struct safetensors_writer *writer,
                               uint8_t *raw, float *values, struct error *err) {
    const struct dtype_info *info = dtype_info(tensor->dtype);
    uint64_t total = tensor->size_bytes / info->block_bytes * info->block_elements, offset = tensor->offset_bytes;
    for (uint64_t done = 0; done < total;) {
        uint64_t count = total - done < DECODE_ELEMENTS ? total - done : DECODE_ELEMENTS;
        count -= count % info->block_elements;
        uint64_t bytes = count / info->block_elements * info->block_bytes;
        TRY(file_set_read(files, tensor->file, offset, raw, bytes, err));
        info->decode(raw, values, count);
        TRY(safetensors_writer_append(writer, values, count * sizeof *values, err));
        done += count;
        offset += bytes;
    }
    return STATUS_OK;
}

static enum status declare(const struct catalogue *catalogue, const struct tensor_entry *tensor, struct safetensors_writer *writer,
                           struct error *err) {
    const struct dtype_info *info = dtype_info(tensor->dtype);
    if (!info->decode)
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s: format %s cannot be decoded by this version", catalogue_path(catalogue),
                         TEXT_ARGUMENTS(tensor->name), info->name);
    char *name = memory_copy_text(tensor->name.data, tensor->name.size_bytes);
    enum status status = name ? safetensors_writer_declare(writer, name, "F32", tensor->shape, tensor->rank, err)
                              : error_set(err, STATUS_NO_MEMORY, "no memory for a tensor's name");
    memory_free(name);
    return status;
}

struct selection {
    const struct catalogue *catalogue;
    const char *const *names;
    size_t name_count;
};

static const struct tensor_entry *selected(const struct selection *s, size_t index) {
    return s->name_count ? catalogue_find(s->catalogue, text_of(s->names[index])) : catalogue_tensor(s->catalogue, index);
}

static enum status dump(const struct selection *s, const struct file_set *files, const char *out_path, struct error *err) {
    size_t count = s->name_count ? s->name_count : (size_t)catalogue_tensor_count(s->catalogue);
    for (size_t i = 0; i < count; i++)
        if (!selected(s, i))
            return error_set(err, STATUS_NOT_FOUND, "%s has no tensor '%s' (inspect --tensors lists them)", catalogue_path(s->catalogue),
                             s->names[i]);
    struct safetensors_writer *writer;
    uint8_t *raw = memory_alloc_array(DECODE_ELEMENTS, 8);
    float *values = memory_alloc_array(DECODE_ELEMENTS, sizeof *values);
    enum status status = raw && values ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory to decode tensors");
    if (status == STATUS_OK)
        status = safetensors_writer_create(out_path, &writer, err);
    if (status == STATUS_OK) {
        for (size_t i = 0; i < count && status == STATUS_OK; i++)
            status = declare(s->catalogue, selected(s, i), writer, err);
        for (size_t i = 0; i < count && status == STATUS_OK; i++)
            status = dump_tensor(files, selected(s, i), writer, raw, values, err);
        if (status == STATUS_OK)
            status = safetensors_writer_finish(writer, err);
        else
            safetensors_writer_abandon(writer);
    }
    memory_free(raw);
    memory_free(values);
    return status;
}

sluice_status sluice_tool_dump(const char *path, const char *const *names, size_t name_count, const char *out_path, sluice_error *error) {
    struct error err = {0};
    struct file_set *files = NULL;
    struct catalogue *catalogue = NULL;
    enum status status = file_set_create(&files, &err);
    if (status == STATUS_OK)
        status = catalogue_open(path, files, &catalogue, &err);
    if (status == STATUS_OK) {
        struct selection selection = {catalogue, names, name_count};
        status = dump(&selection, files, out_path, &err);
    }
    catalogue_close(catalogue);
    file_set_destroy(files);
    return engine_report(status, &err, error);
}
