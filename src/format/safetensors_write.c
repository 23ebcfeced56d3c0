/*
 * safetensors_write: the header is made of the declarations when the first data comes; data goes straight to the file.
 */
#include "format/safetensors_write.h"

#include <inttypes.h>
#include <string.h>

#include <jansson.h>

#include "base/check.h"
#include "base/file_writer.h"
#include "base/memory.h"

#define DATA_ALIGNMENT 8 /* of the first data byte, by spaces behind the header */

struct safetensors_writer {
    struct file_writer *file;
    json_t *header;
    bool header_written;
    uint64_t declared_bytes, written_bytes; /* of data */
    char path[];                            /* for messages */
};

enum status safetensors_writer_create(const char *path, struct safetensors_writer **out, struct error *err) {
    CHECK(path);
    *out = NULL;
    size_t path_bytes = strlen(path) + 1;
    struct safetensors_writer *w = memory_alloc(sizeof *w + path_bytes);
    if (!w)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    memcpy(w->path, path, path_bytes);
    w->header = json_object();
    enum status status =
        w->header ? file_writer_create(path, &w->file, err) : error_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    if (status != STATUS_OK) {
        json_decref(w->header);
        memory_free(w);
        return status;
    }
    *out = w;
    return STATUS_OK;
}

enum status safetensors_writer_declare(struct safetensors_writer *w, const char *name, const char *type, const uint64_t *shape,
                                       uint32_t rank, struct error *err) {
    CHECK(!w->header_written && name && type && (strcmp(type, "F32") == 0 || strcmp(type, "I32") == 0));
    uint64_t elements = 1, bytes, end;
    json_t *dimensions = json_array();
    bool ok = dimensions != NULL;
    for (uint32_t i = 0; i < rank && ok; i++)
        ok = size_multiply(elements, shape[i], &elements) && elements <= INT64_MAX &&
             json_array_append_new(dimensions, json_integer((json_int_t)shape[i])) == 0;
    ok = ok && size_multiply(elements, 4, &bytes) && size_add(w->declared_bytes, bytes, &end) && end <= INT64_MAX;
    if (!ok || json_object_get(w->header, name)) {
        json_decref(dimensions);
        return error_set(err, STATUS_INVALID, "%s: tensor %s cannot be declared: it is too large, or a second one of its name", w->path,
                         name);
    }
    json_t *entry =
        json_pack("{s:s,s:o,s:[I,I]}", "dtype", type, "shape", dimensions, "data_offsets", (json_int_t)w->declared_bytes, (json_int_t)end);
    if (!entry || json_object_set_new(w->header, name, entry) != 0)
        return error_set(err, STATUS_INVALID, "%s: tensor %s cannot be declared: its name is no UTF-8, or memory is out", w->path, name);
    w->declared_bytes = end;
    return STATUS_OK;
}

static enum status write_header(struct safetensors_writer *w, struct error *err) {
    static const char spaces[DATA_ALIGNMENT + 1] = "        ";
    char *text = json_dumps(w->header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (!text)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to write its header", w->path);
    uint64_t text_bytes = strlen(text), header_bytes = size_round_up(text_bytes, DATA_ALIGNMENT);
    enum status status = file_writer_append(w->file, &header_bytes, sizeof header_bytes, err);
    if (status == STATUS_OK)
        status = file_writer_append(w->file, text, text_bytes, err);
    if (status == STATUS_OK)
        status = file_writer_append(w->file, spaces, header_bytes - text_bytes, err);
    memory_free(text);
    w->header_written = status == STATUS_OK;
    return status;
}

enum status safetensors_writer_append(struct safetensors_writer *w, const void *data, uint64_t size_bytes, struct error *err) {
    CHECK(data || size_bytes == 0);
    CHECK(size_bytes <= w->declared_bytes - w->written_bytes);
    if (!w->header_written)
        TRY(write_header(w, err));
    TRY(file_writer_append(w->file, data, size_bytes, err));
    w->written_bytes += size_bytes;
    return STATUS_OK;
}

static enum status finish(struct safetensors_writer *w, struct error *err) {
    if (w->written_bytes != w->declared_bytes)
        return error_set(err, STATUS_INTERNAL, "%s: %" PRIu64 " bytes of tensors were declared, %" PRIu64 " came", w->path,
                         w->declared_bytes, w->written_bytes);
    if (!w->header_written)
        TRY(write_header(w, err));
    struct file_writer *file = w->file;
    w->file = NULL;
    return file_writer_finish(file, err);
}

enum status safetensors_writer_finish(struct safetensors_writer *w, struct error *err) {
    enum status status = finish(w, err);
    safetensors_writer_abandon(w); /* whatever is left */
    return status;
}

void safetensors_writer_abandon(struct safetensors_writer *w) {
    if (!w)
        return;
    file_writer_abandon(w->file);
    json_decref(w->header);
    memory_free(w);
}
