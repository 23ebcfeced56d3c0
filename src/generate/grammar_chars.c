/* grammar_chars: ranges of characters as ranges of bytes. */
#include "generate/grammar_chars.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

#define SURROGATE_FIRST 0xd800u
#define SURROGATE_LAST 0xdfffu

bool char_set_add(struct char_set *set, uint32_t low, uint32_t high) {
    CHECK(low <= high && high <= CHAR_LAST);
    uint32_t first = 0, last;
    while (first < set->count && set->ranges[first].high + 1 < low)
        first++;
    for (last = first; last < set->count && set->ranges[last].low <= high + 1; last++) { /* those that touch it */
        low = set->ranges[last].low < low ? set->ranges[last].low : low;
        high = set->ranges[last].high > high ? set->ranges[last].high : high;
    }
    if (last == first && set->count == CHAR_RANGES_MAX)
        return false;
    memmove(&set->ranges[first + 1], &set->ranges[last], (set->count - last) * sizeof *set->ranges);
    set->ranges[first] = (struct char_range){low, high};
    set->count += 1 - (last - first);
    return true;
}

bool char_set_add_set(struct char_set *set, const struct char_set *other) {
    for (uint32_t i = 0; i < other->count; i++)
        if (!char_set_add(set, other->ranges[i].low, other->ranges[i].high))
            return false;
    return true;
}

bool char_set_negate(struct char_set *set) {
    struct char_set old = *set;
    uint32_t next = 0;
    if (!char_set_add(&old, SURROGATE_FIRST, SURROGATE_LAST))
        return false;
    set->count = 0;
    for (uint32_t i = 0; i < old.count; i++) {
        if (old.ranges[i].low > next && !char_set_add(set, next, old.ranges[i].low - 1))
            return false;
        next = old.ranges[i].high + 1;
    }
    return next > CHAR_LAST || char_set_add(set, next, CHAR_LAST);
}

void char_set_clip(struct char_set *set, uint32_t low, uint32_t high) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        struct char_range r = set->ranges[i];
        r.low = r.low < low ? low : r.low;
        r.high = r.high > high ? high : r.high;
        if (r.low <= r.high)
            set->ranges[kept++] = r;
    }
    set->count = kept;
}

bool char_next(struct text text, size_t *at, uint32_t *character) {
    const uint8_t *bytes = (const uint8_t *)text.data + *at;
    size_t left = text.size_bytes - *at;
    if (left == 0)
        return false;
    size_t length = bytes[0] < 0x80 ? 1 : bytes[0] < 0xc2 ? 0 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : bytes[0] < 0xf5 ? 4 : 0;
    if (length == 0 || length > left)
        return false;
    uint32_t c = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return false;
        c = c << 6 | (bytes[i] & 0x3fu);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < smallest[length] || c > CHAR_LAST || (c >= SURROGATE_FIRST && c <= SURROGATE_LAST))
        return false;
    *at += length;
    *character = c;
    return true;
}

/* ---- UTF-8 ---- */

static unsigned encode(uint32_t c, uint8_t bytes[4]) {
    if (c < 0x80) {
        bytes[0] = (uint8_t)c;
        return 1;
    }
    unsigned length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (unsigned i = length; i-- > 1; c >>= 6)
        bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
    bytes[0] = (uint8_t)((0xf00u >> length & 0xffu) | c);
    return length;
}

/* Adds the range as one sequence of byte ranges, or cuts it where the encoding's length or a leading byte changes. The depth is at most 8.
 */
static struct fragment add_range(struct grammar *g, struct fragment all, uint32_t low, uint32_t high) {
    static const uint32_t ends[] = {0x7f, 0x7ff, SURROGATE_FIRST - 1, SURROGATE_LAST, 0xffff};
    if (low >= SURROGATE_FIRST && high <= SURROGATE_LAST)
        return all;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (low <= ends[i] && high > ends[i])
            return add_range(g, add_range(g, all, low, ends[i]), ends[i] + 1, high);
    uint8_t first[4], last[4];
    unsigned length = encode(low, first);
    for (unsigned i = 1; i < length; i++) {
        uint32_t mask = (1u << (6 * i)) - 1;
        if ((low & ~mask) == (high & ~mask))
            continue;
        if (low & mask)
            return add_range(g, add_range(g, all, low, low | mask), (low | mask) + 1, high);
        if ((high & mask) != mask)
            return add_range(g, add_range(g, all, low, (high & ~mask) - 1), high & ~mask, high);
    }
    (void)encode(high, last);
    struct fragment one = grammar_range(g, first[length - 1], last[length - 1]);
    for (unsigned i = length - 1; i-- > 0;)
        one = grammar_join(g, grammar_range(g, first[i], last[i]), one);
    return grammar_either(g, all, one);
}

static struct fragment plain(struct grammar *g, const struct char_set *set) {
    struct fragment all = grammar_never(g);
    for (uint32_t i = 0; i < set->count; i++)
        all = add_range(g, all, set->ranges[i].low, set->ranges[i].high);
    return all;
}

/* ---- spellings ---- */

static bool holds(const struct char_set *set, uint32_t c) {
    for (uint32_t i = 0; i < set->count; i++)
        if (c >= set->ranges[i].low && c <= set->ranges[i].high)
            return true;
    return false;
}

/* The escape of a character that may not stand in a JSON string by itself; 0 bytes: none is needed. */
static size_t escape_of(uint32_t c, char text[8]) {
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i + 1 < sizeof shorts; i += 2)
        if (c == (uint8_t)shorts[i]) {
            text[0] = '\\';
            text[1] = shorts[i + 1];
            return 2;
        }
    return c < 0x20 ? (size_t)snprintf(text, 8, "\\u%04x", (unsigned)c) : 0;
}

static void without(struct char_set *set, uint32_t c) {
    struct char_set upper = *set;
    char_set_clip(&upper, c + 1, CHAR_LAST);
    if (c == 0)
        set->count = 0;
    else
        char_set_clip(set, 0, c - 1);
    for (uint32_t i = 0; i < upper.count && set->count < CHAR_RANGES_MAX; i++)
        set->ranges[set->count++] = upper.ranges[i];
}

struct fragment grammar_chars(struct grammar *g, const struct char_set *set, enum char_spelling spelling) {
    struct char_set raw = *set;
    if (spelling == CHARS_MARKS)
        without(&raw, '<');
    if (spelling != CHARS_JSON)
        return plain(g, &raw);
    without(&raw, '"');
    without(&raw, '\\');
    char_set_clip(&raw, 0x20, CHAR_LAST);
    struct fragment all = plain(g, &raw);
    for (uint32_t c = 0; c <= '\\'; c++) {
        char text[8];
        size_t size = holds(set, c) ? escape_of(c, text) : 0;
        if (size > 0)
            all = grammar_either(g, all, grammar_literal(g, (struct text){text, size}));
    }
    return all;
}

struct fragment grammar_text(struct grammar *g, struct text text, enum char_spelling spelling) {
    struct fragment all = grammar_nothing(g);
    for (size_t at = 0; at < text.size_bytes && !grammar_failed(g);) {
        size_t begin = at;
        uint32_t c = 0;
        if (!char_next(text, &at, &c)) {
            grammar_fail(g, STATUS_INVALID, "the text is no UTF-8 at byte %zu", at);
            return all;
        }
        char escape[8];
        size_t size = spelling == CHARS_JSON ? escape_of(c, escape) : 0;
        struct text one = size ? (struct text){escape, size} : (struct text){text.data + begin, at - begin};
        all = grammar_join(g, all, grammar_literal(g, one));
    }
    return all;
}
