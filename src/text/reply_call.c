/* reply_call: JSON and Python calls, and the list they are collected in. The patterns are in reply_section.c. */
#include "text/reply_call.h"

#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define NAME_BYTES_MAX 256
#define CALLS_MAX 1024

void reply_calls_truncate(struct reply_calls *calls, size_t count) {
    ASSERT(count <= calls->count);
    while (calls->count > count) {
        struct reply_call *call = &calls->items[--calls->count];
        memory_free(call->id);
        memory_free(call->name);
        memory_free(call->arguments);
    }
}

void reply_calls_deinit(struct reply_calls *calls) {
    reply_calls_truncate(calls, 0);
    memory_free(calls->items);
    *calls = (struct reply_calls){0};
}

enum status reply_calls_add(struct reply_calls *calls, struct text id, struct text name, struct text arguments, struct error *err) {
    if (calls->count == CALLS_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "more than %d tool calls in one reply", CALLS_MAX);
    if (calls->count == calls->capacity) {
        size_t capacity = calls->capacity ? calls->capacity * 2 : 4;
        struct reply_call *items = memory_resize(calls->items, capacity, sizeof *items);
        if (!items)
            return error_set(err, STATUS_NO_MEMORY, "no memory for a tool call");
        calls->items = items;
        calls->capacity = capacity;
    }
    struct reply_call *call = &calls->items[calls->count++];
    *call = (struct reply_call){
        .id = id.data ? memory_copy_text(id.data, id.size_bytes) : NULL,
        .name = memory_copy_text(name.data, name.size_bytes),
        .arguments = memory_copy_text(arguments.data, arguments.size_bytes),
    };
    if (call->name && call->arguments && (call->id || !id.data))
        return STATUS_OK;
    reply_calls_truncate(calls, calls->count - 1);
    return error_set(err, STATUS_NO_MEMORY, "no memory for a tool call");
}

bool reply_is_name(struct text name) {
    if (name.size_bytes == 0 || name.size_bytes > NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.size_bytes; i++)
        if ((unsigned char)name.data[i] <= ' ' || strchr("<>{}[]()\"'`,;", name.data[i]))
            return false;
    return true;
}

/* ---- JSON calls ---- */

static bool key_is(struct text key, const char *const names[]) {
    for (; *names; names++)
        if (text_is(key, *names))
            return true;
    return false;
}

/* A JSON string value decoded into `out`; false when it is something else. */
static bool decode(struct text value, struct byte_buffer *out) {
    size_t at = 0;
    byte_buffer_clear(out);
    return reply_read_string(value, &at, DIALECT_JSON, out) == READ_OK && at == value.size_bytes;
}

/* Whether text is one JSON object and nothing else. */
static bool is_object(struct text text) {
    size_t at = reply_skip_space(text, 0);
    if (at >= text.size_bytes || text.data[at] != '{' || reply_read_value(text, &at, DIALECT_JSON, true, NULL) != READ_OK)
        return false;
    return reply_skip_space(text, at) == text.size_bytes;
}

struct fields { /* of one call; the buffers own decoded texts */
    struct byte_buffer name, id, decoded;
    struct text arguments;
    bool has_name, has_id, has_arguments;
};

static void take_member(struct fields *f, const struct reply_member *member) {
    static const char *const names[] = {"name", "tool_name", NULL}, *const ids[] = {"id", "tool_call_id", "call_id", NULL};
    static const char *const arguments[] = {"arguments", "parameters", NULL};
    if (key_is(member->key, names)) {
        f->has_name = decode(member->value, &f->name);
    } else if (key_is(member->key, ids)) {
        f->has_id = decode(member->value, &f->id);
    } else if (key_is(member->key, arguments)) {
        bool text = member->value.size_bytes > 0 && member->value.data[0] == '"'; /* JSON in a string */
        f->arguments = text && decode(member->value, &f->decoded) ? byte_buffer_text(&f->decoded) : member->value;
        f->has_arguments = true;
    }
}

/* Members of the object `text`, and those of a "function" in it. */
static void take_members(struct fields *f, struct text text) {
    for (unsigned level = 0; level < 2 && text.size_bytes > 0; level++) {
        struct text inner = {NULL, 0};
        struct reply_member member;
        size_t at = 1;
        while (reply_next_member(text, &at, &member) == READ_OK && member.key.data) {
            take_member(f, &member);
            if (text_is(member.key, "function") && member.value.data[0] == '{')
                inner = member.value;
        }
        text = inner;
    }
}

