/*
 * unicode: UTF-8 and the character classes of the tokenizer library whose ids we must reproduce.
 *
 * Why separate  The classes are not those of one Unicode version; they live in generated tables, and only here is it known.
 * Model         A code point is a uint32_t. A "broken part" of bad UTF-8 is a maximal subpart as Unicode chapter 3.9 defines it:
 *               the longest start of a valid character, at least one byte; each becomes one U+FFFD.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"

#define UNICODE_REPLACEMENT 0xFFFDu
#define UTF8_REPLACEMENT "\xEF\xBF\xBD"
#define UTF8_BYTES_MAX 4

enum utf8_state { UTF8_COMPLETE, UTF8_INCOMPLETE, UTF8_BROKEN };

/*
 * Looks at the first character of `bytes` (at least one byte). *length is its bytes when complete, all bytes when they may still
 * become a character, and the bytes of the broken part otherwise. *code_point is set when complete.
 */
enum utf8_state utf8_read(const char *bytes, size_t size_bytes, size_t *length, uint32_t *code_point);
/* Reads one character of text that is known to be valid; *length is 1..4. A damaged one reads as U+FFFD of one byte. */
uint32_t utf8_at(struct text text, size_t offset, size_t *length);
/* Writes a code point; returns its bytes (1..4). Surrogates and values past U+10FFFF are the caller's error. */
size_t utf8_write(uint32_t code_point, char bytes[UTF8_BYTES_MAX]);
MUST_CHECK enum status utf8_append(struct byte_buffer *out, uint32_t code_point, struct error *err);
/* Offset of the last character of text[0, end), end > 0. */
size_t utf8_before(struct text text, size_t end);
/* Bytes from the start of text that are valid UTF-8. */
size_t utf8_valid_bytes(struct text text);
/* Appends text with every broken part as U+FFFD; an incomplete end is one U+FFFD. */
MUST_CHECK enum status utf8_repair(struct text text, struct byte_buffer *out, struct error *err);

bool unicode_is_whitespace(uint32_t code_point);  /* White_Space */
bool unicode_is_numeric(uint32_t code_point);     /* Nd, Nl, No */
bool unicode_is_punctuation(uint32_t code_point); /* P*, and the ASCII symbols */
bool unicode_is_word(uint32_t code_point);        /* \w of a regular expression */
bool unicode_is_mark(uint32_t code_point);        /* accents and other marks */
bool unicode_joins(uint32_t code_point);
bool unicode_decomposes(uint32_t code_point);
/* Lower case; one code point, save for U+0130 that becomes two. Returns how many of out are set. */
unsigned unicode_lower(uint32_t code_point, uint32_t out[2]);

/* The byte-level alphabet: a printable character for every byte. */
uint32_t byte_level_character(uint8_t byte);
bool byte_level_byte(uint32_t code_point, uint8_t *byte); /* false: not in the alphabet */
MUST_CHECK enum status byte_level_append(struct text bytes, struct byte_buffer *out, struct error *err);
