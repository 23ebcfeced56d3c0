/*
 * meta_value: reading metadata values and array items as the type that the caller wants, where the conversion is exact.
 */
#include <math.h>

#include "base/check.h"
#include "base/memory.h"
#include "format/catalogue_internal.h"

#define EXACT_INTEGER_MAX ((uint64_t)1 << 53) /* every integer up to here is a double */

/* ---- scalars ---- */

bool meta_u64(const struct meta_value *value, uint64_t *out) {
    if (!value)
        return false;
    switch (value->type) {
    case META_U64:
        *out = value->u64;
        return true;
    case META_I64:
        if (value->i64 < 0)
            return false;
        *out = (uint64_t)value->i64;
        return true;
    case META_F64:
        if (!(value->f64 >= 0 && value->f64 < 0x1p64) || trunc(value->f64) != value->f64)
            return false;
        *out = (uint64_t)value->f64;
        return true;
    default:
        return false;
    }
}

bool meta_i64(const struct meta_value *value, int64_t *out) {
    if (!value)
        return false;
    switch (value->type) {
    case META_U64:
        if (value->u64 > INT64_MAX)
            return false;
        *out = (int64_t)value->u64;
        return true;
    case META_I64:
        *out = value->i64;
        return true;
    case META_F64:
        if (!(value->f64 >= -0x1p63 && value->f64 < 0x1p63) || trunc(value->f64) != value->f64)
            return false;
        *out = (int64_t)value->f64;
        return true;
    default:
        return false;
    }
}

bool meta_f64(const struct meta_value *value, double *out) {
    if (!value)
        return false;
    switch (value->type) {
    case META_U64:
        if (value->u64 > EXACT_INTEGER_MAX)
            return false;
        *out = (double)value->u64;
        return true;
    case META_I64:
        if (value->i64 > (int64_t)EXACT_INTEGER_MAX || value->i64 < -(int64_t)EXACT_INTEGER_MAX)
            return false;
        *out = (double)value->i64;
        return true;
    case META_F64:
        *out = value->f64;
        return true;
    default:
        return false;
    }
}

bool meta_bool(const struct meta_value *value, bool *out) {
    int64_t number;
    if (value && value->type == META_BOOL) {
        *out = value->boolean;
        return true;
    }
    if (!value || value->type == META_F64 || !meta_i64(value, &number) || (number != 0 && number != 1))
        return false;
    *out = number == 1;
    return true;
}

bool meta_text(const struct meta_value *value, struct text *out) {
    if (!value || value->type != META_TEXT)
        return false;
    *out = value->text;
    return true;
}

/* ---- arrays ---- */

unsigned meta_array_item_bytes(enum meta_array_format format) {
    static const uint8_t bytes[META_ARRAY_FORMAT_COUNT] = {
        [META_ARRAY_U8] = 1,  [META_ARRAY_I8] = 1,  [META_ARRAY_U16] = 2, [META_ARRAY_I16] = 2,
        [META_ARRAY_U32] = 4, [META_ARRAY_I32] = 4, [META_ARRAY_F32] = 4, [META_ARRAY_BOOL] = 1,
        [META_ARRAY_U64] = 8, [META_ARRAY_I64] = 8, [META_ARRAY_F64] = 8, [META_ARRAY_TEXT] = 4,
    };
    CHECK((unsigned)format < META_ARRAY_FORMAT_COUNT);
    return bytes[format];
}

struct meta_array *meta_array_create(enum meta_array_format format, uint64_t size_bytes) {
    if (size_bytes > SIZE_MAX / 2)
        return NULL;
    struct meta_array *array = memory_alloc(sizeof *array + (size_t)size_bytes);
    if (array) {
        array->format = format;
        array->size_bytes = size_bytes;
    }
    return array;
}

/* Copies item `index` of the block to a variable of its type. */
#define ITEM(type, array, index, out) \
    type out;                         \
    memcpy(&out, (array)->data + (index) * sizeof(type), sizeof out)

static struct meta_value integer_value(int64_t number) {
    if (number >= 0)
        return (struct meta_value){.type = META_U64, .u64 = (uint64_t)number};
    return (struct meta_value){.type = META_I64, .i64 = number};
}

