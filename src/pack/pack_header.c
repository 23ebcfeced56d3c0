/* pack_header: GGUF by gguf_write.h; safetensors as one line of JSON, filled up with spaces. */
#include "pack/pack_header.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"
#include "format/gguf_write.h"
#include "format/split_files.h"
#include "pack/checksums.h"

#define HEADER_LIMIT ((size_t)1 << 30)
#define QUANTISATION_VERSION 2 /* of ggml's blocks */

static enum status fill_up(struct byte_buffer *bytes, char filler, struct error *err) {
    char block[PACK_ALIGNMENT];
    memset(block, filler, sizeof block);
    return byte_buffer_append(bytes, block, (size_t)size_round_up(bytes->size_bytes, PACK_ALIGNMENT) - bytes->size_bytes, err);
}

/* ---- GGUF ---- */

static bool is_own(struct text key, bool encoded) {
    return text_is(key, "general.alignment") || text_is(key, CHECKSUMS_KEY) || text_starts_with(key, TEXT("split.")) ||
           (encoded && (text_is(key, "general.file_type") || text_is(key, "general.quantization_version")));
}
static bool keep_copied(struct text key) { return !is_own(key, false); }
static bool keep_encoded(struct text key) { return !is_own(key, true); }

/* The file whose metadata counts: the first of a split set, whichever was given. */
static uint32_t metadata_file(const struct file_set *files) {
    struct split_name name;
    for (uint32_t f = 0; f < file_set_count(files); f++)
        if (split_name_parse(file_set_path(files, f), ".gguf", &name) && name.number == 1)
            return f;
    return 0;
}

static enum status build_gguf(const struct pack_plan *plan, struct file_set *files, struct pack_header *out, struct error *err) {
    struct byte_buffer *bytes = &out->bytes;
    uint64_t entries = 0;
    bool encoded = plan->encoded > 0;
    TRY(gguf_write_beginning(bytes, plan->output_count, 0, err)); /* the count comes below */
    TRY(gguf_write_metadata_of(files, metadata_file(files), encoded ? keep_encoded : keep_copied, bytes, &entries, err));
    if (encoded) {
        TRY(gguf_write_u32(bytes, "general.file_type", plan->type->file_type, err));
        TRY(gguf_write_u32(bytes, "general.quantization_version", QUANTISATION_VERSION, err));
        entries += 2;
    }
    TRY(gguf_write_u32(bytes, "general.alignment", PACK_ALIGNMENT, err));
    TRY(gguf_write_zeros(bytes, CHECKSUMS_KEY, plan->output_count + 1ull, &out->sums_at, err));
    entries += 2;
    memcpy(bytes->data + 16, &entries, sizeof entries);
    for (uint32_t i = 0; i < plan->output_count; i++)
        TRY(gguf_write_tensor(bytes, &plan->outputs[i].tensor, err));
    return fill_up(bytes, 0, err);
}

/* ---- safetensors ---- */

static enum status append_tensor(struct byte_buffer *bytes, const struct tensor_entry *t, struct error *err) {
    json_t *name = json_stringn(t->name.data, t->name.size_bytes);
    char *text = name ? json_dumps(name, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    json_decref(name);
    if (!text)
        return error_set(err, STATUS_UNSUPPORTED, "tensor %.*s: its name is no UTF-8, or memory is out", TEXT_ARGUMENTS(t->name));
    enum status status = byte_buffer_printf(bytes, err, ",%s:{\"dtype\":\"%s\",\"shape\":[", text, dtype_info(t->dtype)->safetensors_name);
    memory_free(text);
    TRY(status);
    for (uint32_t i = 0; i < t->rank; i++)
        TRY(byte_buffer_printf(bytes, err, "%s%" PRIu64, i ? "," : "", t->shape[i]));
    return byte_buffer_printf(bytes, err, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", t->offset_bytes,
                              t->offset_bytes + t->size_bytes);
}

static enum status build_safetensors(const struct pack_plan *plan, struct pack_header *out, struct error *err) {
    struct byte_buffer *bytes = &out->bytes;
    uint64_t header_bytes = 0;
    TRY(byte_buffer_append(bytes, &header_bytes, sizeof header_bytes, err));
    TRY(byte_buffer_printf(bytes, err, "{\"__metadata__\":{\"format\":\"%s\"}",
                           plan->encoded || catalogue_meta(plan->model->catalogue, "quantization/group_size") ? "mlx" : "pt"));
    for (uint32_t i = 0; i < plan->output_count; i++)
        TRY(append_tensor(bytes, &plan->outputs[i].tensor, err));
    TRY(byte_buffer_append(bytes, "}", 1, err));
    TRY(fill_up(bytes, ' ', err));
    header_bytes = bytes->size_bytes - sizeof header_bytes;
    memcpy(bytes->data, &header_bytes, sizeof header_bytes);
    return STATUS_OK;
}

enum status pack_header_build(const struct pack_plan *plan, struct file_set *files, struct pack_header *out, struct error *err) {
    *out = (struct pack_header){.sums_at = 0};
    byte_buffer_init(&out->bytes, HEADER_LIMIT);
    TRY(catalogue_world(plan->model->catalogue) == CATALOGUE_GGUF ? build_gguf(plan, files, out, err) : build_safetensors(plan, out, err));
    CHECK(out->bytes.size_bytes % PACK_ALIGNMENT == 0);
    return STATUS_OK;
}
