/* jinja_operators: arithmetic, comparison, membership, subscripts and attributes, with Python's rules and words of failure. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "text/jinja_eval.h"
#include "text/jinja_integer.h"
#include "text/jinja_print.h"

struct jinja_value jinja_fail_undefined(struct jinja_run *run, struct jinja_value undefined) {
    const struct jinja_missing *missing = undefined.missing;
    return jinja_fail(run, missing && missing->security ? JINJA_SECURITY : JINJA_UNDEFINED_USE, "%s",
                      missing ? missing->message : "an undefined value was used");
}

/* ---- attributes and items ---- */

static struct jinja_value no_such_attribute(struct jinja_run *run, struct jinja_value object, struct text name) {
    return jinja_undefined(run, false, "'%s%s' has no attribute '%.*s'", object.kind == JINJA_NONE ? "None" : jinja_type_name(object),
                           object.kind == JINJA_NONE ? "" : " object", (int)(name.size_bytes > 200 ? 200 : name.size_bytes), name.data);
}

struct jinja_value jinja_attribute(struct jinja_run *run, struct jinja_value object, const struct jinja_string *name) {
    if (run->failed || !name)
        return JINJA_NOTHING;
    struct text text = jinja_string_text(name);
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    struct jinja_value value = jinja_builtin_attribute(run, object, text);
    if (value.kind != JINJA_ABSENT)
        return value;
    const struct jinja_value *entry = object.kind == JINJA_DICT ? jinja_dict_get_text(object.dict, text) : NULL;
    return entry ? *entry : no_such_attribute(run, object, text);
}

static bool in_sequence(int64_t *index, int64_t length) {
    if (*index < 0)
        *index += length;
    return *index >= 0 && *index < length;
}

struct jinja_value jinja_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key) {
    if (run->failed)
        return JINJA_NOTHING;
    if (object.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, object);
    int64_t index;
    if (object.kind == JINJA_DICT) {
        const struct jinja_value *entry = jinja_dict_get(run, object.dict, key);
        if (entry)
            return *entry;
    } else if (jinja_as_index(key, &index)) {
        if ((object.kind == JINJA_LIST || object.kind == JINJA_TUPLE) && in_sequence(&index, (int64_t)object.list->count))
            return object.list->items[index];
        if (object.kind == JINJA_STRING && in_sequence(&index, (int64_t)object.string->length))
            return jinja_string_value(jinja_substring(run, object.string, (size_t)index, (size_t)index + 1));
        if (object.kind == JINJA_RANGE && in_sequence(&index, object.range->count))
            return jinja_int(object.range->start + index * object.range->step);
    }
    if (key.kind == JINJA_STRING) {
        struct jinja_value value = jinja_builtin_attribute(run, object, jinja_string_text(key.string));
        return value.kind != JINJA_ABSENT ? value : no_such_attribute(run, object, jinja_string_text(key.string));
    }
    struct jinja_builder b = jinja_builder_start(run);
    jinja_put_repr(&b, key);
    const struct jinja_string *text = jinja_builder_take(&b);
    return text ? jinja_undefined(run, false, "%s object has no element %.200s", jinja_type_name(object), text->data) : JINJA_NOTHING;
}

/* Python's slice.indices: first index, step and how many. False and failed for bad parts. */
static bool slice_indices(struct jinja_run *run, const struct jinja_value parts[3], int64_t length, int64_t *first, int64_t *step,
                          int64_t *count) {
    int64_t bounds[3] = {0, 0, 1};
    bool given[3];
    for (unsigned i = 0; i < 3; i++) {
        given[i] = parts[i].kind != JINJA_NONE;
        if (parts[i].kind == JINJA_BIG)
            bounds[i] = jinja_integer_compare(parts[i], jinja_int(0)) < 0 ? -INT32_MAX : INT32_MAX;
        else if (given[i] && !jinja_as_index(parts[i], &bounds[i]))
            return jinja_fail(run, JINJA_TYPE, "slice indices must be integers or None or have an __index__ method"), false;
    }
    *step = bounds[2];
    if (*step == 0)
        return jinja_fail(run, JINJA_TYPE, "slice step cannot be zero"), false;
    if (*step < -INT32_MAX)
        *step = -INT32_MAX;
    int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? length - 1 : length;
    for (unsigned i = 0; i < 2; i++) {
        if (!given[i])
            bounds[i] = (i == 0) == (*step > 0) ? low : high;
        else if (bounds[i] < 0)
            bounds[i] = bounds[i] + length < low ? low : bounds[i] + length;
        else if (bounds[i] > high)
            bounds[i] = high;
    }
    int64_t distance = *step > 0 ? bounds[1] - bounds[0] : bounds[0] - bounds[1], stride = *step > 0 ? *step : -*step;
    *first = bounds[0];
    *count = distance > 0 ? (distance - 1) / stride + 1 : 0;
    return true;
}

