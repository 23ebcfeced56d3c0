/* jinja_methods: methods of str. */
#include <string.h>

#include "base/check.h"
#include "text/jinja_eval.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

static struct jinja_value str(const struct jinja_string *s) { return jinja_string_value(s); }
static const struct jinja_string *self_of(const struct jinja_value *a) {
    ASSERT(a[0].kind == JINJA_STRING);
    return a[0].string;
}

/* An optional string: ABSENT and none give NULL. */
static const struct jinja_string *optional(struct jinja_run *run, struct jinja_value v, const char *function) {
    return v.kind == JINJA_ABSENT || v.kind == JINJA_NONE ? NULL : jinja_need_string(run, v, function);
}

JINJA_FUNCTION(method_upper) { return str(jinja_map_case(run, self_of(a), PYTHON_UPPER)); }
JINJA_FUNCTION(method_lower) { return str(jinja_map_case(run, self_of(a), PYTHON_LOWER)); }
JINJA_FUNCTION(method_title) { return str(jinja_map_case(run, self_of(a), PYTHON_TITLE)); }
JINJA_FUNCTION(method_capitalize) { return str(jinja_capitalize(run, self_of(a))); }

JINJA_FUNCTION(method_swapcase) { return str(jinja_swap_case(run, self_of(a))); }

JINJA_FUNCTION(method_strip) { return str(jinja_strip(run, self_of(a), optional(run, a[1], "strip"), true, true)); }
JINJA_FUNCTION(method_lstrip) { return str(jinja_strip(run, self_of(a), optional(run, a[1], "lstrip"), true, false)); }
JINJA_FUNCTION(method_rstrip) { return str(jinja_strip(run, self_of(a), optional(run, a[1], "rstrip"), false, true)); }

/* Pieces of s between white space, at most `limit` cuts (< 0: all). */
static struct jinja_value split_space(struct jinja_run *run, const struct jinja_string *s, int64_t limit) {
    struct jinja_list *list = jinja_list_new(run, 0);
    size_t at = 0;
    while (!run->failed) {
        size_t begin, end;
        for (begin = at; begin < s->size_bytes;) { /* to the next word */
            size_t next = begin;
            if (!python_is_space(jinja_next_code_point(s->data, s->size_bytes, &next)))
                break;
            begin = next;
        }
        if (begin == s->size_bytes)
            break;
        if (limit-- == 0) {
            jinja_list_append(run, list, str(jinja_subbytes(run, s, begin, s->size_bytes)));
            break;
        }
        for (end = begin; end < s->size_bytes;) {
            size_t next = end;
            if (python_is_space(jinja_next_code_point(s->data, s->size_bytes, &next)))
                break;
            end = next;
        }
        jinja_list_append(run, list, str(jinja_subbytes(run, s, begin, end)));
        at = end;
    }
    return jinja_list_value(JINJA_LIST, list);
}

static struct jinja_value reversed_list(struct jinja_run *run, struct jinja_list *list) {
    for (size_t i = 0; list && i < list->count / 2; i++) {
        struct jinja_value swap = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = swap;
    }
    return run->failed ? JINJA_NOTHING : jinja_list_value(JINJA_LIST, list);
}

/* rsplit by white space with a limit: words from the end, the rest in front. */
static struct jinja_value rsplit_space(struct jinja_run *run, const struct jinja_string *s, int64_t limit) {
    if (limit < 0)
        return split_space(run, s, -1);
    struct jinja_list *list = jinja_list_new(run, 0);
    for (s = jinja_strip(run, s, NULL, false, true); s && s->size_bytes > 0; s = jinja_strip(run, s, NULL, false, true)) {
        size_t begin = s->size_bytes;
        while (limit > 0 && begin > 0) {
            size_t last = begin - 1, at;
            while (last > 0 && ((unsigned char)s->data[last] & 0xC0) == 0x80)
                last--;
            at = last;
            if (python_is_space(jinja_next_code_point(s->data, s->size_bytes, &at)))
                break;
            begin = last;
        }
        if (limit-- == 0) {
            jinja_list_append(run, list, str(s));
            break;
        }
        jinja_list_append(run, list, str(jinja_subbytes(run, s, begin, s->size_bytes)));
        s = jinja_subbytes(run, s, 0, begin);
    }
    return reversed_list(run, list);
}

