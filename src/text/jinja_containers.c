/*
 * jinja_containers: attributes and methods of list, tuple, dict, range, loop, macro, namespace, cycler and group tuples, and what the
 * sandbox refuses: names of Python's internals, and changes of lists and dicts unless the run allows them.
 */
#include <string.h>

#include "base/check.h"
#include "text/jinja_eval.h"
#include "text/jinja_text.h"

/* ---- list and tuple ---- */

JINJA_FUNCTION(list_index) {
    for (size_t i = 0; i < a[0].list->count && jinja_step(run, 1); i++)
        if (jinja_equal(run, a[0].list->items[i], a[1]))
            return jinja_size(i);
    return jinja_fail(run, JINJA_TYPE, "the value is not in the %s", jinja_type_name(a[0]));
}

JINJA_FUNCTION(list_count) {
    int64_t count = 0;
    for (size_t i = 0; i < a[0].list->count && jinja_step(run, 1); i++)
        count += jinja_equal(run, a[0].list->items[i], a[1]);
    return jinja_int(count);
}

JINJA_FUNCTION(list_copy) {
    struct jinja_list *copy = jinja_list_new(run, a[0].list->count);
    for (size_t i = 0; copy && i < a[0].list->count; i++)
        jinja_list_append(run, copy, a[0].list->items[i]);
    return jinja_list_value(JINJA_LIST, copy);
}

JINJA_FUNCTION(list_append) {
    jinja_list_append(run, a[0].list, a[1]);
    return JINJA_NOTHING;
}

JINJA_FUNCTION(list_extend) {
    const struct jinja_list *items = jinja_items(run, a[1]);
    size_t count = items ? items->count : 0;
    for (size_t i = 0; i < count && !run->failed; i++)
        jinja_list_append(run, a[0].list, items->items[i]);
    return JINJA_NOTHING;
}

JINJA_FUNCTION(list_insert) {
    struct jinja_list *list = a[0].list;
    int64_t at, count = (int64_t)list->count;
    if (!jinja_need_index(run, a[1], 0, &at))
        return JINJA_NOTHING;
    at = at < 0 ? (at + count < 0 ? 0 : at + count) : at > count ? count : at;
    jinja_list_append(run, list, a[2]);
    if (!run->failed) {
        memmove(list->items + at + 1, list->items + at, (size_t)(count - at) * sizeof *list->items);
        list->items[at] = a[2];
    }
    return JINJA_NOTHING;
}

static struct jinja_value take(struct jinja_list *list, size_t at) {
    ASSERT(at < list->count);
    struct jinja_value value = list->items[at];
    list->count--;
    memmove(list->items + at, list->items + at + 1, (list->count - at) * sizeof *list->items);
    return value;
}

JINJA_FUNCTION(list_pop) {
    int64_t at, count = (int64_t)a[0].list->count;
    if (!jinja_need_index(run, a[1], -1, &at))
        return JINJA_NOTHING;
    at += at < 0 ? count : 0;
    return at >= 0 && at < count ? take(a[0].list, (size_t)at) : jinja_fail(run, JINJA_TYPE, "pop index out of range");
}

JINJA_FUNCTION(list_remove) {
    struct jinja_value at = list_index(run, a, raw);
    if (!run->failed)
        (void)take(a[0].list, (size_t)at.integer);
    return JINJA_NOTHING;
}

JINJA_FUNCTION(list_reverse) {
    for (size_t i = 0; i < a[0].list->count / 2; i++) {
        struct jinja_value *low = &a[0].list->items[i], *high = &a[0].list->items[a[0].list->count - 1 - i], swap = *low;
        *low = *high, *high = swap;
    }
    return JINJA_NOTHING;
}

JINJA_FUNCTION(list_clear) {
    a[0].list->count = 0;
    return JINJA_NOTHING;
}

static const struct jinja_native_row list_reading[] = {
    {"count", "value", 1, list_count}, {"index", "value", 1, list_index}, {"copy", "", 0, list_copy}};
