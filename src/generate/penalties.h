/*
 * penalties: what a request does to logits before a token is chosen: biases of single tokens, penalties of tokens that were there.
 *
 * Formula (docs/ARITHMETIC.md, "Sampling"), for a token that is n times in the answer so far, each operation rounded to f32:
 *   x = x + bias
 *   x = x > 0 ? x / repetition : x * repetition   if it is in the prompt or the answer
 *   x = x - n * frequency
 *   x = x - presence                              if n > 0
 *   What is no number stays none, so that damaged logits are still found.
 *
 * Model     tokens of the answer are accepted one by one as they are chosen, drafted ones too: a row is looked at after all tokens before
 *           it, which a draft does not change.
 * Cost      of a step: the distinct tokens that have a bias, are in the answer, or in a prompt whose repetition is penalised.
 * Memory    4 bytes a token of the vocabulary and 16 a distinct token that can occur, at create; none when nothing is asked for.
 * Threads   one owner.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define PENALTY_MAX 2.0f /* of frequency and presence, up and down */
#define REPETITION_MIN 0.1f
#define REPETITION_MAX 10.0f
#define BIAS_MAX 100.0f /* up and down */

struct penalty_params {
    float frequency, presence; /* 0: off */
    float repetition;          /* 1: off */
    const uint32_t *bias_ids;  /* [bias_count] borrowed; a token that is there twice gets both */
    const float *biases;       /* [bias_count] borrowed */
    size_t bias_count;
};

struct penalties;

/* For one answer to prompt, of up to max_tokens. *out is NULL when params change nothing. STATUS_INVALID: out of range, or no token. */
MUST_CHECK enum status penalties_create(const struct penalty_params *params, uint32_t vocab, const uint32_t *prompt, uint32_t prompt_count,
                                        uint32_t max_tokens, struct penalties **out, struct error *err);
void penalties_destroy(struct penalties *penalties);                /* NULL is allowed */
void penalties_accept(struct penalties *penalties, uint32_t token); /* the next token of the answer */
void penalties_apply(struct penalties *penalties, float *logits);   /* changes logits [vocab] */
/* A token's logit from before the last apply; logits: what apply made of them. */
float penalties_model_logit(const struct penalties *penalties, const float *logits, uint32_t token);
