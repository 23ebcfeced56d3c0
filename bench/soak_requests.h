/*
 * soak_requests: conversations that are asked again and again, with what a clean run answered: the ids, and the logarithms of the
 * probabilities of each and of the second choice, in which every logit has a part. (A model may be so sure that the first one is always 0.)
 *
 * Model    A few conversations of three turns. A turn's prompt is the turn before, its answer, and something new. Each second turn is
 *          sampled with a seed, the others are greedy. Lengths fit the context: prompts up to 6, further turns up to 1, answers up to 4 of
 * its 24 parts. Memory   one table, made by the caller where both processes see it: the clean run is a process of its own.
 */
#pragma once

#include "sluice.h"

enum { SOAK_TURNS = 3, SOAK_REQUESTS = 4 * SOAK_TURNS, SOAK_CONTEXT = 1536 };

struct soak_request {
    uint32_t prompt[SOAK_CONTEXT];
    struct soak_token {
        uint32_t id, first, second; /* chosen; the two likeliest */
        float logprob, first_logprob, second_logprob;
    } answer[SOAK_CONTEXT];
    uint32_t prompt_count, answer_count;
};

struct soak_table {
    struct soak_request requests[SOAK_REQUESTS];
    bool whole; /* every answer is there */
};

/* Request k as sluice_generate wants it; the caller adds its callbacks. */
sluice_request soak_request_of(const struct soak_table *table, uint32_t k);
struct soak_token soak_token_of(const sluice_piece *piece);
bool soak_same_token(struct soak_token a, struct soak_token b); /* bit by bit */
/* Asks a loaded model for every answer, undisturbed, and prints one line each. context: of the model as loaded. */
SLUICE_CHECKED sluice_status soak_requests_answer(struct soak_table *table, sluice_model *model, uint64_t seed, sluice_error *error);
