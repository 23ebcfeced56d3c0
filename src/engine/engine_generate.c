/*
 * engine_generate: include/sluice.h, part two: requests.
 */
#include <math.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "dtype/scalar_convert.h"
#include "engine/engine_internal.h"
#include "generate/stop_rules.h"

struct running { /* context of the token callback */
    struct sluice_model *model;
    const sluice_request *request;
    struct tokenizer_stream stream;
    struct stop_rules stop;
    struct byte_buffer decoded, text; /* text of a token; what of it may be shown */
    sluice_logprob top[SAMPLER_TOP_MAX];
    uint64_t last_ns;
    enum status status; /* of decoding a token's text */
    struct error err;
};

static enum status need_loaded(const struct sluice_model *m, struct error *err) {
    return m->loaded ? STATUS_OK : error_set(err, STATUS_INVALID, "the model is not loaded yet: call sluice_load first");
}

static enum status check_prompt(const struct sluice_model *m, const uint32_t *ids, size_t count, struct error *err) {
    uint32_t context = m->memory.plan.context, vocab = m->model->plan.vocab;
    if (count == 0)
        return error_set(err, STATUS_INVALID, "the prompt is empty: there is nothing to continue");
    if (count > context)
        return error_set(err, STATUS_OVER_BUDGET,
                         "the prompt has %zu tokens, the context holds %u: raise --ctx (the model was made for %u) or "
                         "shorten the prompt",
                         count, context, m->model->context);
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= vocab)
            return error_set(err, STATUS_INVALID, "token %zu of the prompt has id %u; the model's vocabulary ends at %u", i, ids[i],
                             vocab - 1);
    return STATUS_OK;
}

/* ---- numbers ---- */

static enum status numbers_begin(struct sluice_model *m, uint32_t max_tokens, struct error *err) {
    struct request_numbers *n = &m->numbers;
    if (max_tokens > n->token_capacity) {
        memory_free(n->token_ns);
        memory_free(n->hits);
        memory_free(n->misses);
        *n = (struct request_numbers){0};
        n->token_ns = memory_alloc_array(max_tokens, sizeof *n->token_ns);
        n->hits = memory_alloc_array(max_tokens, sizeof *n->hits);
        n->misses = memory_alloc_array(max_tokens, sizeof *n->misses);
        if (!n->token_ns || !n->hits || !n->misses)
            return error_set(err, STATUS_NO_MEMORY, "no memory for the times of %u tokens", max_tokens);
        n->token_capacity = max_tokens;
    }
    n->token_count = n->generated = n->reused = 0;
    store_stats_read(m->store, &n->before);
    n->after_prompt = n->after = n->before;
    return STATUS_OK;
}

static void numbers_token(struct running *run) {
    struct request_numbers *n = &run->model->numbers;
    uint64_t now = clock_now_ns();
    store_stats_read(run->model->store, &n->after);
    if (n->token_count < n->token_capacity) {
        n->token_ns[n->token_count] = now - run->last_ns;
        n->hits[n->token_count] = n->after.hits;
        n->misses[n->token_count] = n->after.misses;
    }
    if (n->token_count == 0) {
        n->after_prompt = n->after;
        pass_costs_clear(executor_costs(run->model->executor)); /* its pass belongs to the prompt */
    }
    n->token_count++;
    run->last_ns = now;
}

/* ---- tokens ---- */

static bool hand_out(struct running *run, uint32_t token, const struct token_logprob *logprobs) {
    sluice_piece piece = {.token = token};
    if (run->model->tokenizer) {
        piece.text = run->text.data ? run->text.data : "";
        piece.text_bytes = run->text.size_bytes;
    }
    if (logprobs) {
        piece.logprob = logprobs[0].logprob;
        piece.top = run->top;
        for (uint32_t i = 0; i < run->request->top_logprobs; i++)
            run->top[i] = (sluice_logprob){logprobs[1 + i].token, logprobs[1 + i].logprob};
    }
    return !run->request->on_piece || run->request->on_piece(run->request->context_pointer, &piece);
}

