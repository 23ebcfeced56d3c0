/*
 * share_fixture: plans that give the weights a share of the memory that they could use: what no budget for the process can say for a model
 * of 60 KiB. The test is linked with --wrap=placement_plan.
 */
#pragma once

#include "test_support.h"

#include "store/placement.h"

/* Of the way from the smallest memory to all, for loads with SLUICE_RAM_MIN; below 0: as planned. */
static double weights_share = -1;

enum status __real_placement_plan(const struct placement_input *input, struct placement *out, struct error *err);
enum status __wrap_placement_plan(const struct placement_input *input, struct placement *out, struct error *err);
enum status __wrap_placement_plan(const struct placement_input *input, struct placement *out, struct error *err) {
    struct placement_input changed = *input;
    uint64_t total_bytes = 0;
    if (weights_share < 0 || input->budget_bytes == 0 || input->budget_bytes == UINT64_MAX)
        return __real_placement_plan(input, out, err);
    changed.budget_bytes = 0;
    assert_int_equal(__real_placement_plan(&changed, out, err), STATUS_OVER_BUDGET);
    for (uint32_t i = 0; i < input->record_count; i++)
        total_bytes += input->records[i].memory_bytes;
    changed.budget_bytes = out->minimum_bytes + (uint64_t)((double)(total_bytes - out->minimum_bytes) * weights_share);
    placement_deinit(out);
    return __real_placement_plan(&changed, out, err);
}
