/*
 * jinja_print: str(), repr() and formatting of values as Python does them.
 */
#pragma once

#include "text/jinja_value.h"

void jinja_put_str(struct jinja_builder *b, struct jinja_value v);
void jinja_put_repr(struct jinja_builder *b, struct jinja_value v);
const struct jinja_string *jinja_str(struct jinja_run *run, struct jinja_value v); /* str(v); a string is itself */
/* str(v) without the markup flag. */
const struct jinja_string *jinja_plain_str(struct jinja_run *run, struct jinja_value v);
/* Shortest decimal that reads back as d: "1.0", "1e+22", "inf". */
#define JINJA_FLOAT_BYTES 40
void jinja_format_float(double d, char out[JINJA_FLOAT_BYTES]);
/* HTML-escapes into b; markup is taken as it is. */
void jinja_put_escaped(struct jinja_builder *b, const struct jinja_string *s);

/* 'format % arguments' and format.format(*args, **kwargs). */
struct jinja_value jinja_percent_format(struct jinja_run *run, const struct jinja_string *format, struct jinja_value arguments);
struct jinja_value jinja_brace_format(struct jinja_run *run, const struct jinja_string *format, const struct jinja_arguments *arguments);
