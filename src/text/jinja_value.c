/* jinja_value: the run, lists, truth, length, iteration, equality and order of values. */
#include "text/jinja_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/jinja_integer.h"

struct jinja_limits jinja_limits_default(void) {
    return (struct jinja_limits){.steps = 100000000, .output_bytes = (size_t)64 << 20, .memory_bytes = (size_t)512 << 20, .depth = 600};
}

enum status jinja_run_create(const struct jinja_limits *limits, struct jinja_run **out, struct error *err) {
    CHECK(limits->depth > 0);
    *out = memory_alloc(sizeof **out);
    if (!*out)
        return error_set(err, STATUS_NO_MEMORY, "no memory to render a chat template");
    enum status status = arena_create(limits->memory_bytes, &(*out)->arena, err);
    if (status != STATUS_OK) {
        memory_free(*out);
        *out = NULL;
        return status;
    }
    (*out)->limits = *limits;
    return STATUS_OK;
}

void jinja_run_destroy(struct jinja_run *run) {
    if (!run)
        return;
    arena_destroy(run->arena);
    memory_free(run);
}

void jinja_set_clock(struct jinja_run *run, const struct tm *now) {
    run->clock = *now;
    run->has_clock = true;
}

struct jinja_value jinja_fail(struct jinja_run *run, enum jinja_failure failure, const char *format, ...) {
    if (run->failed)
        return JINJA_NOTHING;
    run->failed = true;
    run->error = (struct jinja_error){.failure = failure, .line = run->line, .column = run->column};
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(run->error.message, sizeof run->error.message, format, arguments);
    va_end(arguments);
    if (size >= (int)sizeof run->error.message) { /* do not end inside a character */
        size_t end = sizeof run->error.message - 1;
        while (end > 0 && ((unsigned char)run->error.message[end - 1] & 0xC0) == 0x80)
            end--;
        run->error.message[end > 0 ? end - 1 : 0] = 0;
    }
    return JINJA_NOTHING;
}

struct jinja_value jinja_fail_memory(struct jinja_run *run) {
    if (arena_was_refused(run->arena))
        return jinja_fail(run, JINJA_LIMIT, "no memory to render the template");
    return jinja_fail(run, JINJA_LIMIT, "the template needs more than %zu bytes of memory", run->limits.memory_bytes);
}

bool jinja_step(struct jinja_run *run, uint64_t count) {
    if (run->failed)
        return false;
    run->steps += count;
    if (run->steps > run->limits.steps)
        jinja_fail(run, JINJA_LIMIT, "the template needs more than %llu steps", (unsigned long long)run->limits.steps);
    return !run->failed;
}

bool jinja_enter(struct jinja_run *run) {
    if (++run->depth > run->limits.depth)
        jinja_fail(run, JINJA_LIMIT, "nested deeper than %u levels", run->limits.depth);
    return !run->failed;
}

void jinja_leave(struct jinja_run *run) {
    ASSERT(run->depth > 0);
    run->depth--;
}

void *jinja_alloc(struct jinja_run *run, size_t size_bytes) {
    void *block = run->failed ? NULL : arena_alloc(run->arena, size_bytes);
    if (!block)
        jinja_fail_memory(run);
    return block;
}

struct jinja_list *jinja_list_new(struct jinja_run *run, size_t capacity) {
    struct jinja_list *list = jinja_alloc(run, sizeof *list);
    if (list && capacity) {
        list->items = capacity > SIZE_MAX / 64 ? NULL : jinja_alloc(run, capacity * sizeof *list->items);
        list->capacity = list->items ? capacity : 0;
    }
    return run->failed ? NULL : list;
}

void jinja_list_append(struct jinja_run *run, struct jinja_list *list, struct jinja_value value) {
    if (!list || !jinja_step(run, 1))
        return;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 4, size = sizeof *list->items;
        void *items = arena_grow(run->arena, list->items, list->capacity * size, capacity * size);
        if (!items) {
            jinja_fail_memory(run);
            return;
        }
        list->items = items, list->capacity = capacity;
    }
    list->items[list->count++] = value;
}

