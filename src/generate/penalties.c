/*
 * penalties: a list of the tokens that differ, and where each token's entry is in it.
 */
#include "generate/penalties.h"

#include "base/check.h"
#include "base/memory.h"

struct entry {
    uint32_t token;
    uint32_t in_prompt : 1, count : 31; /* count: in the answer */
    float bias, model_logit;
};

struct penalties {
    float frequency, presence, repetition;
    uint32_t vocab, entry_count, entry_capacity;
    uint32_t *places; /* [vocab] 1 + index of the entry; 0: none */
    struct entry *entries;
};

static enum status check_penalty(const char *name, float value, float minimum, float maximum, struct error *err) {
    if (value >= minimum && value <= maximum)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s is %g, allowed is %g to %g", name, (double)value, (double)minimum, (double)maximum);
}

static enum status check(const struct penalty_params *p, uint32_t vocab, struct error *err) {
    TRY(check_penalty("frequency_penalty", p->frequency, -PENALTY_MAX, PENALTY_MAX, err));
    TRY(check_penalty("presence_penalty", p->presence, -PENALTY_MAX, PENALTY_MAX, err));
    TRY(check_penalty("repetition_penalty", p->repetition, REPETITION_MIN, REPETITION_MAX, err));
    for (size_t i = 0; i < p->bias_count; i++) {
        if (p->bias_ids[i] >= vocab)
            return error_set(err, STATUS_INVALID, "logit_bias has token %u; the model's vocabulary ends at %u", p->bias_ids[i], vocab - 1);
        TRY(check_penalty("a value of logit_bias", p->biases[i], -BIAS_MAX, BIAS_MAX, err));
    }
    return STATUS_OK;
}

static struct entry *entry_of(struct penalties *p, uint32_t token) {
    CHECK(token < p->vocab);
    if (!p->places[token]) {
        CHECK(p->entry_count < p->entry_capacity);
        p->entries[p->entry_count] = (struct entry){.token = token};
        p->places[token] = ++p->entry_count;
    }
    return &p->entries[p->places[token] - 1];
}

enum status penalties_create(const struct penalty_params *params, uint32_t vocab, const uint32_t *prompt, uint32_t prompt_count,
                             uint32_t max_tokens, struct penalties **out, struct error *err) {
    *out = NULL;
    TRY(check(params, vocab, err));
    bool repetition = params->repetition != 1;
    if (!repetition && params->frequency == 0 && params->presence == 0 && params->bias_count == 0)
        return STATUS_OK;
    uint64_t tokens = (uint64_t)params->bias_count + (repetition ? prompt_count : 0) + max_tokens;
    struct penalties *p = memory_alloc(sizeof *p);
    if (p) {
        *p = (struct penalties){.frequency = params->frequency, .presence = params->presence, .repetition = params->repetition};
        p->vocab = vocab;
        p->entry_capacity = tokens < vocab ? (uint32_t)tokens : vocab;
        p->places = memory_alloc_array(vocab, sizeof *p->places);
        p->entries = memory_alloc_array(p->entry_capacity, sizeof *p->entries);
    }
    if (!p || !p->places || !p->entries) {
        penalties_destroy(p);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the penalties of %llu tokens", (unsigned long long)tokens);
    }
    for (size_t i = 0; i < params->bias_count; i++)
        entry_of(p, params->bias_ids[i])->bias += params->biases[i];
    for (uint32_t i = 0; repetition && i < prompt_count; i++)
        entry_of(p, prompt[i])->in_prompt = 1;
    *out = p;
    return STATUS_OK;
}

void penalties_destroy(struct penalties *p) {
    if (!p)
        return;
    memory_free(p->places);
    memory_free(p->entries);
    memory_free(p);
}

void penalties_accept(struct penalties *p, uint32_t token) { entry_of(p, token)->count++; }

void penalties_apply(struct penalties *p, float *logits) {
    for (uint32_t i = 0; i < p->entry_count; i++) {
        struct entry *e = &p->entries[i];
        float x = e->model_logit = logits[e->token];
        x += e->bias;
        if (e->in_prompt || e->count > 0)
            x = x > 0 ? x / p->repetition : x * p->repetition;
        x -= (float)e->count * p->frequency;
        if (e->count > 0)
            x -= p->presence;
        logits[e->token] = x;
    }
}

float penalties_model_logit(const struct penalties *p, const float *logits, uint32_t token) {
    CHECK(token < p->vocab);
    return p->places[token] ? p->entries[p->places[token] - 1].model_logit : logits[token];
}
