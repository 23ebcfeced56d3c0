/*
 * json_schema: one schema at a time: references, alternatives, types.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "generate/json_schema_parts.h"

static const char *const type_names[] = {"object", "array", "string", "integer", "number", "boolean", "null"};
enum type { TYPE_OBJECT, TYPE_ARRAY, TYPE_STRING, TYPE_INTEGER, TYPE_NUMBER, TYPE_BOOLEAN, TYPE_NULL, TYPE_COUNT };

/* Keywords that this file and its neighbours understand, with the type that they tell of; TYPE_COUNT: none. */
static const struct {
    const char *name;
    enum type type;
} keywords[] = {
    {"type", TYPE_COUNT},
    {"nullable", TYPE_COUNT},
    {"const", TYPE_COUNT},
    {"enum", TYPE_COUNT},
    {"anyOf", TYPE_COUNT},
    {"oneOf", TYPE_COUNT},
    {"allOf", TYPE_COUNT},
    {"$ref", TYPE_COUNT},
    {"properties", TYPE_OBJECT},
    {"required", TYPE_OBJECT},
    {"additionalProperties", TYPE_OBJECT},
    {"minProperties", TYPE_OBJECT},
    {"maxProperties", TYPE_OBJECT},
    {"items", TYPE_ARRAY},
    {"prefixItems", TYPE_ARRAY},
    {"minItems", TYPE_ARRAY},
    {"maxItems", TYPE_ARRAY},
    {"uniqueItems", TYPE_ARRAY},
    {"pattern", TYPE_STRING},
    {"format", TYPE_COUNT},
    {"minLength", TYPE_STRING},
    {"maxLength", TYPE_STRING},
    {"minimum", TYPE_NUMBER},
    {"maximum", TYPE_NUMBER},
    {"exclusiveMinimum", TYPE_NUMBER},
    {"exclusiveMaximum", TYPE_NUMBER},
    {"multipleOf", TYPE_NUMBER},
};

bool schema_is_note(const char *keyword) {
    static const char *const notes[] = {"title",
                                        "description",
                                        "default",
                                        "examples",
                                        "example",
                                        "$schema",
                                        "$id",
                                        "id",
                                        "$comment",
                                        "$anchor",
                                        "$defs",
                                        "definitions",
                                        "deprecated",
                                        "readOnly",
                                        "writeOnly",
                                        "discriminator",
                                        "strict",
                                        "contentMediaType",
                                        "contentEncoding",
                                        "markdownDescription",
                                        "$vocabulary"};
    if (strncmp(keyword, "x-", 2) == 0)
        return true;
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (strcmp(keyword, notes[i]) == 0)
            return true;
    return false;
}

/* ---- places ---- */

void schema_refuse(struct json_schema *s, enum status status, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    grammar_fail(s->grammar, status, "%s: %s", s->place, text);
}

static size_t enter(struct json_schema *s, const char *text) {
    size_t length = strlen(s->place);
    (void)snprintf(s->place + length, sizeof s->place - length, "%s", text);
    return length;
}

size_t schema_enter(struct json_schema *s, const char *name) {
    char text[120];
    (void)snprintf(text, sizeof text, ".%.100s", name);
    return enter(s, text);
}

size_t schema_enter_index(struct json_schema *s, const char *name, size_t index) {
    char text[120];
    (void)snprintf(text, sizeof text, ".%s[%zu]", name, index);
    return enter(s, text);
}

void schema_leave(struct json_schema *s, size_t length) { s->place[length] = 0; }

uint32_t schema_count(struct json_schema *s, const json_t *schema, const char *keyword, uint32_t otherwise) {
    const json_t *value = json_object_get(schema, keyword);
    if (!value)
        return otherwise;
    double number = json_number_value(value);
    if (!json_is_number(value) || number < 0 || number != floor(number))
        schema_refuse(s, STATUS_INVALID, "%s must be a whole number from 0 on", keyword);
    else if (number > GRAMMAR_REPEAT_MAX && strncmp(keyword, "max", 3) == 0)
        return GRAMMAR_UNBOUNDED;
    else if (number > GRAMMAR_REPEAT_MAX)
        schema_refuse(s, STATUS_UNSUPPORTED, "%s is more than %u", keyword, GRAMMAR_REPEAT_MAX);
    return grammar_failed(s->grammar) ? 0 : (uint32_t)number;
}

