/*
 * json_schema_types: objects, arrays, strings and numbers.
 */
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "generate/json_number.h"
#include "generate/json_schema_parts.h"
#include "generate/regex.h"

/* ---- objects ---- */

struct members { /* properties in order, then required names that have no schema */
    const char **names;
    uint32_t *pairs; /* rules: "name": value */
    bool *required;
    uint32_t count;
};

static void members_deinit(struct members *m) {
    memory_free(m->names);
    memory_free(m->pairs);
    memory_free(m->required);
}

static bool find_member(const struct members *m, const char *name, uint32_t *index) {
    for (uint32_t i = 0; i < m->count; i++)
        if (strcmp(m->names[i], name) == 0) {
            *index = i;
            return true;
        }
    return false;
}

static void add_member(struct json_schema *s, struct members *m, const char *name, const json_t *schema) {
    size_t length = schema_enter(s, name);
    struct fragment value = schema ? schema_compile(s, schema) : json_form_rule(s->form, FORM_VALUE);
    struct fragment pair = grammar_join(s->grammar, json_form_key(s->form, text_of(name)), value);
    schema_leave(s, length);
    m->names[m->count] = name;
    m->pairs[m->count++] = grammar_rule_of(s->grammar, pair);
}

/* The schema of properties that are not named; NULL: there are none. `value` is true for any. */
static const json_t *others_of(struct json_schema *s, const json_t *schema, bool has_members) {
    const json_t *others = json_object_get(schema, "additionalProperties");
    if (others && !json_is_boolean(others) && !json_is_object(others))
        schema_refuse(s, STATUS_INVALID, "additionalProperties must be true, false or a schema");
    if (!others && !has_members && !json_object_get(schema, "properties"))
        return json_true();
    return json_is_false(others) ? NULL : others;
}

static void read_members(struct json_schema *s, const json_t *schema, struct members *m) {
    json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required"), *value;
    if ((properties && !json_is_object(properties)) || (required && !json_is_array(required))) {
        schema_refuse(s, STATUS_INVALID, "properties must be an object of schemas, and required a list of names");
        return;
    }
    size_t room = json_object_size(properties) + json_array_size(required) + 1, i;
    m->names = memory_alloc_array(room, sizeof *m->names);
    m->pairs = memory_alloc_array(room, sizeof *m->pairs);
    m->required = memory_alloc_array(room, sizeof *m->required);
    if (!m->names || !m->pairs || !m->required) {
        schema_refuse(s, STATUS_NO_MEMORY, "no memory for %zu properties", room);
        return;
    }
    const char *name;
    size_t length = schema_enter(s, "properties");
    json_object_foreach(properties, name, value) {
        if (grammar_failed(s->grammar))
            break;
        add_member(s, m, name, value);
    }
    schema_leave(s, length);
    json_array_foreach(required, i, value) {
        const char *wanted = json_string_value(value);
        uint32_t index = 0;
        if (grammar_failed(s->grammar))
            return;
        if (!wanted) {
            schema_refuse(s, STATUS_INVALID, "required[%zu] is no text", i);
            return;
        }
        if (!find_member(m, wanted, &index)) {
            const json_t *others = json_object_get(schema, "additionalProperties");
            if (json_is_false(others)) {
                schema_refuse(s, STATUS_INVALID, "required names '%.60s', which additionalProperties: false forbids", wanted);
                return;
            }
            index = m->count;
            add_member(s, m, wanted, json_is_object(others) ? others : NULL);
        }
        m->required[index] = true;
    }
}

static struct fragment other_pair(struct json_schema *s, const struct members *m, const json_t *others) {
    size_t length = schema_enter(s, "additionalProperties");
    struct fragment key = m->count ? json_form_other_key(s->form, m->names, m->count) : json_form_rule(s->form, FORM_STRING);
    key = grammar_join(s->grammar, key, json_form_separator(s->form, ":"));
    struct fragment pair = grammar_join(s->grammar, key, schema_compile(s, others));
    schema_leave(s, length);
    return pair;
}

/*
 * Members in order, each optional one may be left out, commas between. A rule for each place says what may come from there on, behind a
 * member; in front of the first one the same without a comma.
 */
