/*
 * split_files: names of the parts of a model: "NAME-00002-of-00005.gguf", "model-00002-of-00005.safetensors".
 *
 * Only the last path component counts, so that a folder with such a name misleads nobody.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

struct split_name {
    struct text prefix;     /* path up to the '-' before the number; borrows the path */
    struct text suffix;     /* as given to split_name_parse */
    uint32_t number, count; /* 1 <= number <= count */
    unsigned digits;        /* of each */
};

/* False when the path does not end in -DIGITS-of-DIGITS plus suffix, or the numbers make no sense. */
bool split_name_parse(const char *path, const char *suffix, struct split_name *out);
/* Path of part `number` of the same set; STATUS_INVALID when it does not fit. */
MUST_CHECK enum status split_name_format(const struct split_name *name, uint32_t number, char *buffer, size_t buffer_bytes,
                                         struct error *err);