/* ---- references ---- */

static uint32_t rule_of_reference(struct json_schema *s, const char *name, const json_t *target) {
    for (uint32_t i = 0; i < s->reference_count; i++)
        if (s->references[i].target == target)
            return s->references[i].rule;
    if (s->reference_count == s->reference_capacity) {
        uint32_t capacity = s->reference_capacity ? s->reference_capacity * 2 : 16;
        struct schema_reference *references = memory_resize(s->references, capacity, sizeof *references);
        if (!references) {
            schema_refuse(s, STATUS_NO_MEMORY, "no memory for references");
            return 0;
        }
        s->references = references;
        s->reference_capacity = capacity;
    }
    struct schema_reference made = {
        .target = target, .name = memory_copy_text(name, strlen(name)), .rule = grammar_new_rule(s->grammar, text_of(name))};
    s->references[s->reference_count++] = made;
    if (!made.name)
        schema_refuse(s, STATUS_NO_MEMORY, "no memory for references");
    return made.rule;
}

static struct fragment compile_reference(struct json_schema *s, const char *name) {
    const json_t *target = schema_resolve(s, name);
    if (!target)
        return grammar_nothing(s->grammar);
    return grammar_call(s->grammar, rule_of_reference(s, name, target));
}

void json_schema_finish(struct json_schema *s) {
    for (uint32_t i = 0; i < s->reference_count && !grammar_failed(s->grammar); i++) { /* more may come on the way */
        (void)snprintf(s->place, sizeof s->place, "%.300s", s->references[i].name);
        s->depth = 0;
        grammar_define(s->grammar, s->references[i].rule, schema_compile(s, s->references[i].target));
    }
}

/* ---- types ---- */

static bool type_from_name(const char *name, enum type *type) {
    for (unsigned t = 0; name && t < TYPE_COUNT; t++)
        if (strcmp(name, type_names[t]) == 0) {
            *type = (enum type)t;
            return true;
        }
    return false;
}

static bool has_type(const json_t *value, enum type type) {
    switch (type) {
    case TYPE_OBJECT:
        return json_is_object(value);
    case TYPE_ARRAY:
        return json_is_array(value);
    case TYPE_STRING:
        return json_is_string(value);
    case TYPE_INTEGER:
        return json_is_integer(value);
    case TYPE_NUMBER:
        return json_is_number(value);
    case TYPE_BOOLEAN:
        return json_is_boolean(value);
    case TYPE_NULL:
    case TYPE_COUNT:
        break;
    }
    return type == TYPE_NULL && json_is_null(value);
}

/* The types a schema names, or that its keywords imply; a bit each, 0: any value. */
static unsigned types_of(struct json_schema *s, const json_t *schema) {
    const json_t *type = json_object_get(schema, "type");
    unsigned bits = 0;
    enum type one;
    for (size_t i = 0; i < (json_is_array(type) ? json_array_size(type) : type != NULL); i++) {
        const json_t *name = json_is_array(type) ? json_array_get(type, i) : type;
        if (type_from_name(json_string_value(name), &one))
            bits |= 1u << one;
        else
            schema_refuse(s, STATUS_INVALID,
                          "type must be one of object, array, string, integer, number, boolean, null, or a list of them");
    }
    if (type && bits == 0 && !grammar_failed(s->grammar))
        schema_refuse(s, STATUS_INVALID, "type is an empty list");
    for (size_t k = 0; !type && k < sizeof keywords / sizeof *keywords; k++)
        if (keywords[k].type != TYPE_COUNT && json_object_get(schema, keywords[k].name))
            bits |= 1u << keywords[k].type;
    if (!type && bits == 0 && json_object_get(schema, "format"))
        bits = 1u << TYPE_STRING;
    if (json_is_true(json_object_get(schema, "nullable")) && bits != 0)
        bits |= 1u << TYPE_NULL;
    return bits;
}