static struct jinja_value split(struct jinja_run *run, const struct jinja_value *a, bool from_end) {
    const struct jinja_string *s = self_of(a), *separator = optional(run, a[1], "split");
    int64_t limit;
    if (!jinja_need_index(run, a[2], -1, &limit))
        return JINJA_NOTHING;
    if (!separator)
        return from_end ? rsplit_space(run, s, limit) : split_space(run, s, limit);
    if (separator->size_bytes == 0)
        return jinja_fail(run, JINJA_TYPE, "empty separator");
    struct jinja_list *list = jinja_list_new(run, 0);
    size_t begin = 0, end = s->size_bytes;
    for (; limit != 0 && !run->failed; limit--) {
        size_t found = jinja_find(run, s, separator, begin, end, from_end);
        if (found == SIZE_MAX)
            break;
        size_t behind = found + separator->size_bytes;
        jinja_list_append(run, list, str(from_end ? jinja_subbytes(run, s, behind, end) : jinja_subbytes(run, s, begin, found)));
        begin = from_end ? begin : behind;
        end = from_end ? found : end;
    }
    jinja_list_append(run, list, str(jinja_subbytes(run, s, begin, end)));
    return from_end ? reversed_list(run, list) : jinja_list_value(JINJA_LIST, list);
}

JINJA_FUNCTION(method_split) { return split(run, a, false); }
JINJA_FUNCTION(method_rsplit) { return split(run, a, true); }
JINJA_FUNCTION(method_splitlines) { return jinja_list_value(JINJA_LIST, jinja_split_lines(run, self_of(a), jinja_truth(a[1]))); }

static struct jinja_value partition(struct jinja_run *run, const struct jinja_value *a, bool from_end) {
    const struct jinja_string *s = self_of(a), *separator = jinja_need_string(run, a[1], "partition");
    if (!separator)
        return JINJA_NOTHING;
    if (separator->size_bytes == 0)
        return jinja_fail(run, JINJA_TYPE, "empty separator");
    size_t found = jinja_find(run, s, separator, 0, s->size_bytes, from_end), size = s->size_bytes;
    size_t cut = found == SIZE_MAX ? (from_end ? 0 : size) : found, behind = found == SIZE_MAX ? cut : found + separator->size_bytes;
    struct jinja_list *parts = jinja_list_new(run, 3);
    jinja_list_append(run, parts, str(jinja_subbytes(run, s, 0, cut)));
    jinja_list_append(run, parts, str(jinja_subbytes(run, s, cut, behind)));
    jinja_list_append(run, parts, str(jinja_subbytes(run, s, behind, size)));
    return jinja_list_value(JINJA_TUPLE, parts);
}

JINJA_FUNCTION(method_partition) { return partition(run, a, false); }
JINJA_FUNCTION(method_rpartition) { return partition(run, a, true); }

JINJA_FUNCTION(method_replace) {
    int64_t count;
    const struct jinja_string *old = jinja_need_string(run, a[1], "replace"), *new = jinja_need_string(run, a[2], "replace");
    if (!jinja_need_index(run, a[3], -1, &count) || !old || !new)
        return JINJA_NOTHING;
    if (self_of(a)->markup && !new->markup) {
        struct jinja_builder b = jinja_builder_start(run);
        jinja_put_escaped(&b, new);
        new = jinja_builder_take(&b);
    }
    return str(jinja_replace(run, self_of(a), old, new, count));
}

/* The optional code point range of find, count, startswith, ...: bytes of s. */
static bool range_of(struct jinja_run *run, const struct jinja_string *s, const struct jinja_value *bounds, size_t *begin, size_t *end) {
    int64_t length = (int64_t)s->length, first, last;
    if (!jinja_need_index(run, bounds[0], 0, &first) || !jinja_need_index(run, bounds[1], length, &last))
        return false;
    first = first < 0 ? (first + length < 0 ? 0 : first + length) : first;
    last = last < 0 ? (last + length < 0 ? 0 : last + length) : last > length ? length : last;
    *begin = first > length ? s->size_bytes + 1 : jinja_byte_of(s, (size_t)first);
    *end = jinja_byte_of(s, (size_t)last);
    return true;
}

static struct jinja_value find(struct jinja_run *run, const struct jinja_value *a, bool last, bool must) {
    const struct jinja_string *s = self_of(a), *part = jinja_need_string(run, a[1], "find");
    size_t begin, end;
    if (!part || !range_of(run, s, a + 2, &begin, &end))
        return JINJA_NOTHING;
    size_t found = jinja_find(run, s, part, begin, end, last);
    if (found == SIZE_MAX)
        return must ? jinja_fail(run, JINJA_TYPE, "substring not found") : jinja_int(-1);
    const struct jinja_string *before = jinja_subbytes(run, s, 0, found);
    return before ? jinja_size(before->length) : JINJA_NOTHING;
}