static struct jinja_value slice_string(struct jinja_run *run, const struct jinja_string *s, int64_t first, int64_t step, int64_t count) {
    if (step == 1 || count == 0)
        return jinja_string_value(jinja_substring(run, s, (size_t)first, (size_t)(first + count)));
    struct jinja_list *characters = jinja_items(run, jinja_string_value(s));
    struct jinja_builder b = jinja_builder_start(run);
    for (int64_t i = 0; characters && i < count && jinja_step(run, 1); i++)
        jinja_put_string(&b, characters->items[first + i * step].string);
    return jinja_string_value(jinja_as_markup(run, jinja_builder_take(&b), s->markup));
}

struct jinja_value jinja_slice(struct jinja_run *run, struct jinja_value object, const struct jinja_value parts[3]) {
    int64_t first, step, count;
    if (run->failed)
        return JINJA_NOTHING;
    for (unsigned i = 0; i < 4; i++) {
        struct jinja_value v = i == 0 ? object : parts[i - 1];
        if (v.kind == JINJA_UNDEFINED)
            return jinja_fail_undefined(run, v);
    }
    if (object.kind != JINJA_STRING && object.kind != JINJA_LIST && object.kind != JINJA_TUPLE && object.kind != JINJA_RANGE)
        return jinja_fail(run, JINJA_TYPE, "'%s' object is not subscriptable", jinja_type_name(object));
    if (!slice_indices(run, parts, jinja_length(object), &first, &step, &count))
        return JINJA_NOTHING;
    if (object.kind == JINJA_STRING)
        return slice_string(run, object.string, first, step, count);
    if (object.kind == JINJA_RANGE) {
        struct jinja_range *range = jinja_alloc(run, sizeof *range);
        if (!range)
            return JINJA_NOTHING;
        int64_t begin = object.range->start + first * object.range->step, stride = object.range->step * step;
        *range = (struct jinja_range){.start = begin, .stop = begin + count * stride, .step = stride, .count = count};
        return (struct jinja_value){.kind = JINJA_RANGE, .range = range};
    }
    struct jinja_list *list = jinja_list_new(run, (size_t)count);
    for (int64_t i = 0; list && i < count && !run->failed; i++)
        jinja_list_append(run, list, object.list->items[first + i * step]);
    return jinja_list_value(object.kind, list);
}

/* ---- arithmetic ---- */

static const char *operator_text(char op) {
    static const char plain[] = "+\0-\0*\0/\0%";
    for (size_t i = 0; i < sizeof plain; i += 2)
        if (plain[i] == op)
            return plain + i;
    return op == 'f' ? "//" : "** or pow()";
}

static struct jinja_value unsupported(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b) {
    return jinja_fail(run, JINJA_TYPE, "unsupported operand type(s) for %s: '%s' and '%s'", operator_text(op), jinja_type_name(a),
                      jinja_type_name(b));
}

static double as_double(struct jinja_value v) { return v.kind == JINJA_FLOAT ? v.number : jinja_integer_double(v); }

/* Python's float floor division and remainder. */
static struct jinja_value float_divide(struct jinja_run *run, char op, double a, double b) {
    if (b == 0)
        return jinja_fail(run, JINJA_TYPE,
                          op == '%'   ? "float modulo"
                          : op == 'f' ? "float floor division by zero"
                                      : "float division by zero");
    if (op == '/')
        return jinja_float(a / b);
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) {
        rest += b;
        quotient -= 1;
    } else if (rest == 0) {
        rest = copysign(0, b);
    }
    if (op == '%')
        return jinja_float(rest);
    double whole = floor(quotient);
    return jinja_float(quotient == 0 ? copysign(0, a / b) : quotient - whole > 0.5 ? whole + 1 : whole);
}

