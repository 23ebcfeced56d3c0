/* jinja_filters_list: filters on sequences. What jinja2 gives as a generator is an ITERATOR here: evaluated at once, read once. */
#include "text/jinja_filters.h"

#include <string.h>

#include "base/check.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

/* ---- attribute getters: "name", "a.b.0", 3 ---- */

static struct jinja_value get_path(struct jinja_run *run, struct jinja_value item, const struct jinja_string *path,
                                   struct jinja_value otherwise) {
    for (size_t at = 0; path && at <= path->size_bytes && !run->failed;) {
        const char *dot = memchr(path->data + at, '.', path->size_bytes - at);
        size_t end = dot ? (size_t)(dot - path->data) : path->size_bytes;
        uint64_t index;
        struct text part = {path->data + at, end - at};
        bool number = text_parse_u64(part, &index) && index <= INT64_MAX;
        item = jinja_item(run, item, number ? jinja_int((int64_t)index) : jinja_string_value(jinja_subbytes(run, path, at, end)));
        if (otherwise.kind != JINJA_ABSENT && otherwise.kind != JINJA_NONE && item.kind == JINJA_UNDEFINED)
            item = otherwise;
        at = end + 1;
    }
    return item;
}

/* `attribute` none or ABSENT: the item itself. */
static struct jinja_value get(struct jinja_run *run, struct jinja_value item, struct jinja_value attribute, struct jinja_value otherwise) {
    if (attribute.kind == JINJA_ABSENT || attribute.kind == JINJA_NONE)
        return item;
    if (attribute.kind == JINJA_STRING)
        return get_path(run, item, attribute.string, otherwise);
    item = jinja_item(run, item, attribute);
    return item.kind == JINJA_UNDEFINED && otherwise.kind != JINJA_ABSENT && otherwise.kind != JINJA_NONE ? otherwise : item;
}

static struct jinja_value fold(struct jinja_run *run, struct jinja_value v, struct jinja_value case_sensitive) {
    return v.kind == JINJA_STRING && !jinja_truth(case_sensitive) ? jinja_string_value(jinja_map_case(run, v.string, PYTHON_LOWER)) : v;
}

static const struct jinja_value absent = {.kind = JINJA_ABSENT};

/* ---- sorting ---- */

static bool goes_before(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool reverse) {
    return reverse ? jinja_less(run, b, a, "<") : jinja_less(run, a, b, "<");
}

/* Merges the sorted halves [0, middle) and [middle, count) through the spare arrays. */
static void merge(struct jinja_run *run, struct jinja_value *const arrays[4], size_t middle, size_t count, bool reverse) {
    struct jinja_value *items = arrays[0], *keys = arrays[1], *spare_items = arrays[2], *spare_keys = arrays[3];
    for (size_t i = 0, j = middle, at = 0; at < count; at++) {
        bool right = i == middle || (j < count && goes_before(run, keys[j], keys[i], reverse));
        size_t from = right ? j++ : i++;
        spare_items[at] = items[from];
        spare_keys[at] = keys[from];
    }
    memcpy(items, spare_items, count * sizeof *items);
    memcpy(keys, spare_keys, count * sizeof *keys);
}

void jinja_sort(struct jinja_run *run, struct jinja_value *items, struct jinja_value *keys, size_t count, bool reverse) {
    struct jinja_value *spare_items = jinja_alloc(run, (count + 1) * sizeof *items);
    struct jinja_value *spare_keys = jinja_alloc(run, (count + 1) * sizeof *keys);
    for (size_t width = 1; width < count && spare_items && spare_keys; width *= 2) {
        for (size_t at = 0; at + width < count && jinja_step(run, width); at += 2 * width) {
            size_t size = count - at < 2 * width ? count - at : 2 * width;
            merge(run, (struct jinja_value *const[4]){items + at, keys + at, spare_items, spare_keys}, width, size, reverse);
        }
    }
}

/* Copies the items of v, and makes a key for each. */
static struct jinja_list *copy_with_keys(struct jinja_run *run, struct jinja_value v, struct jinja_value attribute,
                                         struct jinja_value otherwise, struct jinja_value case_sensitive, struct jinja_value **keys) {
    const struct jinja_list *items = jinja_items(run, v);
    struct jinja_list *copy = items ? jinja_list_new(run, items->count) : NULL;
    *keys = copy ? jinja_alloc(run, (items->count + 1) * sizeof **keys) : NULL;
    for (size_t i = 0; *keys && i < items->count && !run->failed; i++) {
        jinja_list_append(run, copy, items->items[i]);
        (*keys)[i] = fold(run, get(run, items->items[i], attribute, otherwise), case_sensitive);
    }
    return *keys && !run->failed ? copy : NULL;
}

