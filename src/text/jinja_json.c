/*
 * jinja_json: values from JSON and to JSON as Python's json.dumps writes it (transformers replaces jinja2's tojson by it: nothing is
 * escaped for HTML, ensure_ascii is off).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "text/jinja_eval.h"
#include "text/jinja_integer.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

/* ---- from JSON ---- */

static bool is_trusted_word(const char *key, const json_t *value, const char *const *words) {
    if (!words || strcmp(key, "role") != 0 || !json_is_string(value))
        return false;
    for (; *words; words++)
        if (strcmp(*words, json_string_value(value)) == 0)
            return true;
    return false;
}

static struct jinja_value dict_from_json(struct jinja_run *run, const json_t *json, enum jinja_trust trust, const char *const *words) {
    struct jinja_dict *dict = jinja_dict_new(run);
    void *at = json_object_iter((json_t *)json);
    for (; at && !run->failed; at = json_object_iter_next((json_t *)json, at)) {
        const char *key = json_object_iter_key(at);
        const json_t *value = json_object_iter_value(at);
        enum jinja_trust value_trust = is_trusted_word(key, value, words) ? JINJA_TRUSTED : trust;
        struct jinja_value name = jinja_string_value(jinja_string_new(run, key, json_object_iter_key_len(at), trust));
        jinja_dict_set(run, dict, name, jinja_from_json(run, value, value_trust, words));
    }
    return jinja_dict_value(dict);
}

struct jinja_value jinja_from_json(struct jinja_run *run, const json_t *json, enum jinja_trust trust, const char *const *words) {
    struct jinja_value value = JINJA_NOTHING;
    if (!jinja_step(run, 1))
        return value;
    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_STRING:
        return jinja_string_value(jinja_string_new(run, json_string_value(json), json_string_length(json), trust));
    case JSON_INTEGER:
        return jinja_int(json_integer_value(json));
    case JSON_REAL:
        return jinja_float(json_real_value(json));
    case JSON_TRUE:
        return jinja_bool(true);
    case JSON_FALSE:
        return jinja_bool(false);
    case JSON_NULL:
        return value;
    default:
        break;
    }
    if (jinja_enter(run)) {
        if (json_is_object(json)) {
            value = dict_from_json(run, json, trust, words);
        } else {
            struct jinja_list *list = jinja_list_new(run, json_array_size(json));
            for (size_t i = 0; i < json_array_size(json) && !run->failed; i++)
                jinja_list_append(run, list, jinja_from_json(run, json_array_get(json, i), trust, words));
            value = jinja_list_value(JINJA_LIST, list);
        }
    }
    jinja_leave(run);
    return value;
}

JINJA_FUNCTION(filter_from_json) {
    const struct jinja_string *s = jinja_need_string(run, a[0], "from_json");
    struct jinja_builder wrapped = jinja_builder_start(run); /* in a list: the parser wants a container */
    jinja_put_text(&wrapped, "[");
    jinja_put_string(&wrapped, s);
    jinja_put_text(&wrapped, "]");
    const struct jinja_string *text = jinja_builder_take(&wrapped);
    json_t *json = NULL;
    struct error problem;
    if (!s || !text)
        return JINJA_NOTHING;
    if (json_parse(jinja_string_text(text), "from_json", SIZE_MAX, &json, &problem) != STATUS_OK)
        return jinja_fail(run, JINJA_TYPE, "%s", problem.text);
    struct jinja_value value = jinja_from_json(run, json_array_get(json, 0), s->trust == JINJA_TRUSTED ? JINJA_TRUSTED : JINJA_DATA, NULL);
    json_decref(json);
    return value;
}

const struct jinja_native_row jinja_from_json_row = {"from_json", "", 0, filter_from_json};

/* ---- to JSON ---- */

struct writer {
    struct jinja_builder b;
    bool ensure_ascii, sort_keys, pretty;
    const struct jinja_string *indent, *between_items, *behind_key;
};

