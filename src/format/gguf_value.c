/*
 * gguf_value: see gguf_value.h.
 */
#include "format/gguf_value.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define NESTING_MAX 8

/* How the items of an array lie in memory; scalars are read as arrays of one. */
static const enum meta_array_format formats[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = META_ARRAY_U8,   [GGUF_I8] = META_ARRAY_I8,   [GGUF_U16] = META_ARRAY_U16, [GGUF_I16] = META_ARRAY_I16,
    [GGUF_U32] = META_ARRAY_U32, [GGUF_I32] = META_ARRAY_I32, [GGUF_F32] = META_ARRAY_F32, [GGUF_BOOL] = META_ARRAY_BOOL,
    [GGUF_U64] = META_ARRAY_U64, [GGUF_I64] = META_ARRAY_I64, [GGUF_F64] = META_ARRAY_F64, [GGUF_STRING] = META_ARRAY_TEXT,
};

static enum status bad_value(const struct gguf_reader *r, const char *what, uint64_t number, struct error *err) {
    char place[GGUF_PLACE_BYTES];
    return error_set(err, STATUS_CORRUPT, "%s: %s: %s %" PRIu64 "; the file is damaged", file_set_path(r->files, r->file),
                     gguf_reader_place(r, place), what, number);
}

static enum status check_bool(const struct gguf_reader *r, uint8_t byte, struct error *err) {
    return byte <= 1 ? STATUS_OK : bad_value(r, "a bool is stored as", byte, err);
}

static struct meta_value integer(int64_t number) {
    return number < 0 ? (struct meta_value){.type = META_I64, .i64 = number}
                      : (struct meta_value){.type = META_U64, .u64 = (uint64_t)number};
}

static enum status read_scalar(struct gguf_reader *r, enum gguf_type type, struct meta_value *out, struct error *err) {
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        float f32;
        uint64_t u64;
        int64_t i64;
        double f64;
    } raw = {0};
    STATIC_ASSERT(sizeof raw == 8, "scalars have at most 8 bytes");
    TRY(gguf_reader_copy(r, &raw, meta_array_item_bytes(formats[type]), err));
    switch (type) {
    case GGUF_U8:
        *out = integer(raw.u8);
        break;
    case GGUF_I8:
        *out = integer(raw.i8);
        break;
    case GGUF_U16:
        *out = integer(raw.u16);
        break;
    case GGUF_I16:
        *out = integer(raw.i16);
        break;
    case GGUF_U32:
        *out = integer(raw.u32);
        break;
    case GGUF_I32:
        *out = integer(raw.i32);
        break;
    case GGUF_I64:
        *out = integer(raw.i64);
        break;
    case GGUF_U64:
        *out = (struct meta_value){.type = META_U64, .u64 = raw.u64};
        break;
    case GGUF_F32:
        *out = (struct meta_value){.type = META_F64, .f64 = (double)raw.f32};
        break;
    case GGUF_F64:
        *out = (struct meta_value){.type = META_F64, .f64 = raw.f64};
        break;
    case GGUF_BOOL:
        TRY(check_bool(r, raw.u8, err));
        *out = (struct meta_value){.type = META_BOOL, .boolean = raw.u8 == 1};
        break;
    default:
        CHECK(type < GGUF_TYPE_COUNT && type != GGUF_STRING && type != GGUF_ARRAY); /* the caller took those */
    }
    return STATUS_OK;
}

/* Length of the text at the cursor, which lies inside the file. */
static enum status read_length(struct gguf_reader *r, uint64_t *length, struct error *err) {
    TRY(gguf_reader_u64(r, length, err));
    return *length <= gguf_reader_left(r) ? STATUS_OK : gguf_reader_short(r, *length, err);
}

static enum status read_text(struct gguf_reader *r, struct catalogue *catalogue, struct meta_value *out, struct error *err) {
    uint64_t length;
    TRY(read_length(r, &length, err));
    *out = (struct meta_value){.type = META_TEXT, .text = {"", 0}};
    if (!catalogue)
        return gguf_reader_skip(r, length, err);
    char *bytes;
    TRY(catalogue_keep_room(catalogue, length, &bytes, err));
    TRY(gguf_reader_copy(r, bytes, length, err));
    out->text = (struct text){bytes, (size_t)length};
    return STATUS_OK;
}

/* ---- arrays ---- */

static enum status skip_texts(struct gguf_reader *r, uint64_t count, struct error *err) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length;
        TRY(read_length(r, &length, err));
        TRY(gguf_reader_skip(r, length, err));
    }
    return STATUS_OK;
}

