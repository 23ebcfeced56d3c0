/* jinja_filters: filters on strings and numbers, and the search for a filter by name. */
#include "text/jinja_filters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "text/jinja_integer.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

static struct jinja_value str(const struct jinja_string *s) { return jinja_string_value(s); }

JINJA_FUNCTION(filter_upper) { return str(jinja_map_case(run, jinja_str(run, a[0]), PYTHON_UPPER)); }
JINJA_FUNCTION(filter_lower) { return str(jinja_map_case(run, jinja_str(run, a[0]), PYTHON_LOWER)); }
JINJA_FUNCTION(filter_capitalize) { return str(jinja_capitalize(run, jinja_str(run, a[0]))); }
JINJA_FUNCTION(filter_string) { return str(jinja_str(run, a[0])); }
JINJA_FUNCTION(filter_safe) { return str(jinja_as_markup(run, jinja_str(run, a[0]), true)); }

JINJA_FUNCTION(filter_trim) {
    const struct jinja_string *chars = a[1].kind == JINJA_ABSENT || a[1].kind == JINJA_NONE ? NULL : jinja_need_string(run, a[1], "trim");
    return str(jinja_strip(run, jinja_str(run, a[0]), chars, true, true));
}

JINJA_FUNCTION(filter_title) { /* words begin behind white space and - ( { [ < */
    const struct jinja_string *s = jinja_str(run, a[0]);
    struct jinja_builder b = jinja_builder_start(run);
    for (size_t begin = 0, next = 0; s && begin < s->size_bytes && jinja_step(run, 1); begin = next) {
        (void)jinja_next_code_point(s->data, s->size_bytes, &next); /* the first of a word, or what stands between words */
        size_t first = next;
        for (size_t at = begin; at < s->size_bytes;) {
            uint32_t c = jinja_next_code_point(s->data, s->size_bytes, &at);
            if (python_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c)))
                break;
            next = at;
        }
        const struct jinja_string *head = jinja_subbytes(run, s, begin, first), *rest = jinja_subbytes(run, s, first, next);
        jinja_put_string(&b, jinja_map_case(run, head, PYTHON_UPPER));
        jinja_put_string(&b, jinja_map_case(run, rest, PYTHON_LOWER));
    }
    return str(jinja_builder_take(&b));
}

JINJA_FUNCTION(filter_replace) {
    int64_t count;
    if (!jinja_need_index(run, a[3], -1, &count))
        return JINJA_NOTHING;
    return str(jinja_replace(run, jinja_plain_str(run, a[0]), jinja_plain_str(run, a[1]), jinja_plain_str(run, a[2]), count));
}

JINJA_FUNCTION(filter_center) {
    int64_t width;
    return jinja_need_index(run, a[1], 80, &width) ? str(jinja_center(run, jinja_str(run, a[0]), width, NULL)) : JINJA_NOTHING;
}

JINJA_FUNCTION(filter_escape) {
    struct jinja_builder b = jinja_builder_start(run);
    jinja_put_escaped(&b, jinja_str(run, a[0]));
    return str(jinja_as_markup(run, jinja_builder_take(&b), true));
}

JINJA_FUNCTION(filter_forceescape) {
    struct jinja_builder b = jinja_builder_start(run);
    jinja_put_escaped(&b, jinja_plain_str(run, a[0]));
    return str(jinja_as_markup(run, jinja_builder_take(&b), true));
}

JINJA_FUNCTION(filter_default) {
    if (a[0].kind != JINJA_UNDEFINED && !(jinja_truth(a[2]) && !jinja_truth(a[0])))
        return a[0];
    return a[1].kind == JINJA_ABSENT ? jinja_text(run, "", JINJA_TRUSTED) : a[1];
}

JINJA_FUNCTION(filter_attr) {
    const struct jinja_string *name = jinja_need_string(run, a[1], "attr");
    if (!name)
        return JINJA_NOTHING;
    if (a[0].kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a[0]);
    struct jinja_value value = jinja_builtin_attribute(run, a[0], jinja_string_text(name));
    return value.kind != JINJA_ABSENT
               ? value
               : jinja_undefined(run, false, "'%s object' has no attribute '%.100s'", jinja_type_name(a[0]), name->data);
}

JINJA_FUNCTION(filter_format) {
    const struct jinja_string *s = jinja_str(run, a[0]);
    if (raw->count && raw->named_count)
        return jinja_fail(run, JINJA_TYPE, "can't handle positional and keyword arguments at the same time");
    struct jinja_dict *named = jinja_dict_new(run);
    for (size_t i = 0; i < raw->named_count; i++)
        jinja_dict_set(run, named, str(raw->names[i]), raw->named[i]);
    struct jinja_list *positional = jinja_list_new(run, raw->count);
    for (size_t i = 0; i < raw->count; i++)
        jinja_list_append(run, positional, raw->values[i]);
    return s ? jinja_percent_format(run, s, raw->named_count ? jinja_dict_value(named) : jinja_list_value(JINJA_TUPLE, positional))
             : JINJA_NOTHING;
}

