/*
 * reply_section: matches a family's patterns against the text of a call section.
 *
 * Order of attempts   items by alternatives; behind an item parameters while they match, then item_end; then the closing mark or another
 *                     item. Whatever could still match with more text is READ_MORE, so a decision never changes later.
 */
#include <string.h>

#include "base/check.h"
#include "text/reply_call.h"

struct section {
    const struct reply_family *family;
    const json_t *tools;
    struct text text;
    size_t at;
    bool last;  /* no more text will come */
    bool whole; /* the call is complete: what is left of the pattern is closing marks */
    struct reply_calls *calls;
    size_t first_call; /* of this item */
    struct text name, id, key, value;
    struct byte_buffer arguments; /* JSON, being built */
    bool has_arguments, value_is_text, value_is_typed;
};

static size_t left(const struct section *s) { return s->text.size_bytes - s->at; }

/* The text goes on with `literal`. At the end of the reply a closing mark may be missing or cut. */
static enum reply_read match_literal(struct section *s, struct text literal) {
    size_t common = left(s) < literal.size_bytes ? left(s) : literal.size_bytes;
    if (memcmp(s->text.data + s->at, literal.data, common) != 0)
        return READ_BAD;
    s->at += common;
    return common == literal.size_bytes || (s->last && s->whole) ? READ_OK : READ_MORE;
}

/* Text up to the literal that follows the mark in the pattern (`rest`), which stays unread. */
static enum reply_read take_until(struct section *s, const char *rest, struct text *out) {
    bool space_ends = *rest == 0;
    rest += *rest == '~';
    struct text literal = {rest, strcspn(rest, "~%")}, text = {s->text.data + s->at, left(s)};
    size_t end = 0;
    if (space_ends) { /* a name at the end of a pattern: up to white space or a mark */
        while (end < text.size_bytes && (unsigned char)text.data[end] > ' ' && text.data[end] != '<')
            end++;
        if (end == text.size_bytes)
            return READ_MORE;
    } else if (literal.size_bytes == 0) { /* a bracket of arguments follows: %g, %q */
        while (end < text.size_bytes && text.data[end] != '{' && text.data[end] != '(')
            end++;
        if (end == text.size_bytes)
            return READ_MORE;
    } else {
        const char *found = memmem(text.data, text.size_bytes, literal.data, literal.size_bytes);
        if (!found)
            return READ_MORE;
        end = (size_t)(found - text.data);
    }
    *out = (struct text){text.data, end};
    s->at += end;
    return READ_OK;
}

static struct text trimmed(struct text text) {
    size_t begin = reply_skip_space(text, 0);
    text = (struct text){text.data + begin, text.size_bytes - begin};
    while (text.size_bytes > 0 && strchr(" \t\r\n", text.data[text.size_bytes - 1]))
        text.size_bytes--;
    return text;
}

/* JSON object of arguments, as written. */
static enum reply_read take_object(struct section *s, enum reply_dialect dialect) {
    if (left(s) == 0)
        return READ_MORE;
    if (s->text.data[s->at] != '{')
        return READ_BAD;
    byte_buffer_clear(&s->arguments);
    enum reply_read read = reply_read_value(s->text, &s->at, dialect, false, &s->arguments);
    s->has_arguments = s->whole = read == READ_OK;
    return read;
}

/* [{"name": {arguments}}, ...] */
static enum reply_read take_keyed_list(struct section *s) {
    if (left(s) == 0)
        return READ_MORE;
    if (s->text.data[s->at] != '[')
        return READ_BAD;
    size_t item = reply_skip_space(s->text, s->at + 1);
    enum reply_read read = reply_read_value(s->text, &s->at, DIALECT_JSON, true, NULL);
    if (read != READ_OK)
        return read;
    while (s->text.data[item] != ']') {
        struct reply_member member, more;
        size_t at = item + 1;
        if (s->text.data[item] != '{' || reply_next_member(s->text, &at, &member) != READ_OK || !member.key.data ||
            reply_next_member(s->text, &at, &more) != READ_OK || more.key.data || member.value.data[0] != '{' ||
            !reply_is_name(member.key) || reply_calls_add(s->calls, (struct text){NULL, 0}, member.key, member.value, NULL) != STATUS_OK)
            return READ_BAD;
        item = reply_skip_space(s->text, at);
        if (s->text.data[item] == ',')
            item = reply_skip_space(s->text, item + 1);
    }
    s->whole = s->calls->count > s->first_call;
    return s->whole ? READ_OK : READ_BAD;
}