static const struct jinja_native_row list_changing[] = {{"append", "object", 1, list_append},
                                                        {"extend", "iterable", 1, list_extend},
                                                        {"insert", "index,object", 2, list_insert},
                                                        {"pop", "index", 0, list_pop},
                                                        {"remove", "value", 1, list_remove},
                                                        {"reverse", "", 0, list_reverse},
                                                        {"clear", "", 0, list_clear},
                                                        {"sort", "", 0, NULL}};

/* ---- dict ---- */

JINJA_FUNCTION(dict_get) {
    if (!jinja_hashable(a[1]))
        return jinja_fail(run, JINJA_TYPE, "unhashable type: '%s'", jinja_type_name(a[1]));
    const struct jinja_value *found = jinja_dict_get(run, a[0].dict, a[1]);
    return found ? *found : a[2].kind == JINJA_ABSENT ? JINJA_NOTHING : a[2];
}

static struct jinja_value view(struct jinja_run *run, struct jinja_dict *dict, unsigned which) {
    struct jinja_view *v = jinja_alloc(run, sizeof *v);
    if (!v)
        return JINJA_NOTHING;
    *v = (struct jinja_view){.dict = dict, .which = which};
    return (struct jinja_value){.kind = JINJA_VIEW, .view = v};
}

JINJA_FUNCTION(dict_keys) { return view(run, a[0].dict, JINJA_KEYS); }
JINJA_FUNCTION(dict_values) { return view(run, a[0].dict, JINJA_VALUES); }
JINJA_FUNCTION(dict_items) { return view(run, a[0].dict, JINJA_ITEMS); }

static void add_all(struct jinja_run *run, struct jinja_dict *to, const struct jinja_dict *from) {
    for (size_t i = 0, used = from->used; i < used && !run->failed; i++)
        if (!from->entries[i].removed)
            jinja_dict_set(run, to, from->entries[i].key, from->entries[i].value);
}

JINJA_FUNCTION(dict_copy) {
    struct jinja_dict *copy = jinja_dict_new(run);
    add_all(run, copy, a[0].dict);
    return jinja_dict_value(copy);
}

JINJA_FUNCTION(dict_update) {
    if (raw->count > 1 || (raw->count == 1 && raw->values[0].kind != JINJA_DICT))
        return jinja_fail(run, JINJA_TYPE, "update() takes one mapping");
    if (raw->count == 1)
        add_all(run, a[0].dict, raw->values[0].dict);
    for (size_t i = 0; i < raw->named_count && !run->failed; i++)
        jinja_dict_set(run, a[0].dict, jinja_string_value(raw->names[i]), raw->named[i]);
    return JINJA_NOTHING;
}

JINJA_FUNCTION(dict_setdefault) {
    const struct jinja_value *found = jinja_dict_get(run, a[0].dict, a[1]);
    if (found)
        return *found;
    jinja_dict_set(run, a[0].dict, a[1], a[2].kind == JINJA_ABSENT ? JINJA_NOTHING : a[2]);
    return a[2].kind == JINJA_ABSENT ? JINJA_NOTHING : a[2];
}

JINJA_FUNCTION(dict_pop) {
    const struct jinja_value *found = jinja_dict_get(run, a[0].dict, a[1]);
    if (!found)
        return a[2].kind == JINJA_ABSENT ? jinja_fail(run, JINJA_TYPE, "the key to pop is not in the dict") : a[2];
    struct jinja_value value = *found;
    (void)jinja_dict_remove(run, a[0].dict, a[1]);
    return value;
}

JINJA_FUNCTION(dict_clear) {
    *a[0].dict = (struct jinja_dict){0};
    return JINJA_NOTHING;
}

static const struct jinja_native_row dict_reading[] = {{"get", "key,default", 1, dict_get}, {"items", "", 0, dict_items},
                                                       {"keys", "", 0, dict_keys},          {"values", "", 0, dict_values},
                                                       {"copy", "", 0, dict_copy},          {"fromkeys", "iterable,value", 1, NULL}};
static const struct jinja_native_row dict_changing[] = {{"update", NULL, 0, dict_update},
                                                        {"setdefault", "key,default", 1, dict_setdefault},
                                                        {"pop", "key,default", 1, dict_pop},
                                                        {"popitem", "", 0, NULL},
                                                        {"clear", "", 0, dict_clear}};

