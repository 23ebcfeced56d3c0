/* reply_literal: a recursive reader with a depth limit. */
#include "text/reply_literal.h"

#include <string.h>

#include "base/check.h"
#include "text/unicode.h"

#define DEPTH_MAX 100
#define GEMMA_QUOTE "<|\"|>"

struct reader {
    struct text text;
    size_t at;
    enum reply_dialect dialect;
    bool whole;
    unsigned depth;
    struct byte_buffer *json; /* NULL: not wanted */
    bool failed;              /* memory */
};

static void put(struct reader *r, const char *data, size_t size_bytes) {
    if (r->json && byte_buffer_append(r->json, data, size_bytes, NULL) != STATUS_OK)
        r->failed = true;
}

static void put_text(struct reader *r, const char *text) { put(r, text, strlen(text)); }

static int peek(const struct reader *r) { return r->at < r->text.size_bytes ? (unsigned char)r->text.data[r->at] : -1; }

size_t reply_skip_space(struct text text, size_t at) {
    while (at < text.size_bytes && strchr(" \t\r\n", text.data[at]) && text.data[at])
        at++;
    return at;
}

static void skip_space(struct reader *r) { r->at = reply_skip_space(r->text, r->at); }

/* Whether the text goes on with `word`: READ_MORE when it ends inside it. */
static enum reply_read match(struct text text, size_t at, const char *word) {
    size_t size = strlen(word), left = text.size_bytes - at, common = left < size ? left : size;
    if (memcmp(text.data + at, word, common) != 0)
        return READ_BAD;
    return common == size ? READ_OK : READ_MORE;
}

enum status reply_put_json_string(struct byte_buffer *out, struct text text, struct error *err) {
    TRY(byte_buffer_append(out, "\"", 1, err));
    for (size_t i = 0, begin = 0; i <= text.size_bytes; i++) {
        unsigned char c = i < text.size_bytes ? (unsigned char)text.data[i] : 0;
        if (i < text.size_bytes && c >= 0x20 && c != '"' && c != '\\')
            continue;
        TRY(byte_buffer_append(out, text.data + begin, i - begin, err));
        begin = i + 1;
        if (i == text.size_bytes)
            break;
        const char *named = c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : NULL;
        TRY(named ? byte_buffer_append_text(out, text_of(named), err) : byte_buffer_printf(out, err, "\\u%04x", c));
    }
    return byte_buffer_append(out, "\"", 1, err);
}

/* ---- strings ---- */

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1; }

/* `count` hexadecimal digits at `at`. */
static enum reply_read read_hex(struct text text, size_t at, unsigned count, uint32_t *value) {
    *value = 0;
    for (unsigned i = 0; i < count; i++, at++) {
        if (at >= text.size_bytes)
            return READ_MORE;
        int digit = hex_digit(text.data[at]);
        if (digit < 0)
            return READ_BAD;
        *value = *value << 4 | (uint32_t)digit;
    }
    return READ_OK;
}

static enum reply_read put_code_point(struct byte_buffer *out, uint32_t c) {
    if (c > 0x10FFFF)
        return READ_BAD;
    if (c >= 0xD800 && c < 0xE000)
        c = UNICODE_REPLACEMENT;
    return !out || utf8_append(out, c, NULL) == STATUS_OK ? READ_OK : READ_BAD;
}

