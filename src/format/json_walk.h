/*
 * json_walk: steps through the members of one JSON object of any size, one value at a time, so that a header of a million tensors
 * never becomes a tree in memory, and every member has a byte position.
 *
 * Threads   one owner.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"
#include "base/text.h"

struct json_walk {
    struct text text;
    const char *source; /* names the text in errors */
    size_t position;    /* behind what was read */
    json_t *key;        /* of the current member, or NULL */
};

/* Starts at the '{' at text[position] (white space may come first). Call json_walk_close in the end, also after an error. */
MUST_CHECK enum status json_walk_open(struct json_walk *walk, struct text text, size_t position, const char *source, struct error *err);
void json_walk_close(struct json_walk *walk);
/* Moves to the next member: its key (borrowed until the next call), or *more false behind the last. Read or skip its value next. */
MUST_CHECK enum status json_walk_next(struct json_walk *walk, bool *more, struct text *key, struct error *err);
/* The value of the current member; the caller owns it (json_decref). */
MUST_CHECK enum status json_walk_value(struct json_walk *walk, json_t **out, struct error *err);
/* Only white space is left from `position` on. */
MUST_CHECK enum status json_walk_end(const struct json_walk *walk, struct error *err);
