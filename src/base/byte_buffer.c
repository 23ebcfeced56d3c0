/* byte_buffer: growth by doubling up to the limit. The block is always one byte longer than its capacity, for the 0. */
#include "base/byte_buffer.h"

#include <stdio.h>

#include "base/check.h"
#include "base/memory.h"

#define FIRST_CAPACITY_BYTES 64

void byte_buffer_init(struct byte_buffer *buffer, size_t limit_bytes) {
    *buffer = (struct byte_buffer){.limit_bytes = limit_bytes};
}

void byte_buffer_deinit(struct byte_buffer *buffer) {
    memory_free(buffer->data);
    *buffer = (struct byte_buffer){0};
}

void byte_buffer_clear(struct byte_buffer *buffer) {
    buffer->size_bytes = 0;
    if (buffer->data)
        buffer->data[0] = 0;
}

enum status byte_buffer_reserve(struct byte_buffer *buffer, size_t extra_bytes, struct error *err) {
    ASSERT(buffer->size_bytes <= buffer->capacity_bytes);
    if (extra_bytes > buffer->limit_bytes - buffer->size_bytes)
        return error_set(err, STATUS_OVER_BUDGET, "%zu bytes more would pass the limit of %zu bytes", extra_bytes, buffer->limit_bytes);
    size_t needed = buffer->size_bytes + extra_bytes;
    if (needed <= buffer->capacity_bytes && buffer->data)
        return STATUS_OK;
    size_t capacity = buffer->capacity_bytes > SIZE_MAX / 2 ? SIZE_MAX : buffer->capacity_bytes * 2;
    if (capacity < FIRST_CAPACITY_BYTES)
        capacity = FIRST_CAPACITY_BYTES;
    if (capacity < needed)
        capacity = needed;
    if (capacity > buffer->limit_bytes)
        capacity = buffer->limit_bytes;
    if (capacity == SIZE_MAX)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a text of %zu bytes", needed);
    char *data = memory_resize(buffer->data, capacity + 1, 1);
    if (!data)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a text of %zu bytes", needed);
    data[buffer->size_bytes] = 0;
    buffer->data = data;
    buffer->capacity_bytes = capacity;
    return STATUS_OK;
}

enum status byte_buffer_append(struct byte_buffer *buffer, const void *bytes, size_t size_bytes, struct error *err) {
    CHECK(bytes != NULL || size_bytes == 0);
    TRY(byte_buffer_reserve(buffer, size_bytes, err));
    if (size_bytes)
        memcpy(buffer->data + buffer->size_bytes, bytes, size_bytes);
    buffer->size_bytes += size_bytes;
    buffer->data[buffer->size_bytes] = 0;
    return STATUS_OK;
}

enum status byte_buffer_append_text(struct byte_buffer *buffer, struct text text, struct error *err) {
    return byte_buffer_append(buffer, text.data ? text.data : "", text.size_bytes, err);
}

enum status byte_buffer_printf(struct byte_buffer *buffer, struct error *err, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    enum status status = STATUS_OK;
    if (length < 0)
        status = error_set(err, STATUS_INVALID, "a text could not be formatted");
    else
        status = byte_buffer_reserve(buffer, (size_t)length, err);
    if (status == STATUS_OK) {
        int written = vsnprintf(buffer->data + buffer->size_bytes, (size_t)length + 1, format, again);
        CHECK(written == length);
        buffer->size_bytes += (size_t)length;
    }
    va_end(again);
    return status;
}

char *byte_buffer_take(struct byte_buffer *buffer) {
    char *data = buffer->data ? buffer->data : memory_alloc(1);
    *buffer = (struct byte_buffer){.limit_bytes = buffer->limit_bytes};
    return data;
}