/* Key of sort: a list of the folded attributes ("a,b"), since lists compare their items by == before <. */
static struct jinja_value sort_key(struct jinja_run *run, struct jinja_value item, struct jinja_value attribute,
                                   struct jinja_value case_sensitive) {
    struct jinja_list *key = jinja_list_new(run, 1);
    const struct jinja_string *paths = attribute.kind == JINJA_STRING ? attribute.string : NULL;
    if (!paths)
        jinja_list_append(run, key, fold(run, get(run, item, attribute, absent), case_sensitive));
    for (size_t at = 0; paths && at <= paths->size_bytes && !run->failed;) {
        const char *comma = memchr(paths->data + at, ',', paths->size_bytes - at);
        size_t end = comma ? (size_t)(comma - paths->data) : paths->size_bytes;
        const struct jinja_string *path = jinja_subbytes(run, paths, at, end);
        jinja_list_append(run, key, fold(run, get_path(run, item, path, absent), case_sensitive));
        at = end + 1;
    }
    return jinja_list_value(JINJA_LIST, key);
}

JINJA_FUNCTION(filter_sort) {
    struct jinja_value *keys;
    struct jinja_list *list = copy_with_keys(run, a[0], absent, absent, jinja_bool(true), &keys);
    if (!list)
        return JINJA_NOTHING;
    for (size_t i = 0; i < list->count && !run->failed; i++)
        keys[i] = sort_key(run, list->items[i], a[3], a[2]);
    jinja_sort(run, list->items, keys, list->count, jinja_truth(a[1]));
    return jinja_list_value(JINJA_LIST, list);
}

JINJA_FUNCTION(filter_dictsort) {
    if (a[0].kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a[0]);
    if (a[0].kind != JINJA_DICT)
        return jinja_fail(run, JINJA_TYPE, "'%s' object has no attribute 'items'", jinja_type_name(a[0]));
    const struct jinja_string *by = a[2].kind == JINJA_ABSENT ? NULL : jinja_need_string(run, a[2], "dictsort");
    bool by_value = by && text_is(jinja_string_text(by), "value");
    if (by && !by_value && !text_is(jinja_string_text(by), "key"))
        return jinja_fail(run, JINJA_TYPE, "You can only sort by either \"key\" or \"value\"");
    struct jinja_view view = {a[0].dict, JINJA_ITEMS};
    struct jinja_value *keys, pairs = {.kind = JINJA_VIEW, .view = &view};
    struct jinja_list *list = copy_with_keys(run, pairs, jinja_int(by_value), absent, a[1], &keys);
    if (list)
        jinja_sort(run, list->items, keys, list->count, jinja_truth(a[3]));
    return jinja_list_value(JINJA_LIST, list);
}

JINJA_FUNCTION(filter_groupby) {
    struct jinja_value *keys;
    struct jinja_list *list = copy_with_keys(run, a[0], a[1], a[2], a[3], &keys), *groups = jinja_list_new(run, 0), *members = NULL;
    if (list)
        jinja_sort(run, list->items, keys, list->count, false);
    for (size_t i = 0; list && groups && i < list->count && !run->failed; i++) {
        if (i == 0 || !jinja_equal(run, keys[i - 1], keys[i])) {
            members = jinja_list_new(run, 0);
            struct jinja_value group = jinja_pair(run, get(run, list->items[i], a[1], a[2]), jinja_list_value(JINJA_LIST, members));
            if (group.kind == JINJA_TUPLE)
                group.list->group = true;
            jinja_list_append(run, groups, group);
        }
        jinja_list_append(run, members, list->items[i]);
    }
    return jinja_list_value(JINJA_LIST, groups);
}