static struct fragment compile_type(struct json_schema *s, const json_t *schema, enum type type) {
    switch (type) {
    case TYPE_OBJECT:
        return schema_object(s, schema);
    case TYPE_ARRAY:
        return schema_array(s, schema);
    case TYPE_STRING:
        return schema_string(s, schema);
    case TYPE_INTEGER:
        return schema_number(s, schema, true);
    case TYPE_NUMBER:
        return schema_number(s, schema, false);
    case TYPE_BOOLEAN:
        return json_form_rule(s->form, FORM_BOOLEAN);
    case TYPE_NULL:
    case TYPE_COUNT:
        break;
    }
    return grammar_literal(s->grammar, TEXT("null"));
}

static struct fragment compile_types(struct json_schema *s, const json_t *schema) {
    unsigned types = types_of(s, schema);
    if (types == 0)
        return json_form_rule(s->form, FORM_VALUE);
    if (types & 1u << TYPE_NUMBER)
        types &= ~(1u << TYPE_INTEGER);
    struct fragment all = grammar_never(s->grammar);
    for (unsigned t = 0; t < TYPE_COUNT && !grammar_failed(s->grammar); t++)
        if (types & 1u << t)
            all = grammar_either(s->grammar, all, compile_type(s, schema, (enum type)t));
    return all;
}

/* ---- values ---- */

/* const, or one of enum, as far as `type` allows it. */
static struct fragment compile_values(struct json_schema *s, const json_t *schema) {
    const json_t *one = json_object_get(schema, "const"), *list = json_object_get(schema, "enum");
    unsigned types = types_of(s, json_object_get(schema, "type") ? schema : NULL);
    struct fragment all = grammar_never(s->grammar);
    bool any = false;
    const char *keyword;
    json_t *unused;
    json_object_foreach((json_t *)(uintptr_t)schema, keyword, unused) {
        bool known = schema_is_note(keyword) || strcmp(keyword, "type") == 0 || strcmp(keyword, "const") == 0 ||
                     strcmp(keyword, "enum") == 0 || strcmp(keyword, "nullable") == 0;
        if (!known)
            schema_refuse(s, STATUS_UNSUPPORTED, "%.60s beside %s is not supported", keyword, one ? "const" : "enum");
    }
    if (list && (!json_is_array(list) || json_array_size(list) == 0))
        schema_refuse(s, STATUS_INVALID, "enum must be a list of values");
    for (size_t i = 0; i < (list ? json_array_size(list) : 1) && !grammar_failed(s->grammar); i++) {
        const json_t *value = list ? json_array_get(list, i) : one;
        bool allowed = types == 0 && (!one || json_equal((json_t *)(uintptr_t)one, (json_t *)(uintptr_t)value));
        for (unsigned t = 0; t < TYPE_COUNT && !allowed; t++)
            allowed = (types & 1u << t) && has_type(value, (enum type)t) &&
                      (!one || json_equal((json_t *)(uintptr_t)one, (json_t *)(uintptr_t)value));
        if (allowed)
            all = grammar_either(s->grammar, all, json_form_value(s->form, value));
        any = any || allowed;
    }
    if (!any)
        schema_refuse(s, STATUS_INVALID, "no value of %s has the schema's type", list ? "enum" : "const");
    return all;
}

/* ---- alternatives ---- */

/* Whether a value cannot satisfy both: other types, or another constant for the same required property. */
static bool exclude_each_other(struct json_schema *s, const json_t *a, const json_t *b, unsigned depth) {
    for (unsigned i = 0; i < 2 && depth < 4; i++) { /* look through references */
        const char *reference = json_string_value(json_object_get(i ? b : a, "$ref"));
        const json_t *target = reference ? schema_resolve(s, reference) : NULL;
        if (target)
            return i ? exclude_each_other(s, a, target, depth + 1) : exclude_each_other(s, target, b, depth + 1);
    }
    const json_t *values[2] = {json_object_get(a, "const"), json_object_get(b, "const")};
    if (values[0] && values[1])
        return !json_equal((json_t *)(uintptr_t)values[0], (json_t *)(uintptr_t)values[1]);
    unsigned types_a = types_of(s, a), types_b = types_of(s, b);
    types_a |= types_a & 1u << TYPE_NUMBER ? 1u << TYPE_INTEGER : 0;
    types_b |= types_b & 1u << TYPE_NUMBER ? 1u << TYPE_INTEGER : 0;
    if (types_a && types_b && !(types_a & types_b) && json_object_get(a, "type") && json_object_get(b, "type"))
        return true;
    if (types_a != 1u << TYPE_OBJECT || types_b != 1u << TYPE_OBJECT || depth >= 4)
        return false;
    const char *key;
    json_t *property;
    json_object_foreach(json_object_get(a, "properties"), key, property) {
        const json_t *other = json_object_get(json_object_get(b, "properties"), key);
        bool required[2] = {false, false};
        for (unsigned i = 0; i < 2; i++) {
            const json_t *list = json_object_get(i ? b : a, "required");
            for (size_t k = 0; k < json_array_size(list); k++)
                required[i] = required[i] ||
                              (json_is_string(json_array_get(list, k)) && strcmp(json_string_value(json_array_get(list, k)), key) == 0);
        }
        if (other && required[0] && required[1] && exclude_each_other(s, property, other, depth + 1))
            return true;
    }
    return false;
}

