/*
 * reply_grammar: marks, reasoning, and calls by the patterns of a family.
 */
#include "generate/reply_grammar.h"

#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "generate/json_schema.h"

#define MARK_CHARACTERS_MAX 64

static struct grammar *grammar_of(const struct reply_grammar *r) { return r->form->grammar; }
static struct fragment literal(const struct reply_grammar *r, const char *text) { return grammar_literal(grammar_of(r), text_of(text)); }
static struct fragment space(const struct reply_grammar *r) { return json_form_rule(r->form, FORM_SPACE); }

static struct fragment join(const struct reply_grammar *r, struct fragment a, struct fragment b) {
    return grammar_join(grammar_of(r), a, b);
}

/* ---- marks ---- */

enum status reply_control_spelling(struct text token, struct byte_buffer *out, struct error *err) {
    const char open = (char)GRAMMAR_CONTROL_OPEN, close = (char)GRAMMAR_CONTROL_CLOSE;
    TRY(byte_buffer_append(out, &open, 1, err));
    TRY(byte_buffer_append_text(out, token, err));
    return byte_buffer_append(out, &close, 1, err);
}

/* The control token that the text begins with: its size, 0: none. */
static size_t control_at(const struct reply_grammar *r, struct text text) {
    uint32_t id;
    for (size_t size = text.size_bytes; size > 1 && r->tokenizer; size--)
        if (tokenizer_find(r->tokenizer, (struct text){text.data, size}, &id) && tokenizer_token_is_special(r->tokenizer, id))
            return size;
    return 0;
}

static struct fragment mark(const struct reply_grammar *r, struct text text) {
    struct byte_buffer bytes;
    struct error err;
    enum status status = STATUS_OK;
    byte_buffer_init(&bytes, 1u << 16);
    for (size_t at = 0; at < text.size_bytes && status == STATUS_OK;) {
        size_t size = control_at(r, (struct text){text.data + at, text.size_bytes - at});
        status = size ? reply_control_spelling((struct text){text.data + at, size}, &bytes, &err)
                      : byte_buffer_append(&bytes, text.data + at, 1, &err);
        at += size ? size : 1;
    }
    if (status != STATUS_OK)
        grammar_fail(grammar_of(r), status, "%s", err.text);
    struct fragment all = grammar_literal(grammar_of(r), byte_buffer_text(&bytes));
    byte_buffer_deinit(&bytes);
    return all;
}

struct finder { /* of a mark in text: state n has its first n characters just seen */
    uint32_t characters[MARK_CHARACTERS_MAX], rules[MARK_CHARACTERS_MAX + 1], count;
};

/* The longest start of the mark that the first `state` characters and c end with. */
static uint32_t next_state(const struct finder *f, uint32_t state, uint32_t c) {
    for (uint32_t length = state + 1; length > 0; length--) {
        bool fits = f->characters[length - 1] == c;
        for (uint32_t i = 0; fits && i + 1 < length; i++)
            fits = f->characters[i] == f->characters[state + 1 - length + i];
        if (fits)
            return length;
    }
    return 0;
}

static struct fragment finder_state(const struct reply_grammar *r, const struct finder *f, uint32_t state) {
    struct grammar *g = grammar_of(r);
    struct fragment all = grammar_never(g);
    struct char_set used = {.count = 0};
    for (uint32_t i = 0; i < f->count; i++) {
        struct char_set one = {.count = 1, .ranges = {{f->characters[i], f->characters[i]}}};
        uint32_t next = next_state(f, state, f->characters[i]);
        bool again = false;
        for (uint32_t k = 0; k < i; k++)
            again = again || f->characters[k] == f->characters[i];
        (void)!char_set_add(&used, f->characters[i], f->characters[i]);
        if (!again)
            all = grammar_either(g, all, join(r, grammar_chars(g, &one, CHARS_PLAIN), grammar_call(g, f->rules[next])));
    }
    (void)!char_set_negate(&used);
    return grammar_either(g, all, join(r, grammar_chars(g, &used, CHARS_PLAIN), grammar_call(g, f->rules[0])));
}

