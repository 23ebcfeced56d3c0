/*
 * python_unicode: character classes and case mappings as Python's str methods have them, on top of utf8proc.
 *
 * Threads   pure functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool python_is_space(uint32_t c); /* str.isspace, and \s in a regular expression */
bool python_is_alpha(uint32_t c);
bool python_is_decimal(uint32_t c);
bool python_is_digit(uint32_t c);
bool python_is_numeric(uint32_t c);
bool python_is_alphanumeric(uint32_t c);
bool python_is_upper(uint32_t c);
bool python_is_lower(uint32_t c);
bool python_is_title(uint32_t c);          /* category Lt */
bool python_is_printable(uint32_t c);      /* repr shows it as it is */
bool python_is_case_ignorable(uint32_t c); /* for the final sigma */

enum python_case { PYTHON_UPPER, PYTHON_LOWER, PYTHON_TITLE };
/* Writes the mapping (1 to 3 characters) to out and returns how many. A final sigma is the caller's affair. */
size_t python_map_case(uint32_t c, enum python_case to, uint32_t out[3]);

#define PYTHON_SPECIAL_CASING_COUNT 102
struct python_special_casing {
    uint32_t code_point;
    const char *upper, *title; /* UTF-8 */
};
extern const struct python_special_casing python_special_casing[PYTHON_SPECIAL_CASING_COUNT]; /* by code point */
