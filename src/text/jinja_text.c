/* jinja_text: stripping, case, replacing, padding and splitting by lines. */
#include "text/jinja_text.h"

#include <string.h>

#include "base/check.h"

const struct jinja_string *jinja_need_string(struct jinja_run *run, struct jinja_value v, const char *function) {
    if (v.kind == JINJA_STRING)
        return v.string;
    jinja_fail(run, JINJA_TYPE, "%s(): argument must be str, not %s", function, jinja_type_name(v));
    return NULL;
}

bool jinja_need_index(struct jinja_run *run, struct jinja_value v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    if (v.kind == JINJA_ABSENT || v.kind == JINJA_NONE || jinja_as_index(v, out))
        return !run->failed;
    jinja_fail(run, JINJA_TYPE, "'%s' object cannot be interpreted as an integer", jinja_type_name(v));
    return false;
}

static bool strips(const struct jinja_string *chars, uint32_t c) {
    if (!chars)
        return python_is_space(c);
    for (size_t at = 0; at < chars->size_bytes;)
        if (jinja_next_code_point(chars->data, chars->size_bytes, &at) == c)
            return true;
    return false;
}

/* Begin of the code point that ends at `end` > 0. */
static size_t previous(const char *data, size_t end) {
    do
        end--;
    while (end > 0 && ((unsigned char)data[end] & 0xC0) == 0x80);
    return end;
}

const struct jinja_string *jinja_strip(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *chars, bool left,
                                       bool right) {
    if (!s || run->failed)
        return NULL;
    size_t begin = 0, end = s->size_bytes;
    while (left && begin < end) {
        size_t next = begin;
        if (!strips(chars, jinja_next_code_point(s->data, end, &next)))
            break;
        begin = next;
    }
    while (right && end > begin) {
        size_t last = previous(s->data, end), at = last;
        if (!strips(chars, jinja_next_code_point(s->data, end, &at)))
            break;
        end = last;
    }
    return jinja_subbytes(run, s, begin, end);
}

static bool is_cased(uint32_t c) { return python_is_upper(c) || python_is_lower(c) || python_is_title(c); }

/* A capital sigma at [at, next) ends a word: a cased letter before it and none after it, leaving out what case ignores. */
static bool sigma_is_final(const struct jinja_string *s, size_t at, size_t next) {
    uint32_t c = 0;
    size_t before = at;
    while (before > 0) {
        before = previous(s->data, before);
        size_t position = before;
        c = jinja_next_code_point(s->data, s->size_bytes, &position);
        if (!python_is_case_ignorable(c))
            break;
    }
    if (at == 0 || python_is_case_ignorable(c) || !is_cased(c))
        return false;
    while (next < s->size_bytes) {
        c = jinja_next_code_point(s->data, s->size_bytes, &next);
        if (!python_is_case_ignorable(c))
            return !is_cased(c);
    }
    return true;
}

static void put_mapped(struct jinja_builder *b, const struct jinja_string *s, size_t at, size_t next, enum python_case to) {
    uint32_t mapped[3];
    size_t position = at;
    uint32_t c = jinja_next_code_point(s->data, s->size_bytes, &position);
    if (c == 0x3A3 && to == PYTHON_LOWER) {
        jinja_put_code_point(b, sigma_is_final(s, at, next) ? 0x3C2 : 0x3C3, jinja_trust_at(s, at));
        return;
    }
    size_t count = python_map_case(c, to, mapped);
    for (size_t i = 0; i < count; i++)
        jinja_put_code_point(b, mapped[i], jinja_trust_at(s, at));
}

/* Title or other case for the first code point, lower case for the rest when `mixed`. */
static const struct jinja_string *map(struct jinja_run *run, const struct jinja_string *s, enum python_case first, enum python_case rest) {
    if (!s || !jinja_step(run, s->size_bytes / 8))
        return NULL;
    struct jinja_builder b = jinja_builder_start(run);
    for (size_t at = 0, next; at < s->size_bytes && !run->failed; at = next) {
        next = at;
        (void)jinja_next_code_point(s->data, s->size_bytes, &next);
        put_mapped(&b, s, at, next, at == 0 ? first : rest);
    }
    return jinja_as_markup(run, jinja_builder_take(&b), s->markup);
}

const struct jinja_string *jinja_map_case(struct jinja_run *run, const struct jinja_string *s, enum python_case to) {
    if (to != PYTHON_TITLE)
        return map(run, s, to, to);
    if (!s || !jinja_step(run, s->size_bytes / 8))
        return NULL;
    struct jinja_builder b = jinja_builder_start(run);
    bool inside = false; /* a word of cased letters */
    for (size_t at = 0, next; at < s->size_bytes && !run->failed; at = next) {
        next = at;
        uint32_t c = jinja_next_code_point(s->data, s->size_bytes, &next);
        put_mapped(&b, s, at, next, inside ? PYTHON_LOWER : PYTHON_TITLE);
        inside = is_cased(c);
    }
    return jinja_as_markup(run, jinja_builder_take(&b), s->markup);
}

const struct jinja_string *jinja_capitalize(struct jinja_run *run, const struct jinja_string *s) {
    return map(run, s, PYTHON_TITLE, PYTHON_LOWER);
}

const struct jinja_string *jinja_swap_case(struct jinja_run *run, const struct jinja_string *s) {
    struct jinja_builder b = jinja_builder_start(run);
    for (size_t at = 0, next; at < s->size_bytes && jinja_step(run, 1); at = next) {
        next = at;
        uint32_t c = jinja_next_code_point(s->data, s->size_bytes, &next);
        if (python_is_upper(c) || python_is_lower(c))
            put_mapped(&b, s, at, next, python_is_upper(c) ? PYTHON_LOWER : PYTHON_UPPER);
        else
            jinja_put_bytes(&b, s, at, next);
    }
    return jinja_as_markup(run, jinja_builder_take(&b), s->markup);
}