static struct fragment ordered_members(struct json_schema *s, const struct members *m, const json_t *others) {
    struct grammar *g = s->grammar;
    struct fragment tail = grammar_nothing(g), head = grammar_nothing(g);
    if (others) {
        uint32_t pair = grammar_rule_of(g, other_pair(s, m, others));
        struct fragment more = grammar_join(g, json_form_separator(s->form, ","), grammar_call(g, pair));
        tail = grammar_repeat(g, more, 0, GRAMMAR_UNBOUNDED);
        head = json_form_list(s->form, pair, 0, GRAMMAR_UNBOUNDED);
    }
    for (uint32_t i = m->count; i-- > 0 && !grammar_failed(g);) {
        uint32_t rest = grammar_rule_of(g, tail);
        struct fragment with = grammar_join(g, grammar_call(g, m->pairs[i]), grammar_call(g, rest));
        head = m->required[i] ? with : grammar_either(g, with, head);
        struct fragment pair = grammar_join(g, json_form_separator(s->form, ","), grammar_call(g, m->pairs[i]));
        tail = grammar_join(g, pair, grammar_call(g, rest));
        if (!m->required[i])
            tail = grammar_either(g, tail, grammar_call(g, rest));
    }
    return head;
}

static struct fragment object_of(struct json_schema *s, const json_t *schema, const struct members *m) {
    struct grammar *g = s->grammar;
    const json_t *others = others_of(s, schema, m->count > 0);
    uint32_t minimum = schema_count(s, schema, "minProperties", 0), maximum = schema_count(s, schema, "maxProperties", GRAMMAR_UNBOUNDED);
    uint32_t required = 0;
    for (uint32_t i = 0; i < m->count; i++)
        required += m->required[i];
    if (m->count == 0 && others && minimum <= 1 && minimum <= maximum) /* two pairs may have one key: more than one cannot be promised */
        return json_form_pairs(s->form, grammar_rule_of(g, other_pair(s, m, others)), minimum, maximum);
    if (minimum > required || (maximum != GRAMMAR_UNBOUNDED && (others || maximum < m->count)))
        schema_refuse(s, STATUS_UNSUPPORTED,
                      "minProperties and maxProperties are understood for objects without properties, and up to one");
    struct fragment open = grammar_join(g, grammar_literal(g, TEXT("{")), json_form_rule(s->form, FORM_SPACE));
    struct fragment close = grammar_join(g, json_form_rule(s->form, FORM_SPACE), grammar_literal(g, TEXT("}")));
    return grammar_join(g, grammar_join(g, open, ordered_members(s, m, others)), close);
}

struct fragment schema_object(struct json_schema *s, const json_t *schema) {
    struct members members = {.count = 0};
    read_members(s, schema, &members);
    struct fragment all = grammar_failed(s->grammar) ? grammar_nothing(s->grammar) : object_of(s, schema, &members);
    members_deinit(&members);
    return all;
}

/* ---- arrays ---- */

static uint32_t item_rule(struct json_schema *s, const char *keyword, size_t index, const json_t *schema) {
    size_t length = index == SIZE_MAX ? schema_enter(s, keyword) : schema_enter_index(s, keyword, index);
    uint32_t rule = grammar_rule_of(s->grammar, schema_compile(s, schema));
    schema_leave(s, length);
    return rule;
}

/* The first items have schemas of their own: built from the last to the first. */
static struct fragment tuple(struct json_schema *s, const json_t *prefix, const json_t *rest, uint32_t minimum, uint32_t maximum) {
    struct grammar *g = s->grammar;
    uint32_t count = (uint32_t)json_array_size(prefix);
    if (count > maximum)
        count = maximum;
    struct fragment all = grammar_nothing(g);
    if (rest && maximum > count) {
        struct fragment more = grammar_join(g, json_form_separator(s->form, ","), grammar_call(g, item_rule(s, "items", SIZE_MAX, rest)));
        all = grammar_repeat(g, more, minimum > count ? minimum - count : 0, maximum == GRAMMAR_UNBOUNDED ? maximum : maximum - count);
    } else if (minimum > count) {
        schema_refuse(s, STATUS_INVALID, "minItems is %u, and there are schemas for %u", minimum, count);
    }
    for (uint32_t i = count; i-- > 0 && !grammar_failed(g);) {
        struct fragment item = grammar_call(g, item_rule(s, "prefixItems", i, json_array_get(prefix, i)));
        if (i > 0)
            item = grammar_join(g, json_form_separator(s->form, ","), item);
        all = grammar_join(g, item, all);
        if (i >= minimum)
            all = grammar_optional(g, all);
    }
    return all;
}