JINJA_FUNCTION(filter_indent) {
    int64_t width = 4;
    const struct jinja_string *s = jinja_need_string(run, a[0], "indent"), *indent = a[1].kind == JINJA_STRING ? a[1].string : NULL;
    if (!s || (!indent && !jinja_need_index(run, a[1], 4, &width)))
        return JINJA_NOTHING;
    if (!indent)
        indent = jinja_pad(run, jinja_string_new(run, "", 0, JINJA_TRUSTED), width > 0 ? width : 0, 0, NULL);
    struct jinja_builder b = jinja_builder_start(run);
    jinja_put_string(&b, s);
    jinja_put_text(&b, "\n"); /* so that a newline at the end makes an empty last line */
    const struct jinja_list *lines = jinja_split_lines(run, jinja_builder_take(&b), false);
    b = jinja_builder_start(run);
    if (jinja_truth(a[2]))
        jinja_put_string(&b, indent);
    for (size_t i = 0; lines && i < lines->count && !run->failed; i++) {
        const struct jinja_string *line = lines->items[i].string;
        jinja_put_text(&b, i ? "\n" : "");
        if (i > 0 && (line->size_bytes > 0 || jinja_truth(a[3])))
            jinja_put_string(&b, indent);
        jinja_put_string(&b, line);
    }
    return str(jinja_as_markup(run, jinja_builder_take(&b), s->markup));
}

JINJA_FUNCTION(filter_truncate) {
    int64_t length, leeway, whole = jinja_length(a[0]);
    const struct jinja_string *end = jinja_string_new(run, "...", 3, JINJA_TRUSTED);
    if (a[3].kind != JINJA_ABSENT)
        end = jinja_need_string(run, a[3], "truncate");
    if (!jinja_need_index(run, a[1], 255, &length) || !jinja_need_index(run, a[4], 5, &leeway) || !end)
        return JINJA_NOTHING;
    if (length < (int64_t)end->length || leeway < 0)
        return jinja_fail(run, JINJA_TYPE, "expected length >= %zu, got %lld", end->length, (long long)length);
    if (whole >= 0 && whole - leeway <= length)
        return a[0];
    const struct jinja_string *s = jinja_need_string(run, a[0], "truncate");
    if (!s)
        return JINJA_NOTHING;
    const struct jinja_string *kept = jinja_substring(run, s, 0, (size_t)length - end->length),
                              *space = jinja_string_new(run, " ", 1, JINJA_TRUSTED);
    if (!jinja_truth(a[2]) && kept && space) {
        size_t cut = jinja_find(run, kept, space, 0, kept->size_bytes, true);
        kept = cut == SIZE_MAX ? kept : jinja_subbytes(run, kept, 0, cut);
    }
    return kept ? jinja_binary(run, '+', str(kept), str(end)) : JINJA_NOTHING;
}

JINJA_FUNCTION(filter_wordcount) {
    const struct jinja_string *s = jinja_str(run, a[0]);
    int64_t count = 0;
    bool inside = false;
    for (size_t at = 0; s && at < s->size_bytes;) {
        uint32_t c = jinja_next_code_point(s->data, s->size_bytes, &at);
        bool word = c == '_' || python_is_alphanumeric(c);
        count += word && !inside;
        inside = word;
    }
    return jinja_int(count);
}

