/* chat_messages: works on shallow copies; what the caller gave is never changed. */
#include "text/chat_messages.h"

#include <stdio.h>
#include <string.h>

#include "base/byte_buffer.h"
#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"
#include "text/jinja.h"

#define ARGUMENTS_BYTES_MAX ((size_t)64 << 20)

static enum status no_memory(struct error *err) { return error_set(err, STATUS_NO_MEMORY, "no memory for the messages"); }

/* A list or object with the same items, or NULL: json_copy leaves out items for which it has no memory. */
static json_t *shallow_copy(const json_t *value) {
    json_t *copy = json_copy((json_t *)value);
    if (json_object_size(copy) == json_object_size(value) && json_array_size(copy) == json_array_size(value))
        return copy;
    json_decref(copy);
    return NULL;
}

/* Whether content is a list of text parts alone. */
static bool is_text_parts(const json_t *content) {
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i), *type = json_object_get(part, "type");
        if (!json_is_string(json_object_get(part, "text")) ||
            (type && strcmp(json_string_value(type) ? json_string_value(type) : "", "text") != 0))
            return false;
    }
    return json_array_size(content) > 0;
}

/* The texts of parts as one string; NULL: no memory. */
static json_t *join_parts(const json_t *content) {
    struct byte_buffer joined;
    byte_buffer_init(&joined, SIZE_MAX / 2);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < json_array_size(content) && status == STATUS_OK; i++) {
        const json_t *text = json_object_get(json_array_get(content, i), "text");
        status = byte_buffer_append(&joined, json_string_value(text), json_string_length(text), NULL);
    }
    json_t *result = status == STATUS_OK ? json_stringn(joined.data ? joined.data : "", joined.size_bytes) : NULL;
    byte_buffer_deinit(&joined);
    return result;
}

/* Arguments of one call as an object, or as text when asked; *out is a new reference. */
static enum status prepare_arguments(const json_t *arguments, bool as_text, size_t message, size_t call, json_t **out, struct error *err) {
    if (json_is_string(arguments)) {
        struct text text = {json_string_value(arguments), json_string_length(arguments)};
        char source[100];
        snprintf(source, sizeof source, "messages[%zu].tool_calls[%zu].function.arguments", message, call);
        enum status status = json_parse(text, source, ARGUMENTS_BYTES_MAX, out, err);
        if (status == STATUS_OK && json_is_object(*out)) {
            if (as_text) {
                json_decref(*out);
                *out = json_incref((json_t *)arguments);
            }
            return STATUS_OK;
        }
        json_decref(*out);
        *out = NULL;
        if (status == STATUS_NO_MEMORY)
            return status;
        return error_set(err, STATUS_INVALID, "%s: must be a JSON object, as text or as it is", source);
    }
    if (!as_text || !json_is_object(arguments)) {
        *out = json_incref((json_t *)arguments);
        return STATUS_OK;
    }
    struct byte_buffer text;
    byte_buffer_init(&text, ARGUMENTS_BYTES_MAX);
    enum status status = jinja_dump_json(arguments, &text, err);
    if (status == STATUS_OK) {
        *out = json_stringn(text.data, text.size_bytes);
        status = *out ? STATUS_OK : no_memory(err);
    }
    byte_buffer_deinit(&text);
    return status;
}

/* A copy of one call with its arguments prepared. */
static enum status prepare_call(const json_t *call, bool as_text, size_t message, size_t index, json_t **out, struct error *err) {
    const json_t *function = json_object_get(call, "function"), *holder = json_is_object(function) ? function : call;
    const json_t *arguments = json_object_get(holder, "arguments");
    *out = shallow_copy(call);
    if (!*out)
        return no_memory(err);
    if (!json_is_object(call) || !arguments)
        return STATUS_OK;
    json_t *ready = NULL;
    TRY(prepare_arguments(arguments, as_text, message, index, &ready, err));
    if (holder == call)
        return json_object_set_new(*out, "arguments", ready) == 0 ? STATUS_OK : no_memory(err);
    json_t *copy = shallow_copy(function);
    if (json_object_set_new(copy, "arguments", ready) != 0 || json_object_set_new(*out, "function", copy) != 0)
        return no_memory(err);
    return STATUS_OK;
}

