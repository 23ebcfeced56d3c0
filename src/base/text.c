/* text: comparing, hashing, and strict parsing that does not depend on the locale. */
#include "base/text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"

#define NUMBER_CHARACTERS_MAX 127 /* longest number with a fraction that is read */
#define DISTANCE_CHARACTERS_MAX 64

bool text_equal(struct text a, struct text b) {
    return a.size_bytes == b.size_bytes && (a.size_bytes == 0 || memcmp(a.data, b.data, a.size_bytes) == 0);
}

bool text_is(struct text a, const char *terminated) {
    return text_equal(a, text_of(terminated));
}

bool text_starts_with(struct text a, struct text prefix) {
    return a.size_bytes >= prefix.size_bytes && text_equal((struct text){a.data, prefix.size_bytes}, prefix);
}

bool text_ends_with(struct text a, struct text suffix) {
    if (a.size_bytes < suffix.size_bytes)
        return false;
    return suffix.size_bytes == 0 || memcmp(a.data + (a.size_bytes - suffix.size_bytes), suffix.data, suffix.size_bytes) == 0;
}

int text_compare(struct text a, struct text b) {
    ASSERT((a.data || a.size_bytes == 0) && (b.data || b.size_bytes == 0));
    size_t common = a.size_bytes < b.size_bytes ? a.size_bytes : b.size_bytes;
    int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : (a.size_bytes > b.size_bytes) - (a.size_bytes < b.size_bytes);
}

uint64_t text_hash(struct text a) {
    return XXH3_64bits(a.data ? a.data : "", a.size_bytes);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Leading digits of a; false when there are none or they overflow. *used is how many. */
static bool parse_digits(struct text a, uint64_t *out, size_t *used) {
    uint64_t value = 0;
    size_t i = 0;
    for (; i < a.size_bytes && is_digit(a.data[i]); i++)
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (unsigned)(a.data[i] - '0'), &value))
            return false;
    *out = value;
    *used = i;
    return i > 0;
}

bool text_parse_u64(struct text a, uint64_t *out) {
    uint64_t value;
    size_t used;
    if (!parse_digits(a, &value, &used) || used != a.size_bytes)
        return false;
    *out = value;
    return true;
}

