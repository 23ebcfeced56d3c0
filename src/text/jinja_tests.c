/* jinja_tests: what follows "is". */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "text/jinja_eval.h"
#include "text/jinja_integer.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

/* A test that looks at the kind alone. */
#define KIND_TEST(name, condition) \
    JINJA_FUNCTION(name) { return jinja_bool(condition); }
/* A comparison. */
#define COMPARE_TEST(name, op) \
    JINJA_FUNCTION(name) { return jinja_bool(jinja_compare(run, op, a[0], a[1])); }

KIND_TEST(test_defined, a[0].kind != JINJA_UNDEFINED)
KIND_TEST(test_undefined, a[0].kind == JINJA_UNDEFINED)
KIND_TEST(test_none, a[0].kind == JINJA_NONE)
KIND_TEST(test_boolean, a[0].kind == JINJA_BOOL)
KIND_TEST(test_true, a[0].kind == JINJA_BOOL && a[0].boolean)
KIND_TEST(test_false, a[0].kind == JINJA_BOOL && !a[0].boolean)
KIND_TEST(test_integer, a[0].kind == JINJA_INT || a[0].kind == JINJA_BIG)
KIND_TEST(test_float, a[0].kind == JINJA_FLOAT)
KIND_TEST(test_string, a[0].kind == JINJA_STRING)
KIND_TEST(test_mapping, a[0].kind == JINJA_DICT)
KIND_TEST(test_number, jinja_is_number(a[0]))
KIND_TEST(test_iterable, jinja_iterable(a[0]))
KIND_TEST(test_callable, a[0].kind == JINJA_MACRO || a[0].kind == JINJA_NATIVE || a[0].kind == JINJA_LOOP || a[0].kind == JINJA_BLOCK ||
                             a[0].kind == JINJA_JOINER || a[0].kind == JINJA_UNDEFINED)
KIND_TEST(test_sequence, a[0].kind == JINJA_STRING || a[0].kind == JINJA_LIST || a[0].kind == JINJA_TUPLE || a[0].kind == JINJA_DICT ||
                             a[0].kind == JINJA_RANGE || a[0].kind == JINJA_UNDEFINED)
KIND_TEST(test_escaped, a[0].kind == JINJA_STRING && a[0].string->markup)

COMPARE_TEST(test_equal, '=')
COMPARE_TEST(test_not_equal, '!')
COMPARE_TEST(test_less, '<')
COMPARE_TEST(test_less_equal, 'l')
COMPARE_TEST(test_greater, '>')
COMPARE_TEST(test_greater_equal, 'g')
COMPARE_TEST(test_in, 'i')

/* Whether v names something in a table; what cannot be a key fails. */
static struct jinja_value names(struct jinja_run *run, struct jinja_value v, bool (*is_name)(struct text)) {
    if (!jinja_hashable(v))
        return jinja_fail(run, JINJA_TYPE, "unhashable type: '%s'", jinja_type_name(v));
    return jinja_bool(v.kind == JINJA_STRING && is_name(jinja_string_text(v.string)));
}

JINJA_FUNCTION(test_filter) { return names(run, a[0], jinja_is_filter_name); }
JINJA_FUNCTION(test_test) { return names(run, a[0], jinja_is_test_name); }

/* value % divisor == rest, with the operator's own failures. */
static struct jinja_value remainder_is(struct jinja_run *run, struct jinja_value value, struct jinja_value divisor, int64_t rest) {
    struct jinja_value remainder = jinja_binary(run, '%', value, divisor);
    return jinja_bool(!run->failed && jinja_equal(run, remainder, jinja_int(rest)));
}

JINJA_FUNCTION(test_odd) { return remainder_is(run, a[0], jinja_int(2), 1); }
JINJA_FUNCTION(test_even) { return remainder_is(run, a[0], jinja_int(2), 0); }
JINJA_FUNCTION(test_divisibleby) { return remainder_is(run, a[0], a[1], 0); }

static struct jinja_value string_test(struct jinja_run *run, struct jinja_value v, const char *method) {
    const struct jinja_string *s = jinja_str(run, v);
    const struct jinja_native_row *row = jinja_string_method(text_of(method));
    CHECK(row != NULL);
    return s ? jinja_call_native(run, row, jinja_string_value(s), &(struct jinja_arguments){0}) : JINJA_NOTHING;
}

JINJA_FUNCTION(test_lower) { return string_test(run, a[0], "islower"); }
JINJA_FUNCTION(test_upper) { return string_test(run, a[0], "isupper"); }

/* Identity: none, booleans and small integers are one object each in Python; containers are the same when they share storage. */
JINJA_FUNCTION(test_sameas) {
    if (a[0].kind != a[1].kind)
        return jinja_bool(false);
    switch (a[0].kind) {
    case JINJA_LIST:
    case JINJA_TUPLE:
        return jinja_bool(a[0].list == a[1].list);
    case JINJA_DICT:
        return jinja_bool(a[0].dict == a[1].dict);
    case JINJA_FLOAT:
        return jinja_bool(false);
    default:
        return jinja_bool(jinja_equal(run, a[0], a[1]));
    }
}

static const struct jinja_native_row rows[] = {
    {"odd", "", 0, test_odd},
    {"even", "", 0, test_even},
    {"divisibleby", "num", 1, test_divisibleby},
    {"defined", "", 0, test_defined},
    {"undefined", "", 0, test_undefined},
    {"filter", "", 0, test_filter},
    {"test", "", 0, test_test},
    {"none", "", 0, test_none},
    {"boolean", "", 0, test_boolean},
    {"false", "", 0, test_false},
    {"true", "", 0, test_true},
    {"integer", "", 0, test_integer},
    {"float", "", 0, test_float},
    {"lower", "", 0, test_lower},
    {"upper", "", 0, test_upper},
    {"string", "", 0, test_string},
    {"mapping", "", 0, test_mapping},
    {"number", "", 0, test_number},
    {"sequence", "", 0, test_sequence},
    {"iterable", "", 0, test_iterable},
    {"callable", "", 0, test_callable},
    {"sameas", "other", 1, test_sameas},
    {"escaped", "", 0, test_escaped},
    {"in", "seq", 1, test_in},
    {"==", "other", 1, test_equal},
    {"eq", "other", 1, test_equal},
    {"equalto", "other", 1, test_equal},
    {"!=", "other", 1, test_not_equal},
    {"ne", "other", 1, test_not_equal},
    {">", "other", 1, test_greater},
    {"gt", "other", 1, test_greater},
    {"greaterthan", "other", 1, test_greater},
    {"ge", "other", 1, test_greater_equal},
    {">=", "other", 1, test_greater_equal},
    {"<", "other", 1, test_less},
    {"lt", "other", 1, test_less},
    {"lessthan", "other", 1, test_less},
    {"<=", "other", 1, test_less_equal},
    {"le", "other", 1, test_less_equal},
};

const struct jinja_native_row *jinja_find_test(struct text name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (text_is(name, rows[i].name))
            return &rows[i];
    return NULL;
}

bool jinja_is_test_name(struct text name) { return jinja_find_test(name) != NULL; }
