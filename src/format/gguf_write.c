/* gguf_write: see gguf_write.h; the layout is told in gguf.c. */
#include "format/gguf_write.h"

#include <string.h>

#include "base/check.h"
#include "format/gguf_reader.h"
#include "format/gguf_value.h"
#include "format/sniff.h"

static enum status put(struct byte_buffer *out, const void *data, size_t size_bytes, struct error *err) {
    return byte_buffer_append(out, data, size_bytes, err);
}
static enum status put_u32(struct byte_buffer *out, uint32_t value, struct error *err) { return put(out, &value, sizeof value, err); }
static enum status put_u64(struct byte_buffer *out, uint64_t value, struct error *err) { return put(out, &value, sizeof value, err); }

static enum status put_text(struct byte_buffer *out, struct text text, struct error *err) {
    TRY(put_u64(out, text.size_bytes, err));
    return put(out, text.data, text.size_bytes, err);
}

/* The entry at the cursor; *end: behind it, *kept: whether `keep` wants it. */
static enum status pass_entry(struct gguf_reader *r, bool (*keep)(struct text key), bool *kept, struct error *err) {
    uint64_t length;
    const uint8_t *name;
    uint32_t type;
    struct meta_value ignored;
    TRY(gguf_reader_u64(r, &length, err));
    if (length >= GGUF_WINDOW_BYTES)
        return gguf_reader_short(r, length, err);
    TRY(gguf_reader_take(r, length, &name, err));
    *kept = keep((struct text){(const char *)name, (size_t)length});
    TRY(gguf_reader_u32(r, &type, err));
    return gguf_value_read(r, type, NULL, &ignored, err);
}

static enum status copy_entries(struct gguf_reader *r, bool (*keep)(struct text key), struct byte_buffer *out, uint64_t *count,
                                struct error *err) {
    uint64_t tensors, entries;
    TRY(gguf_reader_skip(r, 8, err));
    TRY(gguf_reader_u64(r, &tensors, err));
    TRY(gguf_reader_u64(r, &entries, err));
    r->part = "metadata entry";
    for (r->number = 1; r->number <= entries; r->number++) {
        uint64_t begin = r->position;
        bool kept = false;
        TRY(pass_entry(r, keep, &kept, err));
        if (!kept)
            continue;
        size_t size_bytes = (size_t)(r->position - begin);
        TRY(byte_buffer_reserve(out, size_bytes, err));
        TRY(file_set_read(r->files, r->file, begin, out->data + out->size_bytes, size_bytes, err));
        out->size_bytes += size_bytes;
        (*count)++;
    }
    return STATUS_OK;
}

enum status gguf_write_metadata_of(struct file_set *files, uint32_t file, bool (*keep)(struct text key), struct byte_buffer *out,
                                   uint64_t *count, struct error *err) {
    struct gguf_reader reader;
    TRY(gguf_reader_init(&reader, files, file, err));
    enum status status = copy_entries(&reader, keep, out, count, err);
    gguf_reader_deinit(&reader);
    return status;
}

enum status gguf_write_u32(struct byte_buffer *out, const char *key, uint32_t value, struct error *err) {
    TRY(put_text(out, text_of(key), err));
    TRY(put_u32(out, GGUF_U32, err));
    return put_u32(out, value, err);
}

enum status gguf_write_array_head(struct byte_buffer *out, const char *key, uint64_t count, struct error *err) {
    TRY(put_text(out, text_of(key), err));
    TRY(put_u32(out, GGUF_ARRAY, err));
    TRY(put_u32(out, GGUF_U64, err));
    return put_u64(out, count, err);
}

enum status gguf_write_zeros(struct byte_buffer *out, const char *key, uint64_t count, size_t *at, struct error *err) {
    TRY(gguf_write_array_head(out, key, count, err));
    *at = out->size_bytes;
    for (uint64_t i = 0; i < count; i++)
        TRY(put_u64(out, 0, err));
    return STATUS_OK;
}

enum status gguf_write_beginning(struct byte_buffer *out, uint64_t tensor_count, uint64_t entry_count, struct error *err) {
    TRY(put_u32(out, SNIFF_GGUF_MAGIC, err));
    TRY(put_u32(out, 3, err));
    TRY(put_u64(out, tensor_count, err));
    return put_u64(out, entry_count, err);
}

enum status gguf_write_tensor(struct byte_buffer *out, const struct tensor_entry *tensor, struct error *err) {
    int32_t type = dtype_info(tensor->dtype)->gguf_id;
    CHECK(type >= 0 && tensor->rank >= 1);
    TRY(put_text(out, tensor->name, err));
    TRY(put_u32(out, tensor->rank, err));
    for (uint32_t i = tensor->rank; i-- > 0;)
        TRY(put_u64(out, tensor->shape[i], err));
    TRY(put_u32(out, (uint32_t)type, err));
    return put_u64(out, tensor->offset_bytes, err);
}
