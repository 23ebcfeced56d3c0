/*
 * check_router: choice, order and weights of experts in ref/ against cases worked out by hand, and each level against ref/.
 */
#include <math.h>

#include "check.h"

struct router_case {
    struct router_args args;
    uint32_t ids[64];
    float weights[64], scratch[3 * 512];
};

static void run(struct router_case *c, const struct kernel_table *table) {
    c->args.ids = c->ids;
    c->args.weights = c->weights;
    c->args.scratch = c->scratch;
    table->router(&c->args);
}

#define REF kernel_table_for(CPU_ISA_REF)

static void assert_weight(double want, float got) { assert_true(fabs(want - (double)got) <= 1e-6 * (1 + fabs(want))); }

static void softmax_then_choice(void **state) {
    (void)state;
    const float logits[5] = {0, 2, 1, 2, -1};
    struct router_case c = {.args = {.logits = logits, .experts = 5, .top_k = 3, .score = ROUTER_SOFTMAX, .scale = 2}};
    run(&c, REF);
    double sum = 1 + 2 * exp(2) + exp(1) + exp(-1);
    assert_int_equal(c.ids[0], 1);
    assert_int_equal(c.ids[1], 2);
    assert_int_equal(c.ids[2], 3);
    assert_weight(2 * exp(2) / sum, c.weights[0]);
    assert_weight(2 * exp(1) / sum, c.weights[1]);
    c.args.renormalise = true;
    run(&c, REF);
    assert_weight(2 * exp(1) / (2 * exp(2) + exp(1)), c.weights[1]);
    c.args.renormalise = false;
    c.args.score = ROUTER_SOFTMAX_CHOSEN;
    run(&c, REF);
    assert_weight(2 * exp(2) / (2 * exp(2) + exp(1)), c.weights[2]);
}

/* cases.md F8: tiny scores under a large bias; the weight comes from the score without the bias, scaling once, also when not renormalised.
 */
static void f8_sigmoid_with_bias(void **state) {
    (void)state;
    const float logits[4] = {-17, -17, 3, -17}, bias[4] = {12, 12, 0, 12.5f};
    struct router_case c = {.args = {.logits = logits, .bias = bias, .experts = 4, .top_k = 2, .score = ROUTER_SIGMOID, .scale = 2.5f}};
    run(&c, REF);
    assert_int_equal(c.ids[0], 0); /* tie with 1: the lower index; 3 by its bias */
    assert_int_equal(c.ids[1], 3);
    assert_true(fabs((double)c.weights[0] / (2.5 / (1 + exp(17))) - 1) < 1e-6);
    c.args.renormalise = true;
    run(&c, REF);
    assert_weight(1.25, c.weights[0]);
    const float gone[4] = {-200, -200, -200, -200}; /* scores of 0: the guard of 1e-20 leaves 0, not NaN */
    c.args.logits = gone;
    run(&c, REF);
    assert_true(c.weights[0] == 0.0f && c.weights[1] == 0.0f);
}

static void groups_limit_the_choice(void **state) {
    (void)state;
    const float logits[8] = {5, -9, 1, 1, 2, 2, 4.5f, -9};
    struct router_case c = {.args = {.logits = logits,
                                     .experts = 8,
                                     .top_k = 2,
                                     .score = ROUTER_SIGMOID,
                                     .scale = 1,
                                     .groups = 4,
                                     .top_groups = 2,
                                     .group_score_count = 1}};
    run(&c, REF); /* best members: groups 0 and 3 */
    assert_int_equal(c.ids[0], 0);
    assert_int_equal(c.ids[1], 6);
    c.args.group_score_count = 2;
    run(&c, REF); /* best pairs: groups 2 (0.88 twice) and 1 (0.73 twice) */
    assert_int_equal(c.ids[0], 4);
    assert_int_equal(c.ids[1], 5);
    c.args.top_k = 3;
    run(&c, REF);
    assert_int_equal(c.ids[0], 2);
}

static void sqrt_softplus_score(void **state) {
    (void)state;
    const float logits[3] = {0, 1, -2};
    struct router_case c = {.args = {.logits = logits, .experts = 3, .top_k = 2, .score = ROUTER_SQRT_SOFTPLUS, .scale = 1}};
    run(&c, REF);
    assert_weight(sqrt(log(2)), c.weights[0]);
    assert_weight(sqrt(log1p(exp(1))), c.weights[1]);
}

static void levels_equal_ref(void **state) {
    (void)state;
    struct check_random r = {41};
    for (unsigned n = 0; n < 3000; n++) {
        static const size_t experts[] = {8, 16, 60, 64, 128, 256, 384, 512};
        float logits[512], bias[512];
        size_t count = experts[check_below(&r, 8)];
        for (size_t e = 0; e < count; e++) {
            logits[e] = check_float(&r, n % 50 ? CHECK_PLAIN : CHECK_AWKWARD);
            bias[e] = check_float(&r, CHECK_PLAIN);
            if (n % 3 == 0) /* many ties */
                logits[e] = floorf(logits[e] * 2), bias[e] = 0.0f;
        }
        struct router_case want = {.args = {.logits = logits,
                                            .bias = n & 1 ? bias : NULL,
                                            .experts = count,
                                            .top_k = 1 + check_below(&r, 8),
                                            .score = (enum router_score)check_below(&r, 4),
                                            .renormalise = check_below(&r, 2),
                                            .scale = 1.5f}};
        if (count % 16 == 0 && n & 2) {
            want.args.groups = 8;
            want.args.top_groups = 4;
            want.args.group_score_count = 1 + check_below(&r, 2);
        }
        struct router_case got = want;
        run(&want, REF);
        for (size_t k = 1; k < want.args.top_k; k++)
            assert_true(want.ids[k - 1] < want.ids[k]);
        const struct kernel_table *level;
        for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
            run(&got, level);
            assert_memory_equal(want.ids, got.ids, want.args.top_k * sizeof(uint32_t));
            check_same(want.weights, got.weights, want.args.top_k, "router", level);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_then_choice), cmocka_unit_test(f8_sigmoid_with_bias), cmocka_unit_test(groups_limit_the_choice),
        cmocka_unit_test(sqrt_softplus_score), cmocka_unit_test(levels_equal_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
