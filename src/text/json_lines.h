/*
 * json_lines: the loop of commands that read one JSON object a line and write one a line, in order.
 *
 * Failure   a line that is not a JSON object is answered {"error": ...} and the loop goes on; trouble of in or out ends it.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "base/status.h"

/*
 * Answers one line: a new reference, or NULL with *err set, which becomes {"error": text}. `context` is the caller's.
 */
typedef json_t *json_lines_answer(void *context, const json_t *line, struct error *err);

MUST_CHECK enum status json_lines_run(FILE *in, FILE *out, json_lines_answer *answer, void *context, struct error *err);
/* {"error": text}, or NULL when out of memory. */
json_t *json_lines_error(const char *text);