static void put_json_string(struct writer *w, const struct jinja_string *s) {
    jinja_put_text(&w->b, "\"");
    char text[16];
    for (size_t at = 0, begin = 0; begin < s->size_bytes && !w->b.run->failed; begin = at) {
        uint32_t c = 0;
        size_t next = at = begin;
        while (at < s->size_bytes) { /* a run of plain characters */
            next = at;
            c = jinja_next_code_point(s->data, s->size_bytes, &next);
            if (c < 0x20 || c == '"' || c == '\\' || (w->ensure_ascii && c >= 0x7F))
                break;
            at = next;
        }
        jinja_put_bytes(&w->b, s, begin, at);
        if (at == s->size_bytes)
            break;
        const char *named = c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : NULL;
        named = c == '\f' ? "\\f" : c == '\b' ? "\\b" : named;
        if (named)
            snprintf(text, sizeof text, "%s", named);
        else if (c < 0x10000)
            snprintf(text, sizeof text, "\\u%04x", c);
        else
            snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
        jinja_put(&w->b, text, strlen(text), jinja_trust_at(s, at));
        at = next;
    }
    jinja_put_text(&w->b, "\"");
}

static void put_json(struct writer *w, struct jinja_value v, unsigned level);

static void put_line(struct writer *w, unsigned level) {
    if (!w->pretty)
        return;
    jinja_put_text(&w->b, "\n");
    for (unsigned i = 0; i < level && jinja_step(w->b.run, 1); i++)
        jinja_put_string(&w->b, w->indent);
}

static void put_json_list(struct writer *w, const struct jinja_list *list, size_t first, unsigned level) {
    if (list->count == first) {
        jinja_put_text(&w->b, "[]");
        return;
    }
    jinja_put_text(&w->b, "[");
    for (size_t i = first; i < list->count && !w->b.run->failed; i++) {
        if (i > first)
            jinja_put_string(&w->b, w->between_items);
        put_line(w, level + 1);
        put_json(w, list->items[i], level + 1);
    }
    put_line(w, level);
    jinja_put_text(&w->b, "]");
}

static void put_json_key(struct writer *w, struct jinja_value key) {
    if (key.kind == JINJA_STRING) {
        put_json_string(w, key.string);
    } else if (key.kind == JINJA_NONE || key.kind == JINJA_BOOL || jinja_is_number(key)) {
        jinja_put_text(&w->b, "\"");
        put_json(w, key, 0);
        jinja_put_text(&w->b, "\"");
    } else {
        jinja_fail(w->b.run, JINJA_TYPE, "keys must be str, int, float, bool or None, not %s", jinja_type_name(key));
    }
}

/* Live entries in order, or sorted by key. */
static struct jinja_list *dict_entries(struct writer *w, const struct jinja_dict *dict) {
    struct jinja_run *run = w->b.run;
    struct jinja_view view = {(struct jinja_dict *)dict, JINJA_ITEMS};
    struct jinja_list *pairs = jinja_items(run, (struct jinja_value){.kind = JINJA_VIEW, .view = &view});
    struct jinja_value *keys = pairs && w->sort_keys ? jinja_alloc(run, (pairs->count + 1) * sizeof *keys) : NULL;
    for (size_t i = 0; keys && i < pairs->count; i++)
        keys[i] = pairs->items[i].list->items[0];
    if (keys)
        jinja_sort(run, pairs->items, keys, pairs->count, false);
    return run->failed ? NULL : pairs;
}

static void put_json_dict(struct writer *w, const struct jinja_dict *dict, unsigned level) {
    const struct jinja_list *pairs = dict_entries(w, dict);
    if (!pairs)
        return;
    if (pairs->count == 0) {
        jinja_put_text(&w->b, "{}");
        return;
    }
    jinja_put_text(&w->b, "{");
    for (size_t i = 0; i < pairs->count && !w->b.run->failed; i++) {
        if (i > 0)
            jinja_put_string(&w->b, w->between_items);
        put_line(w, level + 1);
        put_json_key(w, pairs->items[i].list->items[0]);
        jinja_put_string(&w->b, w->behind_key);
        put_json(w, pairs->items[i].list->items[1], level + 1);
    }
    put_line(w, level);
    jinja_put_text(&w->b, "}");
}

