/*
 * unicode_forms: the text is cut into segments of one character and those that join it; only segments that may change are
 * decomposed, put in order and composed again.
 */
#include "text/unicode_forms.h"

#include <utf8proc.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/unicode.h"

#define EXPANSION_MAX 32 /* the longest decomposition has 18 code points */

struct segment {
    int32_t *points;
    size_t count, capacity;
    int32_t *sorted; /* room for the same count */
};

static void segment_deinit(struct segment *segment) {
    memory_free(segment->points);
    memory_free(segment->sorted);
}

static enum status segment_reserve(struct segment *segment, struct error *err) {
    if (segment->count + EXPANSION_MAX <= segment->capacity)
        return STATUS_OK;
    size_t capacity = segment->capacity * 2 + 4 * EXPANSION_MAX;
    int32_t *points = memory_resize(segment->points, capacity, sizeof(*points));
    if (points)
        segment->points = points;
    int32_t *sorted = memory_resize(segment->sorted, capacity, sizeof(*sorted));
    if (sorted)
        segment->sorted = sorted;
    if (!points || !sorted)
        return error_set(err, STATUS_NO_MEMORY, "no memory to normalise a run of %zu characters", segment->count);
    segment->capacity = capacity;
    return STATUS_OK;
}

static unsigned class_of(int32_t point) { return (unsigned)utf8proc_get_property(point)->combining_class; }

/* Adds the full decomposition of a character that has one, else the character. */
static enum status add_character(struct segment *segment, uint32_t c, bool compatible, struct error *err) {
    TRY(segment_reserve(segment, err));
    if (unicode_decomposes(c)) {
        int boundary = 0;
        utf8proc_option_t options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
        utf8proc_ssize_t got =
            utf8proc_decompose_char((utf8proc_int32_t)c, segment->points + segment->count, EXPANSION_MAX, options, &boundary);
        if (got > 0 && got <= EXPANSION_MAX) {
            segment->count += (size_t)got;
            return STATUS_OK;
        }
    }
    segment->points[segment->count++] = (int32_t)c;
    return STATUS_OK;
}

/* Sorts the marks points[begin, end) by class, equal ones in their order: a counting sort, since a run may be the whole text. */
static void sort_marks(struct segment *segment, size_t begin, size_t end) {
    size_t starts[256] = {0};
    for (size_t i = begin; i < end; i++)
        if (class_of(segment->points[i]) < 255)
            starts[class_of(segment->points[i]) + 1]++;
    for (size_t class = 1; class < 256; class ++)
        starts[class] += starts[class - 1];
    for (size_t i = begin; i < end; i++)
        segment->sorted[starts[class_of(segment->points[i])]++] = segment->points[i];
    memcpy(segment->points + begin, segment->sorted, (end - begin) * sizeof(*segment->points));
}

static void put_in_order(struct segment *segment) {
    for (size_t begin = 0; begin < segment->count; begin++) {
        size_t end = begin;
        bool sorted = true;
        for (; end < segment->count && class_of(segment->points[end]) != 0; end++)
            sorted = sorted && (end == begin || class_of(segment->points[end - 1]) <= class_of(segment->points[end]));
        if (!sorted)
            sort_marks(segment, begin, end);
        if (end > begin)
            begin = end; /* points[end] is a starter */
    }
}

static enum status write_segment(struct segment *segment, bool compose, struct byte_buffer *out, struct error *err) {
    put_in_order(segment);
    if (compose && segment->count > 1) {
        utf8proc_ssize_t composed = utf8proc_normalize_utf32(segment->points, (utf8proc_ssize_t)segment->count,
                                                             (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
        CHECK(composed > 0 && (size_t)composed <= segment->count);
        segment->count = (size_t)composed;
    }
    for (size_t i = 0; i < segment->count; i++)
        TRY(utf8_append(out, (uint32_t)segment->points[i], err));
    segment->count = 0;
    return STATUS_OK;
}

/* A character that newer tables give a class or a decomposition, and the library's tables do not. */
static bool is_too_new(uint32_t c) {
    if (c < 0x300 || unicode_joins(c) || unicode_decomposes(c))
        return false;
    const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)c);
    return property->combining_class != 0 || property->decomp_seqindex != UINT16_MAX;
}

/* End of the characters that join the one that ends at `at`. */
static size_t joined_end(struct text text, size_t at) {
    while (at < text.size_bytes && (uint8_t)text.data[at] >= 0x80) {
        size_t length;
        if (!unicode_joins(utf8_at(text, at, &length)))
            break;
        at += length;
    }
    return at;
}

/* Writes the segment text[begin, end), whose first character has first_bytes. */
static enum status append_segment(enum unicode_form form, struct text text, size_t first_bytes, struct segment *segment,
                                  struct byte_buffer *out, struct error *err) {
    bool compatible = form == UNICODE_NFKC || form == UNICODE_NFKD;
    size_t length;
    uint32_t first = utf8_at(text, 0, &length);
    bool plain = !unicode_decomposes(first) && !unicode_joins(first);
    if (plain && (text.size_bytes == first_bytes || is_too_new(first))) {
        TRY(byte_buffer_append(out, text.data, first_bytes, err));
        text = (struct text){text.data + first_bytes, text.size_bytes - first_bytes};
        if (text.size_bytes == 0)
            return STATUS_OK;
    }
    for (size_t at = 0; at < text.size_bytes; at += length)
        TRY(add_character(segment, utf8_at(text, at, &length), compatible, err));
    return write_segment(segment, form == UNICODE_NFC || form == UNICODE_NFKC, out, err);
}

bool unicode_form_may_change(enum unicode_form form, struct text text) {
    for (size_t at = 0, length; at < text.size_bytes; at += length) {
        length = 1;
        if ((uint8_t)text.data[at] < 0x80)
            continue;
        uint32_t c = utf8_at(text, at, &length);
        if (unicode_joins(c) || (unicode_decomposes(c) && (form != UNICODE_NFC || c >= 0x300)))
            return true;
    }
    return false;
}

enum status unicode_form_append(enum unicode_form form, struct text text, struct byte_buffer *out, struct error *err) {
    struct segment segment = {0};
    enum status status = STATUS_OK;
    for (size_t at = 0; at < text.size_bytes && status == STATUS_OK;) {
        size_t run = at; /* ASCII that nothing joins is copied at once */
        while (run < text.size_bytes && (uint8_t)text.data[run] < 0x80)
            run++;
        if (run > at && run < text.size_bytes)
            run--;
        if (run > at) {
            status = byte_buffer_append(out, text.data + at, run - at, err);
            at = run;
            continue;
        }
        size_t first_bytes;
        (void)utf8_at(text, at, &first_bytes);
        size_t end = joined_end(text, at + first_bytes);
        status = append_segment(form, (struct text){text.data + at, end - at}, first_bytes, &segment, out, err);
        at = end;
    }
    segment_deinit(&segment);
    return status;
}
