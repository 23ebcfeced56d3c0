/*
 * jinja_format: the % operator of strings and str.format, with Python's format specifications for strings and numbers.
 *
 * Trust   what is formatted keeps its marks; digits, signs and padding are trusted, since they cannot spell anything by themselves.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "text/jinja_eval.h"
#include "text/jinja_integer.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

#define PRECISION_MAX 250
#define NUMBER_BYTES 700 /* 309 digits, a point, PRECISION_MAX decimals, an exponent */

struct spec {
    char fill[5]; /* one code point; "" means space */
    char align;   /* < > ^ =, or 0: the type's own */
    char sign;    /* + - or space; 0: as - */
    bool alternate, zero;
    char grouping;            /* , or _ or 0 */
    int64_t width, precision; /* -1: not given */
    char type;                /* 0: not given */
};

/* Sign, prefix and body of a formatted number. */
struct number {
    char sign[2], prefix[3];
    char body[NUMBER_BYTES];
    const struct jinja_string *big; /* body of an integer with more digits */
};

static void put_fill(struct jinja_builder *b, const struct spec *spec, int64_t count) {
    const char *fill = spec->fill[0] ? spec->fill : " ";
    for (int64_t i = 0; i < count && jinja_step(b->run, 1); i++)
        jinja_put_text(b, fill);
}

/* `before` stays left of the padding when the alignment is '='. */
static void put_aligned(struct jinja_builder *b, const struct spec *spec, char default_align, const char *before,
                        const struct jinja_string *body) {
    if (!body)
        return;
    int64_t padding = spec->width - (int64_t)strlen(before) - (int64_t)body->length;
    char align = spec->align ? spec->align : default_align;
    int64_t left = padding <= 0 || align == '<' || align == '=' ? 0 : align == '>' ? padding : padding / 2;
    put_fill(b, spec, left);
    jinja_put_text(b, before);
    if (align == '=')
        put_fill(b, spec, padding);
    jinja_put_string(b, body);
    if (align != '=')
        put_fill(b, spec, padding - left);
}

/* Puts separators into the digits before a point, exponent or end: every 3 digits. */
static void group_digits(char *body, char separator) {
    char plain[NUMBER_BYTES];
    size_t size = strlen(body), whole = strspn(body, "0123456789"), at = 0;
    if (size + whole / 3 + 1 >= NUMBER_BYTES)
        return;
    memcpy(plain, body, size + 1);
    for (size_t i = 0; i < size; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0)
            body[at++] = separator;
        body[at++] = plain[i];
    }
    body[at] = 0;
}

static void sign_of(struct number *n, bool negative, const struct spec *spec) {
    n->sign[0] = negative ? '-' : spec->sign == '+' || spec->sign == ' ' ? spec->sign : 0;
}

static void add_text(struct number *n, const char *text) {
    size_t size = strlen(n->body);
    snprintf(n->body + size, sizeof n->body - size, "%s", text);
}

