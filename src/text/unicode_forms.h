/*
 * unicode_forms: NFC, NFD, NFKC and NFKD in linear time, with the repertoire of the tokenizer library that we follow.
 *
 * Why separate  utf8proc knows newer characters than that library and sorts runs of marks by exchange; here it only answers for
 *               single characters. Characters that the library does not know stay as they are.
 */
#pragma once

#include <stdbool.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"

enum unicode_form { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD };

/* True when the form of text (valid UTF-8) may differ from text; a cheap look, not a proof. */
bool unicode_form_may_change(enum unicode_form form, struct text text);
/* Appends the form of text to out. */
MUST_CHECK enum status unicode_form_append(enum unicode_form form, struct text text, struct byte_buffer *out, struct error *err);
