/*
 * gguf_reader: the window is refilled whole, from the cursor on.
 */
#include "format/gguf_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "format/catalogue_internal.h"

enum status gguf_reader_init(struct gguf_reader *r, const struct file_set *files, uint32_t file, struct error *err) {
    uint64_t size_bytes = file_set_size_bytes(files, file);
    *r = (struct gguf_reader){.files = files, .file = file, .part = "header"};
    r->limit_bytes = size_bytes < GGUF_HEADER_MAX_BYTES ? size_bytes : GGUF_HEADER_MAX_BYTES;
    r->window = memory_alloc(GGUF_WINDOW_BYTES);
    if (!r->window)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to read its header", file_set_path(files, file));
    return STATUS_OK;
}

void gguf_reader_deinit(struct gguf_reader *r) {
    memory_free(r->window);
    r->window = NULL;
}

const char *gguf_reader_place(const struct gguf_reader *r, char *buffer) {
    int used = snprintf(buffer, GGUF_PLACE_BYTES, "%s", r->part);
    if (r->number)
        used += snprintf(buffer + used, GGUF_PLACE_BYTES - (size_t)used, " %" PRIu64, r->number);
    CHECK(used > 0 && used < 64);
    if (r->name.data)
        snprintf(buffer + used, GGUF_PLACE_BYTES - (size_t)used, " (%.*s)", SHOWN(r->name));
    return buffer;
}

enum status gguf_reader_short(const struct gguf_reader *r, uint64_t count, struct error *err) {
    const char *path = file_set_path(r->files, r->file);
    uint64_t size_bytes = file_set_size_bytes(r->files, r->file);
    char place[GGUF_PLACE_BYTES];
    gguf_reader_place(r, place);
    if (r->limit_bytes < size_bytes)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: %s reaches past the %" PRIu64 " bytes that a header may have; the file is damaged or hostile", path, place,
                         GGUF_HEADER_MAX_BYTES);
    return error_set(err, STATUS_CORRUPT,
                     "%s: the file ends inside the header: %s needs %" PRIu64 " bytes at offset %" PRIu64 ", the file has %" PRIu64
                     " bytes: it is incomplete or damaged; download it again",
                     path, place, count, r->position, size_bytes);
}

enum status gguf_reader_take(struct gguf_reader *r, uint64_t count, const uint8_t **out, struct error *err) {
    CHECK(count <= GGUF_WINDOW_BYTES);
    ASSERT(r->position <= r->limit_bytes);
    if (count > gguf_reader_left(r))
        return gguf_reader_short(r, count, err);
    if (r->position < r->window_begin || r->position + count > r->window_end) {
        uint64_t fill = gguf_reader_left(r);
        if (fill > GGUF_WINDOW_BYTES)
            fill = GGUF_WINDOW_BYTES;
        TRY(file_set_read(r->files, r->file, r->position, r->window, fill, err));
        r->window_begin = r->position;
        r->window_end = r->position + fill;
    }
    ASSERT(r->window_begin <= r->position && r->position + count <= r->window_end);
    *out = r->window + (r->position - r->window_begin);
    r->position += count;
    return STATUS_OK;
}

enum status gguf_reader_copy(struct gguf_reader *r, void *dst, uint64_t count, struct error *err) {
    if (count > GGUF_WINDOW_BYTES) {
        if (count > gguf_reader_left(r))
            return gguf_reader_short(r, count, err);
        TRY(file_set_read(r->files, r->file, r->position, dst, count, err));
        r->position += count;
        return STATUS_OK;
    }
    const uint8_t *bytes;
    TRY(gguf_reader_take(r, count, &bytes, err));
    if (count)
        memcpy(dst, bytes, (size_t)count);
    return STATUS_OK;
}

enum status gguf_reader_skip(struct gguf_reader *r, uint64_t count, struct error *err) {
    if (count > gguf_reader_left(r))
        return gguf_reader_short(r, count, err);
    r->position += count;
    return STATUS_OK;
}

enum status gguf_reader_u32(struct gguf_reader *r, uint32_t *out, struct error *err) {
    return gguf_reader_copy(r, out, sizeof *out, err);
}
enum status gguf_reader_u64(struct gguf_reader *r, uint64_t *out, struct error *err) {
    return gguf_reader_copy(r, out, sizeof *out, err);
}