/* Text of a token, or with SLUICE_NO_TOKEN the rest of an unfinished character, less what may become a stop string. */
static enum status decode_text(struct running *run, uint32_t token, struct error *err) {
    byte_buffer_clear(&run->decoded);
    byte_buffer_clear(&run->text);
    if (!run->model->tokenizer)
        return STATUS_OK;
    bool final = token == SLUICE_NO_TOKEN;
    TRY(final ? tokenizer_stream_finish(&run->stream, &run->decoded, err) : tokenizer_stream_push(&run->stream, token, &run->decoded, err));
    return stop_rules_push(&run->stop, byte_buffer_text(&run->decoded), final, &run->text, err);
}

static bool on_token(void *context, uint32_t token, const struct token_logprob *logprobs) {
    struct running *run = context;
    numbers_token(run);
    run->status = decode_text(run, token, &run->err);
    if (run->status != STATUS_OK)
        return false;
    return hand_out(run, token, logprobs) && !run->stop.hit;
}

static void on_prompt(void *context, uint32_t done, uint32_t total) {
    struct running *run = context;
    if (run->request->on_prompt)
        run->request->on_prompt(run->request->context_pointer, done, total);
}

/* What was held back goes out after the last token. */
static enum status finish_text(struct running *run, struct error *err) {
    if (!run->model->tokenizer || run->model->numbers.token_count == 0 || run->stop.hit)
        return STATUS_OK;
    TRY(decode_text(run, SLUICE_NO_TOKEN, err));
    if (run->text.size_bytes > 0)
        (void)hand_out(run, SLUICE_NO_TOKEN, NULL);
    return STATUS_OK;
}

/*
 * Leaves in the session what an earlier call computed and this prompt begins with: less than the prompt, for its last token gives the
 * logits. Row-invariance makes it the same bits. Layers that cannot return there (recurrent, windowed) begin again at 0.
 */
static enum status reuse_prefix(struct sluice_model *m, const sluice_request *request, uint32_t *reused, struct error *err) {
    uint32_t held = session_length(m->session), limit = (uint32_t)request->prompt_count - 1, common = 0;
    const uint32_t *tokens = session_tokens(m->session);
    while (common < held && common < limit && tokens[common] == request->prompt[common])
        common++;
    *reused = common;
    if (session_rewind(m->session, common, NULL) == STATUS_OK)
        return STATUS_OK;
    *reused = 0;
    return session_rewind(m->session, 0, err);
}

static enum status run_request(struct sluice_model *m, const sluice_request *request, struct running *run, struct generate_result *result,
                               struct error *err) {
    TRY(need_loaded(m, err));
    TRY(check_prompt(m, request->prompt, request->prompt_count, err));
    TRY(stop_rules_init(&run->stop, request->stop, request->stop_count, err));
    CHECK(!request->constraint || request->constraint->model == m);
    if (request->top_logprobs > SAMPLER_TOP_MAX)
        return error_set(err, STATUS_INVALID, "top_logprobs is %u, at most %d are given", request->top_logprobs, SAMPLER_TOP_MAX);
    uint32_t room = m->memory.plan.context - (uint32_t)request->prompt_count + 1;
    uint32_t wanted = request->max_tokens && request->max_tokens < room ? request->max_tokens : room;
    TRY(numbers_begin(m, wanted, err));
    TRY(reuse_prefix(m, request, &m->numbers.reused, err));
    bool turn_ends = request->chat && m->turn_end_ids;
    struct generate_request inner = {.prompt = request->prompt,
                                     .prompt_count = (uint32_t)request->prompt_count,
                                     .max_tokens = wanted,
                                     .sampling = {.temperature = request->temperature,
                                                  .top_k = request->top_k,
                                                  .top_p = request->top_p == 0 ? 1 : request->top_p,
                                                  .min_p = request->min_p,
                                                  .seed = request->seed,
                                                  .choice = request->choice},
                                     .penalties = {.frequency = request->frequency_penalty,
                                                   .presence = request->presence_penalty,
                                                   .repetition = request->repetition_penalty == 0 ? 1 : request->repetition_penalty,
                                                   .bias_ids = request->bias_ids,
                                                   .biases = request->biases,
                                                   .bias_count = request->bias_count},
                                     .end_ids = turn_ends ? m->turn_end_ids : m->end_ids,
                                     .end_count = request->ignore_end && !request->constraint ? 0
                                                  : turn_ends                                 ? m->turn_end_id_count
                                                                                              : m->end_id_count,
                                     .constraint = request->constraint ? request->constraint->constraint : NULL,
                                     .mask = request->constraint ? request->constraint->mask : NULL,
                                     .logprobs = request->logprobs,
                                     .top_count = request->top_logprobs,
                                     .token = on_token,
                                     .progress = on_prompt,
                                     .context = run};
    run->last_ns = clock_now_ns();
    enum status status = generate(m->session, m->sampler, &inner, result, err);
    m->numbers.prompt_tokens = (uint32_t)request->prompt_count;
    m->numbers.generated = result->generated;
    m->numbers.prompt_ns = result->prompt_ns;
    m->numbers.decode_ns = result->decode_ns;
    store_stats_read(m->store, &m->numbers.after);
    TRY(engine_explain(m, status, err));
    if (run->status != STATUS_OK) {
        *err = run->err;
        return run->status;
    }
    if (result->reason == STOP_LENGTH && (request->max_tokens == 0 || wanted < request->max_tokens))
        result->reason = STOP_CONTEXT;
    TRY(finish_text(run, err));
    if (run->stop.hit)
        result->reason = STOP_STRING;
    return STATUS_OK;
}