static struct number float_number(struct jinja_run *run, double d, const struct spec *spec) {
    struct number n = {0};
    char type = spec->type ? spec->type : 'r', format[8] = "%";
    sign_of(&n, signbit(d) && !isnan(d), spec);
    d = fabs(d);
    if (type == '%')
        d *= 100;
    if (spec->precision > PRECISION_MAX) {
        jinja_fail(run, JINJA_LIMIT, "a precision of more than %d digits", PRECISION_MAX);
        return n;
    }
    if (!isfinite(d)) {
        bool upper = type == 'F' || type == 'E' || type == 'G';
        snprintf(n.body, sizeof n.body, "%s%s", isnan(d) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf"), type == '%' ? "%" : "");
        return n;
    }
    if (type == 'r' && spec->precision < 0) {
        jinja_format_float(d, n.body);
    } else {
        char c = type == '%' ? 'f' : type == 'r' || type == 'n' ? 'g' : type;
        snprintf(format, sizeof format, "%%%s.*%c", spec->alternate ? "#" : "", c);
        snprintf(n.body, sizeof n.body, format, spec->precision < 0 ? 6 : (int)spec->precision, d);
        if (type == 'r' && !strpbrk(n.body, ".e"))
            add_text(&n, ".0");
    }
    if (spec->grouping)
        group_digits(n.body, spec->grouping);
    if (type == '%')
        add_text(&n, "%");
    return n;
}

static struct number integer_number(struct jinja_run *run, struct jinja_value v, const struct spec *spec) {
    struct number n = {0};
    int64_t value = 0;
    bool negative = jinja_integer_compare(v, jinja_int(0)) < 0, fits = jinja_as_index(v, &value);
    char type = spec->type ? spec->type : 'd';
    sign_of(&n, negative, spec);
    if (type == 'd' || type == 'n' || type == 'i' || type == 'u') {
        struct jinja_builder digits = jinja_builder_start(run);
        jinja_integer_print(&digits, v);
        const struct jinja_string *text = jinja_builder_take(&digits);
        if (text && text->size_bytes - negative < sizeof n.body / 2)
            snprintf(n.body, sizeof n.body, "%s", text->data + negative);
        else if (text)
            n.big = jinja_subbytes(run, text, negative, text->size_bytes);
        if (spec->grouping)
            group_digits(n.body, spec->grouping);
        return n;
    }
    if (!fits) {
        jinja_fail(run, JINJA_TYPE, "an integer of more than 64 bits can only be formatted as decimal");
        return n;
    }
    uint64_t magnitude = negative ? 0 - (uint64_t)value : (uint64_t)value;
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : 16;
    char reversed[65];
    size_t size = 0;
    do {
        reversed[size++] = (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[magnitude % base];
        magnitude /= base;
    } while (magnitude);
    for (size_t i = 0; i < size; i++)
        n.body[i] = reversed[size - 1 - i];
    if (spec->alternate)
        snprintf(n.prefix, sizeof n.prefix, "0%c", type);
    return n;
}

static void put_number(struct jinja_builder *b, const struct number *n, const struct spec *given, char default_align) {
    struct spec spec = *given;
    char before[5];
    snprintf(before, sizeof before, "%s%s", n->sign, n->prefix);
    if (spec.zero && !spec.align) {
        spec.align = '=';
        spec.fill[0] = '0';
        spec.fill[1] = 0;
    }
    put_aligned(b, &spec, default_align, before, n->big ? n->big : jinja_string_new(b->run, n->body, strlen(n->body), JINJA_TRUSTED));
}

static void put_text(struct jinja_builder *b, const struct jinja_string *s, const struct spec *spec) {
    if (s && spec->precision >= 0 && (uint64_t)spec->precision < s->length)
        s = jinja_substring(b->run, s, 0, (size_t)spec->precision);
    put_aligned(b, spec, '<', "", s);
}

/* ---- % ---- */

struct percent {
    struct jinja_run *run;
    const struct jinja_string *format;
    struct jinja_value arguments;
    size_t at, next; /* next: index of the next argument */
};

static struct jinja_value next_argument(struct percent *p) {
    bool tuple = p->arguments.kind == JINJA_TUPLE;
    size_t count = tuple ? p->arguments.list->count : 1;
    if (p->next >= count)
        return jinja_fail(p->run, JINJA_TYPE, "not enough arguments for format string");
    p->next++;
    return tuple ? p->arguments.list->items[p->next - 1] : p->arguments;
}

static int64_t parse_count(struct percent *p) {
    const char *data = p->format->data;
    int64_t value = 0;
    if (data[p->at] == '*') {
        p->at++;
        if (!jinja_as_index(next_argument(p), &value))
            jinja_fail(p->run, JINJA_TYPE, "* wants int");
        return value;
    }
    for (; p->at < p->format->size_bytes && data[p->at] >= '0' && data[p->at] <= '9' && value < INT32_MAX; p->at++)
        value = value * 10 + (data[p->at] - '0');
    return value;
}

/* "(name)" after the percent sign: the value of that key. */
static struct jinja_value keyed_argument(struct percent *p) {
    const char *close = memchr(p->format->data + p->at, ')', p->format->size_bytes - p->at);
    if (p->arguments.kind != JINJA_DICT)
        return jinja_fail(p->run, JINJA_TYPE, "format requires a mapping");
    if (!close)
        return jinja_fail(p->run, JINJA_TYPE, "incomplete format key");
    struct text key = {p->format->data + p->at + 1, (size_t)(close - p->format->data) - p->at - 1};
    p->at += key.size_bytes + 2;
    const struct jinja_value *found = jinja_dict_get_text(p->arguments.dict, key);
    return found ? *found : jinja_fail(p->run, JINJA_TYPE, "'%.*s' is not in the mapping to format", TEXT_ARGUMENTS(key));
}

static void put_percent_value(struct jinja_builder *b, struct spec *spec, struct jinja_value v) {
    struct jinja_run *run = b->run;
    if (strchr("srac", spec->type)) {
        struct jinja_builder text = jinja_builder_start(run);
        if (spec->type == 'c' && v.kind == JINJA_INT && v.integer >= 0 && v.integer <= 0x10FFFF)
            jinja_put_code_point(&text, (uint32_t)v.integer, JINJA_TRUSTED);
        else if (spec->type == 'c' && !(v.kind == JINJA_STRING && v.string->length == 1))
            jinja_fail(run, JINJA_TYPE, "%%c requires int or char");
        else if (spec->type == 's' || spec->type == 'c')
            jinja_put_str(&text, v);
        else
            jinja_put_repr(&text, v);
        spec->align = spec->align ? spec->align : '>';
        put_text(b, jinja_builder_take(&text), spec);
        return;
    }
    bool whole = strchr("diuxXo", spec->type) != NULL;
    if (!jinja_is_number(v) || (v.kind == JINJA_FLOAT && strchr("xXo", spec->type))) {
        jinja_fail(run, JINJA_TYPE, "%%%c format: a number is required, not %s", spec->type, jinja_type_name(v));
        return;
    }
    if (whole && v.kind == JINJA_FLOAT && !isfinite(v.number)) {
        jinja_fail(run, JINJA_TYPE, "cannot convert float %s to integer", isnan(v.number) ? "NaN" : "infinity");
        return;
    }
    if (whole && v.kind == JINJA_FLOAT)
        v = jinja_integer_from_double(run, v.number);
    struct number n =
        whole ? integer_number(run, v, spec) : float_number(run, v.kind == JINJA_FLOAT ? v.number : jinja_integer_double(v), spec);
    if (whole && spec->precision > (int64_t)strlen(n.body) && spec->precision < PRECISION_MAX) { /* least number of digits */
        size_t size = strlen(n.body), zeros = (size_t)spec->precision - size;
        memmove(n.body + zeros, n.body, size + 1);
        memset(n.body, '0', zeros);
    }
    put_number(b, &n, spec, '>');
}

static void put_conversion(struct percent *p, struct jinja_builder *b) {
    const char *data = p->format->data;
    size_t size = p->format->size_bytes;
    struct spec spec = {.precision = -1, .width = 0};
    struct jinja_value value = {.kind = JINJA_ABSENT};
    if (p->at < size && data[p->at] == '(')
        value = keyed_argument(p);
    for (; p->at < size && strchr("-+ 0#", data[p->at]) && data[p->at]; p->at++) {
        char flag = data[p->at];
        spec.align = flag == '-' ? '<' : spec.align;
        spec.sign = flag == '+' || (flag == ' ' && spec.sign != '+') ? flag : spec.sign;
        spec.zero = spec.zero || flag == '0';
        spec.alternate = spec.alternate || flag == '#';
    }
    if (p->at < size)
        spec.width = parse_count(p);
    if (spec.width < 0) {
        spec.align = '<';
        spec.width = -spec.width;
    }
    if (p->at < size && data[p->at] == '.') {
        p->at++;
        spec.precision = p->at < size ? parse_count(p) : 0;
    }
    while (p->at < size && data[p->at] && strchr("hlL", data[p->at]))
        p->at++;
    spec.type = p->at < size ? data[p->at++] : 0;
    if (!spec.type || !strchr("sracdiuxXofFeEgG%", spec.type)) {
        jinja_fail(p->run, JINJA_TYPE, spec.type ? "unsupported format character" : "incomplete format");
        return;
    }
    if (spec.type == '%') {
        jinja_put_text(b, "%");
        return;
    }
    if (value.kind == JINJA_ABSENT)
        value = next_argument(p);
    if (spec.zero && spec.align == '<')
        spec.zero = false;
    if (p->run->failed)
        return;
    if (p->format->markup) {
        struct jinja_builder escaped = jinja_builder_start(p->run);
        jinja_put_escaped(&escaped, jinja_str(p->run, value));
        value = spec.type == 's' ? jinja_string_value(jinja_builder_take(&escaped)) : value;
    }
    put_percent_value(b, &spec, value);
}

struct jinja_value jinja_percent_format(struct jinja_run *run, const struct jinja_string *format, struct jinja_value arguments) {
    struct percent p = {.run = run, .format = format, .arguments = arguments};
    struct jinja_builder b = jinja_builder_start(run);
    while (p.at < format->size_bytes && jinja_step(run, 1)) {
        const char *mark = memchr(format->data + p.at, '%', format->size_bytes - p.at);
        size_t end = mark ? (size_t)(mark - format->data) : format->size_bytes;
        jinja_put_bytes(&b, format, p.at, end);
        p.at = mark ? end + 1 : end;
        if (mark)
            put_conversion(&p, &b);
    }
    bool mapping = arguments.kind == JINJA_DICT || arguments.kind == JINJA_LIST || arguments.kind == JINJA_RANGE ||
                   arguments.kind == JINJA_UNDEFINED; /* Python lets what has [] go unused */
    size_t count = arguments.kind == JINJA_TUPLE ? arguments.list->count : 1;
    if (!mapping && p.next < count)
        return jinja_fail(run, JINJA_TYPE, "not all arguments converted during string formatting");
    return jinja_string_value(jinja_as_markup(run, jinja_builder_take(&b), format->markup));
}

/* ---- str.format ---- */

static bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

/* [[fill]align][sign][#][0][width][grouping][.precision][type]; false when it is not that. */
static bool parse_spec(struct text text, struct spec *out) {
    struct spec spec = {.precision = -1, .width = 0};
    size_t at = 0, next = 0;
    const char *data = text.data;
    if (text.size_bytes > 0)
        (void)jinja_next_code_point(data, text.size_bytes, &next);
    if (next > 0 && next < text.size_bytes && is_align(data[next])) {
        memcpy(spec.fill, data, next);
        spec.align = data[next];
        at = next + 1;
    } else if (text.size_bytes > 0 && is_align(data[0])) {
        spec.align = data[at++];
    }
    if (at < text.size_bytes && (data[at] == '+' || data[at] == '-' || data[at] == ' '))
        spec.sign = data[at++];
    if (at < text.size_bytes && data[at] == '#')
        spec.alternate = ++at;
    if (at < text.size_bytes && data[at] == '0')
        spec.zero = ++at;
    for (; at < text.size_bytes && data[at] >= '0' && data[at] <= '9' && spec.width < INT32_MAX; at++)
        spec.width = spec.width * 10 + (data[at] - '0');
    if (at < text.size_bytes && (data[at] == ',' || data[at] == '_'))
        spec.grouping = data[at++];
    if (at < text.size_bytes && data[at] == '.') {
        spec.precision = 0;
        size_t digits = ++at;
        for (; at < text.size_bytes && data[at] >= '0' && data[at] <= '9' && spec.precision < INT32_MAX; at++)
            spec.precision = spec.precision * 10 + (data[at] - '0');
        if (at == digits)
            return false;
    }
    if (at < text.size_bytes)
        spec.type = data[at++];
    *out = spec;
    return at == text.size_bytes;
}

static void put_formatted(struct jinja_builder *b, struct jinja_value v, struct text text) {
    struct jinja_run *run = b->run;
    struct spec spec;
    if (text.size_bytes == 0 || run->failed) {
        jinja_put_str(b, v);
        return;
    }
    if (!parse_spec(text, &spec)) {
        jinja_fail(run, JINJA_TYPE, "Invalid format specifier");
    } else if (v.kind == JINJA_STRING) {
        if ((spec.type && spec.type != 's') || spec.align == '=' || spec.sign || spec.grouping)
            jinja_fail(run, JINJA_TYPE, "Unknown format code '%c' for object of type 'str'", spec.type);
        if (spec.zero && !spec.fill[0])
            spec.fill[0] = '0';
        put_text(b, v.string, &spec);
    } else if (v.kind == JINJA_FLOAT || (jinja_is_number(v) && spec.type && strchr("eEfFgG%", spec.type))) {
        if (spec.type && !strchr("eEfFgGn%", spec.type))
            jinja_fail(run, JINJA_TYPE, "Unknown format code '%c' for object of type 'float'", spec.type);
        struct number n = float_number(run, v.kind == JINJA_FLOAT ? v.number : jinja_integer_double(v), &spec);
        put_number(b, &n, &spec, '>');
    } else if (jinja_is_number(v)) {
        if ((spec.type && !strchr("bdnoxXc", spec.type)) || spec.precision >= 0)
            jinja_fail(run, JINJA_TYPE, "Unknown format code '%c' for object of type 'int'", spec.type);
        struct number n = {0};
        if (spec.type == 'c') {
            struct jinja_builder character = jinja_builder_start(run);
            jinja_put_code_point(&character, v.kind == JINJA_INT && v.integer >= 0 && v.integer <= 0x10FFFF ? (uint32_t)v.integer : 0xFFFD,
                                 JINJA_TRUSTED);
            n.big = jinja_builder_take(&character);
        } else {
            n = integer_number(run, v, &spec);
        }
        put_number(b, &n, &spec, '>');
    } else {
        jinja_fail(run, JINJA_TYPE, "unsupported format string passed to %s.__format__", jinja_type_name(v));
    }
}

struct brace {
    struct jinja_run *run;
    const struct jinja_arguments *arguments;
    size_t automatic; /* next number of "{}" */
    unsigned depth;
};

/* The value that "name.attribute[key]" stands for. */
static struct jinja_value field_value(struct brace *p, const struct jinja_string *field) {
    struct jinja_run *run = p->run;
    const char *data = field->data;
    size_t size = field->size_bytes, at = 0;
    while (at < size && data[at] != '.' && data[at] != '[')
        at++;
    struct text first = {data, at};
    uint64_t index = 0;
    struct jinja_value value = {.kind = JINJA_ABSENT};
    if (first.size_bytes == 0 || text_parse_u64(first, &index)) {
        index = first.size_bytes ? index : p->automatic++;
        if (index < p->arguments->count)
            value = p->arguments->values[index];
        else
            return jinja_fail(run, JINJA_TYPE, "Replacement index %llu out of range for positional args tuple", (unsigned long long)index);
    }
    for (size_t i = 0; value.kind == JINJA_ABSENT && i < p->arguments->named_count; i++)
        if (text_equal(jinja_string_text(p->arguments->names[i]), first))
            value = p->arguments->named[i];
    if (value.kind == JINJA_ABSENT)
        return jinja_fail(run, JINJA_TYPE, "'%.*s' is not among the arguments to format", TEXT_ARGUMENTS(first));
    while (at < size && !run->failed) {
        bool attribute = data[at] == '.';
        size_t begin = ++at;
        while (at < size && (attribute ? data[at] != '.' && data[at] != '[' : data[at] != ']'))
            at++;
        const struct jinja_string *name = jinja_subbytes(run, field, begin, at);
        if (!name || name->size_bytes == 0 || (!attribute && at == size))
            return jinja_fail(run, JINJA_TYPE, "Empty attribute in format string");
        bool number = !attribute && text_parse_u64(jinja_string_text(name), &index) && index <= INT64_MAX;
        value = attribute ? jinja_attribute(run, value, name)
                          : jinja_item(run, value, number ? jinja_int((int64_t)index) : jinja_string_value(name));
        at += !attribute;
    }
    return value;
}

static const struct jinja_string *expand(struct brace *p, const struct jinja_string *format);

/* One replacement field, without its braces. */
static void put_field(struct brace *p, struct jinja_builder *b, const struct jinja_string *field) {
    struct jinja_run *run = p->run;
    size_t name_end = 0, size = field->size_bytes;
    bool bracket = false;
    for (; name_end < size && (bracket || (field->data[name_end] != ':' && field->data[name_end] != '!')); name_end++)
        bracket = field->data[name_end] == '[' || (bracket && field->data[name_end] != ']');
    const struct jinja_string *name = jinja_subbytes(run, field, 0, name_end), *spec = NULL;
    struct jinja_value value = name ? field_value(p, name) : JINJA_NOTHING;
    size_t at = name_end;
    if (at < size && field->data[at] == '!') {
        char conversion = at + 1 < size ? field->data[at + 1] : 0;
        if (conversion != 's' && conversion != 'r' && conversion != 'a')
            jinja_fail(run, JINJA_TYPE, "Unknown conversion specifier in format string");
        struct jinja_builder text = jinja_builder_start(run);
        conversion == 's' ? jinja_put_str(&text, value) : jinja_put_repr(&text, value);
        value = jinja_string_value(jinja_builder_take(&text));
        at += 2;
    }
    if (at < size && !run->failed && field->data[at] == ':')
        spec = expand(p, jinja_subbytes(run, field, at + 1, size));
    if (!run->failed)
        put_formatted(b, value, jinja_string_text(spec));
}

static const struct jinja_string *expand(struct brace *p, const struct jinja_string *format) {
    struct jinja_builder b = jinja_builder_start(p->run);
    if (!format)
        return NULL;
    if (++p->depth > 2)
        jinja_fail(p->run, JINJA_TYPE, "Max string recursion exceeded");
    for (size_t at = 0; at < format->size_bytes && jinja_step(p->run, 1);) {
        char c = format->data[at];
        bool doubled = at + 1 < format->size_bytes && format->data[at + 1] == c;
        if ((c != '{' && c != '}') || doubled) {
            jinja_put_bytes(&b, format, at, at + 1);
            at += (c == '{' || c == '}') && doubled ? 2 : 1;
            continue;
        }
        size_t end = at + 1;
        for (unsigned open = 1; c == '{' && end < format->size_bytes; end++) {
            open += format->data[end] == '{';
            open -= format->data[end] == '}';
            if (open == 0)
                break;
        }
        if (c == '}' || end >= format->size_bytes) {
            jinja_fail(p->run, JINJA_TYPE,
                       c == '}' ? "Single '}' encountered in format string" : "Single '{' encountered in format string");
            break;
        }
        const struct jinja_string *field = jinja_subbytes(p->run, format, at + 1, end);
        if (field)
            put_field(p, &b, field);
        at = end + 1;
    }
    p->depth--;
    return jinja_builder_take(&b);
}

struct jinja_value jinja_brace_format(struct jinja_run *run, const struct jinja_string *format, const struct jinja_arguments *arguments) {
    struct brace p = {.run = run, .arguments = arguments};
    return jinja_string_value(jinja_as_markup(run, expand(&p, format), format->markup));
}