static void put_quoted(struct jinja_builder *b, const struct jinja_string *s, bool in_query) {
    for (size_t i = 0; s && i < s->size_bytes && !b->run->failed; i++) {
        unsigned char c = (unsigned char)s->data[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '.' || c == '-' || c == '~';
        char text[4];
        snprintf(text, sizeof text, in_query && c == ' ' ? "+" : plain || (c == '/' && !in_query) ? "%c" : "%%%02X", c);
        jinja_put(b, text, strlen(text), jinja_trust_at(s, i));
    }
}

JINJA_FUNCTION(filter_urlencode) {
    struct jinja_builder b = jinja_builder_start(run);
    if (a[0].kind == JINJA_STRING || !jinja_iterable(a[0])) {
        put_quoted(&b, jinja_str(run, a[0]), false);
        return str(jinja_builder_take(&b));
    }
    struct jinja_view view = {.which = JINJA_ITEMS};
    struct jinja_value pairs = a[0];
    if (a[0].kind == JINJA_DICT) {
        view.dict = a[0].dict;
        pairs = (struct jinja_value){.kind = JINJA_VIEW, .view = &view};
    }
    const struct jinja_list *items = jinja_items(run, pairs);
    for (size_t i = 0; items && i < items->count && !run->failed; i++) {
        const struct jinja_list *pair = jinja_items(run, items->items[i]);
        if (!pair || pair->count != 2)
            return jinja_fail(run, JINJA_TYPE, "urlencode needs pairs");
        jinja_put_text(&b, i ? "&" : "");
        put_quoted(&b, jinja_str(run, pair->items[0]), true);
        jinja_put_text(&b, "=");
        put_quoted(&b, jinja_str(run, pair->items[1]), true);
    }
    return str(jinja_builder_take(&b));
}

/* ---- numbers ---- */

/* Text of a Python number without white space around it and without underscores between digits; false when it is too long or odd. */
static bool number_text(struct jinja_run *run, const struct jinja_string *s, char *out, size_t out_bytes) {
    s = jinja_strip(run, s, NULL, true, true);
    size_t size = 0;
    for (size_t i = 0; s && i < s->size_bytes; i++) {
        char c = s->data[i];
        bool between = i > 0 && i + 1 < s->size_bytes && s->data[i - 1] != '_' && s->data[i + 1] != '_';
        if (c == '_' && between)
            continue;
        if (c == '_' || size + 1 >= out_bytes)
            return false;
        out[size++] = c;
    }
    out[size] = 0;
    return s && size > 0;
}

#define NUMBER_TEXT_BYTES 5000

static bool parse_float(struct jinja_run *run, const struct jinja_string *s, double *out) {
    char text[NUMBER_TEXT_BYTES];
    if (!number_text(run, s, text, sizeof text))
        return false;
    bool negative = text[0] == '-', infinite;
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    infinite = strcasecmp(digits, "inf") == 0 || strcasecmp(digits, "infinity") == 0;
    if (infinite || strcasecmp(digits, "nan") == 0)
        *out = infinite ? INFINITY : NAN;
    else if (digits[0] == '-' || !jinja_parse_float(text_of(digits), out))
        return false;
    *out = negative ? -*out : *out;
    return true;
}

static bool parse_integer(struct jinja_run *run, const struct jinja_string *s, int64_t base, struct jinja_value *out) {
    char text[NUMBER_TEXT_BYTES];
    if (!number_text(run, s, text, sizeof text) || (base != 0 && (base < 2 || base > 36)))
        return false;
    const char *digits = text;
    bool negative = digits[0] == '-';
    digits += digits[0] == '-' || digits[0] == '+';
    char mark = digits[0] == '0' ? (char)(digits[1] | 32) : 0;
    int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked && (base == marked || base == 0)) {
        digits += 2;
        base = marked;
    }
    if (base == 0 && digits[0] == '0' && strspn(digits, "0") != strlen(digits))
        return false;
    if (!jinja_integer_parse(run, text_of(digits), (unsigned)(base ? base : 10), out))
        return false;
    if (negative)
        *out = jinja_integer_negate(run, *out);
    return true;
}

JINJA_FUNCTION(filter_int) {
    struct jinja_value value = a[0], otherwise = a[1].kind == JINJA_ABSENT ? jinja_int(0) : a[1];
    int64_t base;
    double d;
    if (!jinja_need_index(run, a[2], 10, &base))
        return JINJA_NOTHING;
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value.kind == JINJA_STRING) {
        if (parse_integer(run, value.string, base, &value))
            return value;
        return parse_float(run, a[0].string, &d) && isfinite(d) ? jinja_integer_from_double(run, d) : otherwise;
    }
    if (value.kind == JINJA_FLOAT && !isfinite(value.number))
        return isnan(value.number) ? otherwise : jinja_fail(run, JINJA_TYPE, "cannot convert float infinity to integer");
    if (value.kind == JINJA_FLOAT)
        return jinja_integer_from_double(run, value.number);
    return jinja_is_number(value) ? jinja_integer_add(run, value, jinja_int(0)) : otherwise;
}

JINJA_FUNCTION(filter_float) {
    double d;
    if (a[0].kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a[0]);
    if (jinja_is_number(a[0]))
        return jinja_float(a[0].kind == JINJA_FLOAT ? a[0].number : jinja_integer_double(a[0]));
    if (a[0].kind == JINJA_STRING && parse_float(run, a[0].string, &d))
        return jinja_float(d);
    return a[1].kind == JINJA_ABSENT ? jinja_float(0) : a[1];
}

JINJA_FUNCTION(filter_abs) {
    if (a[0].kind == JINJA_FLOAT)
        return jinja_float(fabs(a[0].number));
    if (!jinja_is_number(a[0]))
        return jinja_fail(run, JINJA_TYPE, "bad operand type for abs(): '%s'", jinja_type_name(a[0]));
    return jinja_integer_compare(a[0], jinja_int(0)) < 0 ? jinja_integer_negate(run, a[0]) : jinja_integer_add(run, a[0], jinja_int(0));
}