static struct jinja_value extreme(struct jinja_run *run, const struct jinja_value *a, bool largest) {
    struct jinja_value *keys;
    struct jinja_list *list = copy_with_keys(run, a[0], a[2], absent, a[1], &keys);
    if (!list)
        return JINJA_NOTHING;
    if (list->count == 0)
        return jinja_undefined(run, false, "No aggregated item, sequence was empty.");
    size_t best = 0;
    for (size_t i = 1; i < list->count && jinja_step(run, 1); i++)
        if (largest ? jinja_less(run, keys[best], keys[i], ">") : jinja_less(run, keys[i], keys[best], "<"))
            best = i;
    return list->items[best];
}

JINJA_FUNCTION(filter_max) { return extreme(run, a, true); }
JINJA_FUNCTION(filter_min) { return extreme(run, a, false); }

JINJA_FUNCTION(filter_unique) {
    struct jinja_value *keys;
    struct jinja_list *list = copy_with_keys(run, a[0], a[2], absent, a[1], &keys), *kept = jinja_list_new(run, 0);
    struct jinja_dict *seen = jinja_dict_new(run);
    for (size_t i = 0; list && seen && i < list->count && !run->failed; i++) {
        if (jinja_dict_get(run, seen, keys[i]))
            continue;
        jinja_dict_set(run, seen, keys[i], JINJA_NOTHING); /* fails for keys that Python could not hash */
        jinja_list_append(run, kept, list->items[i]);
    }
    return jinja_list_value(JINJA_ITERATOR, kept);
}

/* ---- map, select, reject ---- */

/* Arguments from the `first`-th on. */
static struct jinja_arguments rest_of(const struct jinja_arguments *raw, size_t first) {
    struct jinja_arguments rest = *raw;
    rest.values = raw->count > first ? raw->values + first : NULL;
    rest.count = raw->count > first ? raw->count - first : 0;
    return rest;
}

static struct jinja_value map_attribute(struct jinja_run *run, const struct jinja_arguments *raw, const struct jinja_list *items) {
    struct jinja_value attribute = absent, otherwise = absent;
    for (size_t i = 0; i < raw->named_count; i++) {
        struct text name = jinja_string_text(raw->names[i]);
        if (text_is(name, "attribute"))
            attribute = raw->named[i];
        else if (text_is(name, "default"))
            otherwise = raw->named[i];
        else
            return jinja_fail(run, JINJA_TYPE, "Unexpected keyword argument '%.*s'", TEXT_ARGUMENTS(name));
    }
    if (attribute.kind == JINJA_ABSENT)
        return jinja_fail(run, JINJA_TYPE, "map requires a filter argument");
    struct jinja_list *mapped = jinja_list_new(run, items->count);
    for (size_t i = 0; i < items->count && !run->failed; i++)
        jinja_list_append(run, mapped, get(run, items->items[i], attribute, otherwise));
    return jinja_list_value(JINJA_ITERATOR, mapped);
}

static struct jinja_value empty_iterator(struct jinja_run *run) { return jinja_list_value(JINJA_ITERATOR, jinja_list_new(run, 0)); }

JINJA_FUNCTION(filter_map) {
    if (!jinja_truth(a[0]))
        return empty_iterator(run);
    const struct jinja_list *items = jinja_items(run, a[0]);
    if (!items)
        return JINJA_NOTHING;
    if (raw->count == 0)
        return map_attribute(run, raw, items);
    const struct jinja_string *name = jinja_need_string(run, raw->values[0], "map");
    const struct jinja_native_row *row = name ? jinja_find_filter(jinja_string_text(name)) : NULL;
    if (name && !row)
        return jinja_fail(run, JINJA_TYPE, "No filter named '%.*s'.", TEXT_ARGUMENTS(jinja_string_text(name)));
    struct jinja_arguments rest = rest_of(raw, 1);
    struct jinja_list *mapped = jinja_list_new(run, items->count);
    for (size_t i = 0; i < items->count && !run->failed; i++)
        jinja_list_append(run, mapped, jinja_call_native(run, row, items->items[i], &rest));
    return jinja_list_value(JINJA_ITERATOR, mapped);
}

