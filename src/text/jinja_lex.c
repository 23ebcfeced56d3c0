/*
 * jinja_lex: cuts a template into data and tokens, and applies white space control: '-' strips all of it on its side, a block or comment
 * loses white space before it on its line (unless '+') and one newline after it (unless '+').
 */
#include <string.h>

#include "base/check.h"
#include "text/jinja_ast.h"
#include "text/python_unicode.h"
#include "text/unicode.h"

struct lexer {
    struct arena *arena;
    const char *source;
    size_t size_bytes, at;
    uint32_t line;
    size_t line_begin;  /* offset of the line's first byte */
    bool line_starting; /* the last match ended with a newline */
    struct jinja_token *tokens;
    size_t count, capacity;
    char brackets[256];
    unsigned open_brackets;
    bool failed, no_memory;
};

static void add(struct lexer *x, enum jinja_token_kind kind, size_t begin, struct text text) {
    if (x->failed)
        return;
    if (x->count == x->capacity) {
        size_t capacity = x->capacity ? x->capacity * 2 : 64;
        struct jinja_token *tokens = arena_grow(x->arena, x->tokens, x->count * sizeof *tokens, capacity * sizeof *tokens);
        if (!tokens) {
            x->failed = x->no_memory = true;
            return;
        }
        x->tokens = tokens, x->capacity = capacity;
    }
    x->tokens[x->count++] =
        (struct jinja_token){.kind = kind, .line = x->line, .column = (uint32_t)(begin - x->line_begin) + 1, .text = text};
    if (kind == TOKEN_ERROR)
        x->failed = true;
}

static void fail(struct lexer *x, size_t at, const char *what) { add(x, TOKEN_ERROR, at, text_of(what)); }

/* Moves to `end`, counting lines. */
static void advance(struct lexer *x, size_t end) {
    ASSERT(end >= x->at && end <= x->size_bytes);
    x->line_starting = end > x->at ? x->source[end - 1] == '\n' : x->line_starting;
    for (; x->at < end; x->at++) {
        if (x->source[x->at] == '\n') {
            x->line++;
            x->line_begin = x->at + 1;
        }
    }
}

static bool follows(const struct lexer *x, size_t at, const char *what) {
    size_t size = strlen(what);
    return at + size <= x->size_bytes && memcmp(x->source + at, what, size) == 0;
}

static size_t skip_space(const struct lexer *x, size_t at) {
    while (at < x->size_bytes) {
        size_t next = at;
        if (!python_is_space(jinja_next_code_point(x->source, x->size_bytes, &next)))
            break;
        at = next;
    }
    return at;
}

/* The text [begin, end) without white space at its end. */
static size_t strip_right(const struct lexer *x, size_t begin, size_t end) {
    while (end > begin) {
        size_t last = end - 1, at;
        while (last > begin && ((unsigned char)x->source[last] & 0xC0) == 0x80)
            last--;
        at = last;
        if (!python_is_space(jinja_next_code_point(x->source, end, &at)))
            break;
        end = last;
    }
    return end;
}

/* Emits template text before a tag whose sign is given; `is_variable` tags keep the white space of their line. */
static void add_data(struct lexer *x, size_t end, char sign, bool is_variable) {
    size_t kept = end;
    if (sign == '-') {
        kept = strip_right(x, x->at, end);
    } else if (sign != '+' && !is_variable) {
        size_t line = end;
        while (line > x->at && x->source[line - 1] != '\n')
            line--;
        if ((line > x->at || x->line_starting) && strip_right(x, line, end) == line)
            kept = line;
    }
    if (kept > x->at)
        add(x, TOKEN_DATA, x->at, (struct text){x->source + x->at, kept - x->at});
    advance(x, end);
}

