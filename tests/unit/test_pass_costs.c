/*
 * test_pass_costs: the bound of passes by hand: the chain of mixtures, the disk alone, what is kept and what is forgotten.
 */
#include "test_support.h"

#include <math.h>

#include "run/pass_costs.h"

enum { MS = 1000000 };

static struct pass_costs *create(uint32_t mixtures) {
    struct pass_costs *costs;
    struct error err;
    ASSERT_OK(pass_costs_create(mixtures, &costs, &err), err);
    return costs;
}

static double least(const struct pass_costs *costs, double disk_bytes_per_s) {
    return pass_costs_least_seconds(costs, 0, pass_costs_count(costs), disk_bytes_per_s);
}

static void expect_seconds(double got, double wanted) {
    if (!(fabs(got - wanted) <= 1e-6 * wanted))
        fail_msg("%.9f s, wanted %.9f s", got, wanted);
}

static void chain_of_mixtures(void **state) {
    struct pass_costs *costs = create(2);
    (void)state;
    expect_seconds(least(costs, 1e9), 0);
    pass_costs_begin(costs);
    pass_costs_mixture(costs, 10 * MS, 4 * MS, 1000000); /* 1 ms at 1 GB/s: hidden behind the hits */
    pass_costs_mixture(costs, 20 * MS, 4 * MS, 9000000); /* 9 ms: 5 are waited for */
    pass_costs_end(costs, 3 * MS, 0);
    assert_int_equal(pass_costs_count(costs), 1);
    expect_seconds(least(costs, 1e9), 0.010 + 0.004 + 0.020 + 0.009 + 0.003);
    expect_seconds(least(costs, 1e12), 0.041);
    /* a slow disk: the mixtures wait for all they miss */
    expect_seconds(least(costs, 1e8), 0.010 + 0.010 + 0.020 + 0.090 + 0.003);
    pass_costs_clear(costs);
    assert_int_equal(pass_costs_count(costs), 0);
    pass_costs_destroy(costs);
}

/* What streams beside the experts is read ahead at any time: all bytes together are the bound then. */
static void the_disk_alone(void **state) {
    struct pass_costs *costs = create(1), *dense = create(0);
    (void)state;
    pass_costs_begin(costs);
    pass_costs_mixture(costs, 10 * MS, 5 * MS, 1000000);
    pass_costs_end(costs, 5 * MS, 99000000);
    expect_seconds(least(costs, 1e9), 0.100);
    expect_seconds(least(costs, 1e11), 0.020);
    pass_costs_begin(dense);
    pass_costs_end(dense, 7 * MS, 10000000);
    expect_seconds(least(dense, 1e9), 0.010);
    expect_seconds(least(dense, 1e10), 0.007);
    pass_costs_destroy(costs);
    pass_costs_destroy(dense);
}

static void the_last_ones_are_kept(void **state) {
    const uint64_t passes = 2 * PASS_COSTS_KEPT + 5;
    struct pass_costs *costs = create(1);
    (void)state;
    for (uint64_t pass = 0; pass < passes; pass++) {
        pass_costs_begin(costs);
        pass_costs_mixture(costs, 900 * MS, 0, 0); /* given up: an error, a cancel */
        pass_costs_begin(costs);
        pass_costs_mixture(costs, (pass + 1) * MS, 0, 0);
        pass_costs_end(costs, 0, 0);
    }
    assert_int_equal(pass_costs_count(costs), passes);
    expect_seconds(pass_costs_least_seconds(costs, passes - PASS_COSTS_KEPT, passes - PASS_COSTS_KEPT + 1, 1e9),
                   0.001 * (PASS_COSTS_KEPT + 6));
    expect_seconds(pass_costs_least_seconds(costs, passes - 3, passes - 1, 1e9), 0.001 * (2 * (double)passes - 3));
    expect_seconds(pass_costs_least_seconds(costs, passes, passes, 1e9), 0);
    pass_costs_destroy(costs);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chain_of_mixtures), cmocka_unit_test(the_disk_alone),
                                       cmocka_unit_test(the_last_ones_are_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