bool text_parse_i64(struct text a, int64_t *out) {
    bool negative = a.size_bytes > 0 && a.data[0] == '-';
    uint64_t value;
    if (!text_parse_u64(negative ? (struct text){a.data + 1, a.size_bytes - 1} : a, &value))
        return false;
    if (value > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

static size_t count_digits(struct text a, size_t at) {
    size_t end = at;
    while (end < a.size_bytes && is_digit(a.data[end]))
        end++;
    return end - at;
}

/* -?D*(.D*)?([eE][+-]?D+)? with at least one digit before the exponent. */
static bool is_decimal(struct text a) {
    size_t i = a.size_bytes > 0 && a.data[0] == '-' ? 1 : 0;
    size_t digits = count_digits(a, i);
    i += digits;
    if (i < a.size_bytes && a.data[i] == '.') {
        size_t fraction = count_digits(a, i + 1);
        digits += fraction;
        i += 1 + fraction;
    }
    if (digits == 0)
        return false;
    if (i < a.size_bytes && (a.data[i] == 'e' || a.data[i] == 'E')) {
        i++;
        if (i < a.size_bytes && (a.data[i] == '+' || a.data[i] == '-'))
            i++;
        size_t exponent = count_digits(a, i);
        if (exponent == 0)
            return false;
        i += exponent;
    }
    return i == a.size_bytes;
}

bool text_parse_f64(struct text a, double *out) {
    char copy[NUMBER_CHARACTERS_MAX + 1];
    if (a.size_bytes > NUMBER_CHARACTERS_MAX || !is_decimal(a))
        return false;
    memcpy(copy, a.data, a.size_bytes);
    copy[a.size_bytes] = 0;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a constant of the C library: costs no memory */
    if (!plain)
        return false;
    char *end;
    double value = strtod_l(copy, &end, plain);
    freelocale(plain);
    ASSERT(*end == 0);
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

/* Bits to shift for a unit, from the rest after the number: "", "K", "kb", "KiB" ...; false when it is something else. */
static bool parse_unit(struct text rest, unsigned *shift) {
    static const char letters[] = "kmgt";
    *shift = 0;
    if (rest.size_bytes > 0) {
        const char *letter = memchr(letters, rest.data[0] | 0x20, 4);
        if (letter) {
            *shift = 10 * (unsigned)(letter - letters + 1);
            rest = (struct text){rest.data + 1, rest.size_bytes - 1};
        }
    }
    if (*shift && text_starts_with(rest, TEXT("i")))
        return text_is(rest, "iB") || text_is(rest, "ib");
    return rest.size_bytes == 0 || text_is(rest, "B") || text_is(rest, "b");
}

bool text_parse_size(struct text a, uint64_t *size_bytes) {
    uint64_t whole, fraction = 0, scale = 1;
    size_t used;
    unsigned shift;
    if (!parse_digits(a, &whole, &used))
        return false;
    bool has_fraction = used < a.size_bytes && a.data[used] == '.';
    if (has_fraction) {
        size_t digits = count_digits(a, used + 1);
        if (digits == 0 || digits > 6) /* 10^6 * 2^40 fits */
            return false;
        for (size_t i = used + 1; i <= used + digits; i++, scale *= 10)
            fraction = fraction * 10 + (uint64_t)(a.data[i] - '0');
        used += 1 + digits;
    }
    if (!parse_unit((struct text){a.data + used, a.size_bytes - used}, &shift) || (has_fraction && shift == 0))
        return false;
    if (whole > UINT64_MAX >> shift)
        return false;
    uint64_t total;
    if (__builtin_add_overflow(whole << shift, (fraction << shift) / scale, &total))
        return false;
    *size_bytes = total;
    return true;
}

const char *text_format_size(uint64_t size_bytes, char *buffer, size_t buffer_bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    CHECK(buffer_bytes >= 32);
    unsigned unit = 0;
    while (unit < 6 && size_bytes >> (10 * (unit + 1)))
        unit++;
    uint64_t whole = size_bytes >> (10 * unit), tenths = 0;
    if (unit > 0) {
        uint64_t rest = (size_bytes >> (10 * (unit - 1))) & 1023; /* 1/1024 of the unit: close enough for one digit */
        tenths = (rest * 10 + 512) / 1024;
        whole += tenths / 10;
        tenths %= 10;
    }
    if (tenths)
        snprintf(buffer, buffer_bytes, "%llu.%llu %s", (unsigned long long)whole, (unsigned long long)tenths, units[unit]);
    else
        snprintf(buffer, buffer_bytes, "%llu %s", (unsigned long long)whole, units[unit]);
    return buffer;
}

unsigned text_distance(struct text a, struct text b) {
    size_t rows = a.size_bytes < DISTANCE_CHARACTERS_MAX ? a.size_bytes : DISTANCE_CHARACTERS_MAX;
    size_t columns = b.size_bytes < DISTANCE_CHARACTERS_MAX ? b.size_bytes : DISTANCE_CHARACTERS_MAX;
    unsigned cost[DISTANCE_CHARACTERS_MAX + 1]; /* one row of the table: edits from a[0..i) to b[0..j) */
    for (size_t j = 0; j <= columns; j++)
        cost[j] = (unsigned)j;
    for (size_t i = 1; i <= rows; i++) {
        unsigned diagonal = cost[0];
        cost[0] = (unsigned)i;
        for (size_t j = 1; j <= columns; j++) {
            unsigned replace = diagonal + (a.data[i - 1] != b.data[j - 1]);
            unsigned skip = (cost[j] < cost[j - 1] ? cost[j] : cost[j - 1]) + 1;
            diagonal = cost[j];
            cost[j] = replace < skip ? replace : skip;
        }
    }
    return cost[columns];
}
