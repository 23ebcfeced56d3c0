/* jinja_print: str() and repr(). */
#include "text/jinja_print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "text/jinja_ast.h"
#include "text/jinja_eval.h"
#include "text/jinja_integer.h"
#include "text/python_unicode.h"

void jinja_format_float(double d, char out[JINJA_FLOAT_BYTES]) {
    if (!isfinite(d)) {
        snprintf(out, JINJA_FLOAT_BYTES, "%s", isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
        return;
    }
    char scientific[JINJA_FLOAT_BYTES];
    int digits = 1;
    for (; digits <= 17; digits++) {
        double back = 0;
        snprintf(scientific, sizeof scientific, "%.*e", digits - 1, d);
        if (text_parse_f64(text_of(scientific), &back) && back == d)
            break;
    }
    const char *mark = strchr(scientific, 'e');
    int64_t exponent = 0;
    ASSERT(mark != NULL);
    bool read = text_parse_i64(text_of(mark + 1 + (mark[1] == '+')), &exponent);
    ASSERT(read && digits <= 17);
    (void)read;
    if (exponent < -4 || exponent >= 16) {
        snprintf(out, JINJA_FLOAT_BYTES, "%s", scientific); /* C writes at least two exponent digits, as Python does */
        return;
    }
    int decimals = digits - 1 - (int)exponent;
    snprintf(out, JINJA_FLOAT_BYTES, "%.*f", decimals > 1 ? decimals : 1, d);
}

/* Quotes as Python: single, unless the text has single and no double quotes; escapes what is not printable. */
static void put_quoted(struct jinja_builder *b, const struct jinja_string *s) {
    bool has_single = memchr(s->data, '\'', s->size_bytes) != NULL, has_double = memchr(s->data, '"', s->size_bytes) != NULL;
    char quote = has_single && !has_double ? '"' : '\'', text[12];
    jinja_put(b, &quote, 1, JINJA_TRUSTED);
    for (size_t at = 0, next; at < s->size_bytes && !b->run->failed; at = next) {
        next = at;
        uint32_t c = jinja_next_code_point(s->data, s->size_bytes, &next);
        enum jinja_trust trust = jinja_trust_at(s, at);
        const char *escape = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : c == '\\' ? "\\\\" : NULL;
        if (escape)
            snprintf(text, sizeof text, "%s", escape);
        else if (c == (uint32_t)quote)
            snprintf(text, sizeof text, "\\%c", quote);
        else if (python_is_printable(c)) {
            jinja_put_bytes(b, s, at, next);
            continue;
        } else
            snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        jinja_put(b, text, strlen(text), trust);
    }
    jinja_put(b, &quote, 1, JINJA_TRUSTED);
}

static void put_items(struct jinja_builder *b, const struct jinja_list *list, const char *open, const char *close) {
    jinja_put_text(b, open);
    for (size_t i = 0; i < list->count && !b->run->failed; i++) {
        jinja_put_text(b, i ? ", " : "");
        jinja_put_repr(b, list->items[i]);
    }
    jinja_put_text(b, close);
}

static void put_dict(struct jinja_builder *b, const struct jinja_dict *dict) {
    jinja_put_text(b, "{");
    bool first = true;
    for (size_t i = 0; i < dict->used && !b->run->failed; i++) {
        if (dict->entries[i].removed)
            continue;
        jinja_put_text(b, first ? "" : ", ");
        first = false;
        jinja_put_repr(b, dict->entries[i].key);
        jinja_put_text(b, ": ");
        jinja_put_repr(b, dict->entries[i].value);
    }
    jinja_put_text(b, "}");
}

static void put_named(struct jinja_builder *b, const char *before, const char *name, const char *after) {
    jinja_put_text(b, before);
    jinja_put_text(b, name);
    jinja_put_text(b, after);
}

static void put_range(struct jinja_builder *b, const struct jinja_range *range) {
    char text[100];
    snprintf(text, sizeof text, range->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)", (long long)range->start,
             (long long)range->stop, (long long)range->step);
    jinja_put_text(b, text);
}