/* Any text up to the first `end`, and that. */
static struct fragment text_until(const struct reply_grammar *r, struct text end) {
    struct grammar *g = grammar_of(r);
    struct finder f = {.count = 0};
    size_t control = control_at(r, end);
    if (control) {
        struct char_set any = {.count = 0};
        (void)!char_set_negate(&any);
        return join(r, grammar_repeat(g, grammar_chars(g, &any, CHARS_PLAIN), 0, GRAMMAR_UNBOUNDED), mark(r, end));
    }
    size_t at = 0;
    while (at < end.size_bytes && f.count < MARK_CHARACTERS_MAX && control_at(r, (struct text){end.data + at, end.size_bytes - at}) == 0)
        if (!char_next(end, &at, &f.characters[f.count++])) {
            grammar_fail(g, STATUS_INVALID, "a mark of the reply format is no UTF-8");
            return grammar_nothing(g);
        }
    for (uint32_t i = 0; i <= f.count; i++)
        f.rules[i] = grammar_new_rule(g, (struct text){NULL, 0});
    for (uint32_t i = 0; i < f.count && !grammar_failed(g); i++)
        grammar_define(g, f.rules[i], finder_state(r, &f, i));
    grammar_define(g, f.rules[f.count], mark(r, (struct text){end.data + at, end.size_bytes - at}));
    return grammar_call(g, f.rules[0]);
}

/* ---- reasoning ---- */

/* Reasoning in front, when it was opened or the template knows of it. */
static struct fragment behind_reasoning(const struct reply_grammar *r, struct fragment rest) {
    struct grammar *g = grammar_of(r);
    if (!r->reasoning_opened && !r->may_reason)
        return rest;
    if (r->family->engine == REPLY_HARMONY) {
        struct fragment text = join(r, mark(r, TEXT("<|channel|>analysis<|message|>")), text_until(r, TEXT("<|end|>")));
        return join(r, grammar_optional(g, join(r, text, mark(r, TEXT("<|start|>assistant")))), rest);
    }
    if (!r->family->reasoning_close)
        return rest;
    struct fragment newlines = grammar_repeat(g, literal(r, "\n"), 0, 4);
    struct fragment text = join(r, text_until(r, text_of(r->family->reasoning_close)), newlines);
    if (!r->reasoning_opened)
        text = grammar_optional(g, join(r, mark(r, text_of(r->family->reasoning_open)), text));
    return join(r, text, rest);
}

struct fragment reply_grammar_content(const struct reply_grammar *r, struct fragment content) {
    if (r->family->engine == REPLY_HARMONY)
        content = join(r, mark(r, TEXT("<|channel|>final<|message|>")), content);
    if (r->family->engine == REPLY_RECIPIENTS)
        content = join(r, literal(r, "all\n"), content);
    return behind_reasoning(r, content);
}

/* ---- calls ---- */

struct call { /* of one tool */
    const struct reply_grammar *reply;
    const char *name;
    json_t *parameters;         /* owned */
    struct json_schema *schema; /* owned */
};

static struct fragment arguments(const struct call *c) { return json_schema_value(c->schema, c->parameters); }

static struct fragment quoted(const struct call *c, const char *key, const char *value) {
    json_t *string = json_string(value);
    struct fragment all = join(c->reply, json_form_key(c->reply->form, text_of(key)), json_form_value(c->reply->form, string));
    json_decref(string);
    return all;
}

