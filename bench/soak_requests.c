/* soak_requests: see soak_requests.h. */
#include "soak_requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

enum { PARTS = 24, PROMPT_PARTS = 6, TURN_PARTS = 1, ANSWER_PARTS = 4 };

static uint32_t draw(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

sluice_request soak_request_of(const struct soak_table *table, uint32_t k) {
    const struct soak_request *r = &table->requests[k];
    bool sampled = k % SOAK_TURNS == 1;
    return (sluice_request){.prompt = r->prompt,
                            .prompt_count = r->prompt_count,
                            .max_tokens = r->answer_count,
                            .temperature = sampled ? 0.8f : 0,
                            .seed = k,
                            .ignore_end = true,
                            .logprobs = true,
                            .top_logprobs = 2};
}

struct soak_token soak_token_of(const sluice_piece *piece) {
    const sluice_logprob *top = piece->top;
    return (struct soak_token){piece->token, top[0].token, top[1].token, piece->logprob, top[0].logprob, top[1].logprob};
}

bool soak_same_token(struct soak_token a, struct soak_token b) { return memcmp(&a, &b, sizeof a) == 0; }

static uint64_t hash(uint64_t before, const void *data, size_t size_bytes) {
    for (const uint8_t *byte = data, *end = byte + size_bytes; byte < end; byte++)
        before = (before ^ *byte) * 1099511628211u;
    return before;
}

/* Two hashes: of ids and of everything. Runs under other budgets are compared by them. */
static void hash_answer(const struct soak_request *r, uint64_t *ids, uint64_t *all) {
    *ids = *all = 14695981039346656037u;
    for (uint32_t i = 0; i < r->answer_count; i++) {
        *ids = hash(*ids, &r->answer[i].id, sizeof r->answer[i].id);
        *all = hash(*all, &r->answer[i], sizeof r->answer[i]);
    }
}

static void append(struct soak_request *to, uint32_t id) {
    CHECK(to->prompt_count < SOAK_CONTEXT);
    to->prompt[to->prompt_count++] = id;
}

static void make_prompt(struct soak_table *table, uint32_t k, const sluice_info *info, uint32_t context, uint64_t *random) {
    struct soak_request *r = &table->requests[k];
    bool first = k % SOAK_TURNS == 0;
    uint32_t part = context / PARTS, vocab = info->vocab > 3 ? info->vocab - 3 : 1;
    r->prompt_count = 0;
    if (!first) {
        for (uint32_t i = 0; i < r[-1].prompt_count; i++)
            append(r, r[-1].prompt[i]);
        for (uint32_t i = 0; i < r[-1].answer_count; i++)
            append(r, r[-1].answer[i].id);
    }
    for (uint32_t count = 1 + draw(random, part * (first ? PROMPT_PARTS : TURN_PARTS)); count > 0; count--)
        append(r, info->vocab > 3 ? 3 + draw(random, vocab) : 0);
    r->answer_count = part / 4 + 1 + draw(random, part * ANSWER_PARTS - part / 4);
}

struct taking {
    struct soak_request *request;
    uint32_t count;
};

static bool take(void *context, const sluice_piece *piece) {
    struct taking *taking = context;
    if (piece->token != SLUICE_NO_TOKEN && taking->count < taking->request->answer_count)
        taking->request->answer[taking->count++] = soak_token_of(piece);
    return true;
}

sluice_status soak_requests_answer(struct soak_table *table, sluice_model *model, uint64_t seed, sluice_error *error) {
    sluice_info info;
    sluice_plan plan;
    sluice_get_info(model, &info);
    sluice_get_plan(model, &plan);
    CHECK(plan.context >= PARTS && plan.context <= SOAK_CONTEXT);
    for (uint32_t k = 0; k < SOAK_REQUESTS; k++) {
        struct taking taking = {.request = &table->requests[k]};
        uint64_t ids, all;
        sluice_result result;
        make_prompt(table, k, &info, plan.context, &seed);
        sluice_request request = soak_request_of(table, k);
        request.on_piece = take;
        request.context_pointer = &taking;
        sluice_status status = sluice_generate(model, &request, &result, error);
        if (status != SLUICE_OK)
            return status;
        CHECK(taking.count == taking.request->answer_count);
        hash_answer(taking.request, &ids, &all);
        (void)printf("clean: request %2u, prompt %4u, answer %3u, ids %016" PRIx64 ", with probabilities %016" PRIx64 ", %.1f s\n", k,
                     taking.request->prompt_count, taking.count, ids, all, result.prompt_seconds + result.decode_seconds);
    }
    table->whole = true;
    return SLUICE_OK;
}
