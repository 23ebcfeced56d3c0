/*
 * test_penalties: logits of many steps of an answer against the formula of docs/ARITHMETIC.md, section 13, computed from the lists of ids
 * alone: with every mixture of penalties and biases, also where none change anything, and with logits that are no numbers.
 */
#include "test_support.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "generate/penalties.h"

enum { VOCAB = 200, PROMPT = 30, ANSWER = 40, BIASES = 12, ROUNDS = 200 };

static uint32_t random_state = 1;

static uint32_t below(uint32_t limit) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % limit;
}

static float between(float low, float high) { return low + (high - low) * (float)below(10001) / 10000; }

static void fill(uint32_t *ids, uint32_t count, uint32_t limit) {
    for (uint32_t i = 0; i < count; i++)
        ids[i] = below(limit);
}

static uint32_t times(const uint32_t *ids, uint32_t count, uint32_t id) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += ids[i] == id;
    return found;
}

struct request {
    struct penalty_params params;
    uint32_t prompt[PROMPT], answer[ANSWER], bias_ids[BIASES];
    float biases[BIASES];
};

static float expected(const struct request *r, uint32_t id, uint32_t answered, float x) {
    uint32_t n = times(r->answer, answered, id);
    float bias = 0;
    for (size_t i = 0; i < r->params.bias_count; i++)
        bias += r->bias_ids[i] == id ? r->biases[i] : 0;
    x += bias;
    if (n > 0 || times(r->prompt, PROMPT, id) > 0)
        x = x > 0 ? x / r->params.repetition : x * r->params.repetition;
    x -= (float)n * r->params.frequency;
    return n > 0 ? x - r->params.presence : x;
}

/* Bit i of kinds turns something on. */
static void make_request(struct request *r, uint32_t kinds) {
    fill(r->prompt, PROMPT, VOCAB);
    fill(r->answer, ANSWER, VOCAB / 4); /* most come again */
    fill(r->bias_ids, BIASES, VOCAB);
    r->bias_ids[1] = r->bias_ids[0];
    for (uint32_t i = 0; i < BIASES; i++)
        r->biases[i] = i == 2 ? -BIAS_MAX : i == 3 ? BIAS_MAX : between(-5, 5);
    r->params = (struct penalty_params){.frequency = kinds & 1 ? between(-PENALTY_MAX, PENALTY_MAX) : 0,
                                        .presence = kinds & 2 ? between(-PENALTY_MAX, PENALTY_MAX) : 0,
                                        .repetition = kinds & 4 ? between(REPETITION_MIN, REPETITION_MAX) : 1,
                                        .bias_ids = r->bias_ids,
                                        .biases = r->biases,
                                        .bias_count = kinds & 8 ? BIASES : 0};
}

static struct penalties *make_penalties(const struct request *r) {
    struct penalties *p;
    struct error err;
    ASSERT_OK(penalties_create(&r->params, VOCAB, r->prompt, PROMPT, ANSWER, &p, &err), err);
    return p;
}

static void logits_are_those_of_the_formula(void **state) {
    (void)state;
    static struct request r;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        make_request(&r, 1 + round % 15);
        struct penalties *p = make_penalties(&r);
        assert_non_null(p);
        for (uint32_t answered = 0; answered < ANSWER; answered++) {
            float model[VOCAB], logits[VOCAB];
            for (uint32_t i = 0; i < VOCAB; i++)
                model[i] = below(20) == 0 ? 0 : below(20) == 0 ? -HUGE_VALF : between(-15, 15);
            memcpy(logits, model, sizeof logits);
            penalties_apply(p, logits);
            for (uint32_t i = 0; i < VOCAB; i++) {
                assert_true(logits[i] == expected(&r, i, answered, model[i]));
                assert_true(penalties_model_logit(p, logits, i) == model[i]);
            }
            penalties_accept(p, r.answer[answered]);
        }
        penalties_destroy(p);
    }
}

static void what_is_no_number_stays_none(void **state) {
    (void)state;
    static struct request r;
    for (uint32_t kinds = 1; kinds < 16; kinds++) {
        make_request(&r, kinds);
        struct penalties *p = make_penalties(&r);
        for (uint32_t i = 0; i < ANSWER; i++)
            penalties_accept(p, r.answer[i]);
        float nan[VOCAB], high[VOCAB], low[VOCAB];
        for (uint32_t i = 0; i < VOCAB; i++) {
            nan[i] = NAN;
            high[i] = HUGE_VALF;
            low[i] = -HUGE_VALF;
        }
        penalties_apply(p, nan);
        penalties_apply(p, high);
        penalties_apply(p, low);
        for (uint32_t i = 0; i < VOCAB; i++)
            assert_true(isnan(nan[i]) && high[i] == HUGE_VALF && low[i] == -HUGE_VALF);
        penalties_destroy(p);
    }
}

static void nothing_asked_for_takes_nothing(void **state) {
    (void)state;
    static struct request r;
    make_request(&r, 0);
    assert_null(make_penalties(&r));
}

static void values_out_of_range_are_named(void **state) {
    (void)state;
    static struct request r;
    static const float bad[] = {NAN, HUGE_VALF, -HUGE_VALF, 100.5f, -100.5f};
    static const char *const names[] = {"frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias"};
    struct penalties *p;
    struct error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t k = 0; k < 4; k++) {
            make_request(&r, 8);
            float *const fields[] = {&r.params.frequency, &r.params.presence, &r.params.repetition, &r.biases[BIASES - 1]};
            *fields[k] = bad[i];
            ASSERT_FAILS(penalties_create(&r.params, VOCAB, r.prompt, PROMPT, ANSWER, &p, &err), STATUS_INVALID, err);
            assert_null(p);
            assert_non_null(strstr(err.text, names[k]));
        }
    make_request(&r, 8);
    r.bias_ids[4] = VOCAB;
    ASSERT_FAILS(penalties_create(&r.params, VOCAB, r.prompt, PROMPT, ANSWER, &p, &err), STATUS_INVALID, err);
    assert_non_null(strstr(err.text, "200"));
    make_request(&r, 4);
    r.params.repetition = 0;
    ASSERT_FAILS(penalties_create(&r.params, VOCAB, r.prompt, PROMPT, ANSWER, &p, &err), STATUS_INVALID, err);
}

static void without_memory_there_is_an_error(void **state) {
    (void)state;
    static struct request r;
    make_request(&r, 15);
    uint64_t live_bytes = memory_owner_bytes(MEMORY_OTHER);
    for (uint64_t n = 1; n <= 3; n++) {
        struct penalties *p;
        struct error err;
        memory_fail_after(n);
        ASSERT_FAILS(penalties_create(&r.params, VOCAB, r.prompt, PROMPT, ANSWER, &p, &err), STATUS_NO_MEMORY, err);
        memory_fail_after(0);
        assert_null(p);
        assert_int_equal(memory_owner_bytes(MEMORY_OTHER), live_bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_are_those_of_the_formula), cmocka_unit_test(what_is_no_number_stays_none),
                                       cmocka_unit_test(nothing_asked_for_takes_nothing), cmocka_unit_test(values_out_of_range_are_named),
                                       cmocka_unit_test(without_memory_there_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