static void put_json(struct writer *w, struct jinja_value v, unsigned level) {
    struct jinja_run *run = w->b.run;
    char text[JINJA_FLOAT_BYTES];
    switch (v.kind) {
    case JINJA_NONE:
        jinja_put_text(&w->b, "null");
        return;
    case JINJA_BOOL:
        jinja_put_text(&w->b, v.boolean ? "true" : "false");
        return;
    case JINJA_INT:
    case JINJA_BIG:
        jinja_integer_print(&w->b, v);
        return;
    case JINJA_FLOAT:
        jinja_format_float(v.number, text);
        jinja_put_text(&w->b, isnan(v.number) ? "NaN" : isinf(v.number) ? (v.number < 0 ? "-Infinity" : "Infinity") : text);
        return;
    case JINJA_STRING:
        put_json_string(w, v.string);
        return;
    default:
        break;
    }
    if (!jinja_enter(run)) {
        jinja_leave(run);
        return;
    }
    if (v.kind == JINJA_LIST || v.kind == JINJA_TUPLE) {
        put_json_list(w, v.list, 0, level);
    } else if (v.kind == JINJA_DICT) {
        put_json_dict(w, v.dict, level);
    } else if (v.kind == JINJA_ITERATOR && run->limits.allow_mutation) {
        put_json_list(w, v.list, v.list->position, level);
        v.list->position = v.list->count;
    } else {
        jinja_fail(run, JINJA_TYPE, "Object of type %s is not JSON serializable", jinja_type_name(v));
    }
    jinja_leave(run);
}

/* Spaces, or a text, to indent by; NULL when pretty printing is off. */
static const struct jinja_string *indent_of(struct jinja_run *run, struct jinja_value v) {
    int64_t width;
    if (v.kind == JINJA_ABSENT || v.kind == JINJA_NONE)
        return NULL;
    if (v.kind == JINJA_STRING)
        return v.string;
    if (!jinja_need_index(run, v, 0, &width))
        return NULL;
    return jinja_pad(run, jinja_string_new(run, "", 0, JINJA_TRUSTED), width > 0 ? width : 0, 0, NULL);
}

JINJA_FUNCTION(filter_tojson) {
    struct writer w = {.b = jinja_builder_start(run), .ensure_ascii = jinja_truth(a[1]), .sort_keys = jinja_truth(a[4])};
    w.indent = indent_of(run, a[2]);
    w.pretty = w.indent != NULL;
    w.between_items = jinja_string_new(run, w.pretty ? "," : ", ", w.pretty ? 1 : 2, JINJA_TRUSTED);
    w.behind_key = jinja_string_new(run, ": ", 2, JINJA_TRUSTED);
    if (a[3].kind != JINJA_ABSENT && a[3].kind != JINJA_NONE) {
        const struct jinja_list *pair = jinja_items(run, a[3]);
        if (!pair || pair->count != 2)
            return jinja_fail(run, JINJA_TYPE, "separators must be a pair of strings");
        w.between_items = jinja_need_string(run, pair->items[0], "tojson");
        w.behind_key = jinja_need_string(run, pair->items[1], "tojson");
    }
    put_json(&w, a[0], 0);
    return jinja_string_value(jinja_builder_take(&w.b));
}

const struct jinja_native_row jinja_tojson_row = {"tojson", "ensure_ascii,indent,separators,sort_keys", 0, filter_tojson};

enum status jinja_dump_json(const json_t *value, struct byte_buffer *out, struct error *err) {
    struct jinja_limits limits = jinja_limits_default();
    struct jinja_run *run;
    TRY(jinja_run_create(&limits, &run, err));
    struct jinja_value json =
        jinja_call_native(run, &jinja_tojson_row, jinja_from_json(run, value, JINJA_DATA, NULL), &(struct jinja_arguments){0});
    enum status status = run->failed ? error_set(err, STATUS_INVALID, "%.900s", run->error.message)
                                     : byte_buffer_append_text(out, jinja_string_text(json.string), err);
    jinja_run_destroy(run);
    return status;
}
