/*
 * json_number: numbers between bounds, digit by digit.
 *
 * Model     the digits of a number are compared with those of both bounds from the left, while they are equal so far; the remainder of a
 *           division goes along. Bounds are decimal texts, so 0.1 is 0.1. Exponents are not written.
 * Limits    integers of 15 digits, 16 behind the point, multiples of 1 to JSON_MULTIPLE_MAX.
 */
#pragma once

#include <jansson.h>

#include "generate/json_form.h"

#define JSON_MULTIPLE_MAX 100

struct json_bounds {
    const json_t *minimum, *maximum; /* numbers, or NULL */
    bool minimum_open, maximum_open; /* the bound itself is not allowed */
    uint32_t multiple;               /* 0: none; else whole numbers alone */
    int decimals;                    /* digits behind the point: 0 whole numbers, -1 as many as there may be */
};
/* A bound that is too long or far away makes the grammar fail. */
struct fragment json_number(struct json_form *form, const struct json_bounds *bounds);