JINJA_FUNCTION(method_find) { return find(run, a, false, false); }
JINJA_FUNCTION(method_rfind) { return find(run, a, true, false); }
JINJA_FUNCTION(method_index) { return find(run, a, false, true); }
JINJA_FUNCTION(method_rindex) { return find(run, a, true, true); }

JINJA_FUNCTION(method_count) {
    const struct jinja_string *s = self_of(a), *part = jinja_need_string(run, a[1], "count");
    size_t begin, end;
    int64_t count = 0;
    if (!part || !range_of(run, s, a + 2, &begin, &end) || begin > end)
        return jinja_int(0);
    if (part->size_bytes == 0) {
        const struct jinja_string *part_of_s = jinja_subbytes(run, s, begin, end);
        return part_of_s ? jinja_size(part_of_s->length + 1) : JINJA_NOTHING;
    }
    for (size_t found; jinja_step(run, 1) && (found = jinja_find(run, s, part, begin, end, false)) != SIZE_MAX; count++)
        begin = found + part->size_bytes;
    return jinja_int(count);
}

/* startswith and endswith: an affix or a tuple of them. */
static struct jinja_value has_affix(struct jinja_run *run, const struct jinja_value *a, bool at_end) {
    const struct jinja_string *s = self_of(a);
    size_t begin, end, count = a[1].kind == JINJA_TUPLE ? a[1].list->count : 1;
    if (!range_of(run, s, a + 2, &begin, &end))
        return JINJA_NOTHING;
    for (size_t i = 0; i < count && !run->failed; i++) {
        const struct jinja_string *affix =
            jinja_need_string(run, a[1].kind == JINJA_TUPLE ? a[1].list->items[i] : a[1], at_end ? "endswith" : "startswith");
        if (!affix || begin > end)
            continue;
        struct text text = {s->data + begin, end - begin};
        if (at_end ? text_ends_with(text, jinja_string_text(affix)) : text_starts_with(text, jinja_string_text(affix)))
            return jinja_bool(true);
    }
    return jinja_bool(false);
}

JINJA_FUNCTION(method_startswith) { return has_affix(run, a, false); }
JINJA_FUNCTION(method_endswith) { return has_affix(run, a, true); }

JINJA_FUNCTION(method_removeprefix) {
    const struct jinja_string *s = self_of(a), *affix = jinja_need_string(run, a[1], "removeprefix");
    if (!affix || !text_starts_with(jinja_string_text(s), jinja_string_text(affix)))
        return a[0];
    return str(jinja_subbytes(run, s, affix->size_bytes, s->size_bytes));
}

JINJA_FUNCTION(method_removesuffix) {
    const struct jinja_string *s = self_of(a), *affix = jinja_need_string(run, a[1], "removesuffix");
    if (!affix || !text_ends_with(jinja_string_text(s), jinja_string_text(affix)))
        return a[0];
    return str(jinja_subbytes(run, s, 0, s->size_bytes - affix->size_bytes));
}

JINJA_FUNCTION(method_join) {
    const struct jinja_string *s = self_of(a);
    if (!jinja_iterable(a[1]))
        return jinja_fail(run, JINJA_TYPE, "can only join an iterable");
    const struct jinja_list *items = jinja_items(run, a[1]);
    struct jinja_builder b = jinja_builder_start(run);
    for (size_t i = 0; items && i < items->count && !run->failed; i++) {
        if (items->items[i].kind != JINJA_STRING && !s->markup)
            return jinja_fail(run, JINJA_TYPE, "sequence item %zu: expected str instance, %s found", i, jinja_type_name(items->items[i]));
        if (i > 0)
            jinja_put_string(&b, s);
        if (s->markup)
            jinja_put_escaped(&b, jinja_str(run, items->items[i]));
        else
            jinja_put_string(&b, items->items[i].string);
    }
    return str(jinja_as_markup(run, jinja_builder_take(&b), s->markup));
}

