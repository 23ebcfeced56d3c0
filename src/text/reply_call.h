/*
 * reply_call: tool calls, and reading a section of them by the patterns of a family.
 */
#pragma once

#include <jansson.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "text/reply_literal.h"
#include "text/reply_markers.h"

struct reply_call { /* owned, terminated */
    char *id;       /* NULL: the model gave none */
    char *name;
    char *arguments; /* JSON text, an object (of python code: a string) */
};

struct reply_calls { /* zeroed is empty */
    struct reply_call *items;
    size_t count, capacity;
};
void reply_calls_deinit(struct reply_calls *calls);
/* Adds a call; id may have NULL data. */
MUST_CHECK enum status reply_calls_add(struct reply_calls *calls, struct text id, struct text name, struct text arguments,
                                       struct error *err);
/* Drops all calls from the `count`-th on. */
void reply_calls_truncate(struct reply_calls *calls, size_t count);

/*
 * Reads the section behind its opening mark in `text`, appends its calls, and sets *used to the bytes it took. `last`: no more text will
 * come, so a missing closing mark behind a whole call is forgiven. tools (the request's list) gives the types of parameters.
 * READ_MORE, READ_BAD: `calls` may hold calls to drop.
 */
enum reply_read reply_read_section(const struct reply_family *family, const json_t *tools, struct text text, bool last,
                                   struct reply_calls *calls, size_t *used);
/* One JSON call {"name", "arguments"}, or a list of them (list allowed: `lists`), at *at. needs_arguments: a name alone is no call. */
enum reply_read reply_read_json_calls(struct text text, size_t *at, bool lists, bool needs_arguments, struct reply_calls *calls);
/* "(key=value, ...)" with Python values at *at, as a JSON object. */
enum reply_read reply_read_python_arguments(struct text text, size_t *at, struct byte_buffer *json);
/* A name that a tool can have: not empty, no white space, brackets or quotes. */
bool reply_is_name(struct text name);