JINJA_FUNCTION(filter_round) {
    int64_t precision;
    const struct jinja_string *method = a[2].kind == JINJA_ABSENT ? NULL : jinja_need_string(run, a[2], "round");
    if (!jinja_is_number(a[0]) || !jinja_need_index(run, a[1], 0, &precision) || run->failed)
        return jinja_fail(run, JINJA_TYPE, "type %s doesn't define __round__ method", jinja_type_name(a[0]));
    bool common = !method || text_is(jinja_string_text(method), "common"), up = method && text_is(jinja_string_text(method), "ceil");
    if (!common && !up && !text_is(jinja_string_text(method), "floor"))
        return jinja_fail(run, JINJA_TYPE, "method must be common, ceil or floor");
    if (common && a[0].kind != JINJA_FLOAT && precision >= 0)
        return jinja_integer_add(run, a[0], jinja_int(0));
    double d = a[0].kind == JINJA_FLOAT ? a[0].number : jinja_integer_double(a[0]);
    precision = precision > 300 ? 300 : precision < -300 ? -300 : precision;
    double scale = pow(10, (double)precision);
    if (!common)
        return jinja_float((up ? ceil(d * scale) : floor(d * scale)) / scale);
    if (precision < 0 || !isfinite(d)) {
        double rounded = isfinite(d) ? nearbyint(d * scale) / scale : d;
        return a[0].kind == JINJA_FLOAT ? jinja_float(rounded) : jinja_integer_from_double(run, rounded);
    }
    if (precision > 90 || fabs(d) > 1e17) /* no digit is lost */
        return jinja_float(d);
    char text[120]; /* the decimal rounding of the C library is exact, as Python's */
    snprintf(text, sizeof text, "%.*f", (int)precision, d);
    return jinja_parse_float(text_of(text), &d) ? jinja_float(d) : JINJA_NOTHING;
}

JINJA_FUNCTION(filter_filesizeformat) {
    static const char units[] = "kMGTPEZY";
    struct jinja_value number = filter_float(run, (struct jinja_value[2]){a[0], JINJA_NOTHING}, raw);
    if (number.kind != JINJA_FLOAT)
        return jinja_fail(run, JINJA_TYPE, "float() argument must be a string or a real number, not '%s'", jinja_type_name(a[0]));
    double bytes = number.number, base = jinja_truth(a[1]) ? 1024 : 1000, unit = base;
    char text[64];
    size_t i = 0;
    if (bytes == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (bytes < base) {
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    } else {
        for (unit *= base; i + 1 < sizeof units - 1 && bytes >= unit; i++)
            unit *= base;
        char letter = jinja_truth(a[1]) && i == 0 ? 'K' : units[i];
        snprintf(text, sizeof text, "%.1f %c%s", base * bytes / unit, letter, jinja_truth(a[1]) ? "iB" : "B");
    }
    return jinja_text(run, text, JINJA_TRUSTED);
}

static const struct jinja_native_row rows[] = {
    {"abs", "", 0, filter_abs},
    {"attr", "name", 1, filter_attr},
    {"capitalize", "", 0, filter_capitalize},
    {"center", "width", 0, filter_center},
    {"d", "default_value,boolean", 0, filter_default},
    {"default", "default_value,boolean", 0, filter_default},
    {"e", "", 0, filter_escape},
    {"escape", "", 0, filter_escape},
    {"filesizeformat", "binary", 0, filter_filesizeformat},
    {"float", "default", 0, filter_float},
    {"forceescape", "", 0, filter_forceescape},
    {"format", NULL, 0, filter_format},
    {"indent", "width,first,blank", 0, filter_indent},
    {"int", "default,base", 0, filter_int},
    {"lower", "", 0, filter_lower},
    {"replace", "old,new,count", 2, filter_replace},
    {"round", "precision,method", 0, filter_round},
    {"safe", "", 0, filter_safe},
    {"string", "", 0, filter_string},
    {"title", "", 0, filter_title},
    {"trim", "chars", 0, filter_trim},
    {"truncate", "length,killwords,end,leeway", 0, filter_truncate},
    {"upper", "", 0, filter_upper},
    {"urlencode", "", 0, filter_urlencode},
    {"wordcount", "", 0, filter_wordcount},
};

const struct jinja_native_row *jinja_find_filter(struct text name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (text_is(name, rows[i].name))
            return &rows[i];
    for (size_t i = 0; i < jinja_list_filter_count; i++)
        if (text_is(name, jinja_list_filters[i].name))
            return &jinja_list_filters[i];
    return text_is(name, jinja_tojson_row.name) ? &jinja_tojson_row : NULL;
}

bool jinja_is_filter_name(struct text name) { return jinja_find_filter(name) != NULL; }