/* ---- loop ---- */

JINJA_FUNCTION(loop_cycle) {
    if (raw->count == 0)
        return jinja_fail(run, JINJA_TYPE, "no items for cycling given");
    return raw->values[a[0].loop->index0 % raw->count];
}

JINJA_FUNCTION(loop_changed) {
    struct jinja_loop *loop = a[0].loop;
    struct jinja_list *now = jinja_list_new(run, raw->count);
    for (size_t i = 0; i < raw->count; i++)
        jinja_list_append(run, now, raw->values[i]);
    bool changed =
        !loop->changed || !now || !jinja_equal(run, jinja_list_value(JINJA_TUPLE, loop->changed), jinja_list_value(JINJA_TUPLE, now));
    loop->changed = now;
    return jinja_bool(changed);
}

static struct jinja_value loop_attribute(struct jinja_run *run, struct jinja_loop *loop, struct text name) {
    static const struct jinja_native_row cycle = {"cycle", NULL, 0, loop_cycle}, changed = {"changed", NULL, 0, loop_changed};
    struct jinja_value self = {.kind = JINJA_LOOP, .loop = loop};
    size_t at = loop->index0;
    if (text_is(name, "index"))
        return jinja_size(at + 1);
    if (text_is(name, "index0"))
        return jinja_size(at);
    if (text_is(name, "revindex"))
        return jinja_size(loop->count - at);
    if (text_is(name, "revindex0"))
        return jinja_size(loop->count - at - 1);
    if (text_is(name, "first"))
        return jinja_bool(at == 0);
    if (text_is(name, "last"))
        return jinja_bool(at + 1 == loop->count);
    if (text_is(name, "length"))
        return jinja_size(loop->count);
    if (text_is(name, "depth"))
        return jinja_size(loop->depth0 + 1);
    if (text_is(name, "depth0"))
        return jinja_size(loop->depth0);
    if (text_is(name, "previtem"))
        return at == 0 ? jinja_undefined(run, false, "there is no previous item") : jinja_loop_item(loop, at - 1);
    if (text_is(name, "nextitem"))
        return at + 1 >= loop->count ? jinja_undefined(run, false, "there is no next item") : jinja_loop_item(loop, at + 1);
    if (text_is(name, "cycle"))
        return jinja_native_value(run, &cycle, self);
    if (text_is(name, "changed"))
        return jinja_native_value(run, &changed, self);
    return (struct jinja_value){.kind = JINJA_ABSENT};
}

/* ---- the rest ---- */

JINJA_FUNCTION(cycler_next) {
    struct jinja_cycler *c = a[0].cycler;
    struct jinja_value item = c->items->items[c->position];
    c->position = (c->position + 1) % c->items->count;
    return item;
}

JINJA_FUNCTION(cycler_reset) {
    a[0].cycler->position = 0;
    return JINJA_NOTHING;
}

static struct jinja_value cycler_attribute(struct jinja_run *run, struct jinja_value object, struct text name) {
    static const struct jinja_native_row next = {"next", "", 0, cycler_next}, reset = {"reset", "", 0, cycler_reset};
    if (text_is(name, "current"))
        return object.cycler->items->items[object.cycler->position];
    if (text_is(name, "next"))
        return jinja_native_value(run, &next, object);
    return text_is(name, "reset") ? jinja_native_value(run, &reset, object) : (struct jinja_value){.kind = JINJA_ABSENT};
}

static struct jinja_value macro_attribute(struct jinja_run *run, const struct jinja_macro *macro, struct text name) {
    const struct jinja_node *node = macro->node;
    if (text_is(name, "name"))
        return node->kind == NODE_MACRO ? jinja_string_value(jinja_string_new(run, node->name.data, node->name.size_bytes, JINJA_TRUSTED))
                                        : JINJA_NOTHING;
    if (text_is(name, "arguments")) {
        struct jinja_list *names = jinja_list_new(run, node->items.count);
        for (uint32_t i = 0; i < node->items.count; i++) {
            struct text parameter = node->items.items[i]->name;
            jinja_list_append(run, names, jinja_string_value(jinja_string_new(run, parameter.data, parameter.size_bytes, JINJA_TRUSTED)));
        }
        return jinja_list_value(JINJA_TUPLE, names);
    }
    if (text_is(name, "caller"))
        return jinja_bool(node->flag & JINJA_USES_CALLER);
    if (text_is(name, "catch_kwargs"))
        return jinja_bool(node->flag & JINJA_USES_KWARGS);
    if (text_is(name, "catch_varargs"))
        return jinja_bool(node->flag & JINJA_USES_VARARGS);
    return (struct jinja_value){.kind = JINJA_ABSENT};
}

