/* jinja_integer: schoolbook arithmetic in base 10^9; templates rarely leave 64 bits. */
#include "text/jinja_integer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define BASE 1000000000u
#define LIMBS_MAX 478 /* 4300 digits */

static struct jinja_big *big_new(struct jinja_run *run, uint32_t count) {
    if (count > LIMBS_MAX + 1) {
        jinja_fail(run, JINJA_LIMIT, "an integer of more than 4300 digits");
        return NULL;
    }
    struct jinja_big *big = jinja_alloc(run, sizeof *big);
    uint32_t *limbs = jinja_alloc(run, count * sizeof *limbs);
    if (!big || !limbs)
        return NULL;
    *big = (struct jinja_big){.count = count, .limbs = limbs};
    return big;
}

/* False for a BIG; *out is the value of a BOOL or INT, and 0 for anything else (a failed run). */
static bool small(struct jinja_value v, int64_t *out) {
    *out = v.kind == JINJA_BOOL ? v.boolean : v.kind == JINJA_INT ? v.integer : 0;
    return v.kind != JINJA_BIG;
}

struct widened { /* a BOOL or INT as a big number on the stack */
    struct jinja_big big;
    uint32_t limbs[3];
};

static const struct jinja_big *widen(struct jinja_value v, struct widened *w) {
    int64_t i;
    if (!small(v, &i))
        return v.big;
    uint64_t left = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    w->big = (struct jinja_big){.negative = i < 0, .limbs = w->limbs};
    for (; left; left /= BASE)
        w->limbs[w->big.count++] = (uint32_t)(left % BASE);
    return &w->big;
}

/* Drops zero limbs and goes back to 64 bits when it fits. */
static struct jinja_value shrink(struct jinja_run *run, struct jinja_big *big) {
    if (!big || run->failed)
        return JINJA_NOTHING;
    while (big->count && big->limbs[big->count - 1] == 0)
        big->count--;
    if (big->count > LIMBS_MAX)
        return jinja_fail(run, JINJA_LIMIT, "an integer of more than 4300 digits");
    if (big->count <= 3) {
        uint64_t value = 0;
        bool fits = true;
        for (uint32_t i = big->count; i-- > 0;)
            fits = fits && !__builtin_mul_overflow(value, (uint64_t)BASE, &value) && !__builtin_add_overflow(value, big->limbs[i], &value);
        if (fits && value <= (uint64_t)INT64_MAX + big->negative)
            return jinja_int(big->negative ? (int64_t)(0 - value) : (int64_t)value);
    }
    return (struct jinja_value){.kind = JINJA_BIG, .big = big};
}

static int compare_magnitude(const struct jinja_big *a, const struct jinja_big *b) {
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (uint32_t i = a->count; i-- > 0;)
        if (a->limbs[i] != b->limbs[i])
            return a->limbs[i] < b->limbs[i] ? -1 : 1;
    return 0;
}

int jinja_integer_compare(struct jinja_value a, struct jinja_value b) {
    struct widened wa, wb;
    const struct jinja_big *x = widen(a, &wa), *y = widen(b, &wb);
    if (x->negative != y->negative)
        return x->negative ? -1 : 1;
    return x->negative ? compare_magnitude(y, x) : compare_magnitude(x, y);
}

/* |x| + |y| or |x| - |y| (then |x| >= |y|). */
static struct jinja_big *combine(struct jinja_run *run, const struct jinja_big *x, const struct jinja_big *y, bool subtract) {
    uint32_t count = x->count > y->count ? x->count : y->count;
    struct jinja_big *sum = big_new(run, count + 1);
    int64_t carry = 0;
    for (uint32_t i = 0; sum && i <= count; i++) {
        int64_t left = i < x->count ? x->limbs[i] : 0, right = i < y->count ? y->limbs[i] : 0;
        int64_t digit = left + (subtract ? -right : right) + carry;
        carry = digit < 0 ? -1 : digit >= (int64_t)BASE;
        sum->limbs[i] = (uint32_t)(digit - carry * (int64_t)BASE);
    }
    return sum;
}

static struct jinja_value add_signed(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool negate_b) {
    struct widened wa, wb;
    const struct jinja_big *x = widen(a, &wa), *y = widen(b, &wb);
    bool y_negative = y->negative != negate_b, x_negative = x->negative;
    if (x_negative != y_negative && compare_magnitude(x, y) < 0) {
        const struct jinja_big *swap = x;
        x = y, y = swap;
        x_negative = y_negative, y_negative = !x_negative;
    }
    struct jinja_big *sum = combine(run, x, y, x_negative != y_negative);
    if (sum)
        sum->negative = x_negative;
    return shrink(run, sum);
}

