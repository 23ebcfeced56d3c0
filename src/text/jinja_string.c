/* jinja_string: strings with their marks of trust, and the builder that joins them. */
#include <string.h>

#include "base/check.h"
#include "text/jinja_value.h"
#include "text/unicode.h"

#define BUILDER_FIRST_BYTES 64

static size_t count_code_points(const char *data, size_t size_bytes) {
    size_t count = 0;
    for (size_t i = 0; i < size_bytes; i++)
        count += ((unsigned char)data[i] & 0xC0) != 0x80;
    return count;
}

uint32_t jinja_next_code_point(const char *data, size_t size_bytes, size_t *at) {
    ASSERT(*at < size_bytes);
    unsigned char lead = (unsigned char)data[*at];
    size_t extra = lead < 0xC0 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    uint32_t c = extra == 0 ? lead : lead & (0x3Fu >> extra);
    (*at)++;
    for (; extra > 0 && *at < size_bytes; extra--, (*at)++)
        c = c << 6 | ((unsigned char)data[*at] & 0x3F);
    return c;
}

struct jinja_value jinja_string_value(const struct jinja_string *string) {
    return string ? (struct jinja_value){.kind = JINJA_STRING, .string = string} : JINJA_NOTHING;
}

static const struct jinja_string *wrap(struct jinja_run *run, const char *data, size_t size_bytes, const uint8_t *marks, uint8_t trust) {
    struct jinja_string *s = jinja_alloc(run, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct jinja_string){.data = data, .size_bytes = size_bytes, .marks = marks, .trust = trust};
    s->length = count_code_points(data, size_bytes);
    jinja_step(run, size_bytes / 64);
    return s;
}

const struct jinja_string *jinja_string_new(struct jinja_run *run, const char *data, size_t size_bytes, enum jinja_trust trust) {
    ASSERT(trust != JINJA_MIXED);
    char *copy = jinja_alloc(run, size_bytes + 1);
    if (!copy)
        return NULL;
    memcpy(copy, data, size_bytes);
    return wrap(run, copy, size_bytes, NULL, (uint8_t)trust);
}

struct jinja_value jinja_text(struct jinja_run *run, const char *terminated, enum jinja_trust trust) {
    return jinja_string_value(jinja_string_new(run, terminated, strlen(terminated), trust));
}

const struct jinja_string *jinja_subbytes(struct jinja_run *run, const struct jinja_string *s, size_t begin, size_t end) {
    ASSERT(begin <= end && end <= s->size_bytes);
    if (begin == 0 && end == s->size_bytes)
        return s;
    const struct jinja_string *part = wrap(run, s->data + begin, end - begin, s->marks ? s->marks + begin : NULL, s->trust);
    return jinja_as_markup(run, part, s->markup);
}

const struct jinja_string *jinja_as_markup(struct jinja_run *run, const struct jinja_string *s, bool markup) {
    if (!s || s->markup == markup)
        return s;
    struct jinja_string *copy = jinja_alloc(run, sizeof *copy);
    if (!copy)
        return NULL;
    *copy = *s;
    copy->markup = markup;
    return copy;
}

size_t jinja_byte_of(const struct jinja_string *s, size_t code_point) {
    if (s->length == s->size_bytes)
        return code_point < s->size_bytes ? code_point : s->size_bytes;
    size_t at = 0;
    for (; at < s->size_bytes; at++)
        if (((unsigned char)s->data[at] & 0xC0) != 0x80 && code_point-- == 0)
            break;
    return at;
}

const struct jinja_string *jinja_substring(struct jinja_run *run, const struct jinja_string *s, size_t begin, size_t end) {
    if (end <= begin || begin >= s->length)
        return jinja_subbytes(run, s, 0, 0);
    size_t first = jinja_byte_of(s, begin), last = end >= s->length ? s->size_bytes : jinja_byte_of(s, end);
    if (s->length != s->size_bytes)
        jinja_step(run, last / 64);
    return jinja_subbytes(run, s, first, last);
}

/* ---- builder ---- */