/* {"name": ..., "arguments": ...}, with the other names that families use for these, an id in front or not. */
static struct fragment json_call(const struct call *c) {
    const struct reply_grammar *r = c->reply;
    struct grammar *g = grammar_of(r);
    struct fragment digits = grammar_repeat(g, grammar_range(g, '0', '9'), 1, 3);
    struct fragment id =
        join(r, join(r, json_form_key(r->form, TEXT("tool_call_id")), literal(r, "\"")), join(r, digits, literal(r, "\"")));
    struct fragment all = join(r, literal(r, "{"), space(r));
    all = join(r, all, grammar_optional(g, join(r, id, json_form_separator(r->form, ","))));
    all = join(r, all, grammar_either(g, quoted(c, "name", c->name), quoted(c, "tool_name", c->name)));
    struct fragment key = grammar_either(g, json_form_key(r->form, TEXT("arguments")), json_form_key(r->form, TEXT("parameters")));
    all = join(r, join(r, all, json_form_separator(r->form, ",")), join(r, key, arguments(c)));
    return join(r, all, join(r, space(r), literal(r, "}")));
}

/* Whether the value is written as text: a schema of strings, or one that allows them. *part: what then holds; NULL: anything. */
static bool is_text(const json_t *schema, const json_t **part, json_t **made) {
    const json_t *type = json_object_get(schema, "type");
    *part = schema;
    if (json_is_array(type))
        for (size_t i = 0; i < json_array_size(type); i++)
            if (json_is_string(json_array_get(type, i)) && strcmp(json_string_value(json_array_get(type, i)), "string") == 0) {
                *made = json_copy((json_t *)(uintptr_t)schema);
                (void)json_object_set_new(*made, "type", json_string("string"));
                *part = *made;
                return true;
            }
    const json_t *any = json_object_get(schema, "anyOf") ? json_object_get(schema, "anyOf") : json_object_get(schema, "oneOf");
    for (size_t i = 0; i < json_array_size(any); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(any, i), "type"));
        if (name && strcmp(name, "string") == 0) {
            *part = json_array_get(any, i);
            return true;
        }
    }
    if (!type && !any && !json_object_get(schema, "enum") && !json_object_get(schema, "const") && !json_object_get(schema, "$ref")) {
        *part = NULL;
        return true;
    }
    return false;
}