/* \uXXXX at *at (its 'u'), with the second half of a pair when it follows. */
static enum reply_read read_unicode(struct text text, size_t *at, struct byte_buffer *out) {
    uint32_t high, low;
    enum reply_read read = read_hex(text, *at + 1, 4, &high);
    if (read != READ_OK)
        return read;
    *at += 5;
    if (high < 0xD800 || high >= 0xDC00)
        return put_code_point(out, high);
    if (*at + 1 >= text.size_bytes) /* whether the other half follows is not known yet */
        return READ_MORE;
    if (text.data[*at] == '\\' && text.data[*at + 1] == 'u') {
        read = read_hex(text, *at + 2, 4, &low);
        if (read == READ_MORE)
            return read;
        if (read == READ_OK && low >= 0xDC00 && low < 0xE000) {
            *at += 6;
            return put_code_point(out, 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
        }
    }
    return put_code_point(out, high);
}

/* The escape behind the backslash at *at - 1. */
static enum reply_read read_escape(struct text text, size_t *at, bool json, struct byte_buffer *out) {
    if (*at >= text.size_bytes)
        return READ_MORE;
    char c = text.data[*at];
    static const char from[] = "\"\\/bfnrt'av", to[] = "\"\\/\b\f\n\r\t'\a\v";
    const char *found = c ? strchr(from, c) : NULL;
    if (c == 'u')
        return read_unicode(text, at, out);
    if (found && (!json || found - from < 8)) {
        *at += 1;
        return put_code_point(out, (unsigned char)to[found - from]);
    }
    if (json)
        return READ_BAD;
    uint32_t value;
    unsigned digits = c == 'x' ? 2 : c == 'U' ? 8 : 0;
    if (digits) {
        enum reply_read read = read_hex(text, *at + 1, digits, &value);
        *at += read == READ_OK ? 1 + digits : 0;
        return read == READ_OK ? put_code_point(out, value) : read;
    }
    if (c == '\n') { /* a line continuation */
        *at += 1;
        return READ_OK;
    }
    return put_code_point(out, '\\'); /* Python keeps unknown escapes */
}

static enum reply_read read_gemma_string(struct text text, size_t *at, struct byte_buffer *utf8) {
    enum reply_read read = match(text, *at, GEMMA_QUOTE);
    if (read != READ_OK)
        return read;
    size_t begin = *at + strlen(GEMMA_QUOTE);
    const char *close = memmem(text.data + begin, text.size_bytes - begin, GEMMA_QUOTE, strlen(GEMMA_QUOTE));
    if (!close)
        return READ_MORE;
    size_t end = (size_t)(close - text.data);
    *at = end + strlen(GEMMA_QUOTE);
    return !utf8 || byte_buffer_append(utf8, text.data + begin, end - begin, NULL) == STATUS_OK ? READ_OK : READ_BAD;
}

enum reply_read reply_read_string(struct text text, size_t *at, enum reply_dialect dialect, struct byte_buffer *utf8) {
    if (*at >= text.size_bytes)
        return READ_MORE;
    char quote = text.data[*at];
    bool json = dialect == DIALECT_JSON;
    if (dialect == DIALECT_GEMMA && quote == '<')
        return read_gemma_string(text, at, utf8);
    if (quote != '"' && (json || quote != '\''))
        return READ_BAD;
    for ((*at)++; *at < text.size_bytes;) {
        size_t begin = *at;
        while (*at < text.size_bytes && text.data[*at] != quote && text.data[*at] != '\\' && (unsigned char)text.data[*at] >= 0x20)
            (*at)++;
        if (utf8 && byte_buffer_append(utf8, text.data + begin, *at - begin, NULL) != STATUS_OK)
            return READ_BAD;
        if (*at >= text.size_bytes)
            return READ_MORE;
        char c = text.data[(*at)++];
        if (c == quote)
            return READ_OK;
        if (c == '\\') {
            enum reply_read read = read_escape(text, at, json, utf8);
            if (read != READ_OK)
                return read;
        } else if (json) {
            return READ_BAD; /* a control character */
        } else if (utf8 && byte_buffer_append(utf8, &c, 1, NULL) != STATUS_OK) {
            return READ_BAD;
        }
    }
    return READ_MORE;
}

/* A string value: JSON as it is written, the other dialects decoded and written as JSON. */
static enum reply_read read_string(struct reader *r) {
    size_t begin = r->at;
    if (r->dialect == DIALECT_JSON || !r->json) {
        enum reply_read read = reply_read_string(r->text, &r->at, r->dialect, NULL);
        if (read == READ_OK)
            put(r, r->text.data + begin, r->at - begin);
        return read;
    }
    struct byte_buffer utf8;
    byte_buffer_init(&utf8, SIZE_MAX / 2);
    enum reply_read read = reply_read_string(r->text, &r->at, r->dialect, &utf8);
    if (read == READ_OK && reply_put_json_string(r->json, byte_buffer_text(&utf8), NULL) != STATUS_OK)
        r->failed = true;
    byte_buffer_deinit(&utf8);
    return read;
}

/* ---- numbers and words ---- */

static size_t skip_digits(struct text text, size_t at) {
    while (at < text.size_bytes && text.data[at] >= '0' && text.data[at] <= '9')
        at++;
    return at;
}

static enum reply_read read_number(struct reader *r) {
    struct text text = r->text;
    size_t begin = r->at, at = begin + (text.data[begin] == '-'), whole = skip_digits(text, at);
    bool end = whole == text.size_bytes;
    if (whole == at)
        return end ? READ_MORE : READ_BAD;
    if (text.data[at] == '0' && whole > at + 1)
        return READ_BAD;
    at = whole;
    if (at < text.size_bytes && text.data[at] == '.') {
        size_t digits = skip_digits(text, at + 1);
        if (digits == at + 1)
            return digits == text.size_bytes ? READ_MORE : READ_BAD;
        at = digits;
    }
    if (at < text.size_bytes && (text.data[at] | 32) == 'e') {
        size_t first = at + 1;
        first += first < text.size_bytes && (text.data[first] == '-' || text.data[first] == '+');
        size_t digits = skip_digits(text, first);
        if (digits == first)
            return digits == text.size_bytes ? READ_MORE : READ_BAD;
        at = digits;
    }
    if (at == text.size_bytes && !r->whole)
        return READ_MORE;
    put(r, text.data + begin, at - begin);
    r->at = at;
    return READ_OK;
}

static enum reply_read read_word(struct reader *r) {
    static const struct {
        const char *word, *json;
        bool strict; /* JSON has it too */
    } words[] = {{"true", "true", true},  {"false", "false", true},  {"null", "null", true},
                 {"True", "true", false}, {"False", "false", false}, {"None", "null", false}};
    bool more = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (r->dialect == DIALECT_JSON && !words[i].strict)
            continue;
        enum reply_read read = match(r->text, r->at, words[i].word);
        more = more || read == READ_MORE;
        if (read != READ_OK)
            continue;
        r->at += strlen(words[i].word);
        put_text(r, words[i].json);
        return READ_OK;
    }
    return more ? READ_MORE : READ_BAD;
}