struct jinja_value jinja_integer_add(struct jinja_run *run, struct jinja_value a, struct jinja_value b) {
    int64_t x, y, sum;
    if (small(a, &x) && small(b, &y) && !__builtin_add_overflow(x, y, &sum))
        return jinja_int(sum);
    return add_signed(run, a, b, false);
}

struct jinja_value jinja_integer_subtract(struct jinja_run *run, struct jinja_value a, struct jinja_value b) {
    int64_t x, y, difference;
    if (small(a, &x) && small(b, &y) && !__builtin_sub_overflow(x, y, &difference))
        return jinja_int(difference);
    return add_signed(run, a, b, true);
}

struct jinja_value jinja_integer_negate(struct jinja_run *run, struct jinja_value a) {
    return jinja_integer_subtract(run, jinja_int(0), a);
}

struct jinja_value jinja_integer_multiply(struct jinja_run *run, struct jinja_value a, struct jinja_value b) {
    int64_t p, q, product;
    if (small(a, &p) && small(b, &q) && !__builtin_mul_overflow(p, q, &product))
        return jinja_int(product);
    struct widened wa, wb;
    const struct jinja_big *x = widen(a, &wa), *y = widen(b, &wb);
    struct jinja_big *result = big_new(run, x->count + y->count);
    for (uint32_t i = 0; result && i < x->count; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < y->count || carry; j++) {
            uint64_t digit = result->limbs[i + j] + carry + (j < y->count ? (uint64_t)x->limbs[i] * y->limbs[j] : 0);
            result->limbs[i + j] = (uint32_t)(digit % BASE);
            carry = digit / BASE;
        }
    }
    if (result)
        result->negative = x->negative != y->negative;
    jinja_step(run, (uint64_t)x->count * y->count / 16);
    return shrink(run, result);
}

/* Long division of magnitudes: each quotient limb by bisection over multiples of y. */
static struct jinja_value divide_magnitudes(struct jinja_run *run, struct jinja_value x, struct jinja_value y, struct jinja_value *rest) {
    struct widened wx;
    const struct jinja_big *big = widen(x, &wx);
    struct jinja_big *quotient = big_new(run, big->count);
    struct jinja_value r = jinja_int(0);
    for (uint32_t i = big->count; quotient && i-- > 0 && jinja_step(run, big->count);) {
        r = jinja_integer_add(run, jinja_integer_multiply(run, r, jinja_int(BASE)), jinja_int(big->limbs[i]));
        int64_t low = 0, high = BASE - 1;
        while (low < high && !run->failed) {
            int64_t middle = (low + high + 1) / 2;
            if (jinja_integer_compare(jinja_integer_multiply(run, y, jinja_int(middle)), r) <= 0)
                low = middle;
            else
                high = middle - 1;
        }
        quotient->limbs[i] = (uint32_t)low;
        r = jinja_integer_subtract(run, r, jinja_integer_multiply(run, y, jinja_int(low)));
    }
    *rest = r;
    return shrink(run, quotient);
}

void jinja_integer_divide(struct jinja_run *run, struct jinja_value a, struct jinja_value b, struct jinja_value *quotient,
                          struct jinja_value *remainder) {
    struct jinja_value q = JINJA_NOTHING, r = JINJA_NOTHING, zero = jinja_int(0);
    int64_t x, y;
    if (jinja_integer_compare(b, zero) == 0) {
        jinja_fail(run, JINJA_TYPE, "integer division or modulo by zero");
    } else if (small(a, &x) && small(b, &y) && !(x == INT64_MIN && y == -1)) {
        int64_t floor = x / y - (x % y != 0 && (x < 0) != (y < 0));
        q = jinja_int(floor), r = jinja_int(x - floor * y);
    } else {
        bool a_negative = jinja_integer_compare(a, zero) < 0, b_negative = jinja_integer_compare(b, zero) < 0;
        q = divide_magnitudes(run, a_negative ? jinja_integer_negate(run, a) : a, b_negative ? jinja_integer_negate(run, b) : b, &r);
        if (!run->failed && a_negative != b_negative)
            q = jinja_integer_subtract(run, jinja_integer_negate(run, q), jinja_int(jinja_integer_compare(r, zero) != 0));
        r = run->failed ? JINJA_NOTHING : jinja_integer_subtract(run, a, jinja_integer_multiply(run, q, b));
    }
    if (quotient)
        *quotient = q;
    if (remainder)
        *remainder = r;
}

