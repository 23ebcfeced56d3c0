/*
 * file_copy: whether two files of a set hold the same bytes, as far as that can be told in a moment.
 *
 * Compared are size, everything before header_bytes, the first MiB, and blocks spread over the rest, the last one among them. Other bytes
 * may differ: `sluice verify` reads all.
 */
#pragma once

#include "io/file_set.h"

/*
 * header_bytes: where the tensors of the file begin. STATUS_INVALID: they differ; names both and the offset. Needs no thread to read them.
 */
MUST_CHECK enum status file_copy_check(const struct file_set *files, uint32_t file, uint32_t copy, uint64_t header_bytes,
                                       struct error *err);
