/*
 * json: jansson behind limits of length and depth, with its heap counted by memory.h.
 *
 * Files of models are written by Python, whose json module also writes integers of any length ("model_max_length":
 * 1000000000000000019884624838656), NaN and Infinity. Files (not requests) may hold those; before the parse they are
 * replaced by numbers that jansson knows: a long integer gets ".0", Infinity becomes the largest double, NaN becomes null.
 */
#include "base/json.h"

#include <ctype.h>

#include "base/byte_buffer.h"
#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"

#define DEPTH_MAX 200         /* jansson recurses; worker stacks are small */
#define SAFE_INTEGER_BYTES 18 /* no longer integer need be looked at */
#define LARGEST_DOUBLE "1.7976931348623157e308"

/* Runs before main, and so before the first value: texts of json_dumps are freed with memory_free. */
__attribute__((constructor)) static void use_counted_heap(void) {
    json_set_alloc_funcs(memory_alloc, memory_free);
}

/* What the parser must know beforehand. */
struct scan {
    unsigned depth_max;
    bool python_numbers; /* outside strings: an integer beyond 64 bits, or an N or I (NaN, Infinity) */
};

/* End (one past) of the string that starts at the quote at `at`. */
static size_t skip_string(struct text text, size_t at) {
    ASSERT(at < text.size_bytes && text.data[at] == '"');
    for (at++; at < text.size_bytes && text.data[at] != '"'; at++)
        if (text.data[at] == '\\')
            at++;
    return at < text.size_bytes ? at + 1 : text.size_bytes;
}

static bool is_number_byte(char c) {
    return isdigit((unsigned char)c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* End of the number at `at`; *long_integer when it is an integer that does not fit 64 bits. */
static size_t skip_number(struct text text, size_t at, bool *long_integer) {
    size_t start = at;
    bool integer = true;
    for (; at < text.size_bytes && is_number_byte(text.data[at]); at++)
        integer = integer && (isdigit((unsigned char)text.data[at]) || at == start);
    int64_t value;
    struct text number = {text.data + start, at - start};
    *long_integer = integer && number.size_bytes > SAFE_INTEGER_BYTES && !text_parse_i64(number, &value);
    return at;
}

static struct scan scan_text(struct text text) {
    struct scan scan = {0};
    unsigned depth = 0;
    for (size_t at = 0; at < text.size_bytes;) {
        char c = text.data[at];
        if (c == '"') {
            at = skip_string(text, at);
        } else if (isdigit((unsigned char)c) || c == '-') {
            bool long_integer;
            at = skip_number(text, at, &long_integer);
            scan.python_numbers |= long_integer;
        } else {
            if (c == '{' || c == '[')
                scan.depth_max = ++depth > scan.depth_max ? depth : scan.depth_max;
            else if ((c == '}' || c == ']') && depth > 0)
                depth--;
            scan.python_numbers |= c == 'N' || c == 'I';
            at++;
        }
    }
    return scan;
}

/* Copies text with Python's numbers replaced. Line and column in later errors may be off behind a replacement. */
static enum status replace_python_numbers(struct text text, struct byte_buffer *out, struct error *err) {
    for (size_t at = 0; at < text.size_bytes;) {
        struct text rest = {text.data + at, text.size_bytes - at};
        size_t end = at + 1;
        bool long_integer = false;
        if (rest.data[0] == '"') {
            end = skip_string(text, at);
        } else if (text_starts_with(rest, TEXT("NaN"))) {
            TRY(byte_buffer_append_text(out, TEXT("null"), err));
            at += 3;
            continue;
        } else if (text_starts_with(rest, TEXT("Infinity"))) { /* a minus in front was copied */
            TRY(byte_buffer_append_text(out, TEXT(LARGEST_DOUBLE), err));
            at += 8;
            continue;
        } else if (isdigit((unsigned char)rest.data[0]) || rest.data[0] == '-') {
            end = skip_number(text, at, &long_integer);
        }
        TRY(byte_buffer_append(out, text.data + at, end - at, err));
        if (long_integer)
            TRY(byte_buffer_append_text(out, TEXT(".0"), err));
        at = end;
    }
    return STATUS_OK;
}

static enum status load(struct text text, const char *source, json_t **out, struct error *err) {
    json_error_t problem;
    uint64_t refusals = memory_refusals(); /* jansson takes most failures of its heap for faults of the text */
    *out = json_loadb(text.data ? text.data : "", text.size_bytes, JSON_ALLOW_NUL, &problem);
    if (*out)
        return STATUS_OK;
    if (memory_refusals() != refusals)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for its JSON", source);
    return error_set(err, STATUS_CORRUPT, "%s: line %d, column %d: not valid JSON: %s", source, problem.line, problem.column, problem.text);
}

static enum status parse(struct text text, const char *source, bool from_python, json_t **out, struct error *err) {
    struct scan scan = scan_text(text);
    if (scan.depth_max > DEPTH_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "%s: JSON nested deeper than %d levels", source, DEPTH_MAX);
    if (!from_python || !scan.python_numbers)
        return load(text, source, out, err);
    struct byte_buffer plain;
    byte_buffer_init(&plain, SIZE_MAX / 2);
    enum status status = replace_python_numbers(text, &plain, err);
    if (status == STATUS_OK)
        status = load(byte_buffer_text(&plain), source, out, err);
    byte_buffer_deinit(&plain);
    return status;
}

enum status json_parse(struct text text, const char *source, size_t limit_bytes, json_t **out, struct error *err) {
    CHECK(source != NULL);
    *out = NULL;
    if (text.size_bytes > limit_bytes)
        return error_set(err, STATUS_INVALID, "%s: %zu bytes of JSON, at most %zu are allowed", source, text.size_bytes, limit_bytes);
    return parse(text, source, false, out, err);
}

enum status json_read_file(const char *path, size_t limit_bytes, json_t **out, struct error *err) {
    *out = NULL;
    struct text bytes, body;
    TRY(file_read(path, limit_bytes, &bytes, err));
    body = bytes;
    if (text_starts_with(body, TEXT("\xef\xbb\xbf"))) /* byte order mark */
        body = (struct text){body.data + 3, body.size_bytes - 3};
    enum status status = parse(body, path, true, out, err);
    memory_free((char *)bytes.data);
    return status;
}
