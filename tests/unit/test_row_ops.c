/*
 * test_row_ops: ops of a plan that small reference models reach with few values only: gated sums, factors by position, weights that move
 * into an expert's input, and rotations that depend on the context.
 */
#include "test_support.h"

#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "model/rope.h"

static void assert_near(double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.9g, wanted %.9g", got, want);
}

static struct backend *open_backend(void) {
    struct error err = {0};
    struct backend *backend = NULL;
    const struct cpu_backend_options options = {.threads = 1, .isa = CPU_ISA_REF, .limits = {.rows = 4, .experts = 4, .top_k = 2}};
    assert_int_equal(cpu_backend_create(&options, &backend, &err), STATUS_OK);
    return backend;
}

static void run(const struct op *op, const struct op_call *call) {
    struct error err = {0};
    struct backend *backend = open_backend();
    assert_int_equal(backend_run(backend, op, call, &err), STATUS_OK);
    backend_destroy(backend);
}

static void shared_expert_is_added_through_its_gate(void **state) {
    (void)state;
    float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, gate[2] = {0, 100}, y[2][3] = {{1, 1, 1}, {1, 1, 1}};
    const struct op op = {.kind = OP_ADD_GATED};
    const struct op_call call = {.rows = 2, .in = {x[0], gate}, .in_width = {3, 1}, .out = {y[0]}, .out_width = {3}};
    run(&op, &call);
    assert_near((double)y[0][2], 2.5, 0); /* sigmoid(0) is exactly a half */
    assert_near((double)y[1][2], 7, 0);   /* and of 100 exactly 1 */
}

static void queries_grow_in_steps_of_the_period(void **state) {
    (void)state;
    const struct op_row rows[3] = {{.position = 7}, {.position = 8}, {.position = 25}};
    float y[3][1] = {{2}, {2}, {2}};
    struct op op = {.kind = OP_SCALE_BY_POSITION, .scale_by_position = {.slope = 0.1f, .period = 8}};
    const struct op_call call = {.rows = 3, .row = rows, .out = {y[0]}, .out_width = {1}};
    run(&op, &call);
    assert_near((double)y[0][0], 2, 0);
    assert_near((double)y[1][0], 2 * (1 + 0.1 * log(2)), 1e-6);
    assert_near((double)y[2][0], 2 * (1 + 0.1 * log(4)), 1e-6);
    op.scale_by_position.offset = 1; /* counted from 1: position 7 is the eighth */
    y[0][0] = 2;
    run(&op, &call);
    assert_near((double)y[0][0], 2 * (1 + 0.1 * log(2)), 1e-6);
}

static void tokens_outside_of_the_best_clusters_come_last(void **state) {
    (void)state;
    const float tokens[6] = {5, 0, 2, 3, 1, 4}; /* clusters {5, 0}, {2, 3}, {1, 4} */
    float scores[2][3] = {{1, 3, 2}, {1, 1, 1}}, y[2][6] = {{9, 1, 4, -2, 8, 0}, {9, 1, 4, -2, 8, 0}};
    const struct op op = {.kind = OP_KEEP_CLUSTERS, .keep_clusters = {.clusters = 3, .kept = 2}};
    const struct op_call call = {.rows = 2, .in = {scores[0]}, .in_width = {3}, .out = {y[0]}, .out_width = {6}, .constant = {tokens}};
    run(&op, &call);
    const float want[2][6] = {{-3, 1, 4, -2, 8, -3}, {9, -3, 4, -2, -3, 0}}; /* equal scores: the first clusters */
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 6; i++)
            assert_near((double)y[r][i], (double)want[r][i], 0);
}

