/* unicode: table-free UTF-8 reading, binary search in the generated classes, and the byte-level alphabet by its rule. */
#include "text/unicode.h"

#include "base/check.h"
#include "text/unicode_tables.h"

/* Lead byte -> length of the character and the range of the second byte; false: no lead byte. */
static bool lead_byte(uint8_t lead, size_t *length, uint8_t *low, uint8_t *high) {
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0x80) {
        *length = 1;
    } else if (lead >= 0xC2 && lead <= 0xDF) {
        *length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        *length = 3;
        *low = lead == 0xE0 ? 0xA0 : 0x80;
        *high = lead == 0xED ? 0x9F : 0xBF;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        *length = 4;
        *low = lead == 0xF0 ? 0x90 : 0x80;
        *high = lead == 0xF4 ? 0x8F : 0xBF;
    } else {
        return false;
    }
    return true;
}

enum utf8_state utf8_read(const char *bytes, size_t size_bytes, size_t *length, uint32_t *code_point) {
    ASSERT(size_bytes > 0);
    const uint8_t *b = (const uint8_t *)bytes;
    uint8_t low, high;
    size_t need;
    if (b[0] < 0x80) {
        *length = 1;
        *code_point = b[0];
        return UTF8_COMPLETE;
    }
    if (!lead_byte(b[0], &need, &low, &high)) {
        *length = 1;
        return UTF8_BROKEN;
    }
    uint32_t value = b[0] & (0x7Fu >> need);
    for (size_t i = 1; i < need; i++) {
        *length = i;
        if (i == size_bytes)
            return UTF8_INCOMPLETE;
        if (b[i] < low || b[i] > high)
            return UTF8_BROKEN;
        value = value << 6 | (b[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    *length = need;
    *code_point = value;
    return UTF8_COMPLETE;
}

uint32_t utf8_at(struct text text, size_t offset, size_t *length) {
    ASSERT(offset < text.size_bytes);
    uint32_t code_point;
    if (utf8_read(text.data + offset, text.size_bytes - offset, length, &code_point) == UTF8_COMPLETE)
        return code_point;
    *length = 1;
    return UNICODE_REPLACEMENT;
}

size_t utf8_write(uint32_t c, char bytes[UTF8_BYTES_MAX]) {
    ASSERT(c <= 0x10FFFF);
    if (c < 0x80) {
        bytes[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        bytes[0] = (char)(0xC0 | c >> 6);
        bytes[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        bytes[0] = (char)(0xE0 | c >> 12);
        bytes[1] = (char)(0x80 | (c >> 6 & 0x3F));
        bytes[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    bytes[0] = (char)(0xF0 | c >> 18);
    bytes[1] = (char)(0x80 | (c >> 12 & 0x3F));
    bytes[2] = (char)(0x80 | (c >> 6 & 0x3F));
    bytes[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

enum status utf8_append(struct byte_buffer *out, uint32_t code_point, struct error *err) {
    char bytes[UTF8_BYTES_MAX];
    return byte_buffer_append(out, bytes, utf8_write(code_point, bytes), err);
}

size_t utf8_before(struct text text, size_t end) {
    ASSERT(end > 0 && end <= text.size_bytes);
    size_t begin = end - 1;
    while (begin > 0 && end - begin < UTF8_BYTES_MAX && ((uint8_t)text.data[begin] & 0xC0) == 0x80)
        begin--;
    return begin;
}

size_t utf8_valid_bytes(struct text text) {
    size_t at = 0;
    while (at < text.size_bytes) {
        size_t length;
        uint32_t code_point;
        if ((uint8_t)text.data[at] < 0x80) {
            at++;
            continue;
        }
        if (utf8_read(text.data + at, text.size_bytes - at, &length, &code_point) != UTF8_COMPLETE)
            break;
        at += length;
    }
    return at;
}

enum status utf8_repair(struct text text, struct byte_buffer *out, struct error *err) {
    while (text.size_bytes > 0) {
        size_t good = utf8_valid_bytes(text), length = 0;
        uint32_t code_point;
        TRY(byte_buffer_append(out, text.data, good, err));
        if (good < text.size_bytes) {
            (void)utf8_read(text.data + good, text.size_bytes - good, &length, &code_point);
            TRY(byte_buffer_append(out, UTF8_REPLACEMENT, 3, err));
        }
        ASSERT(good + length > 0 && good + length <= text.size_bytes);
        text.data += good + length;
        text.size_bytes -= good + length;
    }
    return STATUS_OK;
}

static bool in_ranges(const struct unicode_range *ranges, size_t count, uint32_t c) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && c >= ranges[low].first;
}

bool unicode_is_whitespace(uint32_t c) {
    if (c < 0x80)
        return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

bool unicode_is_numeric(uint32_t c) {
    return c < 0x80 ? c >= '0' && c <= '9' : in_ranges(unicode_table_numeric, unicode_table_numeric_count, c);
}

bool unicode_is_punctuation(uint32_t c) { return in_ranges(unicode_table_punctuation, unicode_table_punctuation_count, c); }

bool unicode_is_word(uint32_t c) { return in_ranges(unicode_table_word, unicode_table_word_count, c); }

bool unicode_is_mark(uint32_t c) { return c >= 0x300 && in_ranges(unicode_table_mark, unicode_table_mark_count, c); }

bool unicode_joins(uint32_t c) { return c >= 0x300 && in_ranges(unicode_table_joins, unicode_table_joins_count, c); }

bool unicode_decomposes(uint32_t c) { return c >= 0xA0 && in_ranges(unicode_table_decomposes, unicode_table_decomposes_count, c); }

unsigned unicode_lower(uint32_t c, uint32_t out[2]) {
    out[0] = c;
    if (c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    size_t low = 0, high = unicode_table_lowercase_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c > unicode_table_lowercase[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < unicode_table_lowercase_count) {
        const struct unicode_case_range *range = &unicode_table_lowercase[low];
        if (c >= range->first && (c - range->first) % range->step == 0)
            out[0] = (uint32_t)((int32_t)c + range->distance);
    }
    return 1;
}

/* Bytes that stand for themselves: the printable ones of Latin-1, without the soft hyphen. */
static bool is_printable(uint32_t c) { return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF); }

/* The others follow from U+0100 in order: 0..0x20 (33 of them), 0x7F..0xA0 (34), 0xAD. */
uint32_t byte_level_character(uint8_t byte) {
    if (is_printable(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100u + byte;
    return byte == 0xAD ? 0x143u : 0x121u + byte - 0x7Fu;
}

bool byte_level_byte(uint32_t c, uint8_t *byte) {
    if (c < 0x100 ? !is_printable(c) : c > 0x143)
        return false;
    if (c < 0x100)
        *byte = (uint8_t)c;
    else if (c <= 0x120)
        *byte = (uint8_t)(c - 0x100);
    else
        *byte = c == 0x143 ? 0xAD : (uint8_t)(c - 0x121 + 0x7F);
    return true;
}

enum status byte_level_append(struct text bytes, struct byte_buffer *out, struct error *err) {
    char block[256];
    size_t used = 0;
    for (size_t i = 0; i < bytes.size_bytes; i++) {
        if (used + 2 > sizeof(block)) {
            TRY(byte_buffer_append(out, block, used, err));
            used = 0;
        }
        used += utf8_write(byte_level_character((uint8_t)bytes.data[i]), block + used);
    }
    return byte_buffer_append(out, block, used, err);
}