static enum status prepare_calls(const json_t *calls, bool as_text, size_t message, json_t **out, struct error *err) {
    *out = json_array();
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = NULL;
        enum status status = prepare_call(json_array_get(calls, i), as_text, message, i, &call, err);
        if (status == STATUS_OK && json_array_append_new(*out, call) != 0)
            return no_memory(err);
        if (status != STATUS_OK) {
            json_decref(call);
            return status;
        }
    }
    return *out ? STATUS_OK : no_memory(err);
}

/* The first of the names that reasoning goes by, or NULL. */
static json_t *reasoning_of(const json_t *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(message, names[i]);
        if (value && !json_is_null(value))
            return value;
    }
    return NULL;
}

/* The value of one key of a message as the template gets it; *out is a new reference. */
static enum status prepare_value(const char *key, json_t *value, unsigned adaptations, size_t index, json_t **out, struct error *err) {
    *out = NULL;
    if (strcmp(key, "tool_calls") == 0 && json_is_array(value))
        return prepare_calls(value, adaptations & CHAT_TEXT_ARGUMENTS, index, out, err);
    if (strcmp(key, "content") == 0 && is_text_parts(value))
        *out = join_parts(value);
    else if (strcmp(key, "role") == 0 && (adaptations & CHAT_DEVELOPER_AS_SYSTEM) && strcmp(json_string_value(value), "developer") == 0)
        *out = json_string("system");
    else
        *out = json_incref(value);
    return *out ? STATUS_OK : no_memory(err);
}

static enum status prepare_message(const json_t *message, unsigned adaptations, size_t index, json_t *out, struct error *err) {
    json_t *reasoning = reasoning_of(message);
    int failed = reasoning ? json_object_set(out, "thinking", reasoning) : 0; /* first, as transformers orders the keys */
    for (void *at = json_object_iter((json_t *)message); at && !failed; at = json_object_iter_next((json_t *)message, at)) {
        const char *key = json_object_iter_key(at);
        json_t *value = NULL;
        if (json_is_null(json_object_iter_value(at)))
            continue;
        enum status status = prepare_value(key, json_object_iter_value(at), adaptations, index, &value, err);
        if (status != STATUS_OK) {
            json_decref(value);
            return status;
        }
        failed = json_object_set_new(out, key, value);
    }
    if (reasoning && !failed)
        failed = json_object_set(out, "reasoning_content", reasoning);
    if ((adaptations & CHAT_EMPTY_CONTENT) && !json_object_get(out, "content") && !failed)
        failed = json_object_set_new(out, "content", json_string(""));
    return failed ? no_memory(err) : STATUS_OK;
}

enum status chat_messages_prepare(const json_t *messages, unsigned adaptations, json_t **out, struct error *err) {
    *out = NULL;
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return error_set(err, STATUS_INVALID, "messages: must be a list with at least one message");
    json_t *prepared = json_array();
    enum status status = prepared ? STATUS_OK : no_memory(err);
    for (size_t i = 0; i < json_array_size(messages) && status == STATUS_OK; i++) {
        const json_t *message = json_array_get(messages, i);
        json_t *copy = json_object();
        if (!json_is_object(message) || !json_is_string(json_object_get(message, "role")))
            status = error_set(err, STATUS_INVALID, "messages[%zu]: must be an object with a role", i);
        else if (!copy)
            status = no_memory(err);
        else
            status = prepare_message(message, adaptations, i, copy, err);
        if (status == STATUS_OK && json_array_append(prepared, copy) != 0)
            status = no_memory(err);
        json_decref(copy);
    }
    if (status != STATUS_OK) {
        json_decref(prepared);
        return status;
    }
    *out = prepared;
    return STATUS_OK;
}

