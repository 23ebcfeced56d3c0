/* regex: recursive descent. */
#include "generate/regex.h"

#include <string.h>

struct reader {
    struct grammar *grammar;
    struct text text;
    size_t at;
    enum char_spelling spelling;
    unsigned depth;
    struct char_set set; /* of the character or class under way: large, so not on the stack of each group */
};

static void fail(struct reader *r, enum status status, const char *what) {
    grammar_fail(r->grammar, status, "pattern '%.*s%s', byte %zu: %s", (int)(r->text.size_bytes > 60 ? 60 : r->text.size_bytes),
                 r->text.data, r->text.size_bytes > 60 ? "..." : "", r->at + 1, what);
    r->at = r->text.size_bytes;
}

static int peek(const struct reader *r) { return r->at < r->text.size_bytes ? (uint8_t)r->text.data[r->at] : -1; }

static bool take(struct reader *r, const char *mark) {
    bool there =
        r->at < r->text.size_bytes && text_starts_with((struct text){r->text.data + r->at, r->text.size_bytes - r->at}, text_of(mark));
    r->at += there ? strlen(mark) : 0;
    return there;
}

/* ---- characters ---- */

static uint32_t read_hex(struct reader *r, unsigned digits_min, unsigned digits_max) {
    uint32_t value = 0;
    unsigned count = 0;
    for (; count < digits_max; count++, r->at++) {
        int c = peek(r);
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            break;
        value = value << 4 | (uint32_t)digit;
    }
    if (count < digits_min || value > CHAR_LAST || (value >= 0xd800 && value <= 0xdfff)) {
        fail(r, STATUS_INVALID, "this escape names no character");
        return 0;
    }
    return value;
}

/* \d, \w, \s and their opposites; false: none of them. */
static bool add_named(struct char_set *set, int name) {
    struct char_set named = {.count = 0};
    bool fits = true;
    switch (name | 0x20) {
    case 'd':
        fits = char_set_add(&named, '0', '9');
        break;
    case 'w':
        fits = char_set_add(&named, '0', '9') && char_set_add(&named, 'A', 'Z') && char_set_add(&named, 'a', 'z') &&
               char_set_add(&named, '_', '_');
        break;
    case 's':
        fits = char_set_add(&named, '\t', '\r') && char_set_add(&named, ' ', ' ');
        break;
    default:
        return false;
    }
    if (name < 'a')
        fits = fits && char_set_negate(&named);
    return fits && char_set_add_set(set, &named);
}

/* The character of an escape; at stands behind the backslash. */
static uint32_t read_escape(struct reader *r) {
    static const char names[] = "nrtfv0", values[] = "\n\r\t\f\v";
    int c = peek(r);
    const char *found = c > 0 ? strchr(names, c) : NULL;
    uint32_t character = 0;
    if (c > 0x7f || (c > 0 && strchr("^$\\.*+?()[]{}|/-\"'<>=!:,@#%&~`;_ ", c))) {
        if (!char_next(r->text, &r->at, &character))
            fail(r, STATUS_INVALID, "the pattern is no UTF-8");
        return character;
    }
    r->at++;
    if (found)
        return (uint32_t)(uint8_t)values[found - names];
    if (c == 'x')
        return read_hex(r, 2, 2);
    if (c == 'u') {
        if (!take(r, "{"))
            return read_hex(r, 4, 4);
        character = read_hex(r, 1, 6);
        if (!take(r, "}"))
            fail(r, STATUS_INVALID, "\\u{ is not closed");
        return character;
    }
    fail(r, STATUS_UNSUPPORTED, "this escape cannot be used to form an answer");
    return 0;
}