struct jinja_value jinja_integer_power(struct jinja_run *run, struct jinja_value a, uint64_t exponent) {
    struct jinja_value result = jinja_int(1);
    for (; exponent && !run->failed; exponent >>= 1) {
        if (exponent & 1)
            result = jinja_integer_multiply(run, result, a);
        if (exponent > 1 && !run->failed)
            a = jinja_integer_multiply(run, a, a);
    }
    return result;
}

bool jinja_integer_parse(struct jinja_run *run, struct text digits, unsigned base, struct jinja_value *out) {
    CHECK(base >= 2 && base <= 36);
    struct jinja_value value = jinja_int(0);
    for (size_t i = 0; i < digits.size_bytes && !run->failed; i++) {
        char c = digits.data[i];
        unsigned digit = c >= '0' && c <= '9'                 ? (unsigned)(c - '0')
                         : (c | 32) >= 'a' && (c | 32) <= 'z' ? (unsigned)((c | 32) - 'a') + 10
                                                              : 99;
        if (digit >= base)
            return false;
        value = jinja_integer_add(run, jinja_integer_multiply(run, value, jinja_int(base)), jinja_int(digit));
    }
    *out = value;
    return digits.size_bytes > 0 && !run->failed;
}

void jinja_integer_print(struct jinja_builder *b, struct jinja_value a) {
    char digits[24];
    int64_t value;
    if (small(a, &value)) {
        snprintf(digits, sizeof digits, "%lld", (long long)value);
        jinja_put_text(b, digits);
        return;
    }
    jinja_put_text(b, a.big->negative ? "-" : "");
    for (uint32_t i = a.big->count; i-- > 0;) {
        snprintf(digits, sizeof digits, i + 1 == a.big->count ? "%u" : "%09u", a.big->limbs[i]);
        jinja_put_text(b, digits);
    }
}

bool jinja_parse_float(struct text text, double *out) {
    if (text_parse_f64(text, out))
        return true;
    /* A number that is too large is refused as well: with its exponent cut off it must be one. */
    size_t mark = 0;
    while (mark < text.size_bytes && (text.data[mark] | 32) != 'e')
        mark++;
    if (mark == text.size_bytes || !text_parse_f64((struct text){text.data, mark}, out))
        return false;
    for (size_t i = mark + 1 + (mark + 1 < text.size_bytes && text.data[mark + 1] == '+'); i < text.size_bytes; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    *out = *out == 0 ? *out : *out < 0 ? -INFINITY : INFINITY;
    return true;
}

double jinja_integer_double(struct jinja_value a) {
    int64_t value;
    if (small(a, &value))
        return (double)value;
    char text[120]; /* 36 digits or more decide the rounding; whether anything follows is one digit more */
    const uint32_t *limbs = a.big->limbs;
    uint32_t top = a.big->count, low = top > 4 ? top - 4 : 0;
    bool rest = false;
    for (uint32_t i = 0; i < low; i++)
        rest = rest || limbs[i] != 0;
    size_t at = (size_t)snprintf(text, sizeof text, "%s", a.big->negative ? "-" : "");
    for (uint32_t i = top; i-- > low;)
        at += (size_t)snprintf(text + at, sizeof text - at, "%09u", limbs[i]);
    at += (size_t)snprintf(text + at, sizeof text - at, ".%de%u", rest, low * 9);
    double number = 0;
    bool read = jinja_parse_float((struct text){text, at}, &number);
    ASSERT(read);
    (void)read;
    return number;
}

struct jinja_value jinja_integer_from_double(struct jinja_run *run, double d) {
    d = trunc(d);
    if (fabs(d) < 9.2e18)
        return jinja_int((int64_t)d);
    char text[400];
    int size = snprintf(text, sizeof text, "%.0f", fabs(d));
    ASSERT(size > 0 && (size_t)size < sizeof text);
    struct jinja_value value = JINJA_NOTHING;
    if (!jinja_integer_parse(run, (struct text){text, (size_t)size}, 10, &value))
        return value;
    return d < 0 ? jinja_integer_negate(run, value) : value;
}
