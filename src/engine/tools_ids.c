/*
 * tools_ids: include/sluice_tools.h: ids and logits as safetensors files.
 */
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "format/safetensors_write.h"
#include "sluice_tools.h"

#define IDS_MAX (1u << 24)

static enum status read_ids(const char *path, struct file_set *files, uint32_t **ids, size_t *count, struct error *err) {
    struct catalogue *catalogue = NULL;
    TRY(catalogue_open(path, files, &catalogue, err));
    const struct tensor_entry *tensor = catalogue_find(catalogue, TEXT("input_ids"));
    enum status status = STATUS_OK;
    if (!tensor || tensor->dtype != DTYPE_I32 || tensor->rank != 1 || tensor->shape[0] == 0 || tensor->shape[0] > IDS_MAX)
        status = error_set(err, STATUS_INVALID, "%s: needs an int32 tensor 'input_ids' of one dimension, with 1 to %u ids", path, IDS_MAX);
    if (status == STATUS_OK) {
        *count = tensor->shape[0];
        *ids = memory_alloc_array(*count, sizeof **ids);
        status = *ids ? file_set_read(files, tensor->file, tensor->offset_bytes, *ids, *count * sizeof **ids, err)
                      : error_set(err, STATUS_NO_MEMORY, "no memory for %zu ids", *count);
    }
    for (size_t i = 0; status == STATUS_OK && i < *count; i++)
        if ((*ids)[i] > INT32_MAX)
            status = error_set(err, STATUS_INVALID, "%s: id %zu of input_ids is negative", path, i);
    catalogue_close(catalogue);
    return status;
}

sluice_status sluice_tool_read_ids(const char *path, uint32_t **ids, size_t *count, sluice_error *error) {
    struct error err = {0};
    struct file_set *files = NULL;
    *ids = NULL;
    *count = 0;
    enum status status = file_set_create(&files, &err);
    if (status == STATUS_OK)
        status = read_ids(path, files, ids, count, &err);
    file_set_destroy(files);
    if (status != STATUS_OK) {
        memory_free(*ids);
        *ids = NULL;
    }
    return engine_report(status, &err, error);
}

struct logits_file {
    struct safetensors_writer *writer;
    uint32_t vocab;
    enum status status;
    struct error err;
};

static bool append_logits(void *context, uint32_t position, const float *logits) {
    struct logits_file *file = context;
    (void)position;
    file->status = safetensors_writer_append(file->writer, logits, (uint64_t)file->vocab * sizeof *logits, &file->err);
    return file->status == STATUS_OK;
}

sluice_status sluice_tool_write_logits(sluice_model *model, const uint32_t *ids, size_t count, const char *out_path, sluice_error *error) {
    struct logits_file file = {.vocab = model->model->plan.vocab};
    const uint64_t shape[2] = {count, file.vocab};
    file.status = safetensors_writer_create(out_path, &file.writer, &file.err);
    if (file.status == STATUS_OK)
        file.status = safetensors_writer_declare(file.writer, "logits", "F32", shape, 2, &file.err);
    if (file.status == STATUS_OK) {
        sluice_error run = {0};
        sluice_status status = sluice_logits(model, ids, count, append_logits, &file, &run);
        if (status != SLUICE_OK && file.status == STATUS_OK)
            file.status = error_set(&file.err, (enum status)status, "%s", run.text);
    }
    if (file.status == STATUS_OK)
        file.status = safetensors_writer_finish(file.writer, &file.err);
    else
        safetensors_writer_abandon(file.writer);
    return engine_report(file.status, &file.err, error);
}