unsigned chat_messages_adaptable(const json_t *messages) {
    unsigned found = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i), *role = json_object_get(message, "role");
        const json_t *content = json_object_get(message, "content");
        if (json_is_string(role) && strcmp(json_string_value(role), "developer") == 0)
            found |= CHAT_DEVELOPER_AS_SYSTEM;
        if (!content || json_is_null(content))
            found |= CHAT_EMPTY_CONTENT;
        if (json_array_size(json_object_get(message, "tool_calls")) > 0)
            found |= CHAT_TEXT_ARGUMENTS;
    }
    return found;
}

static json_t *with_mark(const json_t *text) {
    struct byte_buffer marked;
    byte_buffer_init(&marked, SIZE_MAX / 2);
    json_t *result = NULL;
    if (byte_buffer_append(&marked, json_string_value(text), json_string_length(text), NULL) == STATUS_OK &&
        byte_buffer_append_text(&marked, TEXT(CHAT_CONTINUE_MARK), NULL) == STATUS_OK)
        result = json_stringn(marked.data, marked.size_bytes);
    byte_buffer_deinit(&marked);
    return result;
}

enum status chat_messages_mark_final(json_t *messages, json_t **text, struct error *err) {
    CHECK(json_array_size(messages) > 0);
    *text = NULL;
    json_t *message = json_array_get(messages, json_array_size(messages) - 1), *content = json_object_get(message, "content");
    if (json_is_string(content)) {
        *text = json_incref(content);
        return json_object_set_new(message, "content", with_mark(content)) == 0 ? STATUS_OK : no_memory(err);
    }
    for (size_t i = json_array_size(content); i-- > 0;) { /* the last text part of a list that was not joined */
        const json_t *part = json_array_get(content, i), *words = json_object_get(part, "text");
        if (!json_is_string(words))
            continue;
        json_t *parts = shallow_copy(content), *copy = shallow_copy(part);
        *text = json_incref((json_t *)words);
        bool done = json_object_set_new(copy, "text", with_mark(words)) == 0 && json_array_set(parts, i, copy) == 0 &&
                    json_object_set(message, "content", parts) == 0;
        json_decref(copy);
        json_decref(parts);
        return done ? STATUS_OK : no_memory(err);
    }
    return error_set(err, STATUS_INVALID, "continue_final_message: the last message has no text to continue");
}

/* ---- messages that a template leaves out ---- */

#define KEPT_WORD "KEPTMESSAGE"

/* Developer and tool messages and system messages behind the first, if they have a text. */
static bool may_be_dropped(const json_t *messages, size_t index) {
    const json_t *message = json_array_get(messages, index), *content = json_object_get(message, "content");
    const char *role = json_string_value(json_object_get(message, "role"));
    bool asked = role && (strcmp(role, "developer") == 0 || strcmp(role, "tool") == 0 || (strcmp(role, "system") == 0 && index > 0));
    return asked && json_string_length(content) > 0;
}

enum status chat_messages_replace_contents(json_t *messages, size_t *count, struct error *err) {
    *count = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) {
        char word[40];
        if (!may_be_dropped(messages, i))
            continue;
        snprintf(word, sizeof word, KEPT_WORD "%zuX", i);
        if (json_object_set_new(json_array_get(messages, i), "content", json_string(word)) != 0)
            return no_memory(err);
        ++*count;
    }
    return STATUS_OK;
}

enum status chat_messages_find_dropped(const json_t *messages, struct text prompt, size_t *dropped, struct error *err) {
    size_t count = json_array_size(messages), first = SIZE_MAX;
    bool *found = memory_alloc_array(count, sizeof *found);
    const char *at = prompt.data, *end = at + prompt.size_bytes;
    if (!found)
        return no_memory(err);
    while ((at = memmem(at, (size_t)(end - at), KEPT_WORD, strlen(KEPT_WORD))) != NULL) {
        size_t digits = 0;
        uint64_t index;
        at += strlen(KEPT_WORD);
        while (at + digits < end && at[digits] >= '0' && at[digits] <= '9')
            digits++;
        if (text_parse_u64((struct text){at, digits}, &index) && index < count)
            found[index] = true;
    }
    for (size_t i = 0; i < count && first == SIZE_MAX; i++)
        if (may_be_dropped(messages, i) && !found[i])
            first = i;
    memory_free(found);
    *dropped = first;
    return STATUS_OK;
}
