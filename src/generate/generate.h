/*
 * generate: the loop from a prompt to an answer: prompt passes, then choose, stop?, append.
 *
 * Model     ids in, ids out; text is the caller's business (tokens arrive one by one). The answer for a seed depends on nothing but model,
 *           prompt and parameters.
 * Threads   as the session: one owner.
 */
#pragma once

#include "generate/constraint.h"
#include "generate/penalties.h"
#include "generate/sampler.h"
#include "run/session.h"

enum stop_reason { STOP_END_TOKEN, STOP_LENGTH, STOP_CONTEXT, STOP_CALLER, STOP_STRING /* set by those who see text */ };

struct generate_request {
    const uint32_t *prompt;
    uint32_t prompt_count; /* >= 1 */
    uint32_t max_tokens;   /* tokens to generate; 0: none, the prompt is read only */
    struct sampler_params sampling;
    struct penalty_params penalties; /* change logits first, then the constraint */
    const uint32_t *end_ids;         /* generation stops when one is chosen; it is not handed out */
    uint32_t end_count;
    struct constraint *constraint; /* or NULL; is reset, then follows the answer. An answer that is finished ends as by an end token */
    uint32_t *mask;                /* with a constraint: [ceil(vocab / 32)] scratch */
    bool logprobs;                 /* tokens come with the model's own logprob and the top_count likeliest */
    uint32_t top_count;
    /* Each token as it is chosen; false stops (STOP_CALLER). logprobs: chosen, then top; NULL when not asked for. */
    bool (*token)(void *context, uint32_t token, const struct token_logprob *logprobs);
    session_progress *progress; /* of the prompt; may be NULL */
    void *context;
};

struct generate_result {
    enum stop_reason reason;
    uint32_t generated;            /* tokens handed out */
    uint64_t prompt_ns, decode_ns; /* up to the first token; from there to the last */
};

/* The session must be empty or hold a prefix of the prompt shorter than it; it is extended in place. */
MUST_CHECK enum status generate(struct session *session, struct sampler *sampler, const struct generate_request *request,
                                struct generate_result *result, struct error *err);
