/*
 * pattern_translate: from Oniguruma's Ruby syntax to PCRE2's, in one pass over the expression.
 *
 * The differences that matter: \s \w \d \h and POSIX brackets are classes of Unicode properties here and there of other
 * members; script names mean the script and not its extensions; `{n,m}+` repeats and is not possessive; (?m) lets the dot
 * match a newline; classes nest and intersect (`[a&&[^b]]`: pattern_class.c).
 *
 * Model  `atom` is where the last thing that a quantifier may follow begins in the output; groups remember their begin on a stack.
 */
#include "text/pattern.h"

#include "base/check.h"
#include "text/pattern_class.h"

#define GROUPS_MAX 100u

struct translation {
    struct pattern_source source;
    struct byte_buffer *out;
    size_t atom; /* SIZE_MAX: nothing to repeat */
    size_t groups[GROUPS_MAX];
    unsigned depth;
};

static enum status put(struct translation *t, const char *text, struct error *err) {
    return byte_buffer_append_text(t->out, text_of(text), err);
}

static enum status put_source(struct translation *t, size_t begin, size_t end, struct error *err) {
    return byte_buffer_append(t->out, t->source.text.data + begin, end - begin, err);
}

/* Outside of brackets, and only there, the superscript digits and fractions of Latin-1 are word characters. */
#define WORD_EXTRAS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

/* \b (or \B): PCRE2's own knows other word characters. */
static enum status put_boundary(struct translation *t, bool boundary, struct error *err) {
    struct byte_buffer word;
    byte_buffer_init(&word, t->out->limit_bytes);
    enum status status = pattern_put_word(&word, err);
    if (status == STATUS_OK)
        status = byte_buffer_append_text(&word, TEXT(WORD_EXTRAS), err);
    static const char *const parts[2][4] = {{"(?:(?<=[", "])(?=[", "])|(?<![", "])(?!["}, {"(?:(?<=[", "])(?![", "])|(?<![", "])(?=["}};
    for (int i = 0; i < 4 && status == STATUS_OK; i++) {
        status = put(t, parts[boundary][i], err);
        if (status == STATUS_OK)
            status = byte_buffer_append_text(t->out, byte_buffer_text(&word), err);
    }
    byte_buffer_deinit(&word);
    return status == STATUS_OK ? put(t, "]))", err) : status;
}

/* A backslash outside of a class. */
static enum status translate_escape(struct translation *t, struct error *err) {
    struct pattern_source *source = &t->source;
    size_t begin = source->at;
    char c = begin + 1 < source->text.size_bytes ? source->text.data[begin + 1] : 0;
    t->atom = t->out->size_bytes;
    if (c == 0)
        return pattern_source_fail(source, "a backslash ends the expression", err);
    if (strchr("AzZGKRXN", c) || (c >= '1' && c <= '9')) { /* the same in both */
        source->at += 2;
        return put_source(t, begin, source->at, err);
    }
    if (c == 'O') {
        source->at += 2;
        return put(t, "(?s:.)", err);
    }
    if (c == 'b' || c == 'B') {
        source->at += 2;
        return put_boundary(t, c == 'b', err);
    }
    if ((c == 'k' || c == 'g') && begin + 2 < source->text.size_bytes && source->text.data[begin + 2] == '<') {
        const char *close = memchr(source->text.data + begin, '>', source->text.size_bytes - begin);
        if (!close)
            return pattern_source_fail(source, "a group name without >", err);
        source->at = (size_t)(close - source->text.data) + 1;
        return put_source(t, begin, source->at, err);
    }
    struct byte_buffer item;
    byte_buffer_init(&item, t->out->limit_bytes);
    struct pattern_meaning meaning = {0};
    enum status status = pattern_read_escape(source, &item, &meaning, err);
    if (status == STATUS_OK)
        status = put(t, meaning.negated ? "[^" : "[", err);
    if (status == STATUS_OK)
        status = byte_buffer_append_text(t->out, byte_buffer_text(&item), err);
    if (status == STATUS_OK)
        status = put(t, c == 'w' || c == 'W' ? WORD_EXTRAS "]" : "]", err);
    byte_buffer_deinit(&item);
    return status;
}

/* "(?imx-imx" up to ':' or ')': Ruby's m is PCRE2's s. Leaves the cursor on the closing character. */
static enum status translate_flags(struct translation *t, struct error *err) {
    struct pattern_source *source = &t->source;
    for (; source->at < source->text.size_bytes; source->at++) {
        char c = source->text.data[source->at];
        if (c == ':' || c == ')')
            return STATUS_OK;
        if (c != 'i' && c != 'x' && c != 'm' && c != '-')
            return pattern_source_fail(source, "this group option is not supported", err);
        c = c == 'm' ? 's' : c;
        TRY(byte_buffer_append(t->out, &c, 1, err));
    }
    return pattern_source_fail(source, "a group without )", err);
}

