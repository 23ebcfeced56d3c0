/*
 * json_schema_parts: what the files of json_schema share.
 */
#pragma once

#include "generate/json_form.h"
#include "generate/json_schema.h"

#define SCHEMA_DEPTH_MAX 64 /* schemas in schemas; references count anew */

struct schema_reference {
    const json_t *target;
    char *name; /* owned */
    uint32_t rule;
    bool compiled;
};

struct json_schema {
    struct grammar *grammar;
    struct json_form *form; /* borrowed */
    const json_t *document;
    char place[400]; /* of what is compiled: "schema.properties.age" */
    unsigned depth;
    struct schema_reference *references;
    uint32_t reference_count, reference_capacity;
    json_t *made; /* array: keeps merged schemas alive */
};

/* Refuses, with the place. */
void schema_refuse(struct json_schema *s, enum status status, const char *format, ...) PRINTF_LIKE(3, 4);
/* Enters and leaves a part: "place.name" or "place[index]". Returns the length to leave with. */
size_t schema_enter(struct json_schema *s, const char *name);
size_t schema_enter_index(struct json_schema *s, const char *name, size_t index);
void schema_leave(struct json_schema *s, size_t length);

struct fragment schema_compile(struct json_schema *s, const json_t *schema);
/* Of one type, the others' keywords are ignored. */
struct fragment schema_object(struct json_schema *s, const json_t *schema);
struct fragment schema_array(struct json_schema *s, const json_t *schema);
struct fragment schema_string(struct json_schema *s, const json_t *schema);
/* A string without its quotes. */
struct fragment schema_characters(struct json_schema *s, const json_t *schema, enum char_spelling spelling);
struct fragment schema_number(struct json_schema *s, const json_t *schema, bool whole);

/* What a reference points to; NULL: refused. */
const json_t *schema_resolve(struct json_schema *s, const char *reference);
/*
 * One schema that says what both say; NULL: refused. Owned by s. References at the top of either are followed.
 */
const json_t *schema_merge(struct json_schema *s, const json_t *a, const json_t *b);
/* A copy that lacks a keyword; owned by s. NULL: no memory, refused. */
const json_t *schema_without(struct json_schema *s, const json_t *schema, const char *keyword);
/* Whether a keyword only describes. */
bool schema_is_note(const char *keyword);
/* minLength and its kin: a whole number from 0 to GRAMMAR_REPEAT_MAX, `otherwise` when it is not there. */
uint32_t schema_count(struct json_schema *s, const json_t *schema, const char *keyword, uint32_t otherwise);
