/*
 * jinja_filters: the table of filters, and those of them that work on sequences (jinja_filters_list.c).
 */
#pragma once

#include "text/jinja_eval.h"

extern const struct jinja_native_row jinja_list_filters[];
extern const size_t jinja_list_filter_count;