struct jinja_value jinja_list_value(enum jinja_kind kind, struct jinja_list *list) {
    return list ? (struct jinja_value){.kind = kind, .list = list} : JINJA_NOTHING;
}

struct jinja_value jinja_pair(struct jinja_run *run, struct jinja_value a, struct jinja_value b) {
    struct jinja_list *pair = jinja_list_new(run, 2);
    jinja_list_append(run, pair, a);
    jinja_list_append(run, pair, b);
    return jinja_list_value(JINJA_TUPLE, pair);
}

struct jinja_value jinja_undefined(struct jinja_run *run, bool security, const char *format, ...) {
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    struct jinja_missing *missing = jinja_alloc(run, sizeof *missing);
    char *copy = jinja_alloc(run, strlen(message) + 1);
    if (!missing || !copy)
        return JINJA_NOTHING;
    memcpy(copy, message, strlen(message));
    *missing = (struct jinja_missing){.message = copy, .security = security};
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .missing = missing};
}

struct jinja_value jinja_native_value(struct jinja_run *run, const struct jinja_native_row *row, struct jinja_value self) {
    struct jinja_native *native = jinja_alloc(run, sizeof *native);
    if (!native)
        return JINJA_NOTHING;
    *native = (struct jinja_native){.row = row, .self = self};
    return (struct jinja_value){.kind = JINJA_NATIVE, .native = native};
}

bool jinja_as_index(struct jinja_value v, int64_t *out) {
    if (v.kind == JINJA_BOOL)
        *out = v.boolean;
    else if (v.kind == JINJA_INT)
        *out = v.integer;
    return v.kind == JINJA_BOOL || v.kind == JINJA_INT;
}

