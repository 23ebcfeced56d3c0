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
                            .ignore_end = true};
}

uint64_t soak_ids_hash(const uint32_t *ids, uint32_t count) {
    uint64_t hash = 14695981039346656037u;
    for (uint32_t i = 0; i < count; i++)
        hash = (hash ^ ids[i]) * 1099511628211u;
    return hash;
}

static void append(struct soak_request *to, const uint32_t *ids, uint32_t count) {
    CHECK(count <= SOAK_CONTEXT - to->prompt_count);
    memcpy(to->prompt + to->prompt_count, ids, count * sizeof *ids);
    to->prompt_count += count;
}

static void make_prompt(struct soak_table *table, uint32_t k, const sluice_info *info, uint32_t context, uint64_t *random) {
    struct soak_request *r = &table->requests[k];
    bool first = k % SOAK_TURNS == 0;
    uint32_t part = context / PARTS, vocab = info->vocab > 3 ? info->vocab - 3 : 1;
    r->prompt_count = 0;
    if (!first) {
        append(r, r[-1].prompt, r[-1].prompt_count);
        append(r, r[-1].answer, r[-1].answer_count);
    }
    for (uint32_t count = 1 + draw(random, part * (first ? PROMPT_PARTS : TURN_PARTS)); count > 0; count--) {
        uint32_t id = info->vocab > 3 ? 3 + draw(random, vocab) : 0;
        append(r, &id, 1);
    }
    r->answer_count = part / 4 + 1 + draw(random, part * ANSWER_PARTS - part / 4);
}

struct taking {
    struct soak_request *request;
    uint32_t count;
};

static bool take(void *context, const sluice_piece *piece) {
    struct taking *taking = context;
    if (piece->token != SLUICE_NO_TOKEN && taking->count < taking->request->answer_count)
        taking->request->answer[taking->count++] = piece->token;
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
        sluice_result result;
        make_prompt(table, k, &info, plan.context, &seed);
        sluice_request request = soak_request_of(table, k);
        request.on_piece = take;
        request.context_pointer = &taking;
        sluice_status status = sluice_generate(model, &request, &result, error);
        if (status != SLUICE_OK)
            return status;
        CHECK(taking.count == taking.request->answer_count);
        (void)printf("clean: request %2u, prompt %4u, answer %3u, ids %016" PRIx64 ", %.1f s\n", k, taking.request->prompt_count,
                     taking.count, soak_ids_hash(taking.request->answer, taking.count), result.prompt_seconds + result.decode_seconds);
    }
    table->whole = true;
    return SLUICE_OK;
}
