/*
 * json_walk: jansson reads keys and values; the braces, colons and commas between members are read here.
 */
#include "format/json_walk.h"

#include <stdbool.h>

#include "base/check.h"
#include "base/json.h"

#define VALUE_DEPTH_MAX 16

static enum status bad(const struct json_walk *walk, const char *what, struct error *err) {
    return error_set(err, STATUS_CORRUPT, "%s: not valid JSON at byte %zu: %s", walk->source, walk->position, what);
}

/* Moves behind white space and returns the byte there, 0 at the end. */
static char next_byte(struct json_walk *walk) {
    ASSERT(walk->position <= walk->text.size_bytes);
    for (; walk->position < walk->text.size_bytes; walk->position++) {
        char c = walk->text.data[walk->position];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            return c;
    }
    return 0;
}

enum status json_walk_open(struct json_walk *walk, struct text text, size_t position, const char *source, struct error *err) {
    CHECK(position <= text.size_bytes && source);
    *walk = (struct json_walk){.text = text, .source = source, .position = position};
    if (next_byte(walk) != '{')
        return bad(walk, "an object ('{') is expected", err);
    walk->position++;
    return STATUS_OK;
}

void json_walk_close(struct json_walk *walk) {
    json_decref(walk->key);
    walk->key = NULL;
}

/* One past the string that starts at the quote at `at`. */
static size_t string_end(struct text text, size_t at) {
    for (at++; at < text.size_bytes && text.data[at] != '"'; at++)
        if (text.data[at] == '\\')
            at++;
    return at < text.size_bytes ? at + 1 : text.size_bytes;
}

static bool ends_scalar(char c) {
    return c == ',' || c == '}' || c == ']' || c == ':' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* One past the value at the position; 0 when it is nested too deep for jansson, which recurses. */
static size_t value_end(const struct json_walk *walk) {
    struct text text = walk->text;
    unsigned depth = 0;
    size_t at = walk->position;
    while (at < text.size_bytes) {
        char c = text.data[at];
        if (c == '"') {
            at = string_end(text, at);
        } else if (c == '{' || c == '[') {
            if (++depth > VALUE_DEPTH_MAX)
                return 0;
            at++;
        } else if (depth > 0) {
            depth -= c == '}' || c == ']';
            at++;
        } else {
            while (at < text.size_bytes && !ends_scalar(text.data[at]))
                at++;
        }
        if (depth == 0)
            break;
    }
    return at;
}

/* Any one value at the position. */
static enum status read_any(struct json_walk *walk, json_t **out, struct error *err) {
    json_error_t problem;
    size_t end = value_end(walk);
    *out = NULL;
    if (end == 0)
        return bad(walk, "values are nested too deep", err);
    ASSERT(end >= walk->position && end <= walk->text.size_bytes);
    struct text value = {walk->text.data + walk->position, end - walk->position};
    enum status status = json_load_text(value, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, out, &problem);
    if (status == STATUS_NO_MEMORY)
        return error_set(err, status, "%s: no memory for its JSON", walk->source);
    if (status != STATUS_OK)
        return bad(walk, problem.text, err);
    walk->position = end;
    return STATUS_OK;
}

enum status json_walk_next(struct json_walk *walk, bool *more, struct text *key, struct error *err) {
    char c = next_byte(walk);
    bool first = !walk->key;
    CHECK(more && key);
    json_walk_close(walk);
    *more = c != '}';
    if (c == '}') {
        walk->position++;
        return STATUS_OK;
    }
    if (!first) {
        if (c != ',')
            return bad(walk, "',' or '}' is expected", err);
        walk->position++;
        c = next_byte(walk);
    }
    if (c != '"')
        return bad(walk, "a name in quotes is expected", err);
    TRY(read_any(walk, &walk->key, err));
    *key = (struct text){json_string_value(walk->key), json_string_length(walk->key)};
    if (next_byte(walk) != ':')
        return bad(walk, "':' is expected", err);
    walk->position++;
    return STATUS_OK;
}

enum status json_walk_value(struct json_walk *walk, json_t **out, struct error *err) {
    CHECK(walk->key);
    *out = NULL;
    if (next_byte(walk) == 0)
        return bad(walk, "the text ends early", err);
    return read_any(walk, out, err);
}

enum status json_walk_end(const struct json_walk *walk, struct error *err) {
    struct json_walk rest = *walk;
    return next_byte(&rest) == 0 && rest.position == walk->text.size_bytes ? STATUS_OK : bad(&rest, "something follows the object", err);
}