/* [name(key=value, ...), ...] */
static enum reply_read take_python_list(struct section *s) {
    if (left(s) == 0)
        return READ_MORE;
    if (s->text.data[s->at] != '[')
        return READ_BAD;
    for (s->at = reply_skip_space(s->text, s->at + 1);; s->at = reply_skip_space(s->text, s->at + 1)) {
        size_t begin = s->at;
        while (left(s) > 0 && s->text.data[s->at] != '(' && s->text.data[s->at] != ']')
            s->at++;
        struct text name = trimmed((struct text){s->text.data + begin, s->at - begin});
        byte_buffer_clear(&s->arguments);
        if (left(s) == 0)
            return READ_MORE;
        if (!reply_is_name(name))
            return READ_BAD;
        enum reply_read read = reply_read_python_arguments(s->text, &s->at, &s->arguments);
        if (read != READ_OK)
            return read;
        if (reply_calls_add(s->calls, (struct text){NULL, 0}, name, byte_buffer_text(&s->arguments), NULL) != STATUS_OK)
            return READ_BAD;
        s->at = reply_skip_space(s->text, s->at);
        if (left(s) == 0)
            return READ_MORE;
        if (s->text.data[s->at] == ']')
            break;
        if (s->text.data[s->at] != ',')
            return READ_BAD;
    }
    s->at++;
    s->whole = true;
    return READ_OK;
}

/* functions.NAME:INDEX gives the name too. */
static bool take_id(struct section *s) {
    s->id = trimmed(s->id);
    if (s->name.data || !reply_is_name(s->id))
        return reply_is_name(s->id);
    struct text name = s->id, prefix = TEXT("functions.");
    if (text_starts_with(name, prefix))
        name = (struct text){name.data + prefix.size_bytes, name.size_bytes - prefix.size_bytes};
    const char *colon = memrchr(name.data, ':', name.size_bytes);
    if (colon)
        name.size_bytes = (size_t)(colon - name.data);
    s->name = name;
    return reply_is_name(name);
}

static enum reply_read take_mark(struct section *s, char mark, const char *rest) {
    struct text ignored, flag;
    enum reply_read read;
    switch (mark) {
    case 'n':
        read = take_until(s, rest, &s->name);
        if (read != READ_OK)
            return read;
        s->name = trimmed(s->name);
        return reply_is_name(s->name) ? READ_OK : READ_BAD;
    case 'i':
        read = take_until(s, rest, &s->id);
        return read == READ_OK && !take_id(s) ? READ_BAD : read;
    case 'x':
        return take_until(s, rest, &ignored);
    case 'k':
        read = take_until(s, rest, &s->key);
        if (read != READ_OK)
            return read;
        s->key = trimmed(s->key);
        return s->key.size_bytes > 0 ? READ_OK : READ_BAD;
    case 'v':
        return take_until(s, rest, &s->value);
    case 's':
        read = take_until(s, rest, &flag);
        s->value_is_typed = true;
        s->value_is_text = read == READ_OK && text_is(flag, "true");
        return read == READ_OK && !s->value_is_text && !text_is(flag, "false") ? READ_BAD : read;
    case 'j':
        return take_object(s, DIALECT_JSON);
    case 'g':
        return take_object(s, DIALECT_GEMMA);
    case 'a':
        return take_keyed_list(s);
    case 'p':
        return take_python_list(s);
    case 'q':
        byte_buffer_clear(&s->arguments);
        read = reply_read_python_arguments(s->text, &s->at, &s->arguments);
        s->has_arguments = s->whole = read == READ_OK;
        return read;
    default:
        CHECK(mark == 'c');
        read = reply_read_json_calls(s->text, &s->at, true, false, s->calls);
        s->whole = read == READ_OK;
        return read;
    }
}