static void weight_moves_from_sum_to_input(void **state) {
    (void)state;
    float x[2] = {3, -4}, routing[2] = {0, 0.25f}, y[2], taken[2];
    const uint32_t expert = 3;
    memcpy(&routing[0], &expert, sizeof expert);
    const struct op op = {.kind = OP_TAKE_WEIGHT};
    const struct op_call call = {.rows = 1, .in = {x, routing}, .in_width = {2, 2}, .out = {y, taken}, .out_width = {2, 2}};
    run(&op, &call);
    assert_near((double)y[0], 0.75, 0);
    assert_near((double)y[1], -1, 0);
    assert_memory_equal(&taken[0], &expert, sizeof expert);
    assert_near((double)taken[1], 1, 0);
    assert_near((double)x[0], 3, 0); /* the shared expert reads it unscaled */
}

static void zero_experts_give_back_their_input(void **state) {
    (void)state;
    float x[2] = {3, -4}, routing[6] = {0, 0, 0, 0.5f, 0.25f, 2}, y[2] = {1, 1};
    const uint32_t ids[3] = {4, 1, 6}; /* 1 is computed elsewhere */
    memcpy(routing, ids, sizeof ids);
    const struct op op = {.kind = OP_ZERO_EXPERTS, .zero_experts = {.experts = 4, .top_k = 3}};
    const struct op_call call = {.rows = 1, .in = {x, routing}, .in_width = {2, 6}, .out = {y}, .out_width = {2}};
    run(&op, &call);
    assert_near((double)y[0], 1 + 3 * 2.5, 0);
    assert_near((double)y[1], 1 - 4 * 2.5, 0);
}

static void experts_have_factors_of_their_own(void **state) {
    (void)state;
    float logits[4] = {1, 3, -2, 3}, routing[4], factors[4] = {7, 2, 7, -1};
    const struct op op = {.kind = OP_ROUTER, .router = {.experts = 4, .top_k = 2, .renormalise = true, .scale = 3}};
    const struct op_call call = {
        .rows = 1, .in = {logits}, .in_width = {4}, .out = {routing}, .out_width = {4}, .constant = {NULL, factors}};
    run(&op, &call);
    uint32_t ids[2];
    memcpy(ids, routing, sizeof ids);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 3);
    assert_near((double)routing[2], 0.5 * 3 * 2, 1e-6);
    assert_near((double)routing[3], 0.5 * 3 * -1, 1e-6);
}

static void long_contexts_take_the_second_set(void **state) {
    (void)state;
    double frequencies[4] = {1, 0.5, 0.9, 0.4}, out[2];
    const struct rope_spec rope = {.half = 2, .inverse_frequencies = frequencies, .magnitude = 1, .long_context = 32};
    rope_frequencies(&rope, 32, out);
    assert_near(out[0], 1, 0);
    rope_frequencies(&rope, 33, out);
    assert_near(out[0], 0.9, 0);
    assert_near(out[1], 0.4, 0);
}

static void dynamic_base_grows_beyond_the_trained_context(void **state) {
    (void)state;
    double frequencies[4] = {1, 0.1}, out[2];
    const struct rope_spec rope = {.half = 2, .inverse_frequencies = frequencies, .magnitude = 1, .ntk_context = 100, .ntk_factor = 2};
    rope_frequencies(&rope, 100, out);
    assert_near(out[1], 0.1, 0);
    rope_frequencies(&rope, 200, out); /* base times (2 * 200 / 100 - 1) ^ (dim / (dim - 2)), so the last pair turns 3 times slower */
    assert_near(out[0], 1, 0);
    assert_near(out[1], 0.1 / 3, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_expert_is_added_through_its_gate),
        cmocka_unit_test(queries_grow_in_steps_of_the_period),
        cmocka_unit_test(tokens_outside_of_the_best_clusters_come_last),
        cmocka_unit_test(weight_moves_from_sum_to_input),
        cmocka_unit_test(zero_experts_give_back_their_input),
        cmocka_unit_test(experts_have_factors_of_their_own),
        cmocka_unit_test(long_contexts_take_the_second_set),
        cmocka_unit_test(dynamic_base_grows_beyond_the_trained_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
