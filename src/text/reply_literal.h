/*
 * reply_literal: reads the values that models write into tool calls and gives them as JSON text.
 *
 * Model      one recursive reader, three dialects: JSON (strict), Python literals (also true, false, null), and Gemma's objects with
 *            bare keys and <|"|>text<|"|>.
 * Streams    a value that is cut short is READ_MORE, one that cannot become a value READ_BAD; what is decided stays decided when more
 *            text comes.
 * Limits     nesting of 100 levels.
 */
#pragma once

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"

enum reply_read { READ_OK, READ_MORE, READ_BAD };
enum reply_dialect { DIALECT_JSON, DIALECT_PYTHON, DIALECT_GEMMA };

/* White space that JSON allows, from `at` on; returns the offset behind it. */
size_t reply_skip_space(struct text text, size_t at);
/*
 * Reads the value at *at (no white space before it), moves *at behind it and appends it to json (NULL: only checks). JSON is copied as
 * written. On READ_MORE and READ_BAD *at and json are in between. A number at the end of the text is READ_MORE when `whole` is false,
 * since more digits may come. Failure of memory is READ_BAD; reply_parser.c notices it.
 */
enum reply_read reply_read_value(struct text text, size_t *at, enum reply_dialect dialect, bool whole, struct byte_buffer *json);
/* Reads a string and appends its text, decoded. */
enum reply_read reply_read_string(struct text text, size_t *at, enum reply_dialect dialect, struct byte_buffer *utf8);
/* Next member of a JSON object: *at stands behind '{' or the last value. READ_OK with key.data NULL: the object ended. */
struct reply_member {
    struct text key;   /* raw, between the quotes */
    struct text value; /* raw JSON */
};
enum reply_read reply_next_member(struct text text, size_t *at, struct reply_member *member);
/* Appends text as a JSON string with its quotes. */
MUST_CHECK enum status reply_put_json_string(struct byte_buffer *out, struct text text, struct error *err);