/* Type and count in front of an array's items; the items can lie inside the file. */
static enum status read_array_head(struct gguf_reader *r, uint32_t *type, uint64_t *count, struct error *err) {
    TRY(gguf_reader_u32(r, type, err));
    TRY(gguf_reader_u64(r, count, err));
    if (*type >= GGUF_TYPE_COUNT)
        return bad_value(r, "an array has the unknown item type", *type, err);
    uint64_t least = *type == GGUF_ARRAY ? 12 : *type == GGUF_STRING ? 8 : meta_array_item_bytes(formats[*type]);
    uint64_t needed;
    if (!size_multiply(*count, least, &needed))
        needed = UINT64_MAX;
    return needed <= gguf_reader_left(r) ? STATUS_OK : gguf_reader_short(r, needed, err);
}

/* Passes over `count` items. depth: how many arrays are around them. */
static enum status skip_items(struct gguf_reader *r, uint32_t type, uint64_t count, unsigned depth, struct error *err) {
    if (type == GGUF_STRING)
        return skip_texts(r, count, err);
    if (type != GGUF_ARRAY)
        return gguf_reader_skip(r, count * meta_array_item_bytes(formats[type]), err);
    if (depth == NESTING_MAX)
        return bad_value(r, "arrays are nested deeper than", NESTING_MAX, err);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t inner_type;
        uint64_t inner_count;
        TRY(read_array_head(r, &inner_type, &inner_count, err));
        TRY(skip_items(r, inner_type, inner_count, depth + 1, err));
    }
    return STATUS_OK;
}

static enum status fill_numbers(struct gguf_reader *r, struct meta_array *array, struct error *err) {
    TRY(gguf_reader_copy(r, array->data, array->size_bytes, err));
    if (array->format == META_ARRAY_BOOL)
        for (uint64_t i = 0; i < array->size_bytes; i++)
            TRY(check_bool(r, array->data[i], err));
    return STATUS_OK;
}

/* The lengths were checked when the array was passed over; a file that changes meanwhile is caught all the same. */
static enum status fill_texts(struct gguf_reader *r, struct meta_array *array, uint64_t count, struct error *err) {
    uint64_t used = (count + 1) * sizeof(uint32_t), first = used;
    CHECK(used <= array->size_bytes);
    for (uint64_t i = 0; i <= count; i++) {
        uint32_t offset = (uint32_t)(used - first);
        memcpy(array->data + i * sizeof offset, &offset, sizeof offset);
        if (i == count)
            break;
        uint64_t length;
        TRY(read_length(r, &length, err));
        if (length > array->size_bytes - used)
            return bad_value(r, "the file changed while it was read; a text has now the length", length, err);
        TRY(gguf_reader_copy(r, array->data + used, length, err));
        used += length;
    }
    return STATUS_OK;
}

static enum status read_array(struct gguf_reader *r, struct catalogue *catalogue, struct meta_value *out, struct error *err) {
    uint32_t type;
    uint64_t count;
    TRY(read_array_head(r, &type, &count, err));
    uint64_t begin = r->position;
    TRY(skip_items(r, type, count, 0, err));
    uint64_t size_bytes = r->position - begin;
    *out = (struct meta_value){.type = META_ARRAY, .element = type == GGUF_ARRAY ? META_ARRAY : META_NULL, .array = {count, NULL}};
    if (!catalogue || count == 0 || type == GGUF_ARRAY)
        return STATUS_OK;
    STATIC_ASSERT(GGUF_HEADER_MAX_BYTES <= UINT32_MAX, "offsets of texts have 32 bits");
    if (type == GGUF_STRING) /* lengths of 8 bytes become offsets of 4 */
        size_bytes = size_bytes - count * 8 + (count + 1) * sizeof(uint32_t);
    struct meta_array *array = meta_array_create(formats[type], size_bytes);
    if (!array) {
        char place[GGUF_PLACE_BYTES];
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for the %" PRIu64 " bytes of %s", file_set_path(r->files, r->file),
                         size_bytes, gguf_reader_place(r, place));
    }
    CHECK(type == GGUF_STRING || size_bytes == count * meta_array_item_bytes(formats[type]));
    r->position = begin;
    enum status status = type == GGUF_STRING ? fill_texts(r, array, count, err) : fill_numbers(r, array, err);
    if (status != STATUS_OK) {
        memory_free(array);
        return status;
    }
    *out = meta_array_value(array, count);
    return STATUS_OK;
}

enum status gguf_value_read(struct gguf_reader *r, uint32_t type, struct catalogue *catalogue, struct meta_value *out, struct error *err) {
    if (type >= GGUF_TYPE_COUNT)
        return bad_value(r, "unknown value type", type, err);
    if (type == GGUF_STRING)
        return read_text(r, catalogue, out, err);
    if (type == GGUF_ARRAY)
        return read_array(r, catalogue, out, err);
    return read_scalar(r, (enum gguf_type)type, out, err);
}
