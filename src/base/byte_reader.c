/* byte_reader: values are put together byte by byte, so alignment and the byte order of the machine do not matter. */
#include "base/byte_reader.h"

#include "base/check.h"

bool byte_reader_skip(struct byte_reader *r, uint64_t count) {
    ASSERT(r->position <= r->size_bytes);
    if (count > byte_reader_left(r))
        return false;
    r->position += count;
    return true;
}

/* Little-endian number of `count` bytes, at most 8. */
static bool read_number(struct byte_reader *r, unsigned count, uint64_t *out) {
    if (!byte_reader_skip(r, count))
        return false;
    const uint8_t *bytes = r->data + (r->position - count);
    uint64_t value = 0;
    for (unsigned i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    *out = value;
    return true;
}

bool byte_reader_u8(struct byte_reader *r, uint8_t *out) {
    uint64_t value;
    if (!read_number(r, 1, &value))
        return false;
    *out = (uint8_t)value;
    return true;
}

bool byte_reader_u16(struct byte_reader *r, uint16_t *out) {
    uint64_t value;
    if (!read_number(r, 2, &value))
        return false;
    *out = (uint16_t)value;
    return true;
}

bool byte_reader_u32(struct byte_reader *r, uint32_t *out) {
    uint64_t value;
    if (!read_number(r, 4, &value))
        return false;
    *out = (uint32_t)value;
    return true;
}

bool byte_reader_u64(struct byte_reader *r, uint64_t *out) {
    return read_number(r, 8, out);
}

bool byte_reader_bytes(struct byte_reader *r, uint64_t count, struct text *out) {
    uint64_t start = r->position;
    if (count > SIZE_MAX || !byte_reader_skip(r, count))
        return false;
    *out = (struct text){count ? (const char *)r->data + start : "", (size_t)count};
    return true;
}