/* The object `text` as a call. READ_BAD: it is none. */
static enum reply_read add_json_call(struct text text, bool needs_arguments, struct reply_calls *calls) {
    struct fields f = {.has_name = false};
    byte_buffer_init(&f.name, SIZE_MAX / 2);
    byte_buffer_init(&f.id, SIZE_MAX / 2);
    byte_buffer_init(&f.decoded, SIZE_MAX / 2);
    take_members(&f, text);
    struct text arguments = f.has_arguments ? f.arguments : TEXT("{}"), none = {NULL, 0};
    bool valid = f.has_name && reply_is_name(byte_buffer_text(&f.name)) && (f.has_arguments || !needs_arguments) && is_object(arguments);
    if (valid)
        valid = reply_calls_add(calls, f.has_id ? byte_buffer_text(&f.id) : none, byte_buffer_text(&f.name), arguments, NULL) == STATUS_OK;
    byte_buffer_deinit(&f.name);
    byte_buffer_deinit(&f.id);
    byte_buffer_deinit(&f.decoded);
    return valid ? READ_OK : READ_BAD;
}

enum reply_read reply_read_json_calls(struct text text, size_t *at, bool lists, bool needs_arguments, struct reply_calls *calls) {
    if (*at >= text.size_bytes)
        return READ_MORE;
    bool list = text.data[*at] == '[';
    if (text.data[*at] != '{' && !(list && lists))
        return READ_BAD;
    size_t begin = *at;
    enum reply_read read = reply_read_value(text, at, DIALECT_JSON, true, NULL); /* all of it first: half a list is no call */
    if (read != READ_OK || !list)
        return read == READ_OK ? add_json_call((struct text){text.data + begin, *at - begin}, needs_arguments, calls) : read;
    size_t count = 0;
    for (size_t item = reply_skip_space(text, begin + 1); text.data[item] != ']'; count++) {
        size_t first = item;
        if (text.data[first] != '{' || reply_read_value(text, &item, DIALECT_JSON, true, NULL) != READ_OK)
            return READ_BAD;
        read = add_json_call((struct text){text.data + first, item - first}, needs_arguments, calls);
        if (read != READ_OK)
            return read;
        item = reply_skip_space(text, item);
        if (text.data[item] == ',')
            item = reply_skip_space(text, item + 1);
    }
    return count > 0 ? READ_OK : READ_BAD;
}

/* ---- Python calls ---- */

enum reply_read reply_read_python_arguments(struct text text, size_t *at, struct byte_buffer *json) {
    if (*at >= text.size_bytes)
        return READ_MORE;
    if (text.data[*at] != '(')
        return READ_BAD;
    bool failed = byte_buffer_append(json, "{", 1, NULL) != STATUS_OK;
    *at = reply_skip_space(text, *at + 1);
    for (bool first = true; !failed; first = false) {
        if (*at >= text.size_bytes)
            return READ_MORE;
        if (text.data[*at] == ')')
            break;
        size_t begin = *at;
        while (*at < text.size_bytes && !strchr("=(),'\"", text.data[*at]))
            (*at)++;
        if (*at >= text.size_bytes)
            return READ_MORE;
        size_t end = *at;
        while (end > begin && text.data[end - 1] == ' ')
            end--;
        struct text key = {text.data + begin, end - begin};
        if (text.data[*at] != '=' || !reply_is_name(key))
            return READ_BAD;
        failed = (!first && byte_buffer_append(json, ", ", 2, NULL) != STATUS_OK) || reply_put_json_string(json, key, NULL) != STATUS_OK ||
                 byte_buffer_append(json, ": ", 2, NULL) != STATUS_OK;
        *at = reply_skip_space(text, *at + 1);
        enum reply_read read = *at < text.size_bytes ? reply_read_value(text, at, DIALECT_PYTHON, false, json) : READ_MORE;
        if (read != READ_OK)
            return read;
        *at = reply_skip_space(text, *at);
        if (*at < text.size_bytes && text.data[*at] == ',')
            *at = reply_skip_space(text, *at + 1);
        else if (*at < text.size_bytes && text.data[*at] != ')')
            return READ_BAD;
    }
    *at += 1;
    failed = failed || byte_buffer_append(json, "}", 1, NULL) != STATUS_OK;
    return failed ? READ_BAD : READ_OK;
}
