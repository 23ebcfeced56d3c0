/* jinja_globals: the functions every template has: range, dict, namespace, cycler, joiner, raise_exception, strftime_now. */
#include <string.h>

#include "base/check.h"
#include "text/jinja_eval.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

#define RANGE_MAX 100000

JINJA_FUNCTION(global_range) {
    int64_t numbers[3] = {0, 0, 1};
    if (raw->count < 1 || raw->count > 3 || raw->named_count)
        return jinja_fail(run, JINJA_TYPE, "range expected 1 to 3 arguments, got %zu", raw->count);
    for (size_t i = 0; i < raw->count; i++) {
        if (raw->values[i].kind == JINJA_UNDEFINED)
            return jinja_fail_undefined(run, raw->values[i]);
        if (!jinja_as_index(raw->values[i], &numbers[raw->count == 1 ? 1 : i]))
            return jinja_fail(run, JINJA_TYPE, "'%s' object cannot be interpreted as an integer", jinja_type_name(raw->values[i]));
    }
    if (numbers[2] == 0)
        return jinja_fail(run, JINJA_TYPE, "range() arg 3 must not be zero");
    int64_t distance, stride = numbers[2];
    bool far = numbers[2] > 0 ? __builtin_sub_overflow(numbers[1], numbers[0], &distance)
                              : __builtin_sub_overflow(numbers[0], numbers[1], &distance);
    if (stride < 0)
        stride = stride < -INT64_MAX ? INT64_MAX : -stride;
    int64_t count = far ? INT64_MAX : distance > 0 ? (distance - 1) / stride + 1 : 0;
    bool reversed = far && (numbers[2] > 0) == (numbers[0] > numbers[1]);
    if (reversed)
        count = 0;
    if (count > RANGE_MAX)
        return jinja_fail(run, JINJA_TYPE, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", RANGE_MAX);
    struct jinja_range *range = jinja_alloc(run, sizeof *range);
    if (!range)
        return JINJA_NOTHING;
    *range = (struct jinja_range){.start = numbers[0], .stop = numbers[1], .step = numbers[2], .count = count};
    return (struct jinja_value){.kind = JINJA_RANGE, .range = range};
}

/* dict(mapping or pairs, **named) */
static struct jinja_dict *dict_from(struct jinja_run *run, const struct jinja_arguments *raw) {
    struct jinja_dict *dict = jinja_dict_new(run);
    if (raw->count > 1)
        jinja_fail(run, JINJA_TYPE, "dict expected at most 1 argument, got %zu", raw->count);
    if (raw->count == 1 && raw->values[0].kind == JINJA_DICT) {
        const struct jinja_dict *from = raw->values[0].dict;
        for (size_t i = 0; i < from->used && !run->failed; i++)
            if (!from->entries[i].removed)
                jinja_dict_set(run, dict, from->entries[i].key, from->entries[i].value);
    } else if (raw->count == 1) {
        const struct jinja_list *pairs = jinja_items(run, raw->values[0]);
        for (size_t i = 0; pairs && i < pairs->count && !run->failed; i++) {
            const struct jinja_list *pair = jinja_items(run, pairs->items[i]);
            if (pair && pair->count != 2)
                jinja_fail(run, JINJA_TYPE, "dictionary update sequence element #%zu has length %zu; 2 is required", i, pair->count);
            else if (pair)
                jinja_dict_set(run, dict, pair->items[0], pair->items[1]);
        }
    }
    for (size_t i = 0; i < raw->named_count && !run->failed; i++)
        jinja_dict_set(run, dict, jinja_string_value(raw->names[i]), raw->named[i]);
    return run->failed ? NULL : dict;
}

JINJA_FUNCTION(global_dict) { return jinja_dict_value(dict_from(run, raw)); }

JINJA_FUNCTION(global_namespace) {
    struct jinja_dict *dict = dict_from(run, raw);
    for (size_t i = 0; dict && i < dict->used; i++)
        if (dict->entries[i].key.kind == JINJA_STRING && text_starts_with(jinja_string_text(dict->entries[i].key.string), TEXT("_")))
            return jinja_fail(run, JINJA_SECURITY, "attributes of a namespace cannot begin with an underscore");
    return dict ? (struct jinja_value){.kind = JINJA_NAMESPACE, .dict = dict} : JINJA_NOTHING;
}

JINJA_FUNCTION(global_cycler) {
    struct jinja_cycler *cycler = jinja_alloc(run, sizeof *cycler);
    struct jinja_list *items = jinja_list_new(run, raw->count);
    for (size_t i = 0; i < raw->count; i++)
        jinja_list_append(run, items, raw->values[i]);
    if (raw->count == 0)
        return jinja_fail(run, JINJA_TYPE, "at least one item has to be provided");
    if (!cycler || !items)
        return JINJA_NOTHING;
    cycler->items = items;
    return (struct jinja_value){.kind = JINJA_CYCLER, .cycler = cycler};
}

JINJA_FUNCTION(global_joiner) {
    struct jinja_cycler *joiner = jinja_alloc(run, sizeof *joiner);
    if (!joiner)
        return JINJA_NOTHING;
    joiner->separator = a[1].kind == JINJA_ABSENT ? jinja_text(run, ", ", JINJA_TRUSTED) : a[1];
    return (struct jinja_value){.kind = JINJA_JOINER, .cycler = joiner};
}

JINJA_FUNCTION(global_raise_exception) {
    const struct jinja_string *message = jinja_str(run, a[1]);
    return message ? jinja_fail(run, JINJA_RAISED, "%.*s", (int)(message->size_bytes > 4000 ? 4000 : message->size_bytes), message->data)
                   : JINJA_NOTHING;
}

JINJA_FUNCTION(global_strftime_now) {
    const struct jinja_string *format = jinja_need_string(run, a[1], "strftime");
    if (!format)
        return JINJA_NOTHING;
    if (memchr(format->data, 0, format->size_bytes))
        return jinja_fail(run, JINJA_TYPE, "strftime_now: embedded null character");
    struct tm now = run->clock;
    if (!run->has_clock) {
        time_t seconds = time(NULL);
        if (!localtime_r(&seconds, &now))
            return jinja_fail(run, JINJA_TYPE, "the local time is unknown");
    }
    struct jinja_builder plain = jinja_builder_start(run); /* what Python's datetime replaces itself: no zone, no fraction */
    for (size_t i = 0; i < format->size_bytes; i++) {
        char c = format->data[i], next = i + 1 < format->size_bytes ? format->data[i + 1] : 0;
        bool own = c == '%' && (next == 'f' || next == 'z' || next == 'Z');
        jinja_put(&plain, own ? "000000" : format->data + i,
                  own                ? (next == 'f' ? 6 : 0)
                  : c == '%' && next ? 2
                                     : 1,
                  jinja_trust_at(format, i));
        i += c == '%' && next;
    }
    jinja_put_text(&plain, "."); /* so that an empty result differs from a buffer that is too small */
    const struct jinja_string *pattern = jinja_builder_take(&plain);
    char text[1024];
    size_t size = pattern ? strftime(text, sizeof text, pattern->data, &now) : 0;
    if (size == 0)
        return jinja_fail(run, JINJA_TYPE, "strftime_now: the time is longer than %zu bytes", sizeof text);
    return jinja_string_value(jinja_string_new(run, text, size - 1, format->trust == JINJA_TRUSTED ? JINJA_TRUSTED : JINJA_DATA));
}

JINJA_FUNCTION(global_lipsum) { return jinja_fail(run, JINJA_TYPE, "lipsum() is not supported"); }

struct jinja_value jinja_global(struct jinja_run *run, struct text name) {
    static const struct jinja_native_row rows[] = {
        {"range", NULL, 0, global_range},
        {"dict", NULL, 0, global_dict},
        {"namespace", NULL, 0, global_namespace},
        {"raise_exception", "message", 1, global_raise_exception},
        {"strftime_now", "format", 1, global_strftime_now},
        {"cycler", NULL, 0, global_cycler},
        {"joiner", "sep", 0, global_joiner},
        {"lipsum", NULL, 0, global_lipsum},
    };
    if (text_is(name, "self"))
        return (struct jinja_value){.kind = JINJA_SELF};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (text_is(name, rows[i].name))
            return jinja_native_value(run, &rows[i], JINJA_NOTHING);
    return (struct jinja_value){.kind = JINJA_ABSENT};
}
