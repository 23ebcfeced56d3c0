/*
 * gbnf: llama.cpp's notation of grammars: "name ::= alternatives", texts, character classes, groups, * + ? {m,n}, comments.
 *
 * Forms     "text" with \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH   [a-z^...]   .   name   ( )   # comment. A rule may go on in further
 *           lines wherever the next line does not begin a rule. The answer is what `root` matches.
 * Limits    groups nested GBNF_DEPTH_MAX deep.
 * Failure   STATUS_INVALID with line and column, kept in the grammar.
 */
#pragma once

#include "generate/grammar.h"

#define GBNF_DEPTH_MAX 100

/* Adds the rules of `text` to a new grammar and sets its root. */
void gbnf_read(struct grammar *grammar, struct text text);