/* ---- containers ---- */

static enum reply_read read_value(struct reader *r);

/* A key of Gemma's objects: quoted, or bare up to the colon. */
static enum reply_read read_bare_key(struct reader *r) {
    if (peek(r) == '<' || peek(r) == '"' || peek(r) == '\'')
        return read_string(r);
    size_t begin = r->at;
    while (r->at < r->text.size_bytes && !strchr(":,{}[]", r->text.data[r->at]))
        r->at++;
    if (peek(r) < 0)
        return READ_MORE;
    size_t end = r->at;
    while (end > begin && strchr(" \t\r\n", r->text.data[end - 1]))
        end--;
    if (peek(r) != ':' || end == begin)
        return READ_BAD;
    if (r->json && reply_put_json_string(r->json, (struct text){r->text.data + begin, end - begin}, NULL) != STATUS_OK)
        r->failed = true;
    return READ_OK;
}

static enum reply_read read_pair(struct reader *r) {
    enum reply_read read = r->dialect == DIALECT_GEMMA ? read_bare_key(r) : peek(r) < 0 ? READ_MORE : read_string(r);
    if (read != READ_OK)
        return read;
    size_t begin = r->at;
    skip_space(r);
    if (peek(r) != ':')
        return peek(r) < 0 ? READ_MORE : READ_BAD;
    r->at++;
    skip_space(r);
    if (r->dialect == DIALECT_JSON)
        put(r, r->text.data + begin, r->at - begin);
    else
        put_text(r, ": ");
    return read_value(r);
}

