/*
 * sniff: what a file is by its first bytes and its name, so that a web page saved as a model is called a web page.
 */
#pragma once

#include "io/file_set.h"

#define SNIFF_GGUF_MAGIC 0x46554747u /* "GGUF" as a little-endian number */

enum sniff_kind { SNIFF_UNKNOWN, SNIFF_GGUF, SNIFF_SAFETENSORS };

/* STATUS_OK unless the file is recognised as something that is no model file for us; then the error says what it is and what to do. */
MUST_CHECK enum status sniff_explain(const struct file_set *files, uint32_t file, struct error *err);
/* Which reader wants the file: by content, and by name where the content could be anything. */
MUST_CHECK enum status sniff_kind(const struct file_set *files, uint32_t file, enum sniff_kind *out, struct error *err);
