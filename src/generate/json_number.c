/* json_number: digits against bounds. */
#include "generate/json_number.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define WHOLE_DIGITS 15
#define FRACTION_DIGITS 16

struct decimal { /* a magnitude */
    bool negative, open;
    uint8_t whole[WHOLE_DIGITS], fraction[FRACTION_DIGITS];
    int whole_count, fraction_count; /* at least one; no zeros at the end */
};

struct number {
    struct json_form *form;
    struct grammar *grammar;
    struct decimal low, high;
    uint32_t multiple;
    int decimals;
    uint32_t rest[WHOLE_DIGITS + 1][JSON_MULTIPLE_MAX]; /* rule + 1: that many digits after that remainder */
};

/* ---- bounds ---- */

static bool is_zero(const struct decimal *d) { return d->whole_count == 1 && d->whole[0] == 0 && d->fraction_count == 0; }

static void largest(struct decimal *d) {
    d->whole_count = WHOLE_DIGITS;
    memset(d->whole, 9, sizeof d->whole);
    d->fraction_count = 0;
    d->open = false;
}

/* Puts digits * 10^exponent apart; false: more digits than there is room for. */
static bool put_digits(struct decimal *d, const char *digits, int count, int point, bool *huge) {
    int first = 0;
    while (first < count && digits[first] == '0')
        first++;
    *huge = first < count && point - first > WHOLE_DIGITS;
    if (*huge)
        return true;
    d->whole_count = d->fraction_count = 0;
    for (int i = first; i < point; i++)
        d->whole[d->whole_count++] = (uint8_t)(i < count ? digits[i] - '0' : 0);
    if (d->whole_count == 0)
        d->whole[d->whole_count++] = 0;
    while (count > 0 && count > point && digits[count - 1] == '0')
        count--;
    for (int i = point; i < count; i++) {
        if (d->fraction_count == FRACTION_DIGITS)
            return false;
        d->fraction[d->fraction_count++] = (uint8_t)(i < 0 || i < first ? 0 : digits[i] - '0');
    }
    return true;
}

/* huge: beyond every number that is written. False: it cannot be compared with. */
static bool read_decimal(const json_t *value, bool open, struct decimal *d, bool *huge) {
    char text[40], digits[40];
    int count = 0, point = -1, exponent = 0;
    if (json_is_integer(value)) {
        (void)snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    } else { /* the shortest text that reads back as the same number */
        double back = 0;
        for (int precision = 0; precision < 17; precision++) {
            (void)snprintf(text, sizeof text, "%.*e", precision, json_real_value(value));
            if (text_parse_f64(text_of(text), &back) && !(back < json_real_value(value)) && !(back > json_real_value(value)))
                break;
        }
    }
    *d = (struct decimal){.negative = text[0] == '-', .open = open};
    for (const char *c = text + d->negative; *c; c++) {
        if (*c == '.') {
            point = count;
        } else if (*c == 'e') {
            int64_t power = 0;
            (void)text_parse_i64(text_of(c + 1 + (c[1] == '+')), &power);
            exponent = (int)power;
            break;
        } else {
            digits[count++] = *c;
        }
    }
    return put_digits(d, digits, count, (point < 0 ? count : point) + exponent, huge);
}

/* ---- digits ---- */

static struct fragment digit_range(struct number *n, int low, int high) {
    return grammar_range(n->grammar, (uint8_t)('0' + low), (uint8_t)('0' + high));
}

static struct fragment any_digits(struct number *n, int minimum, int maximum) {
    return grammar_repeat(n->grammar, digit_range(n, 0, 9), (uint32_t)minimum, (uint32_t)maximum);
}

static int places(const struct number *n) { return n->decimals < 0 || n->decimals > FRACTION_DIGITS ? FRACTION_DIGITS : n->decimals; }

/* Whether a number may end here: `at` digits of its fraction are written, and equal the bounds' where they are tight. */
static bool may_end(const struct number *n, int at, bool tight_low, bool tight_high) {
    bool low = !tight_low || (at >= n->low.fraction_count && !n->low.open);
    bool high = !tight_high || at < n->high.fraction_count || !n->high.open;
    return low && high;
}

static struct fragment fraction(struct number *n, int at, bool tight_low, bool tight_high) {
    struct grammar *g = n->grammar;
    int left = places(n) - at;
    tight_low = tight_low && (at < n->low.fraction_count || n->low.open);
    struct fragment all = may_end(n, at, tight_low, tight_high) ? grammar_nothing(g) : grammar_never(g);
    if (left <= 0 || (tight_high && at >= n->high.fraction_count))
        return all;
    struct fragment more = grammar_never(g);
    if (!tight_low && !tight_high) {
        more = grammar_either(g, more, any_digits(n, 1, left));
    } else {
        int low = !tight_low || at >= n->low.fraction_count ? 0 : n->low.fraction[at], high = tight_high ? n->high.fraction[at] : 9;
        for (int d = low; d <= high; d++) { /* tight ones alone, all between as one */
            bool at_low = tight_low && d == low, at_high = tight_high && d == high;
            int last = at_low || at_high ? d : tight_high ? high - 1 : 9;
            struct fragment rest = at_low || at_high ? fraction(n, at + 1, at_low, at_high) : any_digits(n, 0, left - 1);
            more = grammar_either(g, more, grammar_join(g, digit_range(n, d, last), rest));
            d = last;
        }
    }
    if (at == 0)
        more = grammar_join(g, grammar_literal(g, TEXT(".")), more);
    return grammar_either(g, all, more);
}

