/*
 * plan: building and taking apart.
 */
#include "model/plan.h"

#include <string.h>

#include "base/check.h"

/* Room for one more element; elements are zeroed by the caller's copy. */
static enum status grow(void **items, uint32_t count, uint32_t *capacity, size_t element_bytes, struct error *err) {
    if (count < *capacity)
        return STATUS_OK;
    uint32_t wanted = *capacity ? *capacity * 2 : 64;
    void *bigger = *capacity ? memory_resize(*items, wanted, element_bytes) : memory_alloc_array(wanted, element_bytes);
    if (!bigger)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the plan of the model");
    *items = bigger;
    *capacity = wanted;
    return STATUS_OK;
}

enum status plan_add_buffer(struct plan *plan, const char *name, uint32_t width, uint32_t *out, struct error *err) {
    CHECK(width > 0);
    TRY(grow((void **)&plan->buffers, plan->buffer_count, &plan->buffer_capacity, sizeof *plan->buffers, err));
    *out = plan->buffer_count;
    plan->buffers[plan->buffer_count++] = (struct plan_buffer){.name = name, .width = width, .first_step = PLAN_NONE};
    return STATUS_OK;
}

enum status plan_add_step(struct plan *plan, const struct plan_step *step, struct error *err) {
    TRY(grow((void **)&plan->steps, plan->step_count, &plan->step_capacity, sizeof *plan->steps, err));
    plan->steps[plan->step_count++] = *step;
    return STATUS_OK;
}

enum status plan_add_weight(struct plan *plan, const struct plan_weight *weight, uint32_t *out, struct error *err) {
    TRY(grow((void **)&plan->weights, plan->weight_count, &plan->weight_capacity, sizeof *plan->weights, err));
    *out = plan->weight_count;
    plan->weights[plan->weight_count++] = *weight;
    return STATUS_OK;
}

enum status plan_add_constant(struct plan *plan, const float *data, uint32_t size, uint32_t *out, struct error *err) {
    CHECK(size > 0);
    TRY(grow((void **)&plan->constants, plan->constant_count, &plan->constant_capacity, sizeof *plan->constants, err));
    uint64_t room = size_round_up(size, 16);
    if (plan->constant_floats + room > plan->constant_capacity_floats) {
        uint64_t wanted = (plan->constant_floats + room) * 2;
        float *bigger =
            plan->constant_data ? memory_resize(plan->constant_data, wanted, sizeof(float)) : memory_alloc_array(wanted, sizeof(float));
        if (!bigger)
            return error_set(err, STATUS_NO_MEMORY, "no memory for %llu small weights", (unsigned long long)wanted);
        plan->constant_data = bigger;
        plan->constant_capacity_floats = wanted;
    }
    memcpy(plan->constant_data + plan->constant_floats, data, size * sizeof(float));
    *out = plan->constant_count;
    plan->constants[plan->constant_count++] = (struct plan_constant){.offset = plan->constant_floats, .size = size};
    plan->constant_floats += room;
    return STATUS_OK;
}

enum status plan_add_state(struct plan *plan, const struct plan_state *state, uint32_t *out, struct error *err) {
    TRY(grow((void **)&plan->states, plan->state_count, &plan->state_capacity, sizeof *plan->states, err));
    *out = plan->state_count;
    plan->states[plan->state_count++] = *state;
    return STATUS_OK;
}

enum status plan_add_rope(struct plan *plan, const struct rope_spec *rope, uint32_t *out, struct error *err) {
    TRY(grow((void **)&plan->ropes, plan->rope_count, &plan->rope_capacity, sizeof *plan->ropes, err));
    *out = plan->rope_count;
    plan->ropes[plan->rope_count++] = *rope;
    return STATUS_OK;
}

struct plan_step plan_step_of(enum op_kind kind, int32_t layer) {
    struct plan_step step = {.op.kind = kind, .layer = layer, .ahead = PLAN_NONE};
    for (int i = 0; i < OP_BUFFERS_MAX; i++)
        step.in[i] = step.out[i] = PLAN_NONE;
    for (int i = 0; i < OP_WEIGHTS_MAX; i++)
        step.weight[i] = step.constant[i] = PLAN_NONE;
    return step;
}

uint64_t plan_weight_bytes(const struct plan_weight *weight) {
    uint64_t bytes = 0;
    for (int i = 0; i < WEIGHT_SLICES; i++) {
        uint64_t from, rows;
        plan_slice_rows(weight, i, 0, weight->rows, &from, &rows);
        uint64_t region = weight->slices[i].region_bytes;
        bytes += region ? region / weight->region_weights : weight->slices[i].row_bytes * rows;
    }
    return bytes;
}

void plan_slice_rows(const struct plan_weight *weight, int slice, uint64_t first, uint64_t count, uint64_t *from, uint64_t *rows) {
    uint64_t group = weight->slices[slice].group_rows > 1 ? weight->slices[slice].group_rows : 1;
    uint64_t offset = group > 1 ? weight->group_row_offset : 0;
    *from = (offset + first) / group;
    *rows = (offset + first + count + group - 1) / group - *from;
}

uint64_t plan_weight_total_bytes(const struct plan_weight *weight) {
    return plan_weight_bytes(weight) * (weight->experts ? weight->experts : 1);
}

void plan_deinit(struct plan *plan) {
    for (uint32_t i = 0; i < plan->weight_count; i++) {
        memory_free((void *)plan->weights[i].name);
        memory_free(plan->weights[i].expert_offsets);
        memory_free(plan->weights[i].expert_scales);
    }
    for (uint32_t i = 0; i < plan->rope_count; i++)
        memory_free(plan->ropes[i].inverse_frequencies);
    memory_free(plan->steps);
    memory_free(plan->aheads);
    memory_free(plan->buffers);
    memory_free(plan->weights);
    memory_free(plan->constants);
    memory_free(plan->constant_data);
    memory_free(plan->states);
    memory_free(plan->ropes);
    memory_free(plan->target_tokens);
    *plan = (struct plan){0};
}
