/*
 * jinja_integer: Python's integers: 64 bits while they fit, limbs of nine decimal digits beyond.
 *
 * Limits   4300 decimal digits, as Python prints at most; larger results fail.
 */
#pragma once

#include "text/jinja_value.h"

struct jinja_big {
    bool negative;
    uint32_t count; /* limbs, least significant first; the last is not 0 */
    uint32_t *limbs;
};

/* Operands are BOOL, INT or BIG; so are results, in the smallest form. */
struct jinja_value jinja_integer_add(struct jinja_run *run, struct jinja_value a, struct jinja_value b);
struct jinja_value jinja_integer_subtract(struct jinja_run *run, struct jinja_value a, struct jinja_value b);
struct jinja_value jinja_integer_multiply(struct jinja_run *run, struct jinja_value a, struct jinja_value b);
/* Rounds to minus infinity; the remainder has the sign of b. Fails when b is 0. Either output may be NULL. */
void jinja_integer_divide(struct jinja_run *run, struct jinja_value a, struct jinja_value b, struct jinja_value *quotient,
                          struct jinja_value *remainder);
struct jinja_value jinja_integer_power(struct jinja_run *run, struct jinja_value a, uint64_t exponent);
struct jinja_value jinja_integer_negate(struct jinja_run *run, struct jinja_value a);
int jinja_integer_compare(struct jinja_value a, struct jinja_value b); /* <0, 0, >0 */
/* Digits of a base from 2 to 36, without sign or prefix; false when one is not a digit of the base. */
bool jinja_integer_parse(struct jinja_run *run, struct text digits, unsigned base, struct jinja_value *out);
void jinja_integer_print(struct jinja_builder *b, struct jinja_value a); /* decimal */
double jinja_integer_double(struct jinja_value a);                       /* nearest; infinity when too large */
/* Decimal text ("-1.5e3", without spaces) as the nearest number; infinity when too large. False: not a number, or over 120 characters. */
bool jinja_parse_float(struct text text, double *out);
/* Truncates a finite number. */
struct jinja_value jinja_integer_from_double(struct jinja_run *run, double d);