/* Items up to `close`; JSON keeps its white space, the others are written anew. A trailing comma is Python's only. */
static enum reply_read read_items(struct reader *r, char close, bool pairs) {
    const char *brackets = pairs ? "{}" : "[]";
    bool json = r->dialect == DIALECT_JSON, comma = true, first = true;
    put(r, brackets, 1);
    for (r->at++;; first = false) {
        size_t begin = r->at;
        skip_space(r);
        if (json)
            put(r, r->text.data + begin, r->at - begin);
        int c = peek(r);
        if (c < 0)
            return READ_MORE;
        if (c == close && (first || !comma || !json)) {
            r->at++;
            put(r, brackets + 1, 1);
            return READ_OK;
        }
        if (!first && !comma) {
            if (c != ',')
                return READ_BAD;
            r->at++;
            comma = true;
            if (json)
                put_text(r, ",");
            continue;
        }
        if (!first && !json)
            put_text(r, ", ");
        enum reply_read read = pairs ? read_pair(r) : read_value(r);
        if (read != READ_OK)
            return read;
        comma = false;
    }
}

static enum reply_read read_value(struct reader *r) {
    int c = peek(r);
    if (c < 0)
        return READ_MORE;
    if (r->depth == DEPTH_MAX)
        return READ_BAD;
    r->depth++;
    enum reply_read read;
    if (c == '{')
        read = read_items(r, '}', true);
    else if (c == '[')
        read = read_items(r, ']', false);
    else if (c == '(' && r->dialect == DIALECT_PYTHON)
        read = read_items(r, ')', false);
    else if (c == '"' || (c == '\'' && r->dialect != DIALECT_JSON) || (c == '<' && r->dialect == DIALECT_GEMMA))
        read = read_string(r);
    else if (c == '-' || (c >= '0' && c <= '9'))
        read = read_number(r);
    else
        read = read_word(r);
    r->depth--;
    return r->failed ? READ_BAD : read;
}

enum reply_read reply_read_value(struct text text, size_t *at, enum reply_dialect dialect, bool whole, struct byte_buffer *json) {
    ASSERT(*at <= text.size_bytes);
    struct reader reader = {.text = text, .at = *at, .dialect = dialect, .whole = whole, .json = json};
    enum reply_read read = read_value(&reader);
    *at = reader.at;
    return read;
}

enum reply_read reply_next_member(struct text text, size_t *at, struct reply_member *member) {
    *member = (struct reply_member){.key = {NULL, 0}};
    *at = reply_skip_space(text, *at);
    if (*at < text.size_bytes && text.data[*at] == ',')
        *at = reply_skip_space(text, *at + 1);
    if (*at >= text.size_bytes)
        return READ_MORE;
    if (text.data[*at] == '}') {
        *at += 1;
        return READ_OK;
    }
    size_t begin = *at;
    enum reply_read read = reply_read_string(text, at, DIALECT_JSON, NULL);
    if (read != READ_OK)
        return read;
    struct text key = {text.data + begin + 1, *at - begin - 2};
    *at = reply_skip_space(text, *at);
    if (*at >= text.size_bytes || text.data[*at] != ':')
        return *at >= text.size_bytes ? READ_MORE : READ_BAD;
    *at = begin = reply_skip_space(text, *at + 1);
    read = reply_read_value(text, at, DIALECT_JSON, true, NULL);
    if (read == READ_OK)
        *member = (struct reply_member){key, {text.data + begin, *at - begin}};
    return read;
}
