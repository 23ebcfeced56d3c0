/* json_form: JSON, rule by rule. */
#include "generate/json_form.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define KEY_CHARACTERS_MAX 200 /* of a name that another key must differ from */

static struct fragment literal(struct json_form *f, const char *text) { return grammar_literal(f->grammar, text_of(text)); }

static struct fragment join3(struct grammar *g, struct fragment a, struct fragment b, struct fragment c) {
    return grammar_join(g, grammar_join(g, a, b), c);
}

static struct fragment digits(struct json_form *f, uint32_t minimum, uint32_t maximum) {
    return grammar_repeat(f->grammar, grammar_range(f->grammar, '0', '9'), minimum, maximum);
}

static struct fragment hex(struct json_form *f, const char *ranges, uint32_t count) {
    struct fragment all = grammar_never(f->grammar);
    for (size_t i = 0; ranges[i]; i += 2)
        all = grammar_either(f->grammar, all, grammar_range(f->grammar, (uint8_t)ranges[i], (uint8_t)ranges[i + 1]));
    return grammar_repeat(f->grammar, all, count, count);
}

#define ANY_HEX "09afAF"

/* ---- rules ---- */

/* A space, or a line break with the next line's indentation, or nothing. */
static struct fragment make_space(struct json_form *f) {
    struct grammar *g = f->grammar;
    struct fragment indent = grammar_repeat(g, grammar_either(g, literal(f, " "), literal(f, "\t")), 0, JSON_INDENT_MAX);
    return grammar_optional(g, grammar_either(g, literal(f, " "), grammar_join(g, literal(f, "\n"), indent)));
}

static struct fragment make_plain_char(struct json_form *f) {
    struct char_set set = {.count = 0};
    (void)!(char_set_add(&set, 0, 0x1f) && char_set_add(&set, '"', '"') && char_set_add(&set, '\\', '\\') && char_set_negate(&set));
    return grammar_chars(f->grammar, &set, CHARS_PLAIN);
}

/* What may follow \u: not a surrogate, or a high and a low one. */
static struct fragment make_escape_hex(struct json_form *f) {
    struct grammar *g = f->grammar;
    struct fragment plain = grammar_join(g,
                                         hex(f,
                                             "09acAC"
                                             "efEF",
                                             1),
                                         hex(f, ANY_HEX, 3));
    struct fragment d = join3(g, hex(f, "ddDD", 1), hex(f, "07", 1), hex(f, ANY_HEX, 2));
    struct fragment high = join3(g, hex(f, "ddDD", 1), hex(f, "89abAB", 1), hex(f, ANY_HEX, 2));
    struct fragment low = join3(g, hex(f, "ddDD", 1), hex(f, "cfCF", 1), hex(f, ANY_HEX, 2));
    return grammar_either(g, grammar_either(g, plain, d), join3(g, high, literal(f, "\\u"), low));
}

static struct fragment make_char(struct json_form *f) {
    struct grammar *g = f->grammar;
    struct fragment simple = grammar_never(g);
    for (const char *c = "\"\\/bfnrt"; *c; c++)
        simple = grammar_either(g, simple, grammar_range(g, (uint8_t)*c, (uint8_t)*c));
    struct fragment escape = grammar_either(g, simple, grammar_join(g, literal(f, "u"), make_escape_hex(f)));
    return grammar_either(g, make_plain_char(f), grammar_join(g, literal(f, "\\"), escape));
}

static struct fragment make_string(struct json_form *f) {
    struct fragment chars = grammar_repeat(f->grammar, json_form_rule(f, FORM_CHAR), 0, GRAMMAR_UNBOUNDED);
    return join3(f->grammar, literal(f, "\""), chars, literal(f, "\""));
}

static struct fragment make_integer(struct json_form *f) {
    struct grammar *g = f->grammar;
    struct fragment more = grammar_join(g, grammar_range(g, '1', '9'), digits(f, 0, 14));
    return grammar_join(g, grammar_optional(g, literal(f, "-")), grammar_either(g, literal(f, "0"), more));
}

