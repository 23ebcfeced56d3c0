/*
 * unicode_tables: the shape of the generated character classes (generated/unicode_tables.c). Use them through unicode.h.
 *
 * Ranges are sorted and do not touch.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct unicode_range {
    uint32_t first, last;
};

struct unicode_case_range { /* first, first + step, ... last map to themselves + distance */
    uint32_t first, last;
    int32_t distance;
    uint32_t step;
};

extern const struct unicode_range unicode_table_numeric[], unicode_table_punctuation[], unicode_table_word[], unicode_table_mark[];
extern const struct unicode_range unicode_table_joins[];      /* combining class not 0, or composes with the character before */
extern const struct unicode_range unicode_table_decomposes[]; /* has a decomposition, canonical or compatible */
extern const struct unicode_case_range unicode_table_lowercase[];
extern const size_t unicode_table_numeric_count, unicode_table_punctuation_count, unicode_table_word_count, unicode_table_mark_count;
extern const size_t unicode_table_joins_count, unicode_table_decomposes_count, unicode_table_lowercase_count;