static struct jinja_value justify(struct jinja_run *run, const struct jinja_value *a, bool left, bool right) {
    const struct jinja_string *s = self_of(a), *fill = optional(run, a[2], "justify");
    int64_t width, length = (int64_t)s->length;
    if (!jinja_need_index(run, a[1], 0, &width))
        return JINJA_NOTHING;
    if (left && right)
        return str(jinja_center(run, s, width, fill));
    int64_t padding = width > length ? width - length : 0;
    return str(jinja_pad(run, s, left ? padding : 0, right ? padding : 0, fill));
}

JINJA_FUNCTION(method_center) { return justify(run, a, true, true); }
JINJA_FUNCTION(method_ljust) { return justify(run, a, false, true); }
JINJA_FUNCTION(method_rjust) { return justify(run, a, true, false); }

JINJA_FUNCTION(method_zfill) {
    const struct jinja_string *s = self_of(a), *zero = jinja_string_new(run, "0", 1, JINJA_TRUSTED);
    int64_t width;
    if (!jinja_need_index(run, a[1], 0, &width) || !zero)
        return JINJA_NOTHING;
    size_t sign = s->size_bytes > 0 && (s->data[0] == '-' || s->data[0] == '+');
    struct jinja_builder b = jinja_builder_start(run);
    int64_t padding = width > (int64_t)s->length ? width - (int64_t)s->length : 0;
    jinja_put_bytes(&b, s, 0, sign);
    jinja_put_string(&b, jinja_pad(run, jinja_subbytes(run, s, sign, s->size_bytes), padding, 0, zero));
    return str(jinja_builder_take(&b));
}

JINJA_FUNCTION(method_expandtabs) {
    const struct jinja_string *s = self_of(a);
    int64_t width, column = 0;
    struct jinja_builder b = jinja_builder_start(run);
    if (!jinja_need_index(run, a[1], 8, &width))
        return JINJA_NOTHING;
    for (size_t at = 0, next; at < s->size_bytes && !run->failed; at = next) {
        next = at;
        uint32_t c = jinja_next_code_point(s->data, s->size_bytes, &next);
        if (c == '\t' && width > 0) {
            for (int64_t end = column + width - column % width; column < end && jinja_step(run, 1); column++)
                jinja_put(&b, " ", 1, jinja_trust_at(s, at));
        } else if (c != '\t') {
            jinja_put_bytes(&b, s, at, next);
            column = c == '\n' || c == '\r' ? 0 : column + 1;
        }
    }
    return str(jinja_builder_take(&b));
}

JINJA_FUNCTION(method_format) { return jinja_brace_format(run, self_of(a), raw); }
JINJA_FUNCTION(method_format_map) {
    if (raw->count != 1 || raw->named_count || raw->values[0].kind != JINJA_DICT)
        return jinja_fail(run, JINJA_TYPE, "format_map() takes exactly one mapping");
    const struct jinja_dict *dict = raw->values[0].dict;
    const struct jinja_string **names = jinja_alloc(run, (dict->used + 1) * sizeof *names);
    struct jinja_value *values = jinja_alloc(run, (dict->used + 1) * sizeof *values);
    size_t count = 0;
    for (size_t i = 0; names && values && i < dict->used; i++)
        if (!dict->entries[i].removed && dict->entries[i].key.kind == JINJA_STRING)
            names[count] = dict->entries[i].key.string, values[count++] = dict->entries[i].value;
    return jinja_brace_format(run, self_of(a), &(struct jinja_arguments){.names = names, .named = values, .named_count = count});
}

/* True when s is not empty and every code point has the property. */
static struct jinja_value all(const struct jinja_value *a, bool (*property)(uint32_t)) {
    const struct jinja_string *s = self_of(a);
    for (size_t at = 0; at < s->size_bytes;)
        if (!property(jinja_next_code_point(s->data, s->size_bytes, &at)))
            return jinja_bool(false);
    return jinja_bool(s->size_bytes > 0);
}

/* isupper, islower: at least one cased letter, and none of the other case. */
static struct jinja_value all_cased(const struct jinja_value *a, bool upper) {
    const struct jinja_string *s = self_of(a);
    bool found = false;
    for (size_t at = 0; at < s->size_bytes;) {
        uint32_t c = jinja_next_code_point(s->data, s->size_bytes, &at);
        if ((upper ? python_is_lower(c) : python_is_upper(c)) || python_is_title(c))
            return jinja_bool(false);
        found = found || (upper ? python_is_upper(c) : python_is_lower(c));
    }
    return jinja_bool(found);
}

static bool is_ascii(uint32_t c) { return c < 0x80; }
static bool is_identifier_part(uint32_t c) { return c == '_' || python_is_alphanumeric(c); }

