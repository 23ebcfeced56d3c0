/*
 * jinja_text: operations on strings that methods and filters share. All keep the marks of trust and take NULL for "failed before".
 */
#pragma once

#include "text/jinja_value.h"
#include "text/python_unicode.h"

/* v as a string, or NULL and failed ("replace() argument must be str, not int"). */
const struct jinja_string *jinja_need_string(struct jinja_run *run, struct jinja_value v, const char *function);
/* v as an integer; ABSENT and none give `otherwise`. False and failed for other types. */
bool jinja_need_index(struct jinja_run *run, struct jinja_value v, int64_t otherwise, int64_t *out);

/* Strips the code points of `chars` (NULL: white space) from the chosen sides. */
const struct jinja_string *jinja_strip(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *chars, bool left,
                                       bool right);
const struct jinja_string *jinja_map_case(struct jinja_run *run, const struct jinja_string *s, enum python_case to);
const struct jinja_string *jinja_swap_case(struct jinja_run *run, const struct jinja_string *s);
const struct jinja_string *jinja_capitalize(struct jinja_run *run, const struct jinja_string *s);
/* At most `count` replacements; < 0: all. */
const struct jinja_string *jinja_replace(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *old,
                                         const struct jinja_string *new, int64_t count);
/* Pads with `fill` (one code point; NULL: space) to `width` code points. */
const struct jinja_string *jinja_pad(struct jinja_run *run, const struct jinja_string *s, int64_t left, int64_t right,
                                     const struct jinja_string *fill);
const struct jinja_string *jinja_center(struct jinja_run *run, const struct jinja_string *s, int64_t width,
                                        const struct jinja_string *fill);
struct jinja_list *jinja_split_lines(struct jinja_run *run, const struct jinja_string *s, bool keep_ends);
const struct jinja_string *jinja_reverse_string(struct jinja_run *run, const struct jinja_string *s);
/* Byte offset of `part` in s at or after `from` (backwards: the last one that ends at or before `to`), or SIZE_MAX. */
size_t jinja_find(struct jinja_run *run, const struct jinja_string *s, const struct jinja_string *part, size_t from, size_t to, bool last);
