/*
 * sampler: the next token as a pure function of logits, parameters, seed, choice index and position.
 *
 * Formula (docs/ARITHMETIC.md, "Sampling"): temperature 0 is the largest logit, ties to the lowest id. Otherwise candidates are ordered by
 * logit, then id; e_i = exp((x_i - max) / temperature) with their sum in the 16-lane order over ids; top_k keeps the first k; top_p the
 * shortest prefix whose sum reaches top_p of what top_k kept (f64, in candidate order); min_p those with e_i >= min_p. One draw u in
 * [0, 1) from a counter-based generator picks by inverse CDF in candidate order.
 *
 * Threads   pure, scratch from the caller's struct.
 * Failure   a NaN or only -infinity among the logits is an error: no token is ever made from them.
 */
#pragma once

#include <stdint.h>

#include "base/cpu_info.h"
#include "base/status.h"

struct sampler_params {
    float temperature; /* 0: greedy */
    uint32_t top_k;    /* 0: off */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    uint64_t seed;
    uint32_t choice; /* index of the answer, for n > 1 */
};

struct sampler; /* scratch for one vocabulary */

MUST_CHECK enum status sampler_create(uint32_t vocab, enum cpu_isa isa, struct sampler **out, struct error *err);
void sampler_destroy(struct sampler *sampler);
uint32_t sampler_vocab(const struct sampler *sampler);
/* Bytes that create takes. */
uint64_t sampler_bytes(uint32_t vocab);

MUST_CHECK enum status sampler_check(const struct sampler_params *params, struct error *err); /* ranges, NaN */
/* logits [vocab] are not changed. position: of the token to be chosen. */
MUST_CHECK enum status sampler_choose(struct sampler *sampler, const struct sampler_params *params, const float *logits, uint32_t position,
                                      uint32_t *token, struct error *err);
struct token_logprob {
    uint32_t token;
    float logprob; /* natural logarithm of the model's own probability, before temperature and cuts */
};
/* Of the chosen token, and of the `count` likeliest (0..SAMPLER_TOP_MAX) in candidate order. */
#define SAMPLER_TOP_MAX 20
void sampler_logprobs(struct sampler *sampler, const float *logits, uint32_t token, struct token_logprob *chosen, uint32_t count,
                      struct token_logprob *top);
/* The uniform number of a draw: depends on nothing but its arguments. */
double sampler_uniform(uint64_t seed, uint32_t choice, uint32_t position);