static struct jinja_value choose(struct jinja_run *run, const struct jinja_value *a, const struct jinja_arguments *raw, bool by_attribute,
                                 bool keep) {
    if (!jinja_truth(a[0]))
        return empty_iterator(run);
    if (by_attribute && raw->count == 0)
        return jinja_fail(run, JINJA_TYPE, "Missing parameter for attribute name");
    const struct jinja_native_row *row = NULL;
    if (raw->count > by_attribute) {
        const struct jinja_string *name = jinja_need_string(run, raw->values[by_attribute], "select");
        row = name ? jinja_find_test(jinja_string_text(name)) : NULL;
        if (name && !row)
            return jinja_fail(run, JINJA_TYPE, "No test named '%.*s'.", TEXT_ARGUMENTS(jinja_string_text(name)));
    }
    struct jinja_arguments rest = rest_of(raw, 1 + (size_t)by_attribute);
    const struct jinja_list *items = jinja_items(run, a[0]);
    struct jinja_list *kept = jinja_list_new(run, 0);
    for (size_t i = 0; items && i < items->count && !run->failed; i++) {
        struct jinja_value tested = by_attribute ? get(run, items->items[i], raw->values[0], absent) : items->items[i];
        bool holds = jinja_truth(row ? jinja_call_native(run, row, tested, &rest) : tested);
        if (holds == keep)
            jinja_list_append(run, kept, items->items[i]);
    }
    return jinja_list_value(JINJA_ITERATOR, kept);
}

JINJA_FUNCTION(filter_select) { return choose(run, a, raw, false, true); }
JINJA_FUNCTION(filter_reject) { return choose(run, a, raw, false, false); }
JINJA_FUNCTION(filter_selectattr) { return choose(run, a, raw, true, true); }
JINJA_FUNCTION(filter_rejectattr) { return choose(run, a, raw, true, false); }

/* ---- the rest ---- */

JINJA_FUNCTION(filter_length) {
    int64_t length = a[0].kind == JINJA_LOOP ? (int64_t)a[0].loop->count : jinja_length(a[0]);
    return length < 0 ? jinja_fail(run, JINJA_TYPE, "object of type '%s' has no len()", jinja_type_name(a[0])) : jinja_int(length);
}

JINJA_FUNCTION(filter_first) {
    if (a[0].kind == JINJA_ITERATOR && a[0].list->position < a[0].list->count)
        return a[0].list->items[a[0].list->position++];
    const struct jinja_list *items = jinja_items(run, a[0]);
    return items && items->count > 0 ? items->items[0] : jinja_undefined(run, false, "No first item, sequence was empty.");
}

JINJA_FUNCTION(filter_last) {
    if (a[0].kind == JINJA_ITERATOR)
        return jinja_fail(run, JINJA_TYPE, "'generator' object is not reversible");
    const struct jinja_list *items = jinja_items(run, a[0]);
    return items && items->count > 0 ? items->items[items->count - 1] : jinja_undefined(run, false, "No last item, sequence was empty.");
}

JINJA_FUNCTION(filter_list) {
    struct jinja_list *copy = jinja_list_new(run, 0);
    const struct jinja_list *items = jinja_items(run, a[0]);
    for (size_t i = 0; items && i < items->count && !run->failed; i++)
        jinja_list_append(run, copy, items->items[i]);
    return items ? jinja_list_value(JINJA_LIST, copy) : JINJA_NOTHING;
}

JINJA_FUNCTION(filter_reverse) {
    if (a[0].kind == JINJA_STRING)
        return jinja_string_value(jinja_reverse_string(run, a[0].string));
    const struct jinja_list *items = jinja_items(run, a[0]);
    struct jinja_list *reversed = jinja_list_new(run, 0);
    for (size_t i = items ? items->count : 0; i > 0 && !run->failed; i--)
        jinja_list_append(run, reversed, items->items[i - 1]);
    return jinja_list_value(a[0].kind == JINJA_ITERATOR ? JINJA_LIST : JINJA_ITERATOR, reversed);
}

JINJA_FUNCTION(filter_items) {
    if (a[0].kind == JINJA_UNDEFINED)
        return empty_iterator(run);
    if (a[0].kind != JINJA_DICT)
        return jinja_fail(run, JINJA_TYPE, "Can only get item pairs from a mapping.");
    struct jinja_view view = {a[0].dict, JINJA_ITEMS};
    return jinja_list_value(JINJA_ITERATOR, jinja_items(run, (struct jinja_value){.kind = JINJA_VIEW, .view = &view}));
}

JINJA_FUNCTION(filter_join) {
    const struct jinja_string *separator = a[1].kind == JINJA_ABSENT ? NULL : jinja_plain_str(run, a[1]);
    const struct jinja_list *items = jinja_items(run, a[0]);
    struct jinja_builder b = jinja_builder_start(run);
    for (size_t i = 0; items && i < items->count && !run->failed; i++) {
        if (i > 0)
            jinja_put_string(&b, separator);
        jinja_put_str(&b, get(run, items->items[i], a[2], absent));
    }
    return jinja_string_value(jinja_builder_take(&b));
}

