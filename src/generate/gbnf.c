/* gbnf: recursive descent, one function for each level of the notation. */
#include "generate/gbnf.h"

#include <string.h>

#include "base/text_map.h"
#include "generate/grammar_chars.h"

struct reader {
    struct grammar *grammar;
    struct text text;
    size_t at;
    struct text_map rules; /* name -> rule; names are parts of the text */
    unsigned depth;
    struct char_set set; /* of the class under way: large, so not on the stack of each group */
};

static void fail(struct reader *r, const char *what) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < r->at && i < r->text.size_bytes; i++) {
        column = r->text.data[i] == '\n' ? 1 : column + 1;
        line += r->text.data[i] == '\n';
    }
    grammar_fail(r->grammar, STATUS_INVALID, "grammar, line %zu, column %zu: %s", line, column, what);
    r->at = r->text.size_bytes;
}

static int peek(const struct reader *r) { return r->at < r->text.size_bytes ? (uint8_t)r->text.data[r->at] : -1; }

static bool looking_at(const struct reader *r, const char *mark) {
    return r->at < r->text.size_bytes && text_starts_with((struct text){r->text.data + r->at, r->text.size_bytes - r->at}, text_of(mark));
}

static void skip_space(struct reader *r) {
    for (; peek(r) >= 0 && (strchr(" \t\r\n", peek(r)) || peek(r) == '#') && peek(r) != 0; r->at++)
        if (peek(r) == '#')
            while (peek(r) >= 0 && peek(r) != '\n')
                r->at++;
}

static bool is_name_byte(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static struct text read_name(struct reader *r) {
    size_t begin = r->at;
    while (is_name_byte(peek(r)))
        r->at++;
    return (struct text){r->text.data + begin, r->at - begin};
}

static uint32_t rule_of(struct reader *r, struct text name) {
    uint32_t rule = 0;
    if (text_map_find(&r->rules, name, &rule))
        return rule;
    struct error err;
    rule = grammar_new_rule(r->grammar, name);
    if (text_map_add(&r->rules, name, rule, NULL, &err) != STATUS_OK)
        grammar_fail(r->grammar, err.status, "%s", err.text);
    return rule;
}

/* Whether a rule begins here: "name ::=". */
static bool rule_begins(struct reader *r) {
    size_t begin = r->at;
    bool named = read_name(r).size_bytes > 0;
    skip_space(r);
    bool begins = named && looking_at(r, "::=");
    r->at = begin;
    return begins;
}

/* ---- characters ---- */

static uint32_t read_hex(struct reader *r, unsigned digits) {
    uint32_t value = 0;
    for (unsigned i = 0; i < digits; i++, r->at++) {
        int c = peek(r);
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) {
            fail(r, "an escape needs hexadecimal digits here");
            return 0;
        }
        value = value << 4 | (uint32_t)digit;
    }
    if (value > CHAR_LAST || (value >= 0xd800 && value <= 0xdfff))
        fail(r, "there is no character of that number");
    return value > CHAR_LAST ? 0 : value;
}

static uint32_t read_char(struct reader *r) {
    uint32_t c = 0;
    if (peek(r) != '\\') {
        if (peek(r) < 0 || !char_next(r->text, &r->at, &c))
            fail(r, peek(r) < 0 ? "the grammar ends inside of a text or class" : "the grammar is no UTF-8 here");
        return c;
    }
    r->at++;
    int escape = peek(r);
    r->at += escape >= 0;
    switch (escape) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'x':
        return read_hex(r, 2);
    case 'u':
        return read_hex(r, 4);
    case 'U':
        return read_hex(r, 8);
    default:
        if (escape < 0 || !strchr("\\\"[]-^", escape) || escape == 0)
            fail(r, "unknown escape (known are \\n \\r \\t \\\\ \\\" \\[ \\] \\x \\u \\U)");
        return (uint32_t)(escape < 0 ? 0 : escape);
    }
}

static struct fragment one_char(struct reader *r, uint32_t c) {
    r->set.count = 0;
    (void)!char_set_add(&r->set, c, c);
    return grammar_chars(r->grammar, &r->set, CHARS_PLAIN);
}

static struct fragment any_char(struct reader *r) {
    r->set.count = 0;
    (void)!char_set_negate(&r->set);
    return grammar_chars(r->grammar, &r->set, CHARS_PLAIN);
}

static struct fragment read_text(struct reader *r) {
    struct fragment all = grammar_nothing(r->grammar);
    r->at++;
    while (peek(r) != '"' && !grammar_failed(r->grammar))
        all = grammar_join(r->grammar, all, one_char(r, read_char(r)));
    r->at++;
    return all;
}