struct fragment schema_array(struct json_schema *s, const json_t *schema) {
    struct grammar *g = s->grammar;
    const json_t *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items");
    uint32_t minimum = schema_count(s, schema, "minItems", 0), maximum = schema_count(s, schema, "maxItems", GRAMMAR_UNBOUNDED);
    struct fragment list;
    if (!prefix && json_is_array(items)) { /* drafts up to 7 */
        prefix = items;
        items = NULL;
    }
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        schema_refuse(s, STATUS_UNSUPPORTED, "uniqueItems is not supported");
    if (json_is_false(items) && !prefix) {
        maximum = 0;
        items = NULL;
    }
    if (minimum > maximum)
        schema_refuse(s, STATUS_INVALID, "minItems is above the number of items that may be there");
    if (prefix && (!json_is_array(prefix) || json_array_size(prefix) == 0))
        schema_refuse(s, STATUS_INVALID, "prefixItems must be a list of schemas");
    if (grammar_failed(g))
        return grammar_nothing(g);
    if (prefix)
        list = tuple(s, prefix, json_is_false(items) ? NULL : items, minimum, maximum);
    else if (maximum == 0 && minimum == 0)
        list = grammar_nothing(g);
    else
        list = json_form_list(s->form, item_rule(s, "items", SIZE_MAX, items ? items : json_true()), minimum, maximum);
    struct fragment open = grammar_join(g, grammar_literal(g, TEXT("[")), json_form_rule(s->form, FORM_SPACE));
    struct fragment close = grammar_join(g, json_form_rule(s->form, FORM_SPACE), grammar_literal(g, TEXT("]")));
    return grammar_join(g, grammar_join(g, open, list), close);
}

/* ---- strings ---- */

#define DATE "\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))"
#define YEAR_DATE "(?:[1-9]\\d{3}|0[1-9]\\d{2})" DATE
#define TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?"
#define BYTE "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define GROUP "[0-9a-fA-F]{1,4}"

