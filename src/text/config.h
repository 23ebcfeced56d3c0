/*
 * config: reading the small objects of a tokenizer.json ({"type": ..., options}) with errors that name the key.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"
#include "base/text.h"

#define CONFIG_DEPTH_MAX 8u /* of Sequences in Sequences */

/* The value of "type"; empty when there is none. */
struct text config_type(const json_t *object);
/* The string at key, or fallback when the key is missing or null. A value of another type is STATUS_CORRUPT. */
MUST_CHECK enum status config_text(const json_t *object, const char *key, struct text fallback, struct text *out, struct error *err);
MUST_CHECK enum status config_bool(const json_t *object, const char *key, bool fallback, bool *out, struct error *err);
MUST_CHECK enum status config_u32(const json_t *object, const char *key, uint32_t fallback, uint32_t *out, struct error *err);
/* The pattern object {"String": ...} or {"Regex": ...}. */
struct pattern;
MUST_CHECK enum status config_pattern(const json_t *pattern, struct pattern **out, struct error *err);
