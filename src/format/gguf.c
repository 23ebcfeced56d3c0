/*
 * gguf: header, metadata, tensor table, then the set of files that belong together.
 *
 * Layout: "GGUF", u32 version, u64 tensor count, u64 metadata count, entries {text key, u32 type, value}, tensors {text name, u32
 * dimensions, u64 each (fastest first), u32 type, u64 offset}, padding to the alignment, data. A text is u64 length and bytes.
 */
#include "format/gguf.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "format/gguf_reader.h"
#include "format/gguf_value.h"
#include "format/sniff.h"
#include "format/split_files.h"

#define DIMENSIONS_MAX 4 /* of ggml */
#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_MAX (1u << 20)
#define ENTRY_BYTES_MIN 13  /* empty key, type, one byte */
#define TENSOR_BYTES_MIN 32 /* empty name, one dimension */

STATIC_ASSERT(DIMENSIONS_MAX <= TENSOR_RANK_MAX, "a GGUF shape fits");

struct part { /* what one file's header says about itself */
    uint64_t tensor_count, entry_count;
    uint64_t alignment;
    uint64_t split_number, split_count, split_tensors; /* count 0: not split; tensors UINT64_MAX: not said */
};

static const char *path_of(const struct gguf_reader *r) {
    return file_set_path(r->files, r->file);
}

static enum status read_counts(struct gguf_reader *r, struct part *part, struct error *err) {
    uint32_t magic, version;
    TRY(sniff_explain(r->files, r->file, err));
    TRY(gguf_reader_u32(r, &magic, err));
    TRY(gguf_reader_u32(r, &version, err));
    if (magic != SNIFF_GGUF_MAGIC)
        return error_set(err, STATUS_CORRUPT, "%s: not a GGUF file: it does not start with \"GGUF\"", path_of(r));
    if (version != 2 && version != 3)
        return error_set(err, STATUS_UNSUPPORTED, "%s: unsupported GGUF version %" PRIu32 " (2 and 3 are read); convert the model again",
                         path_of(r), version);
    TRY(gguf_reader_u64(r, &part->tensor_count, err));
    TRY(gguf_reader_u64(r, &part->entry_count, err));
    uint64_t left = gguf_reader_left(r);
    if (part->entry_count > left / ENTRY_BYTES_MIN || part->tensor_count > left / TENSOR_BYTES_MIN)
        return error_set(err, STATUS_CORRUPT,
                         "%s: the header promises %" PRIu64 " metadata entries and %" PRIu64 " tensors, more than its %" PRIu64
                         " bytes can hold: it is incomplete or damaged; download it again",
                         path_of(r), part->entry_count, part->tensor_count, file_set_size_bytes(r->files, r->file));
    return STATUS_OK;
}

/* Borrows a key or a name until the next read. */
static enum status read_name(struct gguf_reader *r, struct text *out, struct error *err) {
    uint64_t length;
    const uint8_t *bytes;
    TRY(gguf_reader_u64(r, &length, err));
    if (length > gguf_reader_left(r))
        return gguf_reader_short(r, length, err);
    if (length >= GGUF_WINDOW_BYTES) {
        char place[GGUF_PLACE_BYTES];
        return error_set(err, STATUS_CORRUPT, "%s: the name of %s has %" PRIu64 " bytes, at most 65535 are allowed", path_of(r),
                         gguf_reader_place(r, place), length);
    }
    TRY(gguf_reader_take(r, length, &bytes, err));
    *out = (struct text){(const char *)bytes, (size_t)length};
    return STATUS_OK;
}

/* ---- metadata ---- */

/* The field of *part that a key sets, or NULL. */
static uint64_t *own_field(struct part *part, struct text key) {
    if (text_is(key, "general.alignment"))
        return &part->alignment;
    if (text_is(key, "split.no"))
        return &part->split_number;
    if (text_is(key, "split.count"))
        return &part->split_count;
    if (text_is(key, "split.tensors.count"))
        return &part->split_tensors;
    return NULL;
}

static enum status read_entry(struct gguf_reader *r, struct part *part, struct catalogue *catalogue, struct error *err) {
    struct text key;
    uint32_t type;
    struct meta_value value;
    r->name = (struct text){0};
    TRY(read_name(r, &key, err));
    uint64_t *field = own_field(part, key);
    if (catalogue) {
        TRY(catalogue_keep_text(catalogue, key, &key, err));
        r->name = key;
    }
    TRY(gguf_reader_u32(r, &type, err));
    TRY(gguf_value_read(r, type, catalogue, &value, err));
    bool bad_field = field && !meta_u64(&value, field);
    if (bad_field) {
        if (value.type == META_ARRAY)
            memory_free((void *)value.array.items);
        return error_set(err, STATUS_CORRUPT,
                         "%s: metadata entry %" PRIu64
                         " (general.alignment or split.*) must be an integer, not negative; the file is damaged",
                         path_of(r), r->number);
    }
    return catalogue ? catalogue_add_meta(catalogue, key, &value, path_of(r), err) : STATUS_OK;
}