static struct fragment make_number(struct json_form *f) {
    struct grammar *g = f->grammar;
    struct fragment sign = grammar_optional(g, grammar_either(g, literal(f, "+"), literal(f, "-")));
    struct fragment exponent = join3(g, grammar_either(g, literal(f, "e"), literal(f, "E")), sign, digits(f, 1, 2));
    struct fragment part = grammar_join(g, literal(f, "."), digits(f, 1, 16));
    return join3(g, json_form_rule(f, FORM_INTEGER), grammar_optional(g, part), grammar_optional(g, exponent));
}

static struct fragment make_value(struct json_form *f) {
    static const enum json_rule kinds[] = {FORM_OBJECT, FORM_ARRAY, FORM_STRING, FORM_NUMBER, FORM_BOOLEAN};
    struct fragment all = literal(f, "null");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        all = grammar_either(f->grammar, all, json_form_rule(f, kinds[i]));
    return all;
}

static struct fragment make_object(struct json_form *f) {
    struct grammar *g = f->grammar;
    struct fragment pair = join3(g, json_form_rule(f, FORM_STRING), json_form_separator(f, ":"), json_form_rule(f, FORM_VALUE));
    return json_form_pairs(f, grammar_rule_of(g, pair), 0, GRAMMAR_UNBOUNDED);
}

static struct fragment make_array(struct json_form *f) {
    struct grammar *g = f->grammar;
    struct fragment item = json_form_rule(f, FORM_VALUE);
    struct fragment list = json_form_list(f, grammar_rule_of(g, item), 0, GRAMMAR_UNBOUNDED);
    struct fragment open = grammar_join(g, literal(f, "["), json_form_rule(f, FORM_SPACE));
    return join3(g, open, list, grammar_join(g, json_form_rule(f, FORM_SPACE), literal(f, "]")));
}

static struct fragment make_boolean(struct json_form *f) { return grammar_either(f->grammar, literal(f, "true"), literal(f, "false")); }

struct fragment json_form_rule(struct json_form *f, enum json_rule rule) {
    static struct fragment (*const makers[FORM_RULE_COUNT])(struct json_form *) = {
        make_space, make_char, make_plain_char, make_string, make_integer, make_number, make_boolean, make_value, make_object, make_array};
    if (!f->rules[rule]) {
        uint32_t number = grammar_new_rule(f->grammar, (struct text){NULL, 0});
        f->rules[rule] = number + 1; /* before it is made: values hold values */
        grammar_define(f->grammar, number, makers[rule](f));
    }
    return grammar_call(f->grammar, f->rules[rule] - 1);
}

/* ---- pieces ---- */

struct fragment json_form_separator(struct json_form *f, const char *text) {
    return grammar_join(f->grammar, literal(f, text), json_form_rule(f, FORM_SPACE));
}

struct fragment json_form_list(struct json_form *f, uint32_t item, uint32_t minimum, uint32_t maximum) {
    struct grammar *g = f->grammar;
    if (maximum == 0)
        return grammar_nothing(g);
    uint32_t more_min = minimum ? minimum - 1 : 0, more_max = maximum == GRAMMAR_UNBOUNDED ? maximum : maximum - 1;
    struct fragment first = grammar_call(g, item);
    if (more_max > 0) {
        struct fragment more = grammar_join(g, json_form_separator(f, ","), grammar_call(g, item));
        first = grammar_join(g, first, grammar_repeat(g, more, more_min, more_max));
    }
    return minimum == 0 ? grammar_optional(g, first) : first;
}

struct fragment json_form_pairs(struct json_form *f, uint32_t pair, uint32_t minimum, uint32_t maximum) {
    struct grammar *g = f->grammar;
    struct fragment open = grammar_join(g, literal(f, "{"), json_form_rule(f, FORM_SPACE));
    struct fragment close = grammar_join(g, json_form_rule(f, FORM_SPACE), literal(f, "}"));
    return join3(g, open, json_form_list(f, pair, minimum, maximum), close);
}

static struct fragment json_text(struct json_form *f, const json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        grammar_fail(f->grammar, STATUS_NO_MEMORY, "no memory for a value of a schema");
    struct fragment all = grammar_literal(f->grammar, text_of(text ? text : ""));
    memory_free(text);
    return all;
}

struct fragment json_form_key(struct json_form *f, struct text key) {
    json_t *string = json_stringn(key.data, key.size_bytes);
    struct fragment all = grammar_join(f->grammar, json_text(f, string), json_form_separator(f, ":"));
    json_decref(string);
    return all;
}

