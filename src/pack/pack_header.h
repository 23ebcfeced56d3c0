/*
 * pack_header: what stands before the tensors of a pack.
 */
#pragma once

#include "base/byte_buffer.h"
#include "io/file_set.h"
#include "pack/pack_plan.h"

struct pack_header {
    struct byte_buffer bytes; /* up to the first tensor, a whole number of PACK_ALIGNMENT */
    size_t sums_at;           /* GGUF: where the checksums go, output_count and one more; else 0 */
};
/* The source's metadata with what a pack changes; checksums are zeros. The caller deinits bytes, after an error too. */
MUST_CHECK enum status pack_header_build(const struct pack_plan *plan, struct file_set *files, struct pack_header *out, struct error *err);