/* The start of a group, with what follows "(?". */
static enum status translate_open(struct translation *t, struct error *err) {
    struct pattern_source *source = &t->source;
    struct text rest = {source->text.data + source->at, source->text.size_bytes - source->at};
    if (text_starts_with(rest, TEXT("(?#"))) {
        const char *close = memchr(rest.data, ')', rest.size_bytes);
        if (!close)
            return pattern_source_fail(source, "a comment without )", err);
        source->at += (size_t)(close - rest.data) + 1;
        return STATUS_OK;
    }
    if (t->depth == GROUPS_MAX)
        return pattern_source_fail(source, "groups nested deeper than 100", err);
    t->groups[t->depth++] = t->out->size_bytes;
    t->atom = SIZE_MAX;
    static const char *const same[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        if (text_starts_with(rest, text_of(same[i]))) {
            source->at += strlen(same[i]);
            return put(t, same[i], err);
        }
    if (text_starts_with(rest, TEXT("(?<"))) { /* a name */
        const char *close = memchr(rest.data, '>', rest.size_bytes);
        if (!close)
            return pattern_source_fail(source, "a group name without >", err);
        size_t begin = source->at;
        source->at += (size_t)(close - rest.data) + 1;
        return put_source(t, begin, source->at, err);
    }
    source->at++;
    TRY(put(t, "(", err));
    if (!text_starts_with(rest, TEXT("(?")))
        return STATUS_OK;
    source->at++;
    TRY(put(t, "?", err));
    TRY(translate_flags(t, err));
    if (source->text.data[source->at] == ')')
        return STATUS_OK; /* "(?i)": closed by the main loop */
    source->at++;
    return put(t, ":", err);
}

static enum status translate_close(struct translation *t, struct error *err) {
    if (t->depth == 0)
        return pattern_source_fail(&t->source, ") without (", err);
    t->atom = t->groups[--t->depth];
    t->source.at++;
    return put(t, ")", err);
}

/* Reads "{n}", "{n,}", "{,m}" or "{n,m}"; false when the brace is a plain character. */
static bool read_interval(const struct pattern_source *source, unsigned long bounds[2], bool *open, bool *exact, size_t *end) {
    size_t at = source->at + 1;
    bool seen[2] = {false, false};
    bounds[0] = bounds[1] = 0;
    *exact = true;
    for (int side = 0; side < 2; side++) {
        for (; at < source->text.size_bytes && source->text.data[at] >= '0' && source->text.data[at] <= '9'; at++) {
            bounds[side] = bounds[side] * 10 + (unsigned long)(source->text.data[at] - '0');
            seen[side] = true;
            if (bounds[side] > 65535)
                return false;
        }
        if (side == 0 && at < source->text.size_bytes && source->text.data[at] == ',') {
            *exact = false;
            at++;
        } else {
            break;
        }
    }
    *open = !*exact && !seen[1];
    *end = at + 1;
    return at < source->text.size_bytes && source->text.data[at] == '}' && (seen[0] || seen[1]);
}

static enum status translate_interval(struct translation *t, struct error *err) {
    struct pattern_source *source = &t->source;
    unsigned long bounds[2];
    bool open, exact;
    size_t end;
    if (!read_interval(source, bounds, &open, &exact, &end)) {
        t->atom = t->out->size_bytes;
        source->at++;
        return put(t, "\\{", err);
    }
    if (t->atom == SIZE_MAX)
        return pattern_source_fail(source, "nothing to repeat", err);
    char next = end < source->text.size_bytes ? source->text.data[end] : 0;
    /* Followed by a quantifier that does not modify the interval but repeats it: the interval becomes a group. */
    bool group = next == '+' || next == '*' || next == '{' || (next == '?' && exact);
    if (group) {
        struct byte_buffer tail;
        byte_buffer_init(&tail, t->out->limit_bytes);
        enum status status = byte_buffer_append(&tail, t->out->data + t->atom, t->out->size_bytes - t->atom, err);
        t->out->size_bytes = t->atom;
        if (status == STATUS_OK)
            status = put(t, "(?:", err);
        if (status == STATUS_OK)
            status = byte_buffer_append_text(t->out, byte_buffer_text(&tail), err);
        byte_buffer_deinit(&tail);
        TRY(status);
    }
    source->at = end;
    TRY(byte_buffer_printf(t->out, err, "{%lu", bounds[0]));
    if (open)
        TRY(put(t, ",", err));
    else if (!exact)
        TRY(byte_buffer_printf(t->out, err, ",%lu", bounds[1]));
    return put(t, group ? "})" : "}", err);
}

/* One element of the expression. */
static enum status translate_next(struct translation *t, struct error *err) {
    struct pattern_source *source = &t->source;
    size_t begin = source->at;
    char c = source->text.data[begin];
    switch (c) {
    case '\\':
        return translate_escape(t, err);
    case '[':
        t->atom = t->out->size_bytes;
        return pattern_class(source, t->out, err);
    case '(':
        return translate_open(t, err);
    case ')':
        return translate_close(t, err);
    case '{':
        return translate_interval(t, err);
    case '*':
    case '+':
    case '?': /* a second one makes it lazy or possessive in both worlds */
        source->at++;
        return put_source(t, begin, source->at, err);
    case '|':
        t->atom = SIZE_MAX;
        source->at++;
        return put(t, "|", err);
    default:
        t->atom = t->out->size_bytes;
        source->at++;
        while (source->at < source->text.size_bytes && ((uint8_t)source->text.data[source->at] & 0xC0) == 0x80)
            source->at++;
        return put_source(t, begin, source->at, err);
    }
}

enum status pattern_translate(struct text expression, struct byte_buffer *out, struct error *err) {
    struct translation t = {.source = {.text = expression}, .out = out, .atom = SIZE_MAX};
    while (t.source.at < expression.size_bytes) {
        size_t before = t.source.at;
        TRY(translate_next(&t, err));
        ASSERT(t.source.at > before && t.source.at <= expression.size_bytes);
    }
    return t.depth == 0 ? STATUS_OK : pattern_source_fail(&t.source, "a group without )", err);
}