JINJA_FUNCTION(filter_sum) {
    struct jinja_value total = a[2].kind == JINJA_ABSENT ? jinja_int(0) : a[2];
    if (total.kind == JINJA_STRING)
        return jinja_fail(run, JINJA_TYPE, "sum() can't sum strings [use ''.join(seq) instead]");
    const struct jinja_list *items = jinja_items(run, a[0]);
    for (size_t i = 0; items && i < items->count && !run->failed; i++)
        total = jinja_binary(run, '+', total, get(run, items->items[i], a[1], absent));
    return total;
}

JINJA_FUNCTION(filter_batch) {
    int64_t size;
    const struct jinja_list *items = jinja_items(run, a[0]);
    struct jinja_list *batches = jinja_list_new(run, 0), *batch = NULL;
    if (!jinja_need_index(run, a[1], 0, &size) || !items)
        return JINJA_NOTHING;
    for (size_t i = 0; i < items->count && !run->failed; i++) {
        if (!batch || (int64_t)batch->count == size) {
            batch = jinja_list_new(run, 0);
            jinja_list_append(run, batches, jinja_list_value(JINJA_LIST, batch));
        }
        jinja_list_append(run, batch, items->items[i]);
    }
    while (batch && a[2].kind != JINJA_ABSENT && a[2].kind != JINJA_NONE && (int64_t)batch->count < size && !run->failed)
        jinja_list_append(run, batch, a[2]);
    return jinja_list_value(JINJA_ITERATOR, batches);
}

JINJA_FUNCTION(filter_slice) {
    int64_t count;
    const struct jinja_list *items = jinja_items(run, a[0]);
    struct jinja_list *slices = jinja_list_new(run, 0);
    if (!jinja_need_index(run, a[1], 0, &count) || !items)
        return JINJA_NOTHING;
    if (count == 0)
        return jinja_fail(run, JINJA_TYPE, "integer division or modulo by zero");
    int64_t each = (int64_t)items->count / count, longer = (int64_t)items->count % count;
    size_t at = 0;
    for (int64_t i = 0; i < count && jinja_step(run, 1); i++) {
        struct jinja_list *slice = jinja_list_new(run, 0);
        for (int64_t k = 0; k < each + (i < longer) && !run->failed; k++)
            jinja_list_append(run, slice, items->items[at++]);
        if (a[2].kind != JINJA_ABSENT && a[2].kind != JINJA_NONE && i >= longer)
            jinja_list_append(run, slice, a[2]);
        jinja_list_append(run, slices, jinja_list_value(JINJA_LIST, slice));
    }
    return jinja_list_value(JINJA_ITERATOR, slices);
}

const struct jinja_native_row jinja_list_filters[] = {
    {"batch", "linecount,fill_with", 1, filter_batch},
    {"count", "", 0, filter_length},
    {"dictsort", "case_sensitive,by,reverse", 0, filter_dictsort},
    {"first", "", 0, filter_first},
    {"groupby", "attribute,default,case_sensitive", 1, filter_groupby},
    {"items", "", 0, filter_items},
    {"join", "d,attribute", 0, filter_join},
    {"last", "", 0, filter_last},
    {"length", "", 0, filter_length},
    {"list", "", 0, filter_list},
    {"map", NULL, 0, filter_map},
    {"max", "case_sensitive,attribute", 0, filter_max},
    {"min", "case_sensitive,attribute", 0, filter_min},
    {"reject", NULL, 0, filter_reject},
    {"rejectattr", NULL, 0, filter_rejectattr},
    {"reverse", "", 0, filter_reverse},
    {"select", NULL, 0, filter_select},
    {"selectattr", NULL, 0, filter_selectattr},
    {"slice", "slices,fill_with", 1, filter_slice},
    {"sort", "reverse,case_sensitive,attribute", 0, filter_sort},
    {"sum", "attribute,start", 0, filter_sum},
    {"unique", "case_sensitive,attribute", 0, filter_unique},
};
const size_t jinja_list_filter_count = sizeof jinja_list_filters / sizeof *jinja_list_filters;
