/*
 * safetensors_write: the header is made of the declarations when the first data comes; data goes straight to the file.
 */
#include "format/safetensors_write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/check.h"
#include "base/memory.h"

#define PATH_BYTES_MAX 4096
#define DATA_ALIGNMENT 8 /* of the first data byte, by spaces behind the header */

struct safetensors_writer {
    char path[PATH_BYTES_MAX], partial[PATH_BYTES_MAX];
    int fd;
    json_t *header;
    bool header_written;
    uint64_t declared_bytes, written_bytes; /* of data */
};

enum status safetensors_writer_create(const char *path, struct safetensors_writer **out, struct error *err) {
    CHECK(path);
    *out = NULL;
    struct safetensors_writer *w = memory_alloc(sizeof *w);
    if (!w)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    w->fd = -1;
    enum status status = STATUS_OK;
    int path_bytes = snprintf(w->path, sizeof w->path, "%s", path),
        partial_bytes = snprintf(w->partial, sizeof w->partial, "%s.partial", path);
    if (path_bytes < 1 || partial_bytes >= PATH_BYTES_MAX)
        status = error_set(err, STATUS_INVALID, "a path of %zu bytes cannot be written to", strlen(path));
    else if (!(w->header = json_object()))
        status = error_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    else if ((w->fd = open(w->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
        status = error_set(err, STATUS_IO, "%s: cannot write: %s", w->partial, strerror(errno));
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

static enum status write_bytes(struct safetensors_writer *w, const void *data, uint64_t size_bytes, struct error *err) {
    uint64_t done = 0;
    CHECK(w->fd >= 0);
    while (done < size_bytes) {
        ssize_t count = write(w->fd, (const char *)data + done, (size_t)(size_bytes - done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return error_set(err, STATUS_IO, "%s: write failed: %s", w->partial, count < 0 ? strerror(errno) : "the system took no bytes");
        done += (uint64_t)count;
    }
    return STATUS_OK;
}

static enum status write_header(struct safetensors_writer *w, struct error *err) {
    static const char spaces[DATA_ALIGNMENT + 1] = "        ";
    char *text = json_dumps(w->header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (!text)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to write its header", w->path);
    uint64_t text_bytes = strlen(text), header_bytes = size_round_up(text_bytes, DATA_ALIGNMENT);
    enum status status = write_bytes(w, &header_bytes, sizeof header_bytes, err);
    if (status == STATUS_OK)
        status = write_bytes(w, text, text_bytes, err);
    if (status == STATUS_OK)
        status = write_bytes(w, spaces, header_bytes - text_bytes, err);
    memory_free(text);
    w->header_written = status == STATUS_OK;
    return status;
}

enum status safetensors_writer_append(struct safetensors_writer *w, const void *data, uint64_t size_bytes, struct error *err) {
    CHECK(data || size_bytes == 0);
    CHECK(size_bytes <= w->declared_bytes - w->written_bytes);
    if (!w->header_written)
        TRY(write_header(w, err));
    TRY(write_bytes(w, data, size_bytes, err));
    w->written_bytes += size_bytes;
    return STATUS_OK;
}

static enum status finish(struct safetensors_writer *w, struct error *err) {
    if (w->written_bytes != w->declared_bytes)
        return error_set(err, STATUS_INTERNAL, "%s: %" PRIu64 " bytes of tensors were declared, %" PRIu64 " came", w->path,
                         w->declared_bytes, w->written_bytes);
    if (!w->header_written)
        TRY(write_header(w, err));
    if (fsync(w->fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        return error_set(err, STATUS_IO, "%s: sync failed: %s", w->partial, strerror(errno));
    if (rename(w->partial, w->path) != 0)
        return error_set(err, STATUS_IO, "%s: cannot rename to %s: %s", w->partial, w->path, strerror(errno));
    return STATUS_OK;
}

static void free_writer(struct safetensors_writer *w) {
    close(w->fd);
    json_decref(w->header);
    memory_free(w);
}

enum status safetensors_writer_finish(struct safetensors_writer *w, struct error *err) {
    enum status status = finish(w, err);
    if (status != STATUS_OK)
        (void)unlink(w->partial);
    free_writer(w);
    return status;
}

void safetensors_writer_abandon(struct safetensors_writer *w) {
    if (!w)
        return;
    (void)unlink(w->partial);
    free_writer(w);
}