static void check_one_of(struct json_schema *s, const json_t *list) {
    if (json_array_size(list) > 200)
        schema_refuse(s, STATUS_UNSUPPORTED, "oneOf of more than 200 alternatives; use anyOf");
    for (size_t i = 0; i < json_array_size(list) && !grammar_failed(s->grammar); i++)
        for (size_t k = 0; k < i; k++)
            if (!exclude_each_other(s, json_array_get(list, k), json_array_get(list, i), 0)) {
                schema_refuse(s, STATUS_UNSUPPORTED,
                              "oneOf is understood when its alternatives exclude each other by type or by a constant of a required "
                              "property; [%zu] and [%zu] may not: use anyOf",
                              k, i);
                return;
            }
}

const json_t *schema_without(struct json_schema *s, const json_t *schema, const char *keyword) {
    json_t *rest = json_copy((json_t *)(uintptr_t)schema);
    bool kept = rest && json_array_append(s->made, rest) == 0;
    if (kept)
        (void)json_object_del(rest, keyword);
    else
        schema_refuse(s, STATUS_NO_MEMORY, "no memory for a schema");
    json_decref(rest);
    return kept ? rest : NULL;
}

static struct fragment compile_alternatives(struct json_schema *s, const json_t *schema, const char *keyword) {
    const json_t *list = json_object_get(schema, keyword);
    const json_t *rest = schema_without(s, schema, keyword); /* what stands beside the list holds for all */
    if (!json_is_array(list) || json_array_size(list) == 0)
        schema_refuse(s, STATUS_INVALID, "%s must be a list of schemas", keyword);
    if (strcmp(keyword, "oneOf") == 0)
        check_one_of(s, list);
    bool alone = true, nullable = json_is_true(json_object_get(rest, "nullable"));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)rest, key, value) alone = alone && (schema_is_note(key) || strcmp(key, "nullable") == 0);
    struct fragment all = nullable ? grammar_literal(s->grammar, TEXT("null")) : grammar_never(s->grammar);
    for (size_t i = 0; i < json_array_size(list) && !grammar_failed(s->grammar); i++) {
        size_t length = schema_enter_index(s, keyword, i);
        const json_t *one = alone ? json_array_get(list, i) : schema_merge(s, rest, json_array_get(list, i));
        if (one)
            all = grammar_either(s->grammar, all, schema_compile(s, one));
        schema_leave(s, length);
    }
    return all;
}

static struct fragment compile_all_of(struct json_schema *s, const json_t *schema) {
    const json_t *list = json_object_get(schema, "allOf");
    const json_t *all = schema_without(s, schema, "allOf");
    if (!json_is_array(list) || json_array_size(list) == 0)
        schema_refuse(s, STATUS_INVALID, "allOf must be a list of schemas");
    for (size_t i = 0; i < json_array_size(list) && all && !grammar_failed(s->grammar); i++) {
        size_t length = schema_enter_index(s, "allOf", i);
        all = schema_merge(s, all, json_array_get(list, i));
        schema_leave(s, length);
    }
    return all && !grammar_failed(s->grammar) ? schema_compile(s, all) : grammar_nothing(s->grammar);
}

/* ---- one schema ---- */

static void check_keywords(struct json_schema *s, const json_t *schema) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, name, value) {
        bool known = schema_is_note(name);
        for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
            known = known || strcmp(name, keywords[k].name) == 0;
        if (!known)
            schema_refuse(s, STATUS_UNSUPPORTED, "keyword '%.60s' is not supported", name);
    }
}

