/*
 * json_form: JSON's own grammar in pieces, each rule made once per grammar.
 *
 * Choices   between tokens of JSON stands nothing, a space, or a line break with up to JSON_INDENT_MAX spaces and tabs: what people and
 *           json libraries write, and an answer cannot drown in it. Numbers without bounds have at most 15 digits in front of the
 *           point, 16 behind it and 2 in the exponent. \u escapes name characters or pairs of surrogates, never half a pair.
 */
#pragma once

#include <jansson.h>

#include "generate/grammar_chars.h"

#define JSON_INDENT_MAX 40

enum json_rule {
    FORM_SPACE,
    FORM_CHAR,
    FORM_PLAIN_CHAR,
    FORM_STRING,
    FORM_INTEGER,
    FORM_NUMBER,
    FORM_BOOLEAN,
    FORM_VALUE,
    FORM_OBJECT,
    FORM_ARRAY,
    FORM_RULE_COUNT
};

struct json_form {
    struct grammar *grammar;
    uint32_t rules[FORM_RULE_COUNT]; /* number + 1; 0: not made yet */
};

/* A call of the rule. FORM_CHAR: one character of a string; FORM_PLAIN_CHAR: without escapes. */
struct fragment json_form_rule(struct json_form *form, enum json_rule rule);
/* The text and white space behind it. */
struct fragment json_form_separator(struct json_form *form, const char *text);
/* "key" and the colon. */
struct fragment json_form_key(struct json_form *form, struct text key);
/* That very value; members in their order. The nesting is bounded by the JSON parser. */
struct fragment json_form_value(struct json_form *form, const json_t *value);
/* A string of characters that are not escaped, with its quotes, that is none of the names. */
struct fragment json_form_other_key(struct json_form *form, const char *const *names, uint32_t count);
/* {"pair, pair"}: minimum to maximum pairs. */
struct fragment json_form_pairs(struct json_form *form, uint32_t pair, uint32_t minimum, uint32_t maximum);
/* "item, item": minimum to maximum items without brackets. */
struct fragment json_form_list(struct json_form *form, uint32_t item, uint32_t minimum, uint32_t maximum);