sluice_status sluice_generate(sluice_model *m, const sluice_request *request, sluice_result *result, sluice_error *error) {
    struct error err = {0};
    struct generate_result inner = {0};
    struct running run = {.model = m, .request = request};
    byte_buffer_init(&run.text, 1u << 20);
    byte_buffer_init(&run.decoded, 1u << 20);
    if (m->tokenizer)
        tokenizer_stream_init(&run.stream, m->tokenizer, !request->show_special);
    enum status status = run_request(m, request, &run, &inner, &err);
    atomic_store(&m->cancel, false);
    byte_buffer_deinit(&run.text);
    byte_buffer_deinit(&run.decoded);
    if (result)
        *result = (sluice_result){.stop = (sluice_stop)inner.reason,
                                  .reused = status == STATUS_OK ? m->numbers.reused : 0,
                                  .generated = inner.generated,
                                  .prompt_seconds = (double)inner.prompt_ns / 1e9,
                                  .decode_seconds = (double)inner.decode_ns / 1e9};
    return engine_report(status, &err, error);
}

/* ---- logits ---- */

struct logits_run {
    uint32_t vocab;
    bool (*on_logits)(void *, uint32_t, const float *);
    void *context;
};

static enum status hand_out_logits(void *context, uint32_t position, float *logits, struct error *err) {
    struct logits_run *run = context;
    if (f32_first_not_finite(logits, run->vocab) < run->vocab)
        return error_set(err, STATUS_CORRUPT, "the logits at position %u are not numbers", position);
    return run->on_logits(run->context, position, logits) ? STATUS_OK : error_set(err, STATUS_CANCELLED, "stopped by the caller");
}

sluice_status sluice_logits(sluice_model *m, const uint32_t *ids, size_t count, bool (*on_logits)(void *, uint32_t, const float *),
                            void *context_pointer, sluice_error *error) {
    struct error err = {0};
    struct logits_run run = {m->model->plan.vocab, on_logits, context_pointer};
    enum status status = need_loaded(m, &err);
    if (status == STATUS_OK)
        status = check_prompt(m, ids, count, &err);
    if (status == STATUS_OK)
        status = numbers_begin(m, 1, &err);
    if (status == STATUS_OK)
        status = session_rewind(m->session, 0, &err);
    if (status == STATUS_OK) {
        const struct session_extend extend = {
            .tokens = ids, .count = (uint32_t)count, .logits_from = 0, .logits = hand_out_logits, .context = &run};
        uint64_t start = clock_now_ns();
        status = engine_explain(m, session_extend(m->session, &extend, &err), &err);
        m->numbers.prompt_ns = clock_now_ns() - start;
        m->numbers.prompt_tokens = (uint32_t)count;
        store_stats_read(m->store, &m->numbers.after);
        m->numbers.after_prompt = m->numbers.after;
    }
    atomic_store(&m->cancel, false);
    return engine_report(status, &err, error);
}
