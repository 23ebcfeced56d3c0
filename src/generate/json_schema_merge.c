/*
 * json_schema_merge: references, and two schemas that must both hold as one.
 */
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "generate/json_schema_parts.h"

#define REFERENCES_MAX 32 /* one behind another */
#define POINTER_BYTES_MAX 1024

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One step of a JSON pointer, %XX and ~0 ~1 decoded; false: too long. */
static bool read_step(const char **pointer, char step[POINTER_BYTES_MAX], size_t *size) {
    const char *c = *pointer;
    *size = 0;
    while (*c && *c != '/') {
        char byte = *c++;
        if (byte == '%' && hex_digit(c[0]) >= 0 && hex_digit(c[1]) >= 0) {
            byte = (char)(hex_digit(c[0]) * 16 + hex_digit(c[1]));
            c += 2;
        }
        if (byte == '~' && (*c == '0' || *c == '1'))
            byte = *c++ == '0' ? '~' : '/';
        if (*size == POINTER_BYTES_MAX)
            return false;
        step[(*size)++] = byte;
    }
    *pointer = c;
    return true;
}

const json_t *schema_resolve(struct json_schema *s, const char *reference) {
    const json_t *at = s->document;
    const char *pointer = reference;
    char step[POINTER_BYTES_MAX];
    size_t size;
    if (*pointer++ != '#' || (*pointer && *pointer != '/')) {
        schema_refuse(s, STATUS_UNSUPPORTED, "$ref '%.60s' does not point into this schema (\"#/$defs/name\")", reference);
        return NULL;
    }
    while (*pointer == '/' && at) {
        uint64_t index;
        pointer++;
        if (!read_step(&pointer, step, &size))
            at = NULL;
        else if (json_is_array(at))
            at =
                text_parse_u64((struct text){step, size}, &index) && index < json_array_size(at) ? json_array_get(at, (size_t)index) : NULL;
        else
            at = json_object_getn(at, step, size);
    }
    if (!at)
        schema_refuse(s, STATUS_INVALID, "$ref '%.60s' points to nothing", reference);
    return at;
}

/* ---- merging ---- */

static const json_t *cannot(struct json_schema *s, const char *keyword) {
    schema_refuse(s, STATUS_UNSUPPORTED, "the %.60s of schemas that must hold together cannot be combined", keyword);
    return NULL;
}

static bool is_one_of(const char *keyword, const char *const *names) {
    for (; *names; names++)
        if (strcmp(keyword, *names) == 0)
            return true;
    return false;
}

static json_t *both(json_t *a, json_t *b) { return json_pack("{s:[O,O]}", "allOf", a, b); }

static json_t *merge_properties(json_t *a, json_t *b) {
    json_t *all = json_copy(a), *value;
    const char *name;
    json_object_foreach(b, name, value) {
        json_t *other = json_object_get(all, name);
        (void)json_object_set_new(all, name, other ? both(other, value) : json_incref(value));
    }
    return all;
}

static bool list_holds(json_t *list, json_t *value) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value))
            return true;
    return false;
}

/* wanted: items of b that are in a; else items of both. */
static json_t *merge_lists(json_t *a, json_t *b, bool common) {
    json_t *all = common ? json_array() : json_copy(a), *item;
    size_t i;
    json_array_foreach(b, i, item) if (list_holds(a, item) == common)(void) json_array_append(all, item);
    return all;
}

static json_t *as_list(json_t *types) { return json_is_array(types) ? json_incref(types) : json_pack("[O]", types); }

/* Types that both allow; an integer is a number too. */
static json_t *merge_types(json_t *a, json_t *b) {
    json_t *lists[2] = {as_list(a), as_list(b)}, *integer = json_string("integer"), *number = json_string("number");
    json_t *all = merge_lists(lists[0], lists[1], true);
    if (list_holds(all, number) == 0 && !list_holds(all, integer) &&
        ((list_holds(lists[0], number) && list_holds(lists[1], integer)) ||
         (list_holds(lists[0], integer) && list_holds(lists[1], number))))
        (void)json_array_append(all, integer);
    json_decref(lists[0]);
    json_decref(lists[1]);
    json_decref(integer);
    json_decref(number);
    return all;
}

