/*
 * grammar_constraint: the constraint (constraint.h) that a grammar and a vocabulary make.
 *
 * Speed     a mask is kept for every state of the matcher; one for the open form of the state is shared by all states that look alike up to
 *           MATCHER_NEAR bytes (a string in any property, an element of any list), and only tokens that leave it are tried again.
 * Memory    grammar_constraint_bytes() for states and masks, besides the grammar and 4 bytes a token: then what is kept is dropped.
 * Threads   one owner; the trie may be shared.
 */
#pragma once

#include "generate/constraint.h"
#include "generate/grammar.h"
#include "generate/token_trie.h"

/* What the states and masks of one constraint take in the end. */
uint64_t grammar_constraint_bytes(uint32_t vocab);

/* The grammar moves (also on failure) and is finished here; the trie is borrowed. end_ids [end_count]: borrowed. vocab: bits of a mask. */
struct grammar_constraint_options {
    const struct token_trie *trie;
    const uint32_t *end_ids;
    uint32_t end_count, vocab;
};
MUST_CHECK enum status grammar_constraint_create(struct grammar *grammar, const struct grammar_constraint_options *options,
                                                 struct constraint **out, struct error *err);