static enum reply_read match_pattern(struct section *s, const char *pattern) {
    while (*pattern) {
        enum reply_read read;
        if (*pattern == '~') {
            s->at = reply_skip_space(s->text, s->at);
            pattern++;
            continue;
        }
        if (*pattern == '%') {
            read = take_mark(s, pattern[1], pattern + 2);
            pattern += 2;
        } else {
            struct text literal = {pattern, strcspn(pattern, "~%")};
            read = match_literal(s, literal);
            pattern += literal.size_bytes;
        }
        if (read != READ_OK)
            return read;
    }
    return READ_OK;
}

/* ---- parameters ---- */

static const json_t *find_schema(const json_t *tools, struct text name, struct text key) {
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i), *function = json_object_get(tool, "function");
        function = function ? function : tool;
        const char *tool_name = json_string_value(json_object_get(function, "name"));
        if (tool_name && text_is(name, tool_name))
            return json_object_getn(json_object_get(json_object_get(function, "parameters"), "properties"), key.data, key.size_bytes);
    }
    return NULL;
}

/* Whether a schema lets the value be a string; one that says nothing does. */
static bool is_text_schema(const json_t *schema, unsigned depth) {
    const json_t *type = json_object_get(schema, "type"), *choices = json_object_get(schema, "enum");
    if (json_is_string(type))
        return strcmp(json_string_value(type), "string") == 0;
    for (size_t i = 0; i < json_array_size(type); i++)
        if (json_is_string(json_array_get(type, i)) && strcmp(json_string_value(json_array_get(type, i)), "string") == 0)
            return true;
    if (json_is_array(type))
        return false;
    for (size_t i = 0; i < json_array_size(choices); i++)
        if (json_is_string(json_array_get(choices, i)))
            return true;
    const json_t *any = json_object_get(schema, "anyOf") ? json_object_get(schema, "anyOf") : json_object_get(schema, "oneOf");
    for (size_t i = 0; depth < 4 && i < json_array_size(any); i++)
        if (is_text_schema(json_array_get(any, i), depth + 1))
            return true;
    return json_array_size(choices) == 0 && json_array_size(any) == 0;
}

/* Appends text as the JSON or Python value that it is; false (and nothing appended) when it is none. */
static bool put_value(struct byte_buffer *out, struct text text) {
    text = trimmed(text);
    for (unsigned i = 0; i < 2; i++) {
        size_t before = out->size_bytes, at = 0;
        if (text.size_bytes > 0 && reply_read_value(text, &at, i ? DIALECT_PYTHON : DIALECT_JSON, true, out) == READ_OK &&
            at == text.size_bytes)
            return true;
        out->size_bytes = before;
    }
    return false;
}

static enum reply_read add_parameter(struct section *s) {
    struct text value = s->value;
    if (s->family->trim_newline && text_starts_with(value, TEXT("\n")))
        value = (struct text){value.data + 1, value.size_bytes - 1};
    if (s->family->trim_newline && text_ends_with(value, TEXT("\n")))
        value.size_bytes--;
    const json_t *schema = find_schema(s->tools, s->name, s->key);
    bool is_text = s->value_is_typed ? s->value_is_text : !schema || is_text_schema(schema, 0);
    bool first = s->arguments.size_bytes == 1;
    if ((!first && byte_buffer_append(&s->arguments, ", ", 2, NULL) != STATUS_OK) ||
        reply_put_json_string(&s->arguments, s->key, NULL) != STATUS_OK || byte_buffer_append(&s->arguments, ": ", 2, NULL) != STATUS_OK)
        return READ_BAD;
    if (!is_text && put_value(&s->arguments, value))
        return READ_OK;
    return reply_put_json_string(&s->arguments, value, NULL) == STATUS_OK ? READ_OK : READ_BAD;
}

