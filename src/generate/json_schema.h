/*
 * json_schema: JSON schemas as grammars: every text of the grammar is valid under the schema (not every valid text is in it).
 *
 * Understood  type (also lists of them), nullable, const, enum, anyOf, oneOf (of alternatives that exclude each other), allOf (what can be
 *             merged), $ref within the schema, also recursive, $defs, definitions; properties, required, additionalProperties;
 *             items, prefixItems, minItems, maxItems; minLength, maxLength, pattern, format (date-time, date, time, duration, email,
 *             hostname, ipv4, ipv6, uuid, uri); minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf.
 * Choices     properties come in the schema's order. Without additionalProperties an object with properties has no others. Numbers, white
 *             space and escapes as json_form.h says. A keyword that only describes (title, default, ...) changes nothing.
 * Failure     anything else is refused with its place: STATUS_UNSUPPORTED or STATUS_INVALID, kept in the grammar.
 */
#pragma once

#include "generate/json_form.h"

struct json_schema; /* compiles parts of one document into one grammar */

/* document: what $ref is looked up in; borrowed, as is the form, which names the grammar. `place` begins the places in errors ("schema").
 */
MUST_CHECK enum status json_schema_create(struct json_form *form, const json_t *document, const char *place, struct json_schema **out,
                                          struct error *err);
void json_schema_destroy(struct json_schema *schema);

/* A value of that schema, which is the document or a part of it. */
struct fragment json_schema_value(struct json_schema *schema, const json_t *part);
/*
 * The text of a value that stands between marks and not in JSON: a string without quotes, which has no '<'. False: the schema is not of
 * strings alone, and nothing was added.
 */
bool json_schema_marked_text(struct json_schema *schema, const json_t *part, struct fragment *out);
/* Defines the rules that references asked for. Call once, last. */
void json_schema_finish(struct json_schema *schema);
