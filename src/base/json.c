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

/* What jansson reads at a time; and bytes of heap for a byte of it ("{}," makes an object with its table) and of the longest token, whose
   buffer doubles while it grows. */
#define FED_BYTES_MAX ((size_t)1024)
#define RESERVE_PER_BYTE ((size_t)80)
#define RESERVE_PER_TOKEN_BYTE ((size_t)8)
#define DEPTH_MAX 200         /* jansson recurses; worker stacks are small */
#define SAFE_INTEGER_BYTES 18 /* no longer integer need be looked at */
#define LARGEST_DOUBLE "1.7976931348623157e308"

/* ---- a heap for jansson that does not end in the middle of a token ---- */

/* What a parse falls back on when the heap gives nothing, sized so that the rest of what was fed fits. */
struct reserve {
    char *data;
    size_t size_bytes, used_bytes;
    bool needed;
};
static _Thread_local struct reserve *reserve; /* of the parse under way; jansson's hooks know no context */

static void *counted_alloc(size_t size_bytes) {
    void *block = memory_alloc(size_bytes);
    struct reserve *r = reserve;
    if (block || !r)
        return block;
    r->needed = true;
    size_t left_bytes = r->size_bytes - r->used_bytes;
    if (size_bytes > left_bytes || size_round_up(size_bytes + 1, 16) > left_bytes)
        return NULL;
    block = r->data + r->used_bytes;
    r->used_bytes += (size_t)size_round_up(size_bytes + 1, 16);
    return block;
}

static void counted_free(void *block) {
    const struct reserve *r = reserve;
    if (!r || (uintptr_t)block - (uintptr_t)r->data >= r->size_bytes)
        memory_free(block);
}

/* Runs before main, and so before the first value: texts of json_dumps are freed with memory_free. */
__attribute__((constructor)) static void use_counted_heap(void) { json_set_alloc_funcs(counted_alloc, counted_free); }

/* Gives the text in pieces, and nothing more once the reserve is touched: the parse ends soon. */
static size_t feed(void *to, size_t size_bytes, void *context) {
    struct text *rest = context;
    size_t count = reserve->needed ? 0 : rest->size_bytes < size_bytes ? rest->size_bytes : size_bytes;
    if (count == 0)
        return 0;
    memcpy(to, rest->data, count);
    *rest = (struct text){rest->data + count, rest->size_bytes - count};
    return count;
}

/* End (one past) of the string that starts at the quote at `at`. */
static size_t skip_string(struct text text, size_t at) {
    ASSERT(at < text.size_bytes && text.data[at] == '"');
    for (at++; at < text.size_bytes && text.data[at] != '"'; at++)
        if (text.data[at] == '\\')
            at++;
    return at < text.size_bytes ? at + 1 : text.size_bytes;
}

static bool ends_token(char c) {
    return c == ',' || c == ':' || c == ' ' || c == '"' || c == '\n' || c == '[' || c == ']' || c == '{' || c == '}';
}

static size_t longest_token(struct text text) {
    size_t longest = 0;
    for (size_t at = 0, end; at < text.size_bytes; at = end) {
        end = text.data[at] == '"' ? skip_string(text, at) : at + 1;
        while (text.data[at] != '"' && end < text.size_bytes && !ends_token(text.data[end]))
            end++;
        longest = end - at > longest ? end - at : longest;
    }
    return longest;
}

enum status json_load_text(struct text text, size_t jansson_flags, json_t **out, json_error_t *problem) {
    size_t fed_bytes = text.size_bytes < FED_BYTES_MAX ? text.size_bytes : FED_BYTES_MAX;
    struct reserve own = {.size_bytes = RESERVE_PER_TOKEN_BYTE * longest_token(text) + RESERVE_PER_BYTE * fed_bytes + FED_BYTES_MAX};
    CHECK(!reserve);
    *out = NULL;
    *problem = (json_error_t){.line = -1};
    own.data = memory_alloc(own.size_bytes);
    if (!own.data)
        return STATUS_NO_MEMORY;
    reserve = &own;
    *out = json_load_callback(feed, &text, jansson_flags, problem);
    if (own.needed) {
        json_decref(*out);
        *out = NULL;
    }
    reserve = NULL;
    memory_free(own.data);
    return own.needed ? STATUS_NO_MEMORY : *out ? STATUS_OK : STATUS_CORRUPT;
}

/* ---- what Python writes ---- */

/* What the parser must know beforehand. */
struct scan {
    unsigned depth_max;
    bool python_numbers; /* outside strings: an integer beyond 64 bits, or an N or I (NaN, Infinity) */
};

static bool is_number_byte(char c) { return isdigit((unsigned char)c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'; }

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
    enum status status = json_load_text(text, JSON_ALLOW_NUL, out, &problem);
    if (status == STATUS_NO_MEMORY)
        return error_set(err, status, "%s: no memory for its JSON", source);
    if (status != STATUS_OK)
        return error_set(err, status, "%s: line %d, column %d: not valid JSON: %s", source, problem.line, problem.column, problem.text);
    return STATUS_OK;
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

json_t *json_lenient_string(const char *bytes, size_t size_bytes) {
    json_t *string = json_stringn(bytes, size_bytes);
    if (string)
        return string;
    struct byte_buffer clean; /* a token of broken bytes: every byte that is no ASCII becomes U+FFFD */
    byte_buffer_init(&clean, size_bytes * 3 + 1);
    for (size_t i = 0; i < size_bytes; i++) {
        bool plain = (unsigned char)bytes[i] < 0x80;
        if (byte_buffer_append(&clean, plain ? &bytes[i] : "\xef\xbf\xbd", plain ? 1 : 3, NULL) != STATUS_OK)
            break;
    }
    string = json_stringn(clean.data ? clean.data : "", clean.size_bytes);
    byte_buffer_deinit(&clean);
    return string;
}
