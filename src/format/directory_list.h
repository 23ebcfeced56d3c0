/*
 * directory_list: the names in a folder, sorted.
 */
#pragma once

#include <stddef.h>

#include "base/status.h"

struct directory_list {
    char **names; /* without the folder */
    size_t count, capacity;
};

MUST_CHECK enum status directory_list_init(struct directory_list *list, const char *directory, struct error *err);
void directory_list_deinit(struct directory_list *list); /* a zeroed list is allowed */