struct jinja_builder jinja_builder_start(struct jinja_run *run) {
    return (struct jinja_builder){.run = run, .trust = JINJA_TRUSTED, .limit_bytes = run->limits.memory_bytes};
}

/* Room for size_bytes more; false and failed when there is none. */
static bool reserve(struct jinja_builder *b, size_t size_bytes) {
    struct jinja_run *run = b->run;
    if (run->failed)
        return false;
    if (size_bytes > b->limit_bytes - b->size_bytes) {
        jinja_fail(run, JINJA_LIMIT, "the output is longer than %zu bytes", b->limit_bytes);
        return false;
    }
    size_t need = b->size_bytes + size_bytes + 1;
    if (need <= b->capacity_bytes)
        return true;
    size_t capacity = b->capacity_bytes ? b->capacity_bytes * 2 : BUILDER_FIRST_BYTES;
    if (capacity < need)
        capacity = need;
    char *data = arena_grow(run->arena, b->data, b->capacity_bytes, capacity);
    uint8_t *marks = b->marks;
    if (data && marks)
        marks = arena_grow(run->arena, b->marks, b->capacity_bytes, capacity);
    if (!data || (b->marks && !marks)) {
        jinja_fail_memory(run);
        return false;
    }
    b->data = data, b->marks = marks, b->capacity_bytes = capacity;
    return true;
}

/* Makes sure that `b` can hold bytes of this trust: begins the marks at the first difference. */
static bool admit(struct jinja_builder *b, uint8_t trust) {
    if (b->size_bytes == 0)
        b->trust = trust == JINJA_MIXED ? b->trust : trust;
    if (b->marks || (trust == b->trust))
        return true;
    b->marks = jinja_alloc(b->run, b->capacity_bytes);
    if (!b->marks)
        return false;
    memset(b->marks, b->trust, b->size_bytes);
    b->trust = JINJA_MIXED;
    return true;
}

void jinja_put(struct jinja_builder *b, const char *data, size_t size_bytes, enum jinja_trust trust) {
    ASSERT(trust != JINJA_MIXED);
    if (size_bytes == 0 || !reserve(b, size_bytes) || !admit(b, (uint8_t)trust))
        return;
    memcpy(b->data + b->size_bytes, data, size_bytes);
    if (b->marks)
        memset(b->marks + b->size_bytes, (int)trust, size_bytes);
    b->size_bytes += size_bytes;
    jinja_step(b->run, size_bytes / 64);
}

void jinja_put_text(struct jinja_builder *b, const char *terminated) { jinja_put(b, terminated, strlen(terminated), JINJA_TRUSTED); }

void jinja_put_bytes(struct jinja_builder *b, const struct jinja_string *s, size_t begin, size_t end) {
    if (!s || begin >= end)
        return;
    ASSERT(end <= s->size_bytes);
    if (s->trust != JINJA_MIXED) {
        jinja_put(b, s->data + begin, end - begin, (enum jinja_trust)s->trust);
        return;
    }
    if (!reserve(b, end - begin) || !admit(b, JINJA_MIXED))
        return;
    memcpy(b->data + b->size_bytes, s->data + begin, end - begin);
    memcpy(b->marks + b->size_bytes, s->marks + begin, end - begin);
    b->size_bytes += end - begin;
    jinja_step(b->run, (end - begin) / 64);
}

void jinja_put_string(struct jinja_builder *b, const struct jinja_string *s) {
    if (s)
        jinja_put_bytes(b, s, 0, s->size_bytes);
}

void jinja_put_code_point(struct jinja_builder *b, uint32_t c, enum jinja_trust trust) {
    char bytes[UTF8_BYTES_MAX];
    size_t count = utf8_write(c >= 0xD800 && c < 0xE000 ? UNICODE_REPLACEMENT : c, bytes); /* half a surrogate pair has no UTF-8 */
    jinja_put(b, bytes, count, trust);
}

const struct jinja_string *jinja_builder_take(struct jinja_builder *b) {
    if (b->run->failed)
        return NULL;
    return wrap(b->run, b->data ? b->data : "", b->size_bytes, b->marks, b->trust);
}