struct fragment json_form_value(struct json_form *f, const json_t *value) {
    struct grammar *g = f->grammar;
    bool object = json_is_object(value), first = true;
    if (!object && !json_is_array(value))
        return json_text(f, value);
    struct fragment all = grammar_join(g, literal(f, object ? "{" : "["), json_form_rule(f, FORM_SPACE));
    const char *key;
    size_t length, index;
    json_t *item;
    if (object)
        json_object_keylen_foreach((json_t *)(uintptr_t)value, key, length, item) {
            all = first ? all : grammar_join(g, all, json_form_separator(f, ","));
            all = join3(g, all, json_form_key(f, (struct text){key, length}), json_form_value(f, item));
            first = false;
        }
    json_array_foreach(value, index, item) {
        all = index == 0 ? all : grammar_join(g, all, json_form_separator(f, ","));
        all = grammar_join(g, all, json_form_value(f, item));
    }
    return join3(g, all, json_form_rule(f, FORM_SPACE), literal(f, object ? "}" : "]"));
}

/* ---- keys that are none of some names ---- */

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* A plain character that is not in `used`, and then anything; with the closing quote. */
static struct fragment other_rest(struct json_form *f, struct char_set *used) {
    struct grammar *g = f->grammar;
    if (!char_set_add(used, 0, 0x1f) || !char_set_add(used, '"', '"') || !char_set_add(used, '\\', '\\') || !char_set_negate(used))
        grammar_fail(g, STATUS_OVER_BUDGET, "too many property names to tell another key from");
    struct fragment rest = grammar_repeat(g, json_form_rule(f, FORM_PLAIN_CHAR), 0, GRAMMAR_UNBOUNDED);
    return join3(g, grammar_chars(g, used, CHARS_PLAIN), rest, literal(f, "\""));
}

/* names [count]: sorted, equal up to byte `at`. The depth is bounded by KEY_CHARACTERS_MAX. */
static struct fragment other_key(struct json_form *f, const char *const *names, uint32_t count, size_t at, unsigned depth) {
    struct grammar *g = f->grammar;
    struct fragment all = grammar_never(g);
    struct char_set *used = memory_alloc(sizeof *used);
    uint32_t i = 0;
    if (!used)
        grammar_fail(g, STATUS_NO_MEMORY, "no memory for property names");
    if (depth > KEY_CHARACTERS_MAX)
        grammar_fail(g, STATUS_UNSUPPORTED, "a property name of more than %d characters beside additionalProperties", KEY_CHARACTERS_MAX);
    while (i < count && names[i][at] == 0) /* the text so far is a name: it may not end here */
        i++;
    if (i == 0)
        all = grammar_either(g, all, literal(f, "\""));
    while (i < count && !grammar_failed(g)) {
        uint32_t character = 0, end = i + 1;
        size_t next = at;
        bool valid = char_next(text_of(names[i]), &next, &character); /* jansson's texts are UTF-8 */
        CHECK(valid);
        while (end < count && strncmp(names[end] + at, names[i] + at, next - at) == 0)
            end++;
        if (!char_set_add(used, character, character))
            grammar_fail(g, STATUS_OVER_BUDGET, "too many property names to tell another key from");
        if (character >= 0x20 && character != '"' && character != '\\') {
            struct fragment one = grammar_literal(g, (struct text){names[i] + at, next - at});
            all = grammar_either(g, all, grammar_join(g, one, other_key(f, names + i, end - i, next, depth + 1)));
        }
        i = end;
    }
    if (!grammar_failed(g))
        all = grammar_either(g, all, other_rest(f, used));
    memory_free(used);
    return all;
}

struct fragment json_form_other_key(struct json_form *f, const char *const *names, uint32_t count) {
    const char **sorted = memory_alloc_array((size_t)count + 1, sizeof *sorted);
    if (!sorted) {
        grammar_fail(f->grammar, STATUS_NO_MEMORY, "no memory for %u names", count);
        return grammar_nothing(f->grammar);
    }
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = names[i];
    if (count > 1)
        qsort(sorted, count, sizeof *sorted, compare_names);
    struct fragment all = grammar_join(f->grammar, literal(f, "\""), other_key(f, sorted, count, 0, 0));
    memory_free(sorted);
    return all;
}
