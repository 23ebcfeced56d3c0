/*
 * split_files: both numbers have the same width, as all writers of such names have it.
 */
#include "format/split_files.h"

#include <stdio.h>

#include "base/check.h"

#define DIGITS_MAX 8

/* Cuts the digits at the end of *rest off. False when there are none or too many. */
static bool cut_number(struct text *rest, uint32_t *number, unsigned *digits) {
    STATIC_ASSERT(DIGITS_MAX < 10, "a number of so many digits fits 32 bits");
    size_t at = rest->size_bytes;
    while (at > 0 && rest->data[at - 1] >= '0' && rest->data[at - 1] <= '9')
        at--;
    uint64_t value;
    size_t length = rest->size_bytes - at;
    if (length == 0 || length > DIGITS_MAX || !text_parse_u64((struct text){rest->data + at, length}, &value))
        return false;
    *number = (uint32_t)value;
    *digits = (unsigned)length;
    rest->size_bytes = at;
    return true;
}

static bool cut_end(struct text *rest, struct text end) {
    if (!text_ends_with(*rest, end))
        return false;
    rest->size_bytes -= end.size_bytes;
    return true;
}

bool split_name_parse(const char *path, const char *suffix, struct split_name *out) {
    CHECK(path && suffix);
    struct text rest = text_of(path), end = text_of(suffix);
    unsigned number_digits;
    struct split_name name;
    if (!cut_end(&rest, end) || !cut_number(&rest, &name.count, &name.digits) || !cut_end(&rest, TEXT("-of-")) ||
        !cut_number(&rest, &name.number, &number_digits) || !cut_end(&rest, TEXT("-")))
        return false;
    if (number_digits != name.digits || name.number < 1 || name.number > name.count)
        return false;
    name.prefix = rest;
    name.suffix = end;
    *out = name;
    return true;
}

enum status split_name_format(const struct split_name *name, uint32_t number, char *buffer, size_t buffer_bytes, struct error *err) {
    CHECK(number >= 1 && number <= name->count);
    int width = (int)name->digits;
    int length = snprintf(buffer, buffer_bytes, "%.*s-%0*u-of-%0*u%.*s", (int)name->prefix.size_bytes, name->prefix.data, width, number,
                          width, name->count, (int)name->suffix.size_bytes, name->suffix.data);
    if (length < 0 || (size_t)length >= buffer_bytes)
        return error_set(err, STATUS_INVALID, "the path of part %u of a model is longer than %zu bytes", number, buffer_bytes - 1);
    return STATUS_OK;
}