const char *jinja_type_name(struct jinja_value v) {
    static const char *const names[] = {
        [JINJA_ABSENT] = "missing",
        [JINJA_UNDEFINED] = "Undefined",
        [JINJA_NONE] = "NoneType",
        [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int",
        [JINJA_BIG] = "int",
        [JINJA_FLOAT] = "float",
        [JINJA_STRING] = "str",
        [JINJA_LIST] = "list",
        [JINJA_TUPLE] = "tuple",
        [JINJA_DICT] = "dict",
        [JINJA_RANGE] = "range",
        [JINJA_ITERATOR] = "generator",
        [JINJA_VIEW] = "dict_items",
        [JINJA_NAMESPACE] = "Namespace",
        [JINJA_MACRO] = "Macro",
        [JINJA_LOOP] = "LoopContext",
        [JINJA_NATIVE] = "builtin_function_or_method",
        [JINJA_BLOCK] = "BlockReference",
        [JINJA_SELF] = "TemplateReference",
        [JINJA_CYCLER] = "Cycler",
        [JINJA_JOINER] = "Joiner",
    };
    if (v.kind == JINJA_VIEW)
        return v.view->which == JINJA_KEYS ? "dict_keys" : v.view->which == JINJA_VALUES ? "dict_values" : "dict_items";
    return v.kind == JINJA_STRING && v.string->markup ? "Markup" : names[v.kind];
}

int64_t jinja_length(struct jinja_value v) {
    switch (v.kind) {
    case JINJA_UNDEFINED:
        return 0;
    case JINJA_STRING:
        return (int64_t)v.string->length;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return (int64_t)v.list->count;
    case JINJA_DICT:
        return (int64_t)v.dict->live;
    case JINJA_VIEW:
        return (int64_t)v.view->dict->live;
    case JINJA_RANGE:
        return v.range->count;
    default:
        return -1;
    }
}

bool jinja_truth(struct jinja_value v) {
    switch (v.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return v.boolean;
    case JINJA_INT:
        return v.integer != 0;
    case JINJA_FLOAT:
        return v.number != 0;
    default:
        return jinja_length(v) != 0;
    }
}

bool jinja_iterable(struct jinja_value v) {
    return v.kind == JINJA_UNDEFINED || v.kind == JINJA_ITERATOR || v.kind == JINJA_LOOP || jinja_length(v) >= 0;
}

static void add_characters(struct jinja_run *run, struct jinja_list *list, const struct jinja_string *s) {
    s = jinja_as_markup(run, s, false); /* Python iterates Markup as plain text */
    for (size_t at = 0, next; s && at < s->size_bytes && !run->failed; at = next) {
        next = at;
        (void)jinja_next_code_point(s->data, s->size_bytes, &next);
        jinja_list_append(run, list, jinja_string_value(jinja_subbytes(run, s, at, next)));
    }
}

static void add_entries(struct jinja_run *run, struct jinja_list *list, const struct jinja_dict *dict, unsigned which) {
    for (size_t i = 0; i < dict->used && !run->failed; i++) {
        const struct jinja_entry *e = &dict->entries[i];
        if (!e->removed)
            jinja_list_append(run, list,
                              which == JINJA_KEYS     ? e->key
                              : which == JINJA_VALUES ? e->value
                                                      : jinja_pair(run, e->key, e->value));
    }
}

struct jinja_list *jinja_items(struct jinja_run *run, struct jinja_value v) {
    if (v.kind == JINJA_LIST || v.kind == JINJA_TUPLE)
        return v.list;
    if (!jinja_iterable(v) || v.kind == JINJA_LOOP) {
        jinja_fail(run, JINJA_TYPE, "'%s' object is not iterable", jinja_type_name(v));
        return NULL;
    }
    int64_t length = jinja_length(v);
    struct jinja_list *list = jinja_list_new(run, length > 0 ? (size_t)length : 0);
    if (!list)
        return NULL;
    if (v.kind == JINJA_STRING)
        add_characters(run, list, v.string);
    else if (v.kind == JINJA_DICT)
        add_entries(run, list, v.dict, JINJA_KEYS);
    else if (v.kind == JINJA_VIEW)
        add_entries(run, list, v.view->dict, v.view->which);
    for (int64_t i = 0; v.kind == JINJA_RANGE && i < v.range->count && !run->failed; i++)
        jinja_list_append(run, list, jinja_int(v.range->start + i * v.range->step));
    if (v.kind == JINJA_ITERATOR) {
        for (size_t i = v.list->position; i < v.list->count; i++)
            jinja_list_append(run, list, v.list->items[i]);
        v.list->position = v.list->count;
    }
    return run->failed ? NULL : list;
}

/* Numbers of any kind: -1, 0, 1, or 2 when one is NaN. */
static int compare_numbers(struct jinja_value a, struct jinja_value b) {
    if (a.kind != JINJA_FLOAT && b.kind != JINJA_FLOAT)
        return jinja_integer_compare(a, b);
    double x = a.kind == JINJA_FLOAT ? a.number : jinja_integer_double(a), y = b.kind == JINJA_FLOAT ? b.number : jinja_integer_double(b);
    if (isnan(x) || isnan(y))
        return 2;
    if (x != y || fabs(x) < 9007199254740992.0)
        return x < y ? -1 : x > y;
    const double limit = 9.2e18; /* beyond 2^53 an integer may lie between doubles: compare exactly while it fits */
    if (a.kind == JINJA_INT && b.kind == JINJA_FLOAT && fabs(y) < limit)
        return a.integer < (int64_t)y ? -1 : a.integer > (int64_t)y;
    if (a.kind == JINJA_FLOAT && b.kind == JINJA_INT && fabs(x) < limit)
        return (int64_t)x < b.integer ? -1 : (int64_t)x > b.integer;
    return 0;
}

static bool equal_lists(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b) {
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count && jinja_step(run, 1); i++)
        same = jinja_equal(run, a->items[i], b->items[i]);
    return same;
}

static bool equal_dicts(struct jinja_run *run, const struct jinja_dict *a, const struct jinja_dict *b) {
    bool same = a->live == b->live;
    for (size_t i = 0; same && i < a->used && jinja_step(run, 1); i++) {
        const struct jinja_value *other = a->entries[i].removed ? NULL : jinja_dict_get(run, b, a->entries[i].key);
        same = a->entries[i].removed || (other && jinja_equal(run, a->entries[i].value, *other));
    }
    return same;
}

