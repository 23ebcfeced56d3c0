/*
 * byte_buffer: growing bytes with a hard limit that is given at birth; always terminated by a 0 that is not counted.
 *
 * Failure   append returns STATUS_NO_MEMORY or, past the limit, STATUS_OVER_BUDGET; the buffer keeps what it had.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

struct byte_buffer {
    char *data; /* NULL until the first append */
    size_t size_bytes, capacity_bytes, limit_bytes;
};

void byte_buffer_init(struct byte_buffer *buffer, size_t limit_bytes);
void byte_buffer_deinit(struct byte_buffer *buffer);
void byte_buffer_clear(struct byte_buffer *buffer); /* keeps the memory */
MUST_CHECK enum status byte_buffer_append(struct byte_buffer *buffer, const void *bytes, size_t size_bytes, struct error *err);
MUST_CHECK enum status byte_buffer_append_text(struct byte_buffer *buffer, struct text text, struct error *err);
MUST_CHECK enum status byte_buffer_printf(struct byte_buffer *buffer, struct error *err, const char *format, ...) PRINTF_LIKE(3, 4);
MUST_CHECK enum status byte_buffer_reserve(struct byte_buffer *buffer, size_t extra_bytes, struct error *err);
static inline struct text byte_buffer_text(const struct byte_buffer *buffer) {
    return (struct text){buffer->data ? buffer->data : "", buffer->size_bytes};
}
/* Gives the terminated bytes to the caller (memory_free) and leaves the buffer empty. NULL when out of memory. */
char *byte_buffer_take(struct byte_buffer *buffer);