/* catalogue NULL: only *part is filled. */
static enum status read_metadata(struct gguf_reader *r, struct part *part, struct catalogue *catalogue, struct error *err) {
    *part = (struct part){.alignment = ALIGNMENT_DEFAULT, .split_tensors = UINT64_MAX};
    TRY(read_counts(r, part, err));
    r->part = "metadata entry";
    for (r->number = 1; r->number <= part->entry_count; r->number++)
        TRY(read_entry(r, part, catalogue, err));
    uint64_t alignment = part->alignment;
    if (alignment == 0 || alignment > ALIGNMENT_MAX || (alignment & (alignment - 1)) != 0)
        return error_set(err, STATUS_CORRUPT,
                         "%s: general.alignment is %" PRIu64 ", it must be a power of two from 1 to %u; the file is damaged", path_of(r),
                         alignment, ALIGNMENT_MAX);
    return STATUS_OK;
}

/* ---- tensors ---- */

static enum status read_dtype(struct gguf_reader *r, struct text name, enum dtype *out, struct error *err) {
    uint32_t id;
    TRY(gguf_reader_u32(r, &id, err));
    if (dtype_from_gguf(id, out))
        return STATUS_OK;
    const char *retired = dtype_retired_gguf_name(id);
    if (retired)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: tensor %.*s has the retired type %" PRIu32 " (%s); re-convert the model (any current GGUF type is read)",
                         path_of(r), SHOWN(name), id, retired);
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s: tensor %.*s has the unknown type %" PRIu32
                     " (forks have numbers of their own); F32 F16 BF16, Q4_0 to Q8_0, Q2_K to "
                     "Q6_K, IQ1 to IQ4, TQ1_0 TQ2_0, MXFP4 NVFP4, Q1_0 Q2_0 are read",
                     path_of(r), SHOWN(name), id);
}

static enum status read_tensor(struct gguf_reader *r, struct catalogue *catalogue, const struct part *part, struct tensor_entry *tensor,
                               struct error *err) {
    uint32_t rank;
    uint64_t fastest_first[DIMENSIONS_MAX];
    r->name = (struct text){0};
    TRY(read_name(r, &tensor->name, err));
    TRY(catalogue_keep_text(catalogue, tensor->name, &tensor->name, err));
    r->name = tensor->name;
    TRY(gguf_reader_u32(r, &rank, err));
    if (rank < 1 || rank > DIMENSIONS_MAX)
        return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s has %" PRIu32 " dimensions, 1 to %d are allowed; the file is damaged",
                         path_of(r), SHOWN(tensor->name), rank, DIMENSIONS_MAX);
    STATIC_ASSERT(sizeof fastest_first == DIMENSIONS_MAX * 8, "dimensions have 8 bytes");
    tensor->rank = rank;
    TRY(gguf_reader_copy(r, fastest_first, rank * sizeof fastest_first[0], err));
    for (uint32_t i = 0; i < rank; i++)
        tensor->shape[i] = fastest_first[rank - 1 - i];
    TRY(read_dtype(r, tensor->name, &tensor->dtype, err));
    TRY(gguf_reader_u64(r, &tensor->offset_bytes, err));
    if (tensor->offset_bytes % part->alignment != 0)
        return error_set(err, STATUS_CORRUPT,
                         "%s: tensor %.*s starts at offset %" PRIu64 " of the data, no multiple of general.alignment %" PRIu64
                         "; the file is damaged",
                         path_of(r), SHOWN(tensor->name), tensor->offset_bytes, part->alignment);
    return STATUS_OK;
}

/* Offsets in the table count from the data, whose start is known only behind the table: tensors are added when it was read. */
static enum status read_tensors(struct gguf_reader *r, struct catalogue *catalogue, const struct part *part, struct tensor_entry *tensors,
                                struct error *err) {
    r->part = "tensor";
    for (r->number = 1; r->number <= part->tensor_count; r->number++)
        TRY(read_tensor(r, catalogue, part, &tensors[r->number - 1], err));
    ASSERT(part->alignment && (part->alignment & (part->alignment - 1)) == 0);
    uint64_t data_begin = size_round_up(r->position, part->alignment);
    for (uint64_t i = 0; i < part->tensor_count; i++) {
        tensors[i].file = r->file;
        if (!size_add(tensors[i].offset_bytes, data_begin, &tensors[i].offset_bytes))
            return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s starts past the largest offset there is; the file is damaged or hostile",
                             path_of(r), SHOWN(tensors[i].name));
        TRY(catalogue_add_tensor(catalogue, r->files, &tensors[i], err));
    }
    return STATUS_OK;
}