/* End of "{% raw %}" that begins at `at`, or 0. */
static size_t raw_begin(const struct lexer *x, size_t at) {
    at += 2;
    if (at < x->size_bytes && (x->source[at] == '-' || x->source[at] == '+'))
        at++;
    at = skip_space(x, at);
    if (!follows(x, at, "raw"))
        return 0;
    at = skip_space(x, at + 3);
    if (follows(x, at, "-%}"))
        return skip_space(x, at + 3);
    return follows(x, at, "%}") ? at + 2 : 0;
}

/* End of a closing mark ("%}" or "#}") at `at` with its sign and the white space it takes, or 0. */
static size_t close_tag(const struct lexer *x, size_t at, const char *mark) {
    if (follows(x, at, "+") && follows(x, at + 1, mark))
        return at + 3;
    if (follows(x, at, "-") && follows(x, at + 1, mark))
        return skip_space(x, at + 3);
    if (!follows(x, at, mark))
        return 0;
    return at + 2 + follows(x, at + 2, "\n");
}

static char sign_at(const struct lexer *x, size_t at) {
    return at < x->size_bytes && (x->source[at] == '-' || x->source[at] == '+') ? x->source[at] : 0;
}

static void lex_raw(struct lexer *x, size_t begin) {
    for (size_t at = x->at; at < x->size_bytes; at++) {
        if (!follows(x, at, "{%"))
            continue;
        char sign = sign_at(x, at + 2);
        size_t word = skip_space(x, at + 2 + (sign != 0));
        size_t end = follows(x, word, "endraw") ? close_tag(x, skip_space(x, word + 6), "%}") : 0;
        if (end) {
            add_data(x, at, sign, false);
            advance(x, end);
            return;
        }
    }
    fail(x, begin, "Missing end of raw directive");
}

