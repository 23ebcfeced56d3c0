/*
 * test_sampler: tokens and log-probabilities against the formula of docs/ARITHMETIC.md, section 13, over a sorted vocabulary: many ties,
 * logits close together, far apart and minus infinity.
 */
#include "test_support.h"

#include <math.h>
#include <stdlib.h>

#include "generate/sampler.h"
#include "kernel/kernel.h"

#define VOCAB 1500
#define ROUNDS 300

static float logits[VOCAB], weights[VOCAB];
static uint32_t order[VOCAB];
static uint32_t random_state = 1;

static uint32_t below(uint32_t limit) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % limit;
}

static int in_candidate_order(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (logits[i] != logits[j])
        return logits[i] > logits[j] ? -1 : 1;
    return i < j ? -1 : i > j;
}

static void make_logits(uint32_t round) {
    static const float widths[] = {0.0f, 0.5f, 3.0f, 10.0f, 60.0f, 500.0f};
    float width = widths[round % 6];
    uint32_t steps = round % 4 == 3 ? 5 : 100000;
    for (uint32_t i = 0; i < VOCAB; i++) {
        logits[i] = width * (float)below(steps) / (float)steps;
        if (round % 5 == 4 && below(2))
            logits[i] = -HUGE_VALF;
        order[i] = i;
    }
    logits[below(VOCAB)] = width;
    qsort(order, VOCAB, sizeof *order, in_candidate_order);
}

static uint32_t expected(const struct sampler_params *p, uint32_t position) {
    float total = kernel_table_for(CPU_ISA_REF)->exp_sum(logits, weights, VOCAB, logits[order[0]], 1 / p->temperature);
    uint32_t limit = p->top_k ? p->top_k : VOCAB, kept = 0, i = 0;
    double mass = (double)total, sum = 0;
    if (limit < VOCAB)
        for (mass = 0; kept < limit && weights[order[kept]] > 0; kept++)
            mass += (double)weights[order[kept]];
    if (p->top_p < 1 || p->min_p > 0) {
        double wanted = p->top_p < 1 ? mass * (double)p->top_p : HUGE_VAL;
        for (kept = 0; kept < limit && sum < wanted && weights[order[kept]] > 0 && weights[order[kept]] >= p->min_p; kept++)
            sum += (double)weights[order[kept]];
        mass = sum;
        limit = kept;
    }
    double target = sampler_uniform(p->seed, p->choice, position) * mass;
    for (sum = 0; i < limit && weights[order[i]] > 0; i++)
        if ((sum += (double)weights[order[i]]) > target)
            return order[i];
    return order[i - 1];
}

static void tokens_are_those_of_the_formula(void **state) {
    (void)state;
    struct error err;
    struct sampler *sampler;
    assert_int_equal(sampler_create(VOCAB, CPU_ISA_REF, &sampler, &err), STATUS_OK);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        make_logits(round);
        struct sampler_params p = {.temperature = 0.1f + (float)below(30) * 0.1f, .top_p = 1, .seed = round};
        if (below(3) == 0)
            p.top_k = 1 + below(VOCAB);
        if (below(3) == 0)
            p.top_p = 0.01f + 0.98f * (float)below(100) / 100;
        if (below(3) == 0)
            p.min_p = (float)below(100) / 100;
        p.top_k = p.top_k == 1 ? 2 : p.top_k;
        for (uint32_t position = 0; position < 4; position++) {
            uint32_t token;
            assert_int_equal(sampler_choose(sampler, &p, logits, position, &token, &err), STATUS_OK);
            assert_int_equal(token, expected(&p, position));
        }
    }
    sampler_destroy(sampler);
}

static void the_likeliest_come_in_order(void **state) {
    (void)state;
    struct error err;
    struct sampler *sampler;
    assert_int_equal(sampler_create(VOCAB, CPU_ISA_REF, &sampler, &err), STATUS_OK);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct token_logprob chosen, top[SAMPLER_TOP_MAX];
        make_logits(round);
        sampler_logprobs(sampler, logits, order[7], &chosen, SAMPLER_TOP_MAX, top);
        for (uint32_t i = 0; i < SAMPLER_TOP_MAX; i++)
            assert_int_equal(top[i].token, order[i]);
        assert_true(chosen.logprob == top[7].logprob);
    }
    sampler_destroy(sampler);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_are_those_of_the_formula), cmocka_unit_test(the_likeliest_come_in_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