static enum status load_part(struct gguf_reader *r, struct catalogue *catalogue, bool with_metadata, struct part *part, struct error *err) {
    TRY(read_metadata(r, part, with_metadata ? catalogue : NULL, err));
    TRY(catalogue_reserve_tensors(catalogue, part->tensor_count, err));
    struct tensor_entry *tensors = memory_alloc_array((size_t)part->tensor_count, sizeof *tensors);
    if (!tensors)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for %" PRIu64 " tensors", path_of(r), part->tensor_count);
    enum status status = read_tensors(r, catalogue, part, tensors, err);
    memory_free(tensors);
    return status;
}

/* ---- files ---- */

enum load { LOAD_SPLIT_KEYS, LOAD_TENSORS, LOAD_ALL };

static enum status load_file(struct catalogue *catalogue, const struct file_set *files, uint32_t file, enum load what, struct part *part,
                             struct error *err) {
    struct gguf_reader reader;
    CHECK(catalogue || what == LOAD_SPLIT_KEYS);
    TRY(gguf_reader_init(&reader, files, file, err));
    enum status status =
        what == LOAD_SPLIT_KEYS ? read_metadata(&reader, part, NULL, err) : load_part(&reader, catalogue, what == LOAD_ALL, part, err);
    gguf_reader_deinit(&reader);
    return status;
}

static enum status check_part(const char *path, const struct part *part, const struct split_name *name, struct error *err) {
    if (part->split_count == name->count && part->split_number + 1 == name->number)
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT,
                     "%s: its name says part %" PRIu32 " of %" PRIu32 ", its header (split.no, split.count) part %" PRIu64 " of %" PRIu64
                     ": a renamed file, or one of another model",
                     path, name->number, name->count, part->split_number + 1, part->split_count);
}

static enum status add_sibling(struct file_set *files, const struct split_name *name, uint32_t number, uint32_t *file, struct error *err) {
    char path[CATALOGUE_PATH_BYTES];
    TRY(split_name_format(name, number, path, sizeof path, err));
    enum status status = file_set_add(files, path, file, err);
    if (status == STATUS_NOT_FOUND)
        return error_set(err, STATUS_NOT_FOUND, "%s: part %" PRIu32 " of %" PRIu32 " is missing; put all parts into one folder", path,
                         number, name->count);
    return status;
}

static enum status check_total(const struct catalogue *catalogue, const struct part *part, const char *path, struct error *err) {
    if (part->split_tensors == UINT64_MAX || part->split_tensors == catalogue_tensor_count(catalogue))
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT,
                     "%s: split.tensors.count says %" PRIu64 " tensors, the parts hold %" PRIu64 ": a part is of another model or damaged",
                     path, part->split_tensors, catalogue_tensor_count(catalogue));
}

static enum status open_set(struct catalogue *catalogue, struct file_set *files, uint32_t given_file, const struct split_name *given,
                            struct error *err) {
    CHECK(given->number >= 1 && given->number <= given->count);
    struct part part = {0};
    struct split_name name = *given;
    for (name.number = 1; name.number <= name.count; name.number++) {
        uint32_t file = given_file;
        if (name.number != given->number)
            TRY(add_sibling(files, given, name.number, &file, err));
        uint64_t total = part.split_tensors;
        TRY(load_file(catalogue, files, file, name.number == 1 ? LOAD_ALL : LOAD_TENSORS, &part, err));
        const char *path = file_set_path(files, file);
        TRY(check_part(path, &part, &name, err));
        if (name.number > 1 && part.split_tensors != total)
            return error_set(err, STATUS_CORRUPT,
                             "%s: split.tensors.count is %" PRIu64 " here and %" PRIu64 " in the part before: parts of different models",
                             path, part.split_tensors, total);
    }
    return check_total(catalogue, &part, file_set_path(files, given_file), err);
}

enum status gguf_open(struct catalogue *catalogue, struct file_set *files, uint32_t file, const char *path, struct error *err) {
    struct split_name name;
    struct part part;
    CHECK(catalogue_tensor_count(catalogue) == 0);
    bool named = split_name_parse(path, ".gguf", &name) && name.count > 1;
    if (named) { /* a whole file may have such a name */
        TRY(load_file(NULL, files, file, LOAD_SPLIT_KEYS, &part, err));
        if (part.split_count > 1) {
            TRY(check_part(path, &part, &name, err));
            return open_set(catalogue, files, file, &name, err);
        }
    }
    TRY(load_file(catalogue, files, file, LOAD_ALL, &part, err));
    if (part.split_count > 1)
        return error_set(err, STATUS_INVALID,
                         "%s: is part %" PRIu64 " of a model in %" PRIu64 " files, but its name does not end in -%05" PRIu64
                         "-of-%05" PRIu64 ".gguf; give all parts the names they were published with",
                         path, part.split_number + 1, part.split_count, part.split_number + 1, part.split_count);
    return check_total(catalogue, &part, path, err);
}