static struct fragment read_class(struct reader *r) {
    r->set.count = 0;
    r->at++;
    bool negated = peek(r) == '^', fits = true;
    r->at += negated;
    while (peek(r) != ']' && !grammar_failed(r->grammar)) {
        uint32_t low = read_char(r), high = low;
        if (peek(r) == '-' && r->at + 1 < r->text.size_bytes && r->text.data[r->at + 1] != ']') {
            r->at++;
            high = read_char(r);
        }
        if (high < low)
            fail(r, "a range of characters goes backwards");
        else
            fits = fits && char_set_add(&r->set, low, high);
    }
    r->at++;
    if (!fits || (negated && !char_set_negate(&r->set)))
        fail(r, "the character class has too many parts");
    return grammar_chars(r->grammar, &r->set, CHARS_PLAIN);
}

/* ---- repeats, sequences, alternatives ---- */

static uint32_t read_number(struct reader *r, uint32_t otherwise) {
    size_t begin = r->at;
    uint64_t value = 0;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    if (r->at == begin)
        return otherwise;
    if (!text_parse_u64((struct text){r->text.data + begin, r->at - begin}, &value) || value > GRAMMAR_REPEAT_MAX)
        fail(r, "a repeat of more than 1000000 times");
    return value > GRAMMAR_REPEAT_MAX ? 0 : (uint32_t)value;
}

static struct fragment read_repeat(struct reader *r, struct fragment item) {
    uint32_t minimum = 0, maximum = GRAMMAR_UNBOUNDED;
    int mark = peek(r);
    r->at++;
    if (mark == '+') {
        minimum = 1;
    } else if (mark == '?') {
        maximum = 1;
    } else if (mark == '{') {
        skip_space(r);
        minimum = read_number(r, GRAMMAR_UNBOUNDED);
        maximum = minimum;
        skip_space(r);
        if (peek(r) == ',') {
            r->at++;
            skip_space(r);
            minimum = minimum == GRAMMAR_UNBOUNDED ? 0 : minimum;
            maximum = read_number(r, GRAMMAR_UNBOUNDED);
            skip_space(r);
        }
        if (peek(r) != '}' || minimum > maximum || minimum == GRAMMAR_UNBOUNDED) {
            fail(r, "a repeat is {n}, {m,}, {,n} or {m,n} with m not above n");
            return item;
        }
        r->at++;
    }
    return grammar_repeat(r->grammar, item, minimum, maximum);
}

static struct fragment read_alternatives(struct reader *r);

static bool read_item(struct reader *r, struct fragment *item) {
    int c = peek(r);
    switch (c) {
    case '"':
        *item = read_text(r);
        return true;
    case '[':
        *item = read_class(r);
        return true;
    case '.':
        r->at++;
        *item = any_char(r);
        return true;
    case '(':
        r->at++;
        *item = read_alternatives(r);
        if (peek(r) != ')')
            fail(r, "a group is not closed");
        r->at++;
        return true;
    default:
        if (!is_name_byte(c) || (r->depth == 1 && rule_begins(r)))
            return false;
        *item = grammar_call(r->grammar, rule_of(r, read_name(r)));
        return true;
    }
}

static struct fragment read_sequence(struct reader *r) {
    struct fragment all = grammar_nothing(r->grammar), item;
    skip_space(r);
    while (!grammar_failed(r->grammar) && read_item(r, &item)) {
        skip_space(r);
        while (peek(r) >= 0 && peek(r) != 0 && strchr("*+?{", peek(r)) && !grammar_failed(r->grammar)) {
            item = read_repeat(r, item);
            skip_space(r);
        }
        all = grammar_join(r->grammar, all, item);
    }
    return all;
}

static struct fragment read_alternatives(struct reader *r) {
    if (++r->depth > GBNF_DEPTH_MAX)
        fail(r, "groups are nested too deep");
    struct fragment all = read_sequence(r);
    while (peek(r) == '|' && !grammar_failed(r->grammar)) {
        r->at++;
        all = grammar_either(r->grammar, all, read_sequence(r));
    }
    r->depth--;
    return all;
}

static void read_rule(struct reader *r) {
    struct text name = read_name(r);
    skip_space(r);
    if (name.size_bytes == 0 || !looking_at(r, "::=")) {
        fail(r, "a rule is expected: name ::= what it matches");
        return;
    }
    r->at += 3;
    uint32_t rule = rule_of(r, name);
    if (!grammar_failed(r->grammar) && r->grammar->rules[rule].defined) {
        fail(r, "this rule is defined twice");
        return;
    }
    grammar_define(r->grammar, rule, read_alternatives(r));
    skip_space(r);
}

void gbnf_read(struct grammar *grammar, struct text text) {
    struct reader r = {.grammar = grammar, .text = text};
    struct error err;
    if (text_map_init(&r.rules, 64, &err) != STATUS_OK) {
        grammar_fail(grammar, err.status, "%s", err.text);
        return;
    }
    skip_space(&r);
    while (r.at < r.text.size_bytes && !grammar_failed(grammar))
        read_rule(&r);
    if (!grammar_failed(grammar) && !text_map_find(&r.rules, TEXT("root"), &grammar->root))
        grammar_fail(grammar, STATUS_INVALID, "grammar: there is no rule 'root', which the answer begins with");
    text_map_deinit(&r.rules);
}
