/*
 * regex: regular expressions as grammars: the part of the notation that describes a language (ECMA 262, which JSON Schema uses).
 *
 * Forms     text . [classes] | ( ) (?: ) (?<name> ) * + ? {m,n} (lazy ones mean the same), \d \w \s \D \W \S (ASCII), \n \r \t \f \v \0
 *           \xHH \uHHHH \u{H...}, ^ and $ at the ends. Refused: look-around, back references, \b, \p, flags.
 * Limits    groups nested REGEX_DEPTH_MAX deep.
 * Failure   STATUS_INVALID or STATUS_UNSUPPORTED with the place, kept in the grammar.
 */
#pragma once

#include "generate/grammar_chars.h"

#define REGEX_DEPTH_MAX 100

enum regex_extent {
    REGEX_WHOLE,  /* the text as a whole */
    REGEX_SEARCH, /* anything around it, unless ^ and $ forbid that */
};
struct fragment regex_read(struct grammar *grammar, struct text pattern, enum regex_extent extent, enum char_spelling spelling);