static bool is_free(const json_t *string_schema) {
    static const char *const limits[] = {"enum", "const", "pattern", "format", "minLength", "maxLength", "$ref", "allOf"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (json_object_get(string_schema, limits[i]))
            return false;
    return true;
}

/* The value of one parameter and the text behind it. *text: it is written as text. */
static struct fragment parameter_value(const struct call *c, const json_t *schema, struct text end, bool *text) {
    const struct reply_grammar *r = c->reply;
    const json_t *part = schema;
    json_t *made = NULL;
    struct fragment all = {0, 0};
    *text = is_text(schema, &part, &made);
    if (*text && (!part || is_free(part))) {
        all = text_until(r, end);
    } else if (json_schema_marked_text(c->schema, part, &all)) {
        *text = true;
        bool trims = r->family->trim_newline;
        if (trims)
            all =
                join(r, grammar_optional(grammar_of(r), literal(r, "\n")), join(r, all, grammar_optional(grammar_of(r), literal(r, "\n"))));
        all = join(r, all, mark(r, end));
    } else {
        *text = false;
        all = join(r, join(r, space(r), json_schema_value(c->schema, schema)), join(r, space(r), mark(r, end)));
    }
    json_decref(made);
    return all;
}

static struct fragment parameter(const struct call *c, const char *key, const json_t *schema) {
    const struct reply_grammar *r = c->reply;
    struct fragment all = grammar_nothing(grammar_of(r)), value = {0, 0};
    const char *pattern = r->family->parameter, *behind = strstr(pattern, "%v") + 2;
    bool text;
    value = parameter_value(c, schema, text_of(behind), &text);
    while (pattern + 2 != behind) {
        if (*pattern == '~') {
            all = join(r, all, space(r));
            pattern++;
        } else if (*pattern == '%') {
            CHECK(pattern[1] == 'k' || pattern[1] == 's');
            all = join(r, all, literal(r, pattern[1] == 'k' ? key : text ? "true" : "false"));
            pattern += 2;
        } else {
            size_t size = strcspn(pattern, "~%");
            all = join(r, all, mark(r, (struct text){pattern, size}));
            pattern += size;
        }
    }
    return join(r, join(r, all, value), space(r));
}

static struct fragment parameters(const struct call *c) {
    const struct reply_grammar *r = c->reply;
    struct grammar *g = grammar_of(r);
    struct fragment all = space(r);
    const json_t *required = json_object_get(c->parameters, "required");
    const char *key;
    json_t *schema;
    json_object_foreach(json_object_get(c->parameters, "properties"), key, schema) {
        bool needed = false;
        for (size_t i = 0; i < json_array_size(required); i++)
            needed =
                needed || (json_is_string(json_array_get(required, i)) && strcmp(json_string_value(json_array_get(required, i)), key) == 0);
        struct fragment one = parameter(c, key, schema);
        all = join(r, all, needed ? one : grammar_optional(g, one));
    }
    return r->family->item_end ? join(r, all, mark(r, text_of(r->family->item_end))) : all;
}

static struct fragment identifier(const struct call *c, bool named) {
    const struct reply_grammar *r = c->reply;
    struct grammar *g = grammar_of(r);
    struct fragment letters =
        grammar_either(g, grammar_range(g, 'a', 'z'), grammar_either(g, grammar_range(g, 'A', 'Z'), grammar_range(g, '0', '9')));
    if (named)
        return grammar_repeat(g, letters, 9, 9);
    struct fragment all = join(r, literal(r, "functions."), literal(r, c->name));
    return join(r, all, join(r, literal(r, ":"), grammar_repeat(g, grammar_range(g, '0', '9'), 1, 3)));
}

static struct fragment pattern_mark(const struct call *c, char kind, bool named) {
    const struct reply_grammar *r = c->reply;
    struct grammar *g = grammar_of(r);
    switch (kind) {
    case 'n':
        return literal(r, c->name);
    case 'i':
        return identifier(c, named);
    case 'x':
        return grammar_repeat(g, grammar_either(g, grammar_range(g, 'a', 'z'), literal(r, "_")), 1, 40);
    case 'j':
        return arguments(c);
    case 'c':
        return json_call(c);
    case 'a':
        return join(r, join(r, literal(r, "{"), json_form_key(r->form, text_of(c->name))), join(r, arguments(c), literal(r, "}")));
    default:
        grammar_fail(g, STATUS_UNSUPPORTED,
                     "calls of tools cannot be forced for models of the reply format '%s', which does not write arguments as JSON",
                     r->family->name);
        return grammar_nothing(g);
    }
}

/* One call as `pattern` has it. */
static struct fragment item(const struct call *c, const char *pattern) {
    const struct reply_grammar *r = c->reply;
    struct fragment all = grammar_nothing(grammar_of(r));
    bool named = strstr(pattern, "%n") != NULL;
    while (*pattern) {
        if (*pattern == '~') {
            all = join(r, all, space(r));
            pattern++;
        } else if (*pattern == '%') {
            all = join(r, all, pattern_mark(c, pattern[1], named));
            pattern += 2;
        } else {
            size_t size = strcspn(pattern, "~%");
            all = join(r, all, mark(r, (struct text){pattern, size}));
            pattern += size;
        }
    }
    return r->family->parameter ? join(r, all, parameters(c)) : all;
}

static struct fragment call_of(const struct call *c, const char *pattern) {
    const struct reply_grammar *r = c->reply;
    switch (r->family->engine) {
    case REPLY_HARMONY: {
        struct fragment header = join(r, mark(r, TEXT("<|channel|>commentary to=functions.")), literal(r, c->name));
        return join(r, join(r, header, mark(r, TEXT(" <|constrain|>json<|message|>"))), arguments(c));
    }
    case REPLY_RECIPIENTS:
        return join(r, join(r, literal(r, c->name), literal(r, "\n")), arguments(c));
    case REPLY_WHOLE_JSON:
        return json_call(c);
    case REPLY_SECTIONS:
        break;
    }
    return item(c, pattern);
}

/* One call of any of the tools. */
static struct fragment any_call(const struct reply_grammar *r, const json_t *tools, const char *only, const char *pattern) {
    struct grammar *g = grammar_of(r);
    struct fragment all = grammar_never(g);
    bool found = false;
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool) {
        const json_t *function = json_object_get(tool, "function") ? json_object_get(tool, "function") : tool;
        json_t *schema = json_object_get(function, "parameters");
        struct call c = {.reply = r, .name = json_string_value(json_object_get(function, "name"))};
        struct error err;
        char place[100];
        if (!c.name || (only && strcmp(c.name, only) != 0) || grammar_failed(g))
            continue;
        found = true;
        c.parameters = json_is_object(schema) && json_object_size(schema) > 0 ? json_incref(schema)
                                                                              : json_pack("{s:s,s:{}}", "type", "object", "properties");
        (void)snprintf(place, sizeof place, "tools[%zu].function.parameters", i);
        enum status status = json_schema_create(r->form, c.parameters, place, &c.schema, &err);
        if (status != STATUS_OK) {
            grammar_fail(g, status, "%s", err.text);
        } else {
            all = grammar_either(g, all, call_of(&c, pattern));
            json_schema_finish(c.schema);
        }
        json_schema_destroy(c.schema);
        json_decref(c.parameters);
    }
    if (!found)
        grammar_fail(g, STATUS_INVALID, only ? "tool_choice names '%.100s', which is not among the tools" : "there is no tool to call",
                     only ? only : "");
    return all;
}