static enum reply_read read_parameters(struct section *s) {
    byte_buffer_clear(&s->arguments);
    if (byte_buffer_append(&s->arguments, "{", 1, NULL) != STATUS_OK)
        return READ_BAD;
    for (;;) {
        s->at = reply_skip_space(s->text, s->at);
        size_t begin = s->at;
        enum reply_read read = left(s) > 0 ? match_pattern(s, s->family->parameter) : READ_MORE;
        if (read == READ_BAD) {
            s->at = begin;
            break;
        }
        if (read == READ_OK)
            read = add_parameter(s);
        if (read != READ_OK)
            return read;
    }
    if (byte_buffer_append(&s->arguments, "}", 1, NULL) != STATUS_OK)
        return READ_BAD;
    s->has_arguments = true;
    enum reply_read read = s->family->item_end ? match_literal(s, text_of(s->family->item_end)) : READ_OK;
    s->whole = read == READ_OK && s->family->item_end; /* without an end mark only the section's tells that no parameter is missing */
    return read;
}

/* ---- items ---- */

/* One item with its parameters, by whichever alternative fits. */
static enum reply_read read_item(struct section *s) {
    size_t begin = s->at;
    bool more = false;
    for (size_t i = 0; i < sizeof s->family->items / sizeof *s->family->items && s->family->items[i]; i++) {
        s->at = begin;
        s->whole = s->has_arguments = s->value_is_typed = false;
        s->name = s->id = (struct text){NULL, 0};
        reply_calls_truncate(s->calls, s->first_call);
        enum reply_read read = match_pattern(s, s->family->items[i]);
        if (read == READ_OK && s->family->parameter)
            read = read_parameters(s);
        if (read == READ_OK && s->has_arguments)
            read = reply_calls_add(s->calls, s->id, s->name, byte_buffer_text(&s->arguments), NULL) == STATUS_OK ? READ_OK : READ_BAD;
        if (read == READ_OK)
            return READ_OK;
        more = more || read == READ_MORE;
    }
    return more ? READ_MORE : READ_BAD;
}

/* Takes out calls of the name that means "nothing is called". */
static void drop_no_calls(struct section *s) {
    size_t kept = s->first_call;
    for (size_t i = s->first_call; s->family->no_call && i < s->calls->count; i++) {
        struct reply_call call = s->calls->items[i];
        if (strcmp(call.name, s->family->no_call) == 0)
            continue;
        s->calls->items[i] = s->calls->items[kept];
        s->calls->items[kept++] = call;
    }
    if (s->family->no_call)
        reply_calls_truncate(s->calls, kept);
}

static enum reply_read read_section(struct section *s) {
    struct text close = text_of(s->family->section_close);
    for (;;) {
        s->at = reply_skip_space(s->text, s->at);
        if (left(s) == 0)
            return READ_MORE;
        s->first_call = s->calls->count;
        enum reply_read read = read_item(s);
        if (read != READ_OK)
            return read;
        drop_no_calls(s);
        if (!close.data)
            return READ_OK;
        size_t behind = s->at = reply_skip_space(s->text, s->at);
        read = match_literal(s, close);
        if (read != READ_BAD)
            return read;
        s->at = behind;
    }
}

enum reply_read reply_read_section(const struct reply_family *family, const json_t *tools, struct text text, bool last,
                                   struct reply_calls *calls, size_t *used) {
    struct section s = {.family = family, .tools = tools, .text = text, .last = last, .calls = calls};
    byte_buffer_init(&s.arguments, SIZE_MAX / 2);
    enum reply_read read = read_section(&s);
    byte_buffer_deinit(&s.arguments);
    *used = s.at;
    return read;
}
