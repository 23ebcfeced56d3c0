/* json_scan: a byte cursor over a refilled window; no recursion, containers below a skipped value are counted on 64 bits. */
#include "text/json_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/unicode.h"

#define WINDOW_BYTES 65536u
#define STRING_BYTES_MAX (1u << 20)
#define NUMBER_BYTES_MAX 64u
#define DEPTH_MAX 64u

enum status json_scan_fail(const struct json_scan *scan, const char *what, struct error *err) {
    return error_set(err, STATUS_CORRUPT, "%s: byte %llu: %s", scan->source, (unsigned long long)json_scan_offset(scan), what);
}

enum status json_scan_open(struct json_scan *scan, const char *path, struct error *err) {
    *scan = (struct json_scan){.source = path, .file = open(path, O_RDONLY | O_CLOEXEC)};
    byte_buffer_init(&scan->text, STRING_BYTES_MAX);
    if (scan->file < 0) {
        int why = errno;
        return error_set(err, why == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", path, strerror(why));
    }
    scan->window = memory_alloc(WINDOW_BYTES);
    if (!scan->window) {
        json_scan_close(scan);
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    }
    return STATUS_OK;
}

void json_scan_memory(struct json_scan *scan, struct text bytes, const char *source) {
    *scan = (struct json_scan){.source = source, .file = -1, .window = (char *)(uintptr_t)bytes.data, .end = bytes.size_bytes};
    byte_buffer_init(&scan->text, STRING_BYTES_MAX);
}

void json_scan_close(struct json_scan *scan) {
    if (scan->file >= 0) {
        (void)close(scan->file);
        memory_free(scan->window);
    }
    byte_buffer_deinit(&scan->text);
    *scan = (struct json_scan){.file = -1};
}

uint64_t json_scan_offset(const struct json_scan *scan) { return scan->base + scan->begin; }

enum status json_scan_seek(struct json_scan *scan, uint64_t offset, struct error *err) {
    if (scan->file < 0) {
        CHECK(offset <= scan->end);
        scan->begin = (size_t)offset;
        return STATUS_OK;
    }
    if (lseek(scan->file, (off_t)offset, SEEK_SET) < 0)
        return error_set(err, STATUS_IO, "%s: seek to byte %llu: %s", scan->source, (unsigned long long)offset, strerror(errno));
    scan->base = offset;
    scan->begin = scan->end = 0;
    return STATUS_OK;
}

/* Reads on when the window is used up; *more is false at the end of the file. */
static enum status refill(struct json_scan *scan, bool *more, struct error *err) {
    *more = scan->begin < scan->end;
    if (*more || scan->file < 0)
        return STATUS_OK;
    scan->base += scan->end;
    scan->begin = scan->end = 0;
    ssize_t got;
    do
        got = read(scan->file, scan->window, WINDOW_BYTES);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return error_set(err, STATUS_IO, "%s: read at byte %llu: %s", scan->source, (unsigned long long)scan->base, strerror(errno));
    scan->end = (size_t)got;
    *more = got > 0;
    return STATUS_OK;
}

/* The next byte without taking it. The end of the file is an error. */
static enum status peek(struct json_scan *scan, char *byte, struct error *err) {
    if (scan->begin == scan->end) {
        bool more;
        TRY(refill(scan, &more, err));
        if (!more)
            return json_scan_fail(scan, "the JSON ends too early", err);
    }
    *byte = scan->window[scan->begin];
    return STATUS_OK;
}

static enum status take(struct json_scan *scan, char *byte, struct error *err) {
    TRY(peek(scan, byte, err));
    scan->begin++;
    return STATUS_OK;
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/* The next byte that is not white space, without taking it. */
static enum status peek_token(struct json_scan *scan, char *byte, struct error *err) {
    for (;;) {
        TRY(peek(scan, byte, err));
        if (!is_space(*byte))
            return STATUS_OK;
        scan->begin++;
    }
}

enum status json_scan_kind(struct json_scan *scan, enum json_kind *kind, struct error *err) {
    char c;
    TRY(peek_token(scan, &c, err));
    if (c == '{')
        *kind = JSON_KIND_OBJECT;
    else if (c == '[')
        *kind = JSON_KIND_ARRAY;
    else if (c == '"')
        *kind = JSON_KIND_STRING;
    else if (c == '-' || (c >= '0' && c <= '9'))
        *kind = JSON_KIND_NUMBER;
    else if (c == 't' || c == 'f' || c == 'n' || c == 'N' || c == 'I') /* Python writes NaN and Infinity */
        *kind = JSON_KIND_WORD;
    else
        return json_scan_fail(scan, "no JSON value begins like this", err);
    return STATUS_OK;
}

enum status json_scan_enter(struct json_scan *scan, enum json_kind kind, struct error *err) {
    CHECK(kind == JSON_KIND_OBJECT || kind == JSON_KIND_ARRAY);
    char c;
    TRY(peek_token(scan, &c, err));
    if (c != (kind == JSON_KIND_OBJECT ? '{' : '['))
        return json_scan_fail(scan, kind == JSON_KIND_OBJECT ? "an object ({) was expected" : "a list ([) was expected", err);
    scan->begin++;
    scan->first = true;
    return STATUS_OK;
}

/* Stands before the next member of a container that ends with `close`; reads the comma. */
static enum status next_member(struct json_scan *scan, char close, bool *more, struct error *err) {
    char c;
    bool first = scan->first;
    scan->first = false;
    TRY(peek_token(scan, &c, err));
    *more = c != close;
    if (!*more) {
        scan->begin++;
        return STATUS_OK;
    }
    if (first)
        return STATUS_OK;
    if (c != ',')
        return json_scan_fail(scan, "a comma was expected", err);
    scan->begin++;
    TRY(peek_token(scan, &c, err));
    return c == close ? json_scan_fail(scan, "a value must follow the comma", err) : STATUS_OK;
}

enum status json_scan_next_key(struct json_scan *scan, bool *more, struct text *key, struct error *err) {
    TRY(next_member(scan, '}', more, err));
    if (!*more)
        return STATUS_OK;
    TRY(json_scan_string(scan, key, err));
    char c;
    TRY(peek_token(scan, &c, err));
    if (c != ':')
        return json_scan_fail(scan, "a colon was expected", err);
    scan->begin++;
    return STATUS_OK;
}

enum status json_scan_next_item(struct json_scan *scan, bool *more, struct error *err) { return next_member(scan, ']', more, err); }

static enum status hex4(struct json_scan *scan, uint32_t *value, struct error *err) {
    *value = 0;
    for (int i = 0; i < 4; i++) {
        char c = 0;
        TRY(take(scan, &c, err));
        unsigned digit;
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            digit = (unsigned)((c | 0x20) - 'a' + 10);
        else
            return json_scan_fail(scan, "\\u needs four hexadecimal digits", err);
        *value = *value << 4 | digit;
    }
    return STATUS_OK;
}

/* What follows a backslash. */
static enum status escape(struct json_scan *scan, struct error *err) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = 0;
    TRY(take(scan, &c, err));
    if (c != 'u') {
        const char *at = c ? strchr(from, c) : NULL;
        return at ? byte_buffer_append(&scan->text, &to[at - from], 1, err) : json_scan_fail(scan, "unknown escape in a string", err);
    }
    uint32_t high, low;
    TRY(hex4(scan, &high, err));
    if (high >= 0xD800 && high < 0xDC00) {
        char backslash = 0, u = 0;
        TRY(take(scan, &backslash, err));
        TRY(take(scan, &u, err));
        if (backslash != '\\' || u != 'u')
            return json_scan_fail(scan, "half of a surrogate pair in a string", err);
        TRY(hex4(scan, &low, err));
        if (low < 0xDC00 || low > 0xDFFF)
            return json_scan_fail(scan, "half of a surrogate pair in a string", err);
        high = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    } else if (high >= 0xDC00 && high <= 0xDFFF) {
        return json_scan_fail(scan, "half of a surrogate pair in a string", err);
    }
    return utf8_append(&scan->text, high, err);
}

enum status json_scan_string(struct json_scan *scan, struct text *text, struct error *err) {
    char c;
    TRY(peek_token(scan, &c, err));
    if (c != '"')
        return json_scan_fail(scan, "a string was expected", err);
    scan->begin++;
    byte_buffer_clear(&scan->text);
    for (;;) {
        TRY(peek(scan, &c, err));
        size_t stop = scan->begin; /* plain bytes of this window */
        while (stop < scan->end && scan->window[stop] != '"' && scan->window[stop] != '\\' && (uint8_t)scan->window[stop] >= 0x20)
            stop++;
        if (stop - scan->begin > STRING_BYTES_MAX - scan->text.size_bytes)
            return json_scan_fail(scan, "a string is longer than 1 MiB", err);
        TRY(byte_buffer_append(&scan->text, scan->window + scan->begin, stop - scan->begin, err));
        scan->begin = stop;
        if (stop == scan->end)
            continue;
        TRY(take(scan, &c, err));
        if (c == '"')
            break;
        if (c != '\\')
            return json_scan_fail(scan, "a control character in a string", err);
        TRY(escape(scan, err));
    }
    *text = byte_buffer_text(&scan->text);
    return utf8_valid_bytes(*text) == text->size_bytes ? STATUS_OK : json_scan_fail(scan, "a string before it is not UTF-8", err);
}

/* Takes the bytes of a number or word. */
static enum status plain_value(struct json_scan *scan, char *bytes, size_t *size_bytes, struct error *err) {
    char c;
    *size_bytes = 0;
    TRY(peek_token(scan, &c, err));
    for (;;) {
        bool more;
        TRY(refill(scan, &more, err));
        if (!more)
            break;
        c = scan->window[scan->begin];
        if (is_space(c) || c == ',' || c == ']' || c == '}' || c == ':')
            break;
        if (*size_bytes == NUMBER_BYTES_MAX)
            return json_scan_fail(scan, "a number is too long", err);
        bytes[(*size_bytes)++] = c;
        scan->begin++;
    }
    return *size_bytes > 0 ? STATUS_OK : json_scan_fail(scan, "a value was expected", err);
}

enum status json_scan_bool(struct json_scan *scan, bool *value, struct error *err) {
    char bytes[NUMBER_BYTES_MAX];
    size_t size_bytes = 0;
    TRY(plain_value(scan, bytes, &size_bytes, err));
    struct text word = {bytes, size_bytes};
    *value = text_is(word, "true");
    return *value || text_is(word, "false") || text_is(word, "null") ? STATUS_OK : json_scan_fail(scan, "true or false was expected", err);
}

enum status json_scan_u32(struct json_scan *scan, uint32_t *value, struct error *err) {
    char bytes[NUMBER_BYTES_MAX];
    size_t size_bytes;
    uint64_t number;
    TRY(plain_value(scan, bytes, &size_bytes, err));
    if (!text_parse_u64((struct text){bytes, size_bytes}, &number) || number > UINT32_MAX)
        return json_scan_fail(scan, "a whole number from 0 to 4294967295 was expected", err);
    *value = (uint32_t)number;
    return STATUS_OK;
}

enum status json_scan_number(struct json_scan *scan, struct text *text, struct error *err) {
    char bytes[NUMBER_BYTES_MAX];
    size_t size_bytes = 0;
    double value;
    TRY(plain_value(scan, bytes, &size_bytes, err));
    if (!text_parse_f64((struct text){bytes, size_bytes}, &value))
        return json_scan_fail(scan, "a number was expected", err);
    byte_buffer_clear(&scan->text);
    TRY(byte_buffer_append(&scan->text, bytes, size_bytes, err));
    *text = byte_buffer_text(&scan->text);
    return STATUS_OK;
}

enum status json_scan_skip(struct json_scan *scan, struct error *err) { return json_scan_raw(scan, NULL, err); }

/* State of a raw copy: what is open, and whether the cursor is in a string. */
struct raw_state {
    uint64_t objects; /* bit d: the container at depth d is an object */
    unsigned depth;
    bool in_string, escaped;
};

/* Takes note of one byte of a container. *done: it was the last. */
static enum status raw_byte(const struct json_scan *scan, struct raw_state *state, char c, bool *done, struct error *err) {
    if (state->in_string) {
        state->in_string = state->escaped || c != '"';
        state->escaped = !state->escaped && c == '\\';
        *done = !state->in_string && state->depth == 0;
    } else if (c == '"') {
        state->in_string = true;
    } else if (c == '{' || c == '[') {
        if (state->depth == DEPTH_MAX)
            return json_scan_fail(scan, "JSON nested deeper than 64 levels", err);
        state->objects = (state->objects & ~(1ull << state->depth)) | (uint64_t)(c == '{') << state->depth;
        state->depth++;
    } else if (c == '}' || c == ']') {
        ASSERT(state->depth > 0);
        state->depth--;
        if ((state->objects >> state->depth & 1) != (c == '}'))
            return json_scan_fail(scan, "a bracket closes what it did not open", err);
        *done = state->depth == 0;
    }
    return STATUS_OK;
}

enum status json_scan_raw(struct json_scan *scan, struct byte_buffer *out, struct error *err) {
    enum json_kind kind;
    TRY(json_scan_kind(scan, &kind, err));
    if (kind == JSON_KIND_NUMBER || kind == JSON_KIND_WORD) {
        char bytes[NUMBER_BYTES_MAX];
        size_t size_bytes;
        TRY(plain_value(scan, bytes, &size_bytes, err));
        return out ? byte_buffer_append(out, bytes, size_bytes, err) : STATUS_OK;
    }
    struct raw_state state = {0};
    for (bool done = false; !done;) {
        char c;
        TRY(peek(scan, &c, err));
        size_t begin = scan->begin;
        while (scan->begin < scan->end && !done) {
            c = scan->window[scan->begin++];
            TRY(raw_byte(scan, &state, c, &done, err));
        }
        if (out)
            TRY(byte_buffer_append(out, scan->window + begin, scan->begin - begin, err));
    }
    return STATUS_OK;
}

enum status json_scan_end(struct json_scan *scan, struct error *err) {
    for (;;) {
        bool more;
        TRY(refill(scan, &more, err));
        if (!more)
            return STATUS_OK;
        if (!is_space(scan->window[scan->begin]))
            return json_scan_fail(scan, "something follows the JSON value", err);
        scan->begin++;
    }
}
