/*
 * finite: whether numbers in the format of a file are finite: elements, or the scales of blocks.
 *
 * Threads   pure.
 */
#pragma once

#include <stddef.h>

#include "dtype/dtype.h"

/*
 * Index of the first element whose value (or whose block's scale) is infinite or no number, or `count`. count: a multiple of the format's
 * block. Integers are always finite.
 */
size_t finite_check(enum dtype dtype, const void *data, size_t count);