size_t jinja_find(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *part, size_t from, size_t to, bool last) {
    ASSERT(to <= s->size_bytes);
    if (from > to || part->size_bytes > to - from)
        return SIZE_MAX;
    jinja_step(run, (to - from) / 64);
    if (!last) {
        const char *found = part->size_bytes ? memmem(s->data + from, to - from, part->data, part->size_bytes) : s->data + from;
        return found ? (size_t)(found - s->data) : SIZE_MAX;
    }
    for (size_t at = to - part->size_bytes;; at--) {
        if (memcmp(s->data + at, part->data, part->size_bytes) == 0)
            return at;
        if (at == from)
            return SIZE_MAX;
    }
}

/* str.replace with an empty `old`: `new` before every code point and at the end. */
static void put_between(struct jinja_builder *b, const struct jinja_string *s, const struct jinja_string *new, int64_t count) {
    size_t at = 0;
    for (; count != 0 && !b->run->failed; count--) {
        size_t begin = at;
        jinja_put_string(b, new);
        if (at == s->size_bytes)
            return;
        (void)jinja_next_code_point(s->data, s->size_bytes, &at);
        jinja_put_bytes(b, s, begin, at);
    }
    jinja_put_bytes(b, s, at, s->size_bytes);
}

const struct jinja_string *jinja_replace(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *old,
                                         const struct jinja_string *new, int64_t count) {
    if (!s || !old || !new || run->failed)
        return NULL;
    struct jinja_builder b = jinja_builder_start(run);
    if (old->size_bytes == 0) {
        put_between(&b, s, new, count);
    } else {
        size_t at = 0;
        for (; count != 0 && jinja_step(run, 1); count--) {
            size_t found = jinja_find(run, s, old, at, s->size_bytes, false);
            if (found == SIZE_MAX)
                break;
            if (at == 0 && found == 0 && old->size_bytes == s->size_bytes)
                return jinja_as_markup(run, new, s->markup);
            jinja_put_bytes(&b, s, at, found);
            jinja_put_string(&b, new);
            at = found + old->size_bytes;
        }
        if (at == 0)
            return s;
        jinja_put_bytes(&b, s, at, s->size_bytes);
    }
    return jinja_as_markup(run, jinja_builder_take(&b), s->markup);
}

const struct jinja_string *jinja_pad(struct jinja_run *run, const struct jinja_string *s, int64_t left, int64_t right,
                                     const struct jinja_string *fill) {
    if (!s || run->failed)
        return NULL;
    if (fill && fill->length != 1) {
        jinja_fail(run, JINJA_TYPE, "The fill character must be exactly one character long");
        return NULL;
    }
    if (left > (int64_t)run->limits.memory_bytes || right > (int64_t)run->limits.memory_bytes) {
        jinja_fail_memory(run);
        return NULL;
    }
    struct jinja_builder b = jinja_builder_start(run);
    for (int64_t i = 0; i < left && jinja_step(run, 1); i++)
        fill ? jinja_put_string(&b, fill) : jinja_put_text(&b, " ");
    jinja_put_string(&b, s);
    for (int64_t i = 0; i < right && jinja_step(run, 1); i++)
        fill ? jinja_put_string(&b, fill) : jinja_put_text(&b, " ");
    return jinja_as_markup(run, jinja_builder_take(&b), s->markup);
}

const struct jinja_string *jinja_center(struct jinja_run *run, const struct jinja_string *s, int64_t width,
                                        const struct jinja_string *fill) {
    if (!s)
        return NULL;
    int64_t padding = width > (int64_t)s->length ? width - (int64_t)s->length : 0;
    int64_t left = padding / 2 + (padding & width & 1); /* CPython's choice of the larger side */
    return jinja_pad(run, s, left, padding - left, fill);
}

static bool is_line_break(uint32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

struct jinja_list *jinja_split_lines(struct jinja_run *run, const struct jinja_string *s, bool keep_ends) {
    struct jinja_list *lines = jinja_list_new(run, 0);
    if (!s)
        return NULL;
    size_t begin = 0;
    for (size_t at = 0, next; at < s->size_bytes && !run->failed; at = next) {
        next = at;
        uint32_t c = jinja_next_code_point(s->data, s->size_bytes, &next);
        if (!is_line_break(c))
            continue;
        if (c == '\r' && next < s->size_bytes && s->data[next] == '\n')
            next++;
        jinja_list_append(run, lines, jinja_string_value(jinja_subbytes(run, s, begin, keep_ends ? next : at)));
        begin = next;
    }
    if (begin < s->size_bytes)
        jinja_list_append(run, lines, jinja_string_value(jinja_subbytes(run, s, begin, s->size_bytes)));
    return run->failed ? NULL : lines;
}

const struct jinja_string *jinja_reverse_string(struct jinja_run *run, const struct jinja_string *s) {
    if (!s || !jinja_step(run, s->size_bytes / 8))
        return NULL;
    struct jinja_builder b = jinja_builder_start(run);
    for (size_t end = s->size_bytes; end > 0 && !run->failed;) {
        size_t begin = previous(s->data, end);
        jinja_put_bytes(&b, s, begin, end);
        end = begin;
    }
    return jinja_as_markup(run, jinja_builder_take(&b), s->markup);
}