/* One member of a class: a character, or a named set (then false). */
static bool read_member(struct reader *r, uint32_t *character) {
    if (take(r, "\\")) {
        if (add_named(&r->set, peek(r))) {
            r->at++;
            return false;
        }
        if (peek(r) == 'b') { /* in a class: backspace */
            r->at++;
            *character = '\b';
        } else {
            *character = read_escape(r);
        }
        return true;
    }
    *character = 0;
    if (peek(r) < 0 || !char_next(r->text, &r->at, character))
        fail(r, STATUS_INVALID, peek(r) < 0 ? "a class is not closed" : "the pattern is no UTF-8");
    return true;
}

static struct fragment read_class(struct reader *r) {
    bool negated = take(r, "^"), fits = true;
    r->set.count = 0;
    if (peek(r) == ']')
        fail(r, STATUS_UNSUPPORTED, "a class that begins with ] means different things; write \\]");
    while (!grammar_failed(r->grammar) && !take(r, "]")) {
        uint32_t low, high;
        if (!read_member(r, &low))
            continue;
        high = low;
        if (peek(r) == '-' && r->at + 1 < r->text.size_bytes && r->text.data[r->at + 1] != ']') {
            r->at++;
            if (!read_member(r, &high)) { /* [a-\d]: the hyphen is itself */
                fits = fits && char_set_add(&r->set, '-', '-');
                high = low;
            }
        }
        if (high < low)
            fail(r, STATUS_INVALID, "a range goes backwards");
        else
            fits = fits && char_set_add(&r->set, low, high);
    }
    if (!fits || (negated && !char_set_negate(&r->set)))
        fail(r, STATUS_UNSUPPORTED, "the class has too many parts");
    return grammar_chars(r->grammar, &r->set, r->spelling);
}

static struct fragment any_char(struct reader *r, bool newlines) {
    static const uint32_t ends[] = {'\n', '\r', 0x2028, 0x2029};
    r->set.count = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !newlines; i++)
        (void)!char_set_add(&r->set, ends[i], ends[i]);
    (void)!char_set_negate(&r->set);
    return grammar_chars(r->grammar, &r->set, r->spelling);
}

/* ---- structure ---- */

static bool read_number(struct reader *r, uint32_t *value) {
    size_t begin = r->at;
    uint64_t number = 0;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    if (r->at == begin)
        return false;
    if (!text_parse_u64((struct text){r->text.data + begin, r->at - begin}, &number) || number > GRAMMAR_REPEAT_MAX) {
        fail(r, STATUS_UNSUPPORTED, "a repeat of more than 1000000 times");
        number = 0;
    }
    *value = (uint32_t)number;
    return true;
}

/* {m}, {m,}, {m,n}; false and nothing read: the bracket is a character. */
static bool read_counts(struct reader *r, uint32_t *minimum, uint32_t *maximum) {
    size_t begin = r->at;
    if (take(r, "{") && read_number(r, minimum)) {
        *maximum = *minimum;
        if (take(r, ",") && !read_number(r, maximum))
            *maximum = GRAMMAR_UNBOUNDED;
        if (take(r, "}"))
            return true;
    }
    r->at = grammar_failed(r->grammar) ? r->text.size_bytes : begin;
    return false;
}

static struct fragment read_repeats(struct reader *r, struct fragment item) {
    uint32_t minimum = 0, maximum = GRAMMAR_UNBOUNDED;
    if (take(r, "+"))
        minimum = 1;
    else if (take(r, "?"))
        maximum = 1;
    else if (!take(r, "*") && !read_counts(r, &minimum, &maximum))
        return item;
    (void)take(r, "?"); /* lazy: the same language */
    if (minimum > maximum) {
        fail(r, STATUS_INVALID, "a repeat's bounds are the wrong way round");
        return item;
    }
    if (peek(r) >= 0 && peek(r) != 0 && strchr("*+", peek(r)))
        fail(r, STATUS_INVALID, "a repeat of a repeat");
    return grammar_repeat(r->grammar, item, minimum, maximum);
}

static struct fragment read_alternatives(struct reader *r);

