/*
 * split: cutting a text at matches, with the five behaviours of Hugging Face's splits.
 *
 * Why separate  every pre-tokenizer that cuts is "what matches" times "what becomes of a match"; this is both, once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "text/pattern.h"

enum split_behavior {
    SPLIT_REMOVED,              /* matches vanish */
    SPLIT_ISOLATED,             /* a match is a piece */
    SPLIT_MERGED_WITH_PREVIOUS, /* a match ends the piece before it */
    SPLIT_MERGED_WITH_NEXT,     /* a match begins the piece after it */
    SPLIT_CONTIGUOUS,           /* neighbouring matches are one piece */
};

struct split_rule {
    struct pattern *pattern;               /* either this */
    bool (*is_match)(uint32_t code_point); /* or single characters */
    enum split_behavior behavior;
    bool invert; /* what does not match is the match */
};

/* Called for each piece [begin, end), never empty, in order. */
typedef enum status split_piece(void *context, size_t begin, size_t end, struct error *err);

/* Cuts text (valid UTF-8) by the rule. The matcher may be NULL when the rule has no expression. */
MUST_CHECK enum status split_text(const struct split_rule *rule, struct pattern_matcher *matcher, struct text text, split_piece *piece,
                                  void *context, struct error *err);