/* Containers and the rarer kinds, one level deeper. */
static void put_deep(struct jinja_builder *b, struct jinja_value v) {
    switch (v.kind) {
    case JINJA_LIST:
        put_items(b, v.list, "[", "]");
        break;
    case JINJA_TUPLE:
        put_items(b, v.list, "(", v.list->count == 1 ? ",)" : ")");
        break;
    case JINJA_DICT:
        put_dict(b, v.dict);
        break;
    case JINJA_NAMESPACE:
        jinja_put_text(b, "<Namespace ");
        put_dict(b, v.dict);
        jinja_put_text(b, ">");
        break;
    case JINJA_VIEW: {
        const struct jinja_list *items = jinja_items(b->run, v);
        put_named(b, "", jinja_type_name(v), "(");
        if (items)
            put_items(b, items, "[", "]");
        jinja_put_text(b, ")");
        break;
    }
    case JINJA_MACRO: {
        struct jinja_string name = {.data = v.macro->node->name.data, .size_bytes = v.macro->node->name.size_bytes, .trust = JINJA_TRUSTED};
        jinja_put_text(b, "<Macro ");
        if (v.macro->node->kind == NODE_MACRO)
            put_quoted(b, &name);
        else
            jinja_put_text(b, "anonymous");
        jinja_put_text(b, ">");
        break;
    }
    case JINJA_LOOP: {
        char text[80];
        snprintf(text, sizeof text, "<LoopContext %zu/%zu>", v.loop->index0 + 1, v.loop->count);
        jinja_put_text(b, text);
        break;
    }
    case JINJA_NATIVE:
        put_named(b, "<built-in function ", v.native->row->name, ">");
        break;
    default:
        put_named(b, "<", jinja_type_name(v), " object>");
        break;
    }
}

void jinja_put_repr(struct jinja_builder *b, struct jinja_value v) {
    char text[JINJA_FLOAT_BYTES];
    switch (v.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
        jinja_put_text(b, "Undefined");
        break;
    case JINJA_NONE:
        jinja_put_text(b, "None");
        break;
    case JINJA_BOOL:
        jinja_put_text(b, v.boolean ? "True" : "False");
        break;
    case JINJA_INT:
    case JINJA_BIG:
        jinja_integer_print(b, v);
        break;
    case JINJA_FLOAT:
        jinja_format_float(v.number, text);
        jinja_put_text(b, text);
        break;
    case JINJA_STRING:
        jinja_put_text(b, v.string->markup ? "Markup(" : "");
        put_quoted(b, v.string);
        jinja_put_text(b, v.string->markup ? ")" : "");
        break;
    case JINJA_RANGE:
        put_range(b, v.range);
        break;
    default:
        if (jinja_enter(b->run))
            put_deep(b, v);
        jinja_leave(b->run);
        break;
    }
}

void jinja_put_str(struct jinja_builder *b, struct jinja_value v) {
    if (v.kind == JINJA_STRING)
        jinja_put_string(b, v.string);
    else if (v.kind != JINJA_UNDEFINED)
        jinja_put_repr(b, v);
}

const struct jinja_string *jinja_str(struct jinja_run *run, struct jinja_value v) {
    if (v.kind == JINJA_STRING)
        return v.string;
    struct jinja_builder b = jinja_builder_start(run);
    jinja_put_str(&b, v);
    return jinja_builder_take(&b);
}

const struct jinja_string *jinja_plain_str(struct jinja_run *run, struct jinja_value v) {
    return jinja_as_markup(run, jinja_str(run, v), false);
}

void jinja_put_escaped(struct jinja_builder *b, const struct jinja_string *s) {
    if (!s)
        return;
    if (s->markup) {
        jinja_put_string(b, s);
        return;
    }
    size_t begin = 0;
    for (size_t i = 0; i < s->size_bytes; i++) {
        char c = s->data[i];
        const char *escape = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&#34;" : c == '\'' ? "&#39;" : NULL;
        if (!escape)
            continue;
        jinja_put_bytes(b, s, begin, i);
        jinja_put(b, escape, strlen(escape), jinja_trust_at(s, i));
        begin = i + 1;
    }
    jinja_put_bytes(b, s, begin, s->size_bytes);
}