static struct jinja_value power(struct jinja_run *run, struct jinja_value a, struct jinja_value b) {
    struct jinja_value zero = jinja_int(0);
    bool whole = a.kind != JINJA_FLOAT && b.kind != JINJA_FLOAT;
    if (whole && jinja_integer_compare(b, zero) >= 0) {
        int64_t exponent = INT32_MAX;
        (void)jinja_as_index(b, &exponent);
        return jinja_integer_power(run, a, (uint64_t)exponent);
    }
    double x = as_double(a), y = as_double(b);
    if (x == 0 && y < 0)
        return jinja_fail(run, JINJA_TYPE, "0.0 cannot be raised to a negative power");
    if (x < 0 && isfinite(y) && y != floor(y))
        return jinja_fail(run, JINJA_TYPE, "complex numbers are not supported");
    double result = pow(x, y);
    if (isinf(result) && isfinite(x) && isfinite(y))
        return jinja_fail(run, JINJA_TYPE, "Numerical result out of range");
    return jinja_float(result);
}

static struct jinja_value number_binary(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b) {
    bool whole = a.kind != JINJA_FLOAT && b.kind != JINJA_FLOAT;
    struct jinja_value result = JINJA_NOTHING;
    switch (op) {
    case '+':
        return whole ? jinja_integer_add(run, a, b) : jinja_float(as_double(a) + as_double(b));
    case '-':
        return whole ? jinja_integer_subtract(run, a, b) : jinja_float(as_double(a) - as_double(b));
    case '*':
        return whole ? jinja_integer_multiply(run, a, b) : jinja_float(as_double(a) * as_double(b));
    case 'p':
        return power(run, a, b);
    case 'f':
    case '%':
        if (whole) {
            jinja_integer_divide(run, a, b, op == 'f' ? &result : NULL, op == '%' ? &result : NULL);
            return result;
        }
        return float_divide(run, op, as_double(a), as_double(b));
    default:
        if (whole && jinja_integer_compare(b, jinja_int(0)) == 0)
            return jinja_fail(run, JINJA_TYPE, "division by zero");
        if (a.kind == JINJA_INT && b.kind == JINJA_INT) /* beyond 2^53 the integers are no doubles */
            return jinja_float((double)((long double)a.integer / (long double)b.integer));
        return float_divide(run, '/', as_double(a), as_double(b));
    }
}

/* String or list times a count. */
static struct jinja_value repeat(struct jinja_run *run, struct jinja_value sequence, int64_t count) {
    uint64_t total, unit = sequence.kind == JINJA_STRING ? sequence.string->size_bytes : sequence.list->count * sizeof(struct jinja_value);
    if (count < 0)
        count = 0;
    if (__builtin_mul_overflow((uint64_t)count, unit, &total) || total > run->limits.memory_bytes)
        return jinja_fail_memory(run);
    if (unit == 0)
        return sequence;
    if (sequence.kind == JINJA_STRING) {
        struct jinja_builder b = jinja_builder_start(run);
        for (int64_t i = 0; i < count && jinja_step(run, 1); i++)
            jinja_put_string(&b, sequence.string);
        return jinja_string_value(jinja_as_markup(run, jinja_builder_take(&b), sequence.string->markup));
    }
    struct jinja_list *list = jinja_list_new(run, sequence.list->count * (size_t)count);
    for (int64_t i = 0; i < count && list && !run->failed; i++)
        for (size_t k = 0; k < sequence.list->count; k++)
            jinja_list_append(run, list, sequence.list->items[k]);
    return jinja_list_value(sequence.kind, list);
}

static struct jinja_value add_strings(struct jinja_run *run, const struct jinja_string *a, const struct jinja_string *b) {
    struct jinja_builder out = jinja_builder_start(run);
    bool markup = a->markup || b->markup;
    for (unsigned i = 0; i < 2; i++) {
        if (markup)
            jinja_put_escaped(&out, i ? b : a);
        else
            jinja_put_string(&out, i ? b : a);
    }
    return jinja_string_value(jinja_as_markup(run, jinja_builder_take(&out), markup));
}

static struct jinja_value add_lists(struct jinja_run *run, struct jinja_value a, struct jinja_value b) {
    struct jinja_list *list = jinja_list_new(run, a.list->count + b.list->count);
    for (size_t i = 0; list && i < a.list->count + b.list->count && !run->failed; i++)
        jinja_list_append(run, list, i < a.list->count ? a.list->items[i] : b.list->items[i - a.list->count]);
    return jinja_list_value(a.kind, list);
}