static struct fragment read_group(struct reader *r) {
    if (take(r, "?")) {
        if (take(r, "<") && peek(r) != '=' && peek(r) != '!') {
            while (peek(r) >= 0 && peek(r) != '>')
                r->at++;
            r->at++;
        } else if (!take(r, ":")) {
            fail(r, STATUS_UNSUPPORTED, "look-around and flags cannot be used to form an answer");
        }
    }
    struct fragment inner = read_alternatives(r);
    if (!take(r, ")"))
        fail(r, STATUS_INVALID, "a group is not closed");
    return inner;
}

static struct fragment read_character(struct reader *r) {
    uint32_t character = 0;
    r->set.count = 0;
    if (take(r, "\\")) {
        if (add_named(&r->set, peek(r))) {
            r->at++;
            return grammar_chars(r->grammar, &r->set, r->spelling);
        }
        character = read_escape(r);
    } else if (peek(r) < 0 || !char_next(r->text, &r->at, &character)) {
        fail(r, STATUS_INVALID, "the pattern is no UTF-8");
    }
    (void)!char_set_add(&r->set, character, character);
    return grammar_chars(r->grammar, &r->set, r->spelling);
}

static struct fragment read_item(struct reader *r) {
    if (take(r, "("))
        return read_group(r);
    if (take(r, "["))
        return read_class(r);
    if (take(r, "."))
        return any_char(r, false);
    if (peek(r) == '^' || peek(r) == '$')
        fail(r, STATUS_UNSUPPORTED, "^ and $ are understood at the ends of the pattern alone");
    else if (peek(r) > 0 && strchr("*+?", peek(r)))
        fail(r, STATUS_INVALID, "there is nothing to repeat");
    return read_character(r);
}

static bool at_end_of_sequence(const struct reader *r) {
    int c = peek(r);
    return c < 0 || c == '|' || c == ')' ||
           (c == '$' && r->depth == 1 && (r->at + 1 == r->text.size_bytes || r->text.data[r->at + 1] == '|'));
}

static struct fragment read_sequence(struct reader *r) {
    struct fragment all = grammar_nothing(r->grammar);
    while (!grammar_failed(r->grammar) && !at_end_of_sequence(r)) {
        struct fragment item = read_item(r);
        all = grammar_join(r->grammar, all, read_repeats(r, item));
    }
    return all;
}

static struct fragment read_alternatives(struct reader *r) {
    if (++r->depth > REGEX_DEPTH_MAX)
        fail(r, STATUS_UNSUPPORTED, "groups are nested too deep");
    struct fragment all = read_sequence(r);
    while (!grammar_failed(r->grammar) && take(r, "|"))
        all = grammar_either(r->grammar, all, read_sequence(r));
    r->depth--;
    return all;
}

/* One of the outermost alternatives, with its anchors. */
static struct fragment read_branch(struct reader *r, enum regex_extent extent) {
    struct grammar *g = r->grammar;
    bool from_start = take(r, "^");
    r->depth = 1;
    struct fragment body = read_sequence(r);
    bool to_end = take(r, "$");
    if (extent == REGEX_SEARCH && !from_start)
        body = grammar_join(g, grammar_repeat(g, any_char(r, true), 0, GRAMMAR_UNBOUNDED), body);
    if (extent == REGEX_SEARCH && !to_end)
        body = grammar_join(g, body, grammar_repeat(g, any_char(r, true), 0, GRAMMAR_UNBOUNDED));
    return body;
}

struct fragment regex_read(struct grammar *grammar, struct text pattern, enum regex_extent extent, enum char_spelling spelling) {
    struct reader r = {.grammar = grammar, .text = pattern, .spelling = spelling};
    struct fragment all = read_branch(&r, extent);
    while (!grammar_failed(grammar) && take(&r, "|"))
        all = grammar_either(grammar, all, read_branch(&r, extent));
    if (r.at < r.text.size_bytes)
        fail(&r, STATUS_INVALID, "a bracket is closed that was not opened");
    return all;
}
