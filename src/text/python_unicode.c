/* python_unicode: general categories from utf8proc, and the few properties that it lacks as ranges. */
#include "text/python_unicode.h"

#include <utf8proc.h>

#include "base/check.h"
#include "text/jinja_value.h"

struct range {
    uint32_t first, last;
};

static bool in_ranges(uint32_t c, const struct range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}
#define IN(c, ranges) in_ranges(c, ranges, sizeof(ranges) / sizeof *(ranges))

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

bool python_is_space(uint32_t c) {
    if (c < 0x80)
        return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

bool python_is_alpha(uint32_t c) {
    if (c < 0x80)
        return (c | 32) >= 'a' && (c | 32) <= 'z';
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool python_is_decimal(uint32_t c) { return c < 0x80 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND; }

bool python_is_digit(uint32_t c) {
    static const struct range others[] = {
        {0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
        {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
        {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
        {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
    };
    return python_is_decimal(c) || (c >= 0x80 && IN(c, others));
}

bool python_is_numeric(uint32_t c) {
    if (c < 0x80)
        return python_is_decimal(c);
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool python_is_alphanumeric(uint32_t c) { return python_is_alpha(c) || python_is_numeric(c); }

bool python_is_upper(uint32_t c) {
    static const struct range others[] = {{0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
    return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU || IN(c, others);
}

bool python_is_lower(uint32_t c) {
    static const struct range others[] = {
        {0xAA, 0xAA},     {0xBA, 0xBA},     {0x2B0, 0x2B8},   {0x2C0, 0x2C1},   {0x2E0, 0x2E4},   {0x345, 0x345},   {0x37A, 0x37A},
        {0x1D2C, 0x1D6A}, {0x1D78, 0x1D78}, {0x1D9B, 0x1DBF}, {0x2071, 0x2071}, {0x207F, 0x207F}, {0x2090, 0x209C}, {0x2170, 0x217F},
        {0x24D0, 0x24E9}, {0x2C7C, 0x2C7D}, {0xA69C, 0xA69D}, {0xA770, 0xA770}, {0xA7F8, 0xA7F9}, {0xAB5C, 0xAB5F},
    };
    return c < 0x80 ? c >= 'a' && c <= 'z' : category(c) == UTF8PROC_CATEGORY_LL || IN(c, others);
}

bool python_is_title(uint32_t c) { return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT; }

bool python_is_printable(uint32_t c) {
    if (c < 0x80)
        return c >= 0x20 && c < 0x7F;
    utf8proc_category_t k = category(c);
    return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

bool python_is_case_ignorable(uint32_t c) {
    if (c < 0x80)
        return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`';
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_LM ||
           k == UTF8PROC_CATEGORY_SK || c == 0xB7 || c == 0x387 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
}

size_t python_map_case(uint32_t c, enum python_case to, uint32_t out[3]) {
    utf8proc_int32_t code = (utf8proc_int32_t)c;
    if (c >= 0x80 && to != PYTHON_LOWER) {
        for (size_t low = 0, high = PYTHON_SPECIAL_CASING_COUNT; low < high;) {
            size_t middle = (low + high) / 2;
            const struct python_special_casing *row = &python_special_casing[middle];
            if (row->code_point == c) {
                const char *text = to == PYTHON_UPPER ? row->upper : row->title;
                size_t count = 0, size = strlen(text);
                for (size_t at = 0; at < size && count < 3;)
                    out[count++] = jinja_next_code_point(text, size, &at);
                return count;
            }
            if (row->code_point < c)
                low = middle + 1;
            else
                high = middle;
        }
    }
    if (c == 0x130 && to == PYTHON_LOWER)
        return out[0] = 'i', out[1] = 0x307, 2;
    utf8proc_int32_t mapped = to == PYTHON_UPPER   ? utf8proc_toupper(code)
                              : to == PYTHON_LOWER ? utf8proc_tolower(code)
                                                   : utf8proc_totitle(code);
    ASSERT(mapped >= 0);
    out[0] = (uint32_t)mapped;
    return 1;
}