/* additionalProperties: false of one forbids the properties that only the other names: that is refused, and so are two schemas. */
static bool others_agree(const json_t *a, const json_t *b) {
    for (unsigned turn = 0; turn < 2; turn++) {
        const json_t *strict = turn ? b : a, *other = turn ? a : b, *others = json_object_get(strict, "additionalProperties");
        const char *name;
        json_t *value;
        if (!others || json_is_true(others))
            continue;
        json_object_foreach(json_object_get(other, "properties"), name,
                            value) if (!json_object_get(json_object_get(strict, "properties"), name)) return false;
    }
    return true;
}

/* The value of a keyword that both have; NULL: refused. */
static json_t *merge_values(struct json_schema *s, const char *keyword, json_t *a, json_t *b) {
    static const char *const lower[] = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", NULL};
    static const char *const upper[] = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", NULL};
    if (json_equal(a, b) || schema_is_note(keyword))
        return json_incref(a);
    if (strcmp(keyword, "type") == 0)
        return merge_types(a, b);
    if (strcmp(keyword, "properties") == 0 && json_is_object(a) && json_is_object(b))
        return merge_properties(a, b);
    if ((strcmp(keyword, "required") == 0 || strcmp(keyword, "enum") == 0) && json_is_array(a) && json_is_array(b))
        return merge_lists(a, b, *keyword == 'e');
    if (json_is_number(a) && json_is_number(b) && is_one_of(keyword, lower))
        return json_incref(json_number_value(a) > json_number_value(b) ? a : b);
    if (json_is_number(a) && json_is_number(b) && is_one_of(keyword, upper))
        return json_incref(json_number_value(a) < json_number_value(b) ? a : b);
    if (strcmp(keyword, "additionalProperties") == 0 && (json_is_false(a) || json_is_false(b)))
        return json_false();
    if (strcmp(keyword, "additionalProperties") == 0 && (json_is_true(a) || json_is_true(b)))
        return json_incref(json_is_true(a) ? b : a);
    if (strcmp(keyword, "items") == 0 && json_is_object(a) && json_is_object(b))
        return both(a, b);
    if (strcmp(keyword, "nullable") == 0)
        return json_false();
    (void)cannot(s, keyword);
    return NULL;
}

/* The schema with the references at its top followed; owned by s. NULL: refused. */
static const json_t *flat(struct json_schema *s, const json_t *schema, unsigned depth);

static const json_t *merge_flat(struct json_schema *s, const json_t *a, const json_t *b) {
    if (json_is_true(a) || json_is_true(b))
        return json_is_true(a) ? b : a;
    if (!json_is_object(a) || !json_is_object(b)) {
        schema_refuse(s, STATUS_INVALID, "a schema must be an object or true");
        return NULL;
    }
    if (!others_agree(a, b))
        return cannot(s, "additionalProperties");
    json_t *all = (json_t *)(uintptr_t)schema_without(s, a, ""), *value; /* a copy */
    const char *keyword;
    if (!all)
        return NULL;
    json_object_foreach((json_t *)(uintptr_t)b, keyword, value) {
        json_t *old = json_object_get(a, keyword), *merged = old ? merge_values(s, keyword, old, value) : json_incref(value);
        if (!merged || json_object_set_new(all, keyword, merged) != 0) {
            schema_refuse(s, STATUS_NO_MEMORY, "no memory for a schema");
            return NULL;
        }
    }
    return all;
}

static const json_t *flat(struct json_schema *s, const json_t *schema, unsigned depth) {
    const char *name = json_string_value(json_object_get(schema, "$ref"));
    if (!name)
        return schema;
    if (depth == REFERENCES_MAX) {
        schema_refuse(s, STATUS_INVALID, "$ref '%.60s' refers to itself without end", name);
        return NULL;
    }
    const json_t *target = schema_resolve(s, name);
    target = target ? flat(s, target, depth + 1) : NULL;
    const json_t *rest = target ? schema_without(s, schema, "$ref") : NULL;
    if (!rest)
        return NULL;
    return merge_flat(s, target, rest);
}

const json_t *schema_merge(struct json_schema *s, const json_t *a, const json_t *b) {
    a = flat(s, a, 0);
    b = b ? flat(s, b, 0) : json_true();
    return a && b && !grammar_failed(s->grammar) ? merge_flat(s, a, b) : NULL;
}
