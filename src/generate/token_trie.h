/*
 * token_trie: the bytes of all tokens of a vocabulary, as a trie that is walked in one sweep.
 *
 * Model     nodes in depth-first order; node 0 is the root. The tokens that end at node n are ids[nodes[n].first] up to those of the next
 *           node. A control token is spelled 0xff, text, 0xfe, so that text never matches it. Tokens without bytes are not in it.
 * Threads   immutable after build.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

#define TOKEN_BYTES_MAX 512 /* longer tokens are never allowed */

struct token_node {
    uint32_t skip;  /* first node behind the subtree */
    uint32_t first; /* index into ids */
    uint16_t depth;
    uint8_t byte;
};
struct token_trie {
    uint32_t vocab;
    char *bytes;       /* of all tokens, one after another */
    uint32_t *offsets; /* [vocab + 1] */
    struct token_node *nodes;
    uint32_t node_count; /* nodes[node_count].first ends the last node's tokens */
    uint32_t *ids;       /* in order of their bytes */
    bool skips_space;    /* the first space of an answer is not shown */
};

/* bytes [offsets[vocab]] and offsets [vocab + 1] move, also on failure. */
MUST_CHECK enum status token_trie_build(char *bytes, uint32_t *offsets, uint32_t vocab, bool skips_space, struct token_trie **out,
                                        struct error *err);
void token_trie_destroy(struct token_trie *trie);
struct text token_trie_bytes(const struct token_trie *trie, uint32_t id);
uint64_t token_trie_memory(const struct token_trie *trie);