/* `left` digits that make the whole a multiple. */
static struct fragment rest_of_multiple(struct number *n, int left, uint32_t remainder) {
    struct grammar *g = n->grammar;
    if (left == 0)
        return remainder == 0 ? grammar_nothing(g) : grammar_never(g);
    uint32_t *known = &n->rest[left][remainder];
    if (!*known && !grammar_failed(g)) {
        struct fragment all = grammar_never(g);
        for (int d = 0; d < 10; d++)
            all = grammar_either(
                g, all, grammar_join(g, digit_range(n, d, d), rest_of_multiple(n, left - 1, (remainder * 10 + (uint32_t)d) % n->multiple)));
        *known = grammar_rule_of(g, all) + 1;
    }
    return grammar_failed(g) ? grammar_nothing(g) : grammar_call(g, *known - 1);
}

struct place { /* in the digits in front of the point */
    int count, at;
    bool tight_low, tight_high;
    uint32_t remainder;
};

static struct fragment whole(struct number *n, struct place p) {
    struct grammar *g = n->grammar;
    bool free = !p.tight_low && !p.tight_high && p.at > 0;
    if (free && n->multiple)
        return rest_of_multiple(n, p.count - p.at, p.remainder);
    if (free)
        return grammar_join(g, any_digits(n, p.count - p.at, p.count - p.at), fraction(n, 0, false, false));
    if (p.at == p.count)
        return n->multiple && p.remainder ? grammar_never(g) : fraction(n, 0, p.tight_low, p.tight_high);
    int low = p.tight_low ? n->low.whole[p.at] : p.at == 0 && p.count > 1, high = p.tight_high ? n->high.whole[p.at] : 9;
    struct fragment all = grammar_never(g);
    for (int d = low; d <= high; d++) {
        struct place next = {.count = p.count,
                             .at = p.at + 1,
                             .tight_low = p.tight_low && d == low,
                             .tight_high = p.tight_high && d == high,
                             .remainder = n->multiple ? (p.remainder * 10 + (uint32_t)d) % n->multiple : 0};
        int last = next.tight_low || next.tight_high || n->multiple ? d : p.tight_high ? high - 1 : 9;
        all = grammar_either(g, all, grammar_join(g, digit_range(n, d, last), whole(n, next)));
        d = last;
    }
    return all;
}

/* All magnitudes from low to high. */
static struct fragment magnitudes(struct number *n) {
    struct fragment all = grammar_never(n->grammar);
    for (int count = n->low.whole_count; count <= n->high.whole_count; count++) {
        struct place p = {.count = count, .tight_low = count == n->low.whole_count, .tight_high = count == n->high.whole_count};
        all = grammar_either(n->grammar, all, whole(n, p));
    }
    return all;
}

static struct fragment number(struct number *n, const struct json_bounds *b) {
    struct grammar *g = n->grammar;
    struct decimal low = {.negative = true}, high = {.negative = false}, zero = {.whole_count = 1};
    bool huge_low = false, huge_high = false;
    if ((b->minimum && !read_decimal(b->minimum, b->minimum_open, &low, &huge_low)) ||
        (b->maximum && !read_decimal(b->maximum, b->maximum_open, &high, &huge_high)) || (huge_low && !low.negative) ||
        (huge_high && high.negative)) {
        grammar_fail(g, STATUS_UNSUPPORTED, "a bound of more than %d digits in front of the point or %d behind it", WHOLE_DIGITS,
                     FRACTION_DIGITS);
        return grammar_nothing(g);
    }
    if (!b->minimum || huge_low)
        largest(&low);
    if (!b->maximum || huge_high)
        largest(&high);
    struct fragment all = grammar_never(g);
    if (!high.negative) {
        n->low = low.negative ? zero : low;
        n->high = high;
        all = grammar_either(g, all, magnitudes(n));
    }
    if (low.negative && !is_zero(&low)) {
        n->low = high.negative || (is_zero(&high) && high.open) ? high : zero;
        n->high = low;
        memset(n->rest, 0, sizeof n->rest);
        all = grammar_either(g, all, grammar_join(g, grammar_literal(g, TEXT("-")), magnitudes(n)));
    }
    return all;
}

struct fragment json_number(struct json_form *form, const struct json_bounds *bounds) {
    struct number n = {
        .form = form, .grammar = form->grammar, .multiple = bounds->multiple, .decimals = bounds->multiple ? 0 : bounds->decimals};
    CHECK(bounds->multiple <= JSON_MULTIPLE_MAX);
    return number(&n, bounds);
}