/* Calls of one pattern: %c may be a list, and %a is one. */
static struct fragment calls_of(const struct reply_grammar *r, const json_t *tools, const char *only, const char *pattern, bool one) {
    struct grammar *g = grammar_of(r);
    struct fragment call = any_call(r, tools, only, pattern);
    bool listed = strcmp(pattern, "%a") == 0, may_list = strcmp(pattern, "%c") == 0;
    if (!listed && !may_list)
        return call;
    uint32_t rule = grammar_rule_of(g, call);
    struct fragment list = join(r, join(r, literal(r, "["), space(r)), json_form_list(r->form, rule, 1, one ? 1 : GRAMMAR_UNBOUNDED));
    list = join(r, list, join(r, space(r), literal(r, "]")));
    if (r->family->section_overlap || listed)
        return list;
    return grammar_either(g, list, grammar_call(g, rule));
}

struct fragment reply_grammar_calls(const struct reply_grammar *r, const json_t *tools, const char *only, bool one) {
    struct grammar *g = grammar_of(r);
    const struct reply_family *f = r->family;
    if (f->engine != REPLY_SECTIONS)
        return behind_reasoning(r, any_call(r, tools, only, ""));
    if (!f->section_open) {
        grammar_fail(g, STATUS_UNSUPPORTED, "calls of tools cannot be forced: the reply format '%s' of this model has none", f->name);
        return grammar_nothing(g);
    }
    struct fragment items = grammar_never(g);
    for (size_t i = 0; i < sizeof f->items / sizeof *f->items && f->items[i]; i++)
        items = grammar_either(g, items, calls_of(r, tools, only, f->items[i], one));
    struct fragment many = grammar_repeat(g, join(r, items, space(r)), 1, one || !f->section_close ? 1 : GRAMMAR_UNBOUNDED);
    struct text open = {f->section_open, strlen(f->section_open) - f->section_overlap};
    struct fragment section = join(r, mark(r, open), f->section_overlap ? many : join(r, space(r), many));
    if (f->section_close)
        section = join(r, section, mark(r, text_of(f->section_close)));
    if (!one && f->section_close)
        section = grammar_repeat(g, join(r, section, grammar_repeat(g, literal(r, "\n"), 0, 2)), 1, GRAMMAR_UNBOUNDED);
    return behind_reasoning(r, section);
}
