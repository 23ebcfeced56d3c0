/*
 * safetensors: see safetensors.h. The header is held as text; tensors are parsed one after the other.
 */
#include "format/safetensors.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/memory.h"
#include "format/json_walk.h"
#include "format/sniff.h"

struct load {
    struct catalogue *catalogue;
    const char *path;
    uint32_t file;
    const struct file_set *files;
    uint64_t data_begin, data_bytes; /* in the file */
    uint64_t tensor_bytes; /* of all so far */
};

static enum status bad_tensor(const struct load *load, struct text name, const char *what, struct error *err) {
    return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s: %s; the file is damaged", load->path, SHOWN(name), what);
}

/* A number of the header that counts something. */
static bool get_count(const json_t *value, uint64_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static enum status read_dtype(const struct load *load, struct tensor_entry *tensor, const json_t *value, struct error *err) {
    if (!json_is_string(value))
        return bad_tensor(load, tensor->name, "dtype is missing or no text", err);
    struct text name = {json_string_value(value), json_string_length(value)};
    if (dtype_from_safetensors(name, &tensor->dtype))
        return STATUS_OK;
    return error_set(
        err, STATUS_UNSUPPORTED,
        "%s: tensor %.*s has the dtype %.*s, which is not read (F64 F32 F16 BF16, F8_E4M3 F8_E5M2 F8_E8M0, I8 to I64, U8 to U64, BOOL "
        "are)",
        load->path, SHOWN(tensor->name), SHOWN(name));
}

static enum status read_shape(const struct load *load, struct tensor_entry *tensor, const json_t *value, struct error *err) {
    if (!json_is_array(value))
        return bad_tensor(load, tensor->name, "shape is missing or no list", err);
    if (json_array_size(value) > TENSOR_RANK_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s has %zu dimensions, at most %d are read", load->path,
                         SHOWN(tensor->name), json_array_size(value), TENSOR_RANK_MAX);
    tensor->rank = (uint32_t)json_array_size(value);
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (!get_count(json_array_get(value, i), &tensor->shape[i]))
            return bad_tensor(load, tensor->name, "shape holds something that is no length", err);
    return STATUS_OK;
}

/* Sets the offset in the file and the size that the header states. */
static enum status read_range(const struct load *load, struct tensor_entry *tensor, const json_t *value, struct error *err) {
    uint64_t begin, end;
    if (json_array_size(value) != 2 || !get_count(json_array_get(value, 0), &begin) || !get_count(json_array_get(value, 1), &end) ||
        begin > end)
        return bad_tensor(load, tensor->name, "data_offsets is no range [begin, end]", err);
    if (end > load->data_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "%s: tensor %.*s needs bytes %" PRIu64 " to %" PRIu64 " of the data, but the file has %" PRIu64 " (%" PRIu64
                         " with the header): it is incomplete; download it again",
                         load->path, SHOWN(tensor->name), begin, end, load->data_bytes, load->data_begin + load->data_bytes);
    tensor->offset_bytes = load->data_begin + begin;
    tensor->size_bytes = end - begin;
    return STATUS_OK;
}

static enum status add_tensor(struct load *load, struct tensor_entry *tensor, const json_t *value, struct error *err) {
    if (!json_is_object(value))
        return bad_tensor(load, tensor->name, "its entry is no object", err);
    TRY(read_dtype(load, tensor, json_object_get(value, "dtype"), err));
    TRY(read_shape(load, tensor, json_object_get(value, "shape"), err));
    TRY(read_range(load, tensor, json_object_get(value, "data_offsets"), err));
    uint64_t stated_bytes = tensor->size_bytes;
    ASSERT(stated_bytes <= load->data_bytes);
    TRY(catalogue_add_tensor(load->catalogue, load->files, tensor, err));
    uint64_t bytes = catalogue_tensor(load->catalogue, catalogue_tensor_count(load->catalogue) - 1)->size_bytes;
    if (bytes != stated_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "%s: tensor %.*s: its shape as %s takes %" PRIu64 " bytes, data_offsets give it %" PRIu64 "; the file is damaged",
                         load->path, SHOWN(tensor->name), dtype_info(tensor->dtype)->name, bytes, stated_bytes);
    load->tensor_bytes = bytes > UINT64_MAX - load->tensor_bytes ? UINT64_MAX : load->tensor_bytes + bytes;
    return STATUS_OK;
}

/* The value of one member of the header. */
static enum status read_member(struct load *load, struct json_walk *walk, struct text key, struct error *err) {
    struct tensor_entry tensor = {.file = load->file};
    bool skipped = text_is(key, "__metadata__");
    if (!skipped)
        TRY(catalogue_keep_text(load->catalogue, key, &tensor.name, err));
    json_t *value;
    TRY(json_walk_value(walk, &value, err));
    enum status status = skipped ? STATUS_OK : add_tensor(load, &tensor, value, err);
    json_decref(value);
    return status;
}

static enum status read_members(struct load *load, struct json_walk *walk, struct error *err) {
    for (;;) {
        bool more;
        struct text key;
        TRY(json_walk_next(walk, &more, &key, err));
        if (!more)
            return json_walk_end(walk, err);
        TRY(read_member(load, walk, key, err));
    }
}

static enum status read_header(struct load *load, uint64_t header_bytes, struct error *err) {
    char *header = memory_alloc((size_t)header_bytes);
    if (!header)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for its header of %" PRIu64 " bytes", load->path, header_bytes);
    struct json_walk walk = {0};
    CHECK(header_bytes <= SAFETENSORS_HEADER_MAX_BYTES);
    enum status status = file_set_read(load->files, load->file, sizeof header_bytes, header, header_bytes, err);
    if (status == STATUS_OK)
        status = json_walk_open(&walk, (struct text){header, (size_t)header_bytes}, 0, load->path, err);
    if (status == STATUS_OK)
        status = read_members(load, &walk, err);
    json_walk_close(&walk);
    memory_free(header);
    return status;
}

enum status safetensors_load(struct catalogue *catalogue, const struct file_set *files, uint32_t file, struct error *err) {
    struct load load = {.catalogue = catalogue, .path = file_set_path(files, file), .file = file, .files = files};
    uint64_t file_bytes = file_set_size_bytes(files, file), header_bytes;
    TRY(sniff_explain(files, file, err));
    if (file_bytes < sizeof header_bytes + 2)
        return error_set(err, STATUS_CORRUPT, "%s: has %" PRIu64 " bytes, too few for a safetensors file; download it again", load.path,
                         file_bytes);
    TRY(file_set_read(files, file, 0, &header_bytes, sizeof header_bytes, err));
    if (header_bytes < 2 || header_bytes > file_bytes - sizeof header_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "%s: states a header of %" PRIu64 " bytes, the file has %" PRIu64
                         ": it is incomplete, or no safetensors file; download it again",
                         load.path, header_bytes, file_bytes);
    if (header_bytes > SAFETENSORS_HEADER_MAX_BYTES)
        return error_set(err, STATUS_UNSUPPORTED, "%s: has a header of %" PRIu64 " bytes, at most %" PRIu64 " are read", load.path,
                         header_bytes, SAFETENSORS_HEADER_MAX_BYTES);
    load.data_begin = sizeof header_bytes + header_bytes;
    load.data_bytes = file_bytes - load.data_begin;
    TRY(read_header(&load, header_bytes, err));
    if (load.tensor_bytes < load.data_bytes) /* the format allows no holes */
        return error_set(err, STATUS_CORRUPT,
                         "%s: its tensors take %" PRIu64 " bytes of data, the file has %" PRIu64
                         ": its header is damaged, or belongs to another file; download it again",
                         load.path, load.tensor_bytes, load.data_bytes);
    return STATUS_OK;
}
