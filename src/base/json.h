/*
 * json: reading JSON files and texts with jansson, with limits and an error that names file, line and column.
 *
 * Model   a text is an object or array, UTF-8, at most 200 levels deep; strings may hold \u0000, so ask for their length.
 * Memory  jansson allocates through memory.h: a text of json_dumps is freed with memory_free.
 * Parse texts with these functions alone, never with jansson's own: see json_load_text.
 */
#pragma once

#include <jansson.h>

#include "base/status.h"
#include "base/text.h"

/* Parses text of at most limit_bytes. `source` names it in errors. The caller owns *out (json_decref). */
MUST_CHECK enum status json_parse(struct text text, const char *source, size_t limit_bytes, json_t **out, struct error *err);
/*
 * Reads and parses a file. A missing file is STATUS_NOT_FOUND. A file may also hold what Python writes beside JSON: integers
 * beyond 64 bits become reals, Infinity the largest double, NaN null.
 */
MUST_CHECK enum status json_read_file(const char *path, size_t limit_bytes, json_t **out, struct error *err);
/*
 * json_loadb without its faults: where the heap gives nothing, jansson 2.14 forgets bytes of a token and then reads past
 * the others. On failure
 * *out is NULL and *problem says what is wrong with the text (STATUS_CORRUPT), or it is STATUS_NO_MEMORY. Depth is the caller's care.
 */
MUST_CHECK enum status json_load_text(struct text text, size_t jansson_flags, json_t **out, json_error_t *problem);
/* A JSON string of any bytes: when they are no UTF-8, each that is no ASCII becomes U+FFFD. NULL: no memory. */
json_t *json_lenient_string(const char *bytes, size_t size_bytes);