static struct fragment compile_reference_and_more(struct json_schema *s, const json_t *schema) {
    const char *name = json_string_value(json_object_get(schema, "$ref")), *key;
    bool alone = true;
    json_t *value;
    if (!name) {
        schema_refuse(s, STATUS_INVALID, "$ref must be a text");
        return grammar_nothing(s->grammar);
    }
    json_object_foreach((json_t *)(uintptr_t)schema, key, value) alone = alone && (schema_is_note(key) || strcmp(key, "$ref") == 0);
    if (alone)
        return compile_reference(s, name);
    const json_t *merged = schema_merge(s, schema, NULL);
    return merged ? schema_compile(s, merged) : grammar_nothing(s->grammar);
}

static struct fragment compile(struct json_schema *s, const json_t *schema) {
    if (json_is_true(schema))
        return json_form_rule(s->form, FORM_VALUE);
    if (!json_is_object(schema)) {
        schema_refuse(s, STATUS_INVALID, json_is_false(schema) ? "false allows no value" : "a schema must be an object or true");
        return grammar_nothing(s->grammar);
    }
    check_keywords(s, schema);
    if (grammar_failed(s->grammar))
        return grammar_nothing(s->grammar);
    if (json_object_get(schema, "$ref"))
        return compile_reference_and_more(s, schema);
    if (json_object_get(schema, "allOf"))
        return compile_all_of(s, schema);
    if (json_object_get(schema, "anyOf"))
        return compile_alternatives(s, schema, "anyOf");
    if (json_object_get(schema, "oneOf"))
        return compile_alternatives(s, schema, "oneOf");
    if (json_object_get(schema, "const") || json_object_get(schema, "enum"))
        return compile_values(s, schema);
    return compile_types(s, schema);
}

struct fragment schema_compile(struct json_schema *s, const json_t *schema) {
    if (++s->depth > SCHEMA_DEPTH_MAX)
        schema_refuse(s, STATUS_UNSUPPORTED, "schemas are nested too deep, or a schema is part of itself without end");
    struct fragment all = grammar_failed(s->grammar) ? grammar_nothing(s->grammar) : compile(s, schema);
    s->depth--;
    return all;
}

/* ---- interface ---- */

enum status json_schema_create(struct json_form *form, const json_t *document, const char *place, struct json_schema **out,
                               struct error *err) {
    *out = NULL;
    struct json_schema *s = memory_alloc(sizeof *s);
    json_t *made = json_array();
    if (!s || !made) {
        memory_free(s);
        json_decref(made);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a schema");
    }
    *s = (struct json_schema){.grammar = form->grammar, .form = form, .document = document, .made = made};
    (void)snprintf(s->place, sizeof s->place, "%s", place);
    *out = s;
    return STATUS_OK;
}

void json_schema_destroy(struct json_schema *s) {
    if (!s)
        return;
    for (uint32_t i = 0; i < s->reference_count; i++)
        memory_free(s->references[i].name);
    memory_free(s->references);
    json_decref(s->made);
    memory_free(s);
}

struct fragment json_schema_value(struct json_schema *s, const json_t *part) {
    s->depth = 0;
    return schema_compile(s, part);
}

bool json_schema_marked_text(struct json_schema *s, const json_t *part, struct fragment *out) {
    const json_t *target = schema_merge(s, part, NULL); /* references followed, with what stands beside them */
    const json_t *list = json_object_get(target, "enum"), *one = json_object_get(target, "const");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return false;
    if (list || one) {
        if (one && !json_is_string(one))
            return false;
        struct fragment all = grammar_never(s->grammar);
        for (size_t i = 0; i < (one ? 1 : json_array_size(list)); i++) {
            const json_t *value = one ? one : json_array_get(list, i);
            struct text text = {json_string_value(value), json_string_length(value)};
            all = grammar_either(s->grammar, all, grammar_text(s->grammar, text, CHARS_PLAIN));
        }
        *out = all;
        return true;
    }
    if (!json_is_object(target) || json_object_get(target, "anyOf") || json_object_get(target, "oneOf") ||
        json_object_get(target, "allOf") || types_of(s, target) != 1u << TYPE_STRING)
        return false;
    check_keywords(s, target);
    *out = schema_characters(s, target, CHARS_MARKS);
    return true;
}