static void lex_comment(struct lexer *x, size_t begin) {
    for (size_t at = x->at; at < x->size_bytes; at++) {
        size_t end = close_tag(x, at, "#}");
        if (end) {
            advance(x, end);
            return;
        }
    }
    fail(x, begin, "Missing end of comment tag");
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits that may have single underscores between them; the end, or `at` when there are none. */
static size_t skip_digits(const struct lexer *x, size_t at) {
    while (at < x->size_bytes && is_digit(x->source[at])) {
        at++;
        if (at + 1 < x->size_bytes && x->source[at] == '_' && is_digit(x->source[at + 1]))
            at++;
    }
    return at;
}

static size_t lex_float(const struct lexer *x) {
    if (x->at > 0 && x->source[x->at - 1] == '.')
        return 0;
    size_t whole = skip_digits(x, x->at), at = whole;
    if (follows(x, at, ".") && skip_digits(x, at + 1) > at + 1)
        at = skip_digits(x, at + 1);
    if (at < x->size_bytes && (x->source[at] | 32) == 'e') {
        size_t exponent = at + 1;
        exponent += exponent < x->size_bytes && (x->source[exponent] == '+' || x->source[exponent] == '-');
        if (skip_digits(x, exponent) > exponent)
            return skip_digits(x, exponent);
    }
    return at > whole ? at : 0;
}

static size_t lex_integer(const struct lexer *x) {
    size_t at = x->at;
    if (x->source[at] == '0' && at + 1 < x->size_bytes) {
        char base = (char)(x->source[at + 1] | 32);
        const char *digits = base == 'b' ? "01" : base == 'o' ? "01234567" : base == 'x' ? "0123456789abcdefABCDEF" : NULL;
        size_t end = at + 2;
        while (digits && end < x->size_bytes) {
            size_t digit = end + (x->source[end] == '_');
            if (digit >= x->size_bytes || !x->source[digit] || !strchr(digits, x->source[digit]))
                break;
            end = digit + 1;
        }
        if (digits && end > at + 2)
            return end;
    }
    if (x->source[at] != '0')
        return skip_digits(x, at);
    for (at++; at < x->size_bytes;) { /* zeros only: "07" is two tokens */
        size_t zero = at + (x->source[at] == '_');
        if (zero >= x->size_bytes || x->source[zero] != '0')
            break;
        at = zero + 1;
    }
    return at;
}

/* Value of `count` hexadecimal digits at `at`, or -1. */
static int64_t hex_value(const struct lexer *x, size_t at, size_t end, unsigned count) {
    int64_t value = 0;
    for (unsigned i = 0; i < count; i++, at++) {
        char c = at < end ? x->source[at] : 0;
        int digit = is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static size_t put_utf8(char *out, uint32_t c) {
    return utf8_write(c >= 0xD800 && c < 0xE000 ? UNICODE_REPLACEMENT : c, out); /* half a surrogate pair has no UTF-8 */
}

/* Escape after the backslash at *at: writes to `out` (at most 4 bytes), moves *at. 0 written with *at unchanged: malformed. */
static size_t unescape(const struct lexer *x, size_t *at, size_t end, char *out) {
    char c = x->source[*at + 1];
    unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits) {
        int64_t value = hex_value(x, *at + 2, end, digits);
        if (value < 0 || value > 0x10FFFF)
            return 0;
        *at += 2 + digits;
        return put_utf8(out, (uint32_t)value);
    }
    if (c >= '0' && c <= '7') {
        uint32_t value = 0;
        size_t i = *at + 1;
        for (; i < end && i < *at + 4 && x->source[i] >= '0' && x->source[i] <= '7'; i++)
            value = value * 8 + (uint32_t)(x->source[i] - '0');
        *at = i;
        return put_utf8(out, value);
    }
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *found = c ? strchr(from, c) : NULL;
    *at += 2;
    if (c == '\n')
        return 0; /* *at moved: a line continuation */
    if (found)
        return out[0] = to[found - from], 1;
    return out[0] = '\\', out[1] = c, 2;
}

/* String literal at x->at, or false when it has no end. */
static bool lex_string(struct lexer *x) {
    char quote = x->source[x->at];
    size_t end = x->at + 1;
    while (end < x->size_bytes && x->source[end] != quote)
        end += x->source[end] == '\\' ? 2 : 1;
    if (end >= x->size_bytes)
        return false;
    char *value = arena_alloc(x->arena, end - x->at + 4);
    size_t size = 0;
    if (!value) {
        x->failed = x->no_memory = true;
        return true;
    }
    for (size_t at = x->at + 1; at < end;) {
        if (x->source[at] != '\\') {
            value[size++] = x->source[at++];
            continue;
        }
        size_t before = at;
        size += unescape(x, &at, end, value + size);
        if (at == before) {
            fail(x, at, "truncated or too large \\x, \\u or \\U escape in a string");
            return true;
        }
    }
    add(x, TOKEN_STRING, x->at, (struct text){value, size});
    advance(x, end + 1);
    return true;
}

static bool lex_operator(struct lexer *x) {
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    size_t size = 0;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (follows(x, x->at, two[i]))
            size = 2;
    char c = x->source[x->at];
    if (size == 0 && c && strchr("+-/*%~[](){}><=.:|,;", c))
        size = 1;
    if (size == 0)
        return false;
    if (size == 1 && strchr("([{", c)) {
        if (x->open_brackets == sizeof x->brackets)
            return fail(x, x->at, "brackets nested too deeply"), true;
        x->brackets[x->open_brackets++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (size == 1 && strchr(")]}", c)) {
        if (x->open_brackets == 0 || x->brackets[x->open_brackets - 1] != c)
            return fail(x, x->at, "unexpected closing bracket"), true;
        x->open_brackets--;
    }
    add(x, TOKEN_OPERATOR, x->at, (struct text){x->source + x->at, size});
    advance(x, x->at + size);
    return true;
}

static size_t lex_name(const struct lexer *x) {
    size_t at = x->at;
    while (at < x->size_bytes) {
        size_t next = at;
        uint32_t c = jinja_next_code_point(x->source, x->size_bytes, &next);
        if (c != '_' && !python_is_alphanumeric(c))
            break;
        at = next;
    }
    return at;
}

/* Tokens of one tag up to its closing mark. */
static void lex_tag(struct lexer *x, bool is_variable) {
    x->open_brackets = 0;
    while (!x->failed) {
        size_t space = skip_space(x, x->at), end = 0;
        advance(x, space);
        if (x->at >= x->size_bytes)
            return;
        if (x->open_brackets == 0) {
            if (!is_variable)
                end = close_tag(x, x->at, "%}");
            else
                end = follows(x, x->at, "-}}") ? skip_space(x, x->at + 3) : follows(x, x->at, "}}") ? x->at + 2 : 0;
        }
        if (end) {
            add(x, is_variable ? TOKEN_VARIABLE_END : TOKEN_BLOCK_END, x->at, (struct text){"", 0});
            advance(x, end);
            return;
        }
        char c = x->source[x->at];
        enum jinja_token_kind kind = TOKEN_NAME;
        if (is_digit(c)) {
            end = lex_float(x);
            kind = end ? TOKEN_FLOAT : TOKEN_INTEGER;
            if (!end)
                end = lex_integer(x);
        } else {
            end = lex_name(x);
        }
        if (end > x->at) {
            add(x, kind, x->at, (struct text){x->source + x->at, end - x->at});
            advance(x, end);
        } else if (!((c == '\'' || c == '"') && lex_string(x)) && !lex_operator(x)) {
            fail(x, x->at, "unexpected character");
        }
    }
}

/* Next tag from `at`; its kind is the byte after '{'. */
static size_t find_tag(const struct lexer *x, size_t at) {
    for (; at + 1 < x->size_bytes; at++)
        if (x->source[at] == '{' && (x->source[at + 1] == '{' || x->source[at + 1] == '%' || x->source[at + 1] == '#'))
            return at;
    return x->size_bytes;
}

/* Copies with \r\n and \r as \n, and without one newline at the end. */
static struct text normalise(struct arena *arena, struct text source) {
    char *copy = arena_alloc(arena, source.size_bytes + 1);
    size_t size = 0;
    for (size_t i = 0; copy && i < source.size_bytes; i++) {
        if (source.data[i] != '\r')
            copy[size++] = source.data[i];
        else if (i + 1 == source.size_bytes || source.data[i + 1] != '\n')
            copy[size++] = '\n';
    }
    if (size > 0 && copy[size - 1] == '\n')
        size--;
    return (struct text){copy, size};
}

const struct jinja_token *jinja_lex(struct arena *arena, struct text source) {
    source = normalise(arena, source);
    if (!source.data)
        return NULL;
    struct lexer x = {.arena = arena, .source = source.data, .size_bytes = source.size_bytes, .line = 1, .line_starting = true};
    while (x.at < x.size_bytes && !x.failed) {
        size_t tag = find_tag(&x, x.at);
        if (tag == x.size_bytes) {
            add_data(&x, tag, '+', true);
            break;
        }
        char kind = x.source[tag + 1], sign = sign_at(&x, tag + 2);
        size_t raw = kind == '%' ? raw_begin(&x, tag) : 0;
        add_data(&x, tag, sign, kind == '{');
        if (raw) {
            advance(&x, raw);
            lex_raw(&x, tag);
            continue;
        }
        if (kind != '#')
            add(&x, kind == '{' ? TOKEN_VARIABLE_BEGIN : TOKEN_BLOCK_BEGIN, tag, (struct text){"", 0});
        advance(&x, tag + 2 + (sign != 0));
        if (kind == '#')
            lex_comment(&x, tag);
        else
            lex_tag(&x, kind == '{');
    }
    if (!x.failed && x.count > 0)
        x.line = x.tokens[x.count - 1].line; /* jinja2 gives the end the line of the last token */
    add(&x, TOKEN_END, x.at, (struct text){"", 0});
    return x.no_memory ? NULL : x.tokens;
}
