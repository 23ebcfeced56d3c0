/*
 * gguf_write: the parts of a GGUF header (version 3), appended to a buffer: metadata as it stands in another file, own entries, the table
 * of tensors.
 */
#pragma once

#include "base/byte_buffer.h"
#include "format/catalogue.h"

/*
 * Appends the metadata entries of a GGUF file, byte for byte, but for those that `keep` refuses, and counts them into *count. The file was
 * opened as a catalogue before.
 */
MUST_CHECK enum status gguf_write_metadata_of(struct file_set *files, uint32_t file, bool (*keep)(struct text key), struct byte_buffer *out,
                                              uint64_t *count, struct error *err);
MUST_CHECK enum status gguf_write_u32(struct byte_buffer *out, const char *key, uint32_t value, struct error *err);
/* An array of u64, all 0. *at: where its values begin in the buffer. */
MUST_CHECK enum status gguf_write_zeros(struct byte_buffer *out, const char *key, uint64_t count, size_t *at, struct error *err);
/* "GGUF", the version and both counts; what a file begins with. */
MUST_CHECK enum status gguf_write_beginning(struct byte_buffer *out, uint64_t tensor_count, uint64_t entry_count, struct error *err);
/* An entry of the table; tensor->offset_bytes counts from the start of the data. The dtype has a GGUF number. */
MUST_CHECK enum status gguf_write_tensor(struct byte_buffer *out, const struct tensor_entry *tensor, struct error *err);

/* The bytes that stand before the values of such an array, for finding them again. */
MUST_CHECK enum status gguf_write_array_head(struct byte_buffer *out, const char *key, uint64_t count, struct error *err);