JINJA_FUNCTION(method_isalnum) { return all(a, python_is_alphanumeric); }
JINJA_FUNCTION(method_isalpha) { return all(a, python_is_alpha); }
JINJA_FUNCTION(method_isdecimal) { return all(a, python_is_decimal); }
JINJA_FUNCTION(method_isdigit) { return all(a, python_is_digit); }
JINJA_FUNCTION(method_isnumeric) { return all(a, python_is_numeric); }
JINJA_FUNCTION(method_isspace) { return all(a, python_is_space); }
JINJA_FUNCTION(method_isupper) { return all_cased(a, true); }
JINJA_FUNCTION(method_islower) { return all_cased(a, false); }
JINJA_FUNCTION(method_isascii) { return self_of(a)->size_bytes == 0 ? jinja_bool(true) : all(a, is_ascii); }
JINJA_FUNCTION(method_isprintable) { return self_of(a)->size_bytes == 0 ? jinja_bool(true) : all(a, python_is_printable); }
JINJA_FUNCTION(method_isidentifier) {
    const struct jinja_string *s = self_of(a);
    return s->size_bytes > 0 && s->data[0] >= '0' && s->data[0] <= '9' ? jinja_bool(false) : all(a, is_identifier_part);
}

JINJA_FUNCTION(method_istitle) {
    const struct jinja_string *s = self_of(a);
    bool inside = false, found = false;
    for (size_t at = 0; at < s->size_bytes;) {
        uint32_t c = jinja_next_code_point(s->data, s->size_bytes, &at);
        bool upper = python_is_upper(c) || python_is_title(c), lower = python_is_lower(c);
        if ((upper && inside) || (lower && !inside))
            return jinja_bool(false);
        inside = upper || lower;
        found = found || inside;
    }
    return jinja_bool(found);
}

static const struct jinja_native_row methods[] = {
    {"capitalize", "", 0, method_capitalize},
    {"center", "width,fillchar", 1, method_center},
    {"count", "sub,start,end", 1, method_count},
    {"endswith", "suffix,start,end", 1, method_endswith},
    {"expandtabs", "tabsize", 0, method_expandtabs},
    {"find", "sub,start,end", 1, method_find},
    {"format", NULL, 0, method_format},
    {"format_map", NULL, 0, method_format_map},
    {"index", "sub,start,end", 1, method_index},
    {"isalnum", "", 0, method_isalnum},
    {"isalpha", "", 0, method_isalpha},
    {"isascii", "", 0, method_isascii},
    {"isdecimal", "", 0, method_isdecimal},
    {"isdigit", "", 0, method_isdigit},
    {"isidentifier", "", 0, method_isidentifier},
    {"islower", "", 0, method_islower},
    {"isnumeric", "", 0, method_isnumeric},
    {"isprintable", "", 0, method_isprintable},
    {"isspace", "", 0, method_isspace},
    {"istitle", "", 0, method_istitle},
    {"isupper", "", 0, method_isupper},
    {"join", "iterable", 1, method_join},
    {"ljust", "width,fillchar", 1, method_ljust},
    {"lower", "", 0, method_lower},
    {"lstrip", "chars", 0, method_lstrip},
    {"partition", "sep", 1, method_partition},
    {"removeprefix", "prefix", 1, method_removeprefix},
    {"removesuffix", "suffix", 1, method_removesuffix},
    {"replace", "old,new,count", 2, method_replace},
    {"rfind", "sub,start,end", 1, method_rfind},
    {"rindex", "sub,start,end", 1, method_rindex},
    {"rjust", "width,fillchar", 1, method_rjust},
    {"rpartition", "sep", 1, method_rpartition},
    {"rsplit", "sep,maxsplit", 0, method_rsplit},
    {"rstrip", "chars", 0, method_rstrip},
    {"split", "sep,maxsplit", 0, method_split},
    {"splitlines", "keepends", 0, method_splitlines},
    {"startswith", "prefix,start,end", 1, method_startswith},
    {"strip", "chars", 0, method_strip},
    {"swapcase", "", 0, method_swapcase},
    {"title", "", 0, method_title},
    {"upper", "", 0, method_upper},
    {"zfill", "width", 1, method_zfill},
};

const struct jinja_native_row *jinja_string_method(struct text name) {
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (text_is(name, methods[i].name))
            return &methods[i];
    return NULL;
}
