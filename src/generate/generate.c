/*
 * generate: the loop.
 */
#include "generate/generate.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"

struct choosing { /* context of the logits callback */
    struct sampler *sampler;
    const struct generate_request *request;
    struct penalties *penalties; /* or NULL */
    uint32_t vocab;
    uint32_t token;
    struct token_logprob logprobs[1 + SAMPLER_TOP_MAX]; /* of token, then the likeliest */
};

/* Tokens that the constraint forbids become impossible. */
static enum status apply_constraint(const struct choosing *c, float *logits, struct error *err) {
    const struct generate_request *r = c->request;
    TRY(r->constraint->operations->mask(r->constraint, r->mask, err));
    for (uint32_t i = 0; i < c->vocab; i++)
        if (!(r->mask[i / 32] >> (i % 32) & 1))
            logits[i] = -HUGE_VALF;
    return STATUS_OK;
}

static enum status choose(void *context, uint32_t position, float *logits, struct error *err) {
    struct choosing *c = context;
    const struct generate_request *r = c->request;
    if (!r->constraint && !c->penalties) {
        TRY(sampler_choose(c->sampler, &r->sampling, logits, position + 1, &c->token, err));
        if (r->logprobs)
            sampler_logprobs(c->sampler, logits, c->token, c->logprobs, r->top_count, c->logprobs + 1);
        return STATUS_OK;
    }
    /* Probabilities are the model's own, from before penalties and mask; and no token is made of damaged logits, forbidden ones or not. */
    float best_logit = 0;
    if (r->constraint || r->logprobs) {
        const struct sampler_params likeliest = {.top_p = 1};
        uint32_t best;
        TRY(sampler_choose(c->sampler, &likeliest, logits, position + 1, &best, err));
        best_logit = logits[best];
        if (r->logprobs)
            sampler_logprobs(c->sampler, logits, best, c->logprobs, r->top_count, c->logprobs + 1);
    }
    if (c->penalties)
        penalties_apply(c->penalties, logits);
    if (r->constraint)
        TRY(apply_constraint(c, logits, err));
    TRY(sampler_choose(c->sampler, &r->sampling, logits, position + 1, &c->token, err));
    if (r->logprobs) {
        float logit = c->penalties ? penalties_model_logit(c->penalties, logits, c->token) : logits[c->token];
        c->logprobs[0] = (struct token_logprob){c->token, c->logprobs[0].logprob + (logit - best_logit)};
    }
    return STATUS_OK;
}

struct reporting {
    const struct generate_request *request;
    struct choosing *choosing;
};

static enum status choose_next(void *context, uint32_t position, float *logits, struct error *err) {
    return choose(((struct reporting *)context)->choosing, position, logits, err);
}

static void report(void *context, uint32_t done, uint32_t total) {
    const struct generate_request *request = ((struct reporting *)context)->request;
    if (request->progress)
        request->progress(request->context, done, total);
}

static bool is_end(const struct generate_request *request, uint32_t token) {
    for (uint32_t i = 0; i < request->end_count; i++)
        if (request->end_ids[i] == token)
            return true;
    return false;
}

static enum status read_prompt(struct session *session, const struct generate_request *request, struct choosing *choosing,
                               struct error *err) {
    uint32_t known = session_length(session);
    CHECK(known < request->prompt_count && memcmp(session_tokens(session), request->prompt, known * sizeof(uint32_t)) == 0);
    struct reporting reporting = {request, choosing};
    struct session_extend extend = {.tokens = request->prompt + known,
                                    .count = request->prompt_count - known,
                                    .logits = choose_next,
                                    .progress = report,
                                    .context = &reporting};
    extend.logits_from = request->max_tokens ? extend.count - 1 : extend.count;
    return session_extend(session, &extend, err);
}

static enum status accept(const struct choosing *choosing, struct error *err) {
    struct constraint *constraint = choosing->request->constraint;
    if (choosing->penalties)
        penalties_accept(choosing->penalties, choosing->token);
    return constraint ? constraint->operations->accept(constraint, choosing->token, err) : STATUS_OK;
}

static enum status answer(struct session *session, const struct generate_request *request, struct choosing *choosing,
                          struct generate_result *result, struct error *err) {
    uint64_t start = clock_now_ns();
    if (request->constraint)
        request->constraint->operations->reset(request->constraint);
    TRY(read_prompt(session, request, choosing, err));
    uint64_t first = clock_now_ns();
    result->prompt_ns = first - start;
    for (uint32_t n = 0; n < request->max_tokens; n++) {
        if (is_end(request, choosing->token)) {
            result->reason = STOP_END_TOKEN;
            break;
        }
        result->generated++;
        TRY(accept(choosing, err));
        bool go_on = request->token(request->context, choosing->token, request->logprobs ? choosing->logprobs : NULL);
        result->decode_ns = clock_now_ns() - first;
        if (!go_on) {
            result->reason = STOP_CALLER;
            break;
        }
        if (request->constraint && request->constraint->operations->is_finished(request->constraint)) {
            result->reason = STOP_END_TOKEN; /* only an end token could follow: no pass is needed to see that */
            break;
        }
        if (n + 1 == request->max_tokens)
            break;
        if (session_length(session) == session_context(session)) {
            result->reason = STOP_CONTEXT;
            break;
        }
        struct session_extend extend = {.tokens = &choosing->token, .count = 1, .logits_from = 0, .logits = choose, .context = choosing};
        TRY(session_extend(session, &extend, err));
    }
    return STATUS_OK;
}

enum status generate(struct session *session, struct sampler *sampler, const struct generate_request *request,
                     struct generate_result *result, struct error *err) {
    *result = (struct generate_result){.reason = STOP_LENGTH};
    struct choosing choosing = {.sampler = sampler, .request = request, .vocab = sampler_vocab(sampler)};
    TRY(sampler_check(&request->sampling, err));
    TRY(penalties_create(&request->penalties, choosing.vocab, request->prompt, request->prompt_count, request->max_tokens,
                         &choosing.penalties, err));
    enum status status = answer(session, request, &choosing, result, err);
    penalties_destroy(choosing.penalties);
    return status;
}