static bool is_sequence(struct jinja_value v) { return v.kind == JINJA_STRING || v.kind == JINJA_LIST || v.kind == JINJA_TUPLE; }

struct jinja_value jinja_binary(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b) {
    int64_t count;
    if (run->failed)
        return JINJA_NOTHING;
    if (jinja_is_number(a) && jinja_is_number(b))
        return number_binary(run, op, a, b);
    if (op == '%' && a.kind == JINJA_STRING)
        return jinja_percent_format(run, a.string, b);
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a.kind == JINJA_UNDEFINED ? a : b);
    if (op == '+' && a.kind == b.kind && a.kind == JINJA_STRING)
        return add_strings(run, a.string, b.string);
    if (op == '+' && a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        return add_lists(run, a, b);
    if (op == '*' && is_sequence(a) && jinja_as_index(b, &count))
        return repeat(run, a, count);
    if (op == '*' && is_sequence(b) && jinja_as_index(a, &count))
        return repeat(run, b, count);
    if (op == '+' && is_sequence(a))
        return jinja_fail(run, JINJA_TYPE, "can only concatenate %s (not \"%s\") to %s", jinja_type_name(a), jinja_type_name(b),
                          jinja_type_name(a));
    return unsupported(run, op, a, b);
}

struct jinja_value jinja_sign(struct jinja_run *run, bool negate, struct jinja_value a) {
    if (run->failed)
        return JINJA_NOTHING;
    if (a.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a);
    if (!jinja_is_number(a))
        return jinja_fail(run, JINJA_TYPE, "bad operand type for unary %s: '%s'", negate ? "-" : "+", jinja_type_name(a));
    if (a.kind == JINJA_FLOAT)
        return jinja_float(negate ? -a.number : a.number);
    return negate ? jinja_integer_negate(run, a) : jinja_integer_add(run, a, jinja_int(0));
}

/* ---- comparison ---- */

static bool contains_substring(struct jinja_run *run, struct jinja_value item, const struct jinja_string *s) {
    if (item.kind != JINJA_STRING) {
        jinja_fail(run, JINJA_TYPE, "'in <string>' requires string as left operand, not %s", jinja_type_name(item));
        return false;
    }
    jinja_step(run, s->size_bytes / 64);
    return item.string->size_bytes == 0 || memmem(s->data, s->size_bytes, item.string->data, item.string->size_bytes) != NULL;
}

bool jinja_contains(struct jinja_run *run, struct jinja_value item, struct jinja_value container) {
    if (run->failed || container.kind == JINJA_UNDEFINED)
        return false;
    if (container.kind == JINJA_STRING)
        return contains_substring(run, item, container.string);
    bool keys = container.kind == JINJA_DICT || (container.kind == JINJA_VIEW && container.view->which == JINJA_KEYS);
    if (keys && !jinja_hashable(item)) {
        jinja_fail(run, JINJA_TYPE, "unhashable type: '%s'", jinja_type_name(item));
        return false;
    }
    if (keys)
        return jinja_dict_get(run, container.kind == JINJA_DICT ? container.dict : container.view->dict, item) != NULL;
    if (!jinja_iterable(container) || container.kind == JINJA_LOOP) {
        jinja_fail(run, JINJA_TYPE, "argument of type '%s' is not iterable", jinja_type_name(container));
        return false;
    }
    const struct jinja_list *list = jinja_items(run, container);
    for (size_t i = 0; list && i < list->count && jinja_step(run, 1); i++)
        if (jinja_equal(run, list->items[i], item))
            return true;
    return false;
}

bool jinja_compare(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b) {
    if (run->failed)
        return false;
    switch (op) {
    case '=':
        return jinja_equal(run, a, b);
    case '!':
        return !jinja_equal(run, a, b);
    case '<':
        return jinja_less(run, a, b, "<");
    case 'l':
        return jinja_less(run, a, b, "<=") || (!run->failed && jinja_equal(run, a, b));
    case '>':
        return jinja_less(run, b, a, ">");
    case 'g':
        return jinja_less(run, b, a, ">=") || (!run->failed && jinja_equal(run, a, b));
    case 'i':
        return jinja_contains(run, a, b);
    default:
        CHECK(op == 'n');
        return !jinja_contains(run, a, b);
    }
}