static struct meta_value text_item(const struct meta_array *array, uint64_t count, uint64_t index) {
    ITEM(uint32_t, array, index, begin);
    ITEM(uint32_t, array, index + 1, end);
    const char *bytes = (const char *)array->data + (count + 1) * sizeof(uint32_t);
    ASSERT(begin <= end && end <= array->size_bytes);
    return (struct meta_value){.type = META_TEXT, .text = {bytes + begin, end - begin}};
}

static struct meta_value array_item(const struct meta_array *array, uint64_t count, uint64_t index) {
    ASSERT(index < count && (index + 1) * meta_array_item_bytes(array->format) <= array->size_bytes);
#define INTEGER_CASE(tag, type)           \
    case tag: {                           \
        ITEM(type, array, index, number); \
        return integer_value(number);     \
    }
    switch (array->format) {
        INTEGER_CASE(META_ARRAY_U8, uint8_t)
        INTEGER_CASE(META_ARRAY_I8, int8_t)
        INTEGER_CASE(META_ARRAY_U16, uint16_t)
        INTEGER_CASE(META_ARRAY_I16, int16_t)
        INTEGER_CASE(META_ARRAY_U32, uint32_t)
        INTEGER_CASE(META_ARRAY_I32, int32_t)
        INTEGER_CASE(META_ARRAY_I64, int64_t)
    case META_ARRAY_U64: {
        ITEM(uint64_t, array, index, number);
        return (struct meta_value){.type = META_U64, .u64 = number};
    }
    case META_ARRAY_BOOL:
        return (struct meta_value){.type = META_BOOL, .boolean = array->data[index] != 0};
    case META_ARRAY_F32: {
        ITEM(float, array, index, number);
        return (struct meta_value){.type = META_F64, .f64 = (double)number};
    }
    case META_ARRAY_F64: {
        ITEM(double, array, index, number);
        return (struct meta_value){.type = META_F64, .f64 = number};
    }
    case META_ARRAY_TEXT:
        return text_item(array, count, index);
    case META_ARRAY_FORMAT_COUNT:
        break;
    }
#undef INTEGER_CASE
    CHECK(array->format < META_ARRAY_FORMAT_COUNT);
    return (struct meta_value){.type = META_NULL};
}

struct meta_value meta_array_value(const struct meta_array *array, uint64_t count) {
    CHECK(count > 0);
    struct meta_value value = {.type = META_ARRAY, .element = META_U64, .array = {count, array}};
    switch (array->format) {
    case META_ARRAY_I8:
    case META_ARRAY_I16:
    case META_ARRAY_I32:
    case META_ARRAY_I64:
        for (uint64_t i = 0; i < count && value.element == META_U64; i++)
            value.element = array_item(array, count, i).type;
        break;
    case META_ARRAY_BOOL:
        value.element = META_BOOL;
        break;
    case META_ARRAY_F32:
    case META_ARRAY_F64:
        value.element = META_F64;
        break;
    case META_ARRAY_TEXT:
        value.element = META_TEXT;
        break;
    default:
        break;
    }
    return value;
}

/* False: no array, hidden items, or past the end. */
static bool get_item(const struct meta_value *value, uint64_t index, struct meta_value *item) {
    if (!value || value->type != META_ARRAY || !value->array.items || index >= value->array.count)
        return false;
    *item = array_item(value->array.items, value->array.count, index);
    return true;
}

bool meta_array_text(const struct meta_value *value, uint64_t index, struct text *out) {
    struct meta_value item;
    return get_item(value, index, &item) && meta_text(&item, out);
}

bool meta_array_f64(const struct meta_value *value, uint64_t index, double *out) {
    struct meta_value item;
    return get_item(value, index, &item) && meta_f64(&item, out);
}

bool meta_array_i64(const struct meta_value *value, uint64_t index, int64_t *out) {
    struct meta_value item;
    return get_item(value, index, &item) && meta_i64(&item, out);
}

bool meta_array_bool(const struct meta_value *value, uint64_t index, bool *out) {
    struct meta_value item;
    return get_item(value, index, &item) && meta_bool(&item, out);
}