bool jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b) {
    if (jinja_is_number(a) && jinja_is_number(b))
        return compare_numbers(a, b) == 0;
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    case JINJA_STRING:
        return text_equal(jinja_string_text(a.string), jinja_string_text(b.string));
    case JINJA_RANGE:
        return a.range->count == b.range->count &&
               (a.range->count == 0 || (a.range->start == b.range->start && (a.range->count == 1 || a.range->step == b.range->step)));
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT: {
        bool same = jinja_enter(run) && (a.kind == JINJA_DICT ? equal_dicts(run, a.dict, b.dict) : equal_lists(run, a.list, b.list));
        jinja_leave(run);
        return same;
    }
    case JINJA_VIEW: {
        if (a.view->which == JINJA_VALUES || a.view->which != b.view->which)
            return a.view == b.view;
        bool same = a.view->dict->live == b.view->dict->live;
        for (size_t i = 0; same && i < a.view->dict->used && jinja_step(run, 1); i++) {
            const struct jinja_entry *e = &a.view->dict->entries[i];
            const struct jinja_value *other = e->removed ? NULL : jinja_dict_get(run, b.view->dict, e->key);
            same = e->removed || (other && (a.view->which == JINJA_KEYS || jinja_equal(run, e->value, *other)));
        }
        return same;
    }
    default:
        return a.dict == b.dict; /* identity: all pointers share the union's place */
    }
}

bool jinja_less(struct jinja_run *run, struct jinja_value a, struct jinja_value b, const char *operator_name) {
    if (run->failed)
        return false;
    if (jinja_is_number(a) && jinja_is_number(b))
        return compare_numbers(a, b) == -1;
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING)
        return text_compare(jinja_string_text(a.string), jinja_string_text(b.string)) < 0; /* UTF-8 order is code point order */
    if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE)) {
        size_t i = 0, common = a.list->count < b.list->count ? a.list->count : b.list->count;
        bool less = false;
        if (jinja_enter(run)) {
            while (i < common && jinja_step(run, 1) && jinja_equal(run, a.list->items[i], b.list->items[i]))
                i++;
            less = i < common ? jinja_less(run, a.list->items[i], b.list->items[i], operator_name) : a.list->count < b.list->count;
        }
        jinja_leave(run);
        return less;
    }
    struct jinja_value missing = a.kind == JINJA_UNDEFINED ? a : b;
    if (missing.kind == JINJA_UNDEFINED)
        jinja_fail(run, missing.missing && missing.missing->security ? JINJA_SECURITY : JINJA_UNDEFINED_USE, "%s",
                   missing.missing ? missing.missing->message : "an undefined value");
    else
        jinja_fail(run, JINJA_TYPE, "'%s' not supported between instances of '%s' and '%s'", operator_name, jinja_type_name(a),
                   jinja_type_name(b));
    return false;
}

struct jinja_value *jinja_frame_find(struct jinja_frame *frame, struct text name) {
    for (; frame; frame = frame->parent)
        for (uint32_t i = 0; i < frame->count; i++)
            if (text_equal(frame->variables[i].name, name))
                return &frame->variables[i].value;
    return NULL;
}

void jinja_frame_set(struct jinja_run *run, struct jinja_frame *frame, struct text name, struct jinja_value value) {
    for (uint32_t i = 0; i < frame->count; i++) {
        if (text_equal(frame->variables[i].name, name)) {
            frame->variables[i].value = value;
            return;
        }
    }
    if (frame->count == frame->capacity) {
        uint32_t capacity = frame->capacity ? frame->capacity * 2 : 4;
        size_t size = sizeof *frame->variables;
        void *variables = run->failed ? NULL : arena_grow(run->arena, frame->variables, frame->capacity * size, capacity * size);
        if (!variables) {
            jinja_fail_memory(run);
            return;
        }
        frame->variables = variables, frame->capacity = capacity;
    }
    frame->variables[frame->count++] = (struct jinja_variable){.name = name, .value = value};
}