static struct jinja_value range_attribute(const struct jinja_range *range, struct text name) {
    if (text_is(name, "start"))
        return jinja_int(range->start);
    if (text_is(name, "stop"))
        return jinja_int(range->stop);
    return text_is(name, "step") ? jinja_int(range->step) : (struct jinja_value){.kind = JINJA_ABSENT};
}

static struct jinja_value self_attribute(struct jinja_run *run, struct text name) {
    const struct jinja_nodes *blocks = &run->template->blocks;
    for (uint32_t i = 0; i < blocks->count; i++)
        if (text_equal(blocks->items[i]->name, name))
            return (struct jinja_value){.kind = JINJA_BLOCK, .block = blocks->items[i]};
    return (struct jinja_value){.kind = JINJA_ABSENT};
}

static const struct jinja_native_row *find_row(const struct jinja_native_row *rows, size_t count, struct text name) {
    for (size_t i = 0; i < count; i++)
        if (text_is(name, rows[i].name))
            return &rows[i];
    return NULL;
}
#define FIND(rows, name) find_row(rows, sizeof(rows) / sizeof *(rows), name)

static struct jinja_value unsafe(struct jinja_run *run, struct jinja_value object, struct text name) {
    return jinja_undefined(run, true, "access to attribute '%.*s' of '%s' object is unsafe.",
                           (int)(name.size_bytes > 200 ? 200 : name.size_bytes), name.data, jinja_type_name(object));
}

static struct jinja_value container_attribute(struct jinja_run *run, struct jinja_value object, struct text name) {
    const struct jinja_native_row *row = object.kind == JINJA_DICT ? FIND(dict_changing, name) : NULL;
    if (object.kind == JINJA_LIST)
        row = FIND(list_changing, name);
    if (row && (!run->limits.allow_mutation || !row->call))
        return unsafe(run, object, name);
    if (!row)
        row = object.kind == JINJA_DICT ? FIND(dict_reading, name) : FIND(list_reading, name);
    if (object.kind == JINJA_TUPLE && object.list->group && (text_is(name, "grouper") || text_is(name, "list")))
        return object.list->items[text_is(name, "list")];
    if (!row || !row->call || (object.kind == JINJA_TUPLE && row->call == list_copy))
        return (struct jinja_value){.kind = JINJA_ABSENT};
    return jinja_native_value(run, row, object);
}

struct jinja_value jinja_builtin_attribute(struct jinja_run *run, struct jinja_value object, struct text name) {
    struct jinja_value absent = {.kind = JINJA_ABSENT};
    if (object.kind == JINJA_NAMESPACE) {
        const struct jinja_value *value = jinja_dict_get_text(object.dict, name);
        return value ? *value : absent;
    }
    if (text_starts_with(name, TEXT("__")))
        return object.kind == JINJA_DICT && jinja_dict_get_text(object.dict, name) ? absent : unsafe(run, object, name);
    const struct jinja_native_row *method;
    switch (object.kind) {
    case JINJA_STRING:
        method = jinja_string_method(name);
        return method ? jinja_native_value(run, method, object) : absent;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        return container_attribute(run, object, name);
    case JINJA_LOOP:
        return loop_attribute(run, object.loop, name);
    case JINJA_MACRO:
        return macro_attribute(run, object.macro, name);
    case JINJA_CYCLER:
        return cycler_attribute(run, object, name);
    case JINJA_RANGE:
        return range_attribute(object.range, name);
    case JINJA_SELF:
        return self_attribute(run, name);
    default:
        return absent;
    }
}