/* Each is a part of what its RFC allows that every checker accepts. */
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", "P(\\d{1,6}W|(\\d{1,6}Y(\\d{1,6}M(\\d{1,6}D)?)?|\\d{1,6}M(\\d{1,6}D)?|\\d{1,6}D)(T\\d{1,6}(H(\\d{1,6}M(\\d{1,6}S)?)?|M("
                 "\\d{1,6}S)?|S))?|"
                 "T\\d{1,6}(H(\\d{1,6}M(\\d{1,6}S)?)?|M(\\d{1,6}S)?|S))"},
    {"email", "[a-zA-Z0-9_+-]{1,20}(\\.[a-zA-Z0-9_+-]{1,20}){0,2}@" LABEL "(\\." LABEL "){1,3}"},
    {"hostname", LABEL "(\\." LABEL "){0,5}"},
    {"ipv4", BYTE "(\\." BYTE "){3}"},
    {"ipv6",
     "(" GROUP ":){7}" GROUP "|(" GROUP ":){1,6}:" GROUP "|(" GROUP ":){1,5}(:" GROUP "){2}|(" GROUP ":){1,4}(:" GROUP "){3}|(" GROUP
     ":){1,3}(:" GROUP "){4}|(" GROUP ":){1,2}(:" GROUP "){5}|" GROUP ":(:" GROUP "){6}|:(:" GROUP "){1,7}|(" GROUP ":){1,7}:|::"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"uri", "[a-z][a-z0-9+.-]{0,20}://" LABEL "(\\." LABEL "){0,5}(:\\d{1,4})?(/[a-zA-Z0-9_.~!$&'()*+,;=:@-]*)*"
            "(\\?[a-zA-Z0-9_.~!$&'()*+,;=:@/?-]*)?(#[a-zA-Z0-9_.~!$&'()*+,;=:@/?-]*)?"},
};

static struct fragment format_of(struct json_schema *s, const char *name, enum char_spelling spelling) {
    for (size_t i = 0; name && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(name, formats[i].name) == 0)
            return regex_read(s->grammar, text_of(formats[i].pattern), REGEX_WHOLE, spelling);
    schema_refuse(s, STATUS_UNSUPPORTED,
                  "format '%.40s' is not supported (known are date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid, uri)",
                  name ? name : "?");
    return grammar_nothing(s->grammar);
}

static struct fragment any_character(struct json_schema *s, enum char_spelling spelling) {
    struct char_set all = {.count = 0};
    if (spelling == CHARS_JSON)
        return json_form_rule(s->form, FORM_CHAR);
    (void)!char_set_negate(&all);
    return grammar_chars(s->grammar, &all, spelling);
}

struct fragment schema_characters(struct json_schema *s, const json_t *schema, enum char_spelling spelling) {
    struct grammar *g = s->grammar;
    const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
    bool lengths = json_object_get(schema, "minLength") || json_object_get(schema, "maxLength");
    uint32_t minimum = schema_count(s, schema, "minLength", 0), maximum = schema_count(s, schema, "maxLength", GRAMMAR_UNBOUNDED);
    if (minimum > maximum)
        schema_refuse(s, STATUS_INVALID, "minLength is above maxLength");
    if ((pattern != NULL) + (format != NULL) + lengths > 1)
        schema_refuse(s, STATUS_UNSUPPORTED, "only one of pattern, format and a length is supported; put the length into the pattern");
    if (grammar_failed(g))
        return grammar_nothing(g);
    if (format)
        return format_of(s, json_string_value(format), spelling);
    if (!pattern)
        return grammar_repeat(g, any_character(s, spelling), minimum, maximum);
    if (!json_is_string(pattern)) {
        schema_refuse(s, STATUS_INVALID, "pattern must be a text");
        return grammar_nothing(g);
    }
    struct text text = {json_string_value(pattern), json_string_length(pattern)};
    struct fragment all = regex_read(g, text, REGEX_SEARCH, spelling);
    if (grammar_failed(g) && strncmp(g->err.text, "pattern", 7) == 0)
        (void)error_prefix(&g->err, "%s", s->place);
    return all;
}

struct fragment schema_string(struct json_schema *s, const json_t *schema) {
    struct grammar *g = s->grammar;
    if (!json_object_get(schema, "pattern") && !json_object_get(schema, "format") && !json_object_get(schema, "minLength") &&
        !json_object_get(schema, "maxLength"))
        return json_form_rule(s->form, FORM_STRING);
    struct fragment open = grammar_join(g, grammar_literal(g, TEXT("\"")), schema_characters(s, schema, CHARS_JSON));
    return grammar_join(g, open, grammar_literal(g, TEXT("\"")));
}

/* ---- numbers ---- */

/* The tighter of a bound and its open form; draft 4 writes the latter as true. */
static const json_t *bound_of(struct json_schema *s, const json_t *schema, const char *closed, const char *open, bool *is_open) {
    const json_t *bound = json_object_get(schema, closed), *other = json_object_get(schema, open);
    if ((bound && !json_is_number(bound)) || (other && !json_is_number(other) && !json_is_boolean(other)))
        schema_refuse(s, STATUS_INVALID, "%s and %s must be numbers", closed, open);
    *is_open = json_is_true(other);
    if (!json_is_number(other))
        return bound;
    bool is_minimum = closed[1] == 'i';
    if (bound && (is_minimum ? json_number_value(bound) > json_number_value(other) : json_number_value(bound) < json_number_value(other)))
        return bound;
    *is_open = true;
    return other;
}

static void read_multiple(struct json_schema *s, const json_t *schema, struct json_bounds *bounds) {
    const json_t *multiple = json_object_get(schema, "multipleOf");
    double value = json_number_value(multiple);
    if (!multiple)
        return;
    if (json_is_number(multiple) && value >= 1 && value <= JSON_MULTIPLE_MAX && value == (double)(int)value) {
        bounds->multiple = (uint32_t)value;
        return;
    }
    static const double tenths[] = {0.1, 0.01, 0.001, 0.0001, 0.00001, 0.000001};
    for (int i = 0; i < (int)(sizeof tenths / sizeof *tenths) && bounds->decimals != 0; i++)
        if (json_is_number(multiple) && !(value < tenths[i]) && !(value > tenths[i])) {
            bounds->decimals = i + 1;
            return;
        }
    schema_refuse(s, STATUS_UNSUPPORTED, "multipleOf is understood for whole numbers from 1 to %d, and 0.1 to 0.000001 in powers of ten",
                  JSON_MULTIPLE_MAX);
}

struct fragment schema_number(struct json_schema *s, const json_t *schema, bool whole) {
    struct json_bounds bounds = {.decimals = whole ? 0 : -1};
    bounds.minimum = bound_of(s, schema, "minimum", "exclusiveMinimum", &bounds.minimum_open);
    bounds.maximum = bound_of(s, schema, "maximum", "exclusiveMaximum", &bounds.maximum_open);
    read_multiple(s, schema, &bounds);
    if (grammar_failed(s->grammar))
        return grammar_nothing(s->grammar);
    if (!bounds.minimum && !bounds.maximum && !bounds.multiple && bounds.decimals <= 0)
        return json_form_rule(s->form, whole ? FORM_INTEGER : FORM_NUMBER);
    struct fragment all = json_number(s->form, &bounds);
    if (grammar_failed(s->grammar) && strncmp(s->grammar->err.text, "a bound", 7) == 0)
        (void)error_prefix(&s->grammar->err, "%s", s->place);
    return all;
}
