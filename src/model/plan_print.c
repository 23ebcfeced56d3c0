/*
 * plan_print: the plan for people: one line per step, alike layers folded into the first of them.
 */
#include <stdio.h>

#include "model/plan.h"

static enum status print_names(const struct plan *plan, const uint32_t *buffers, struct byte_buffer *out, struct error *err) {
    for (int i = 0; i < OP_BUFFERS_MAX; i++)
        if (buffers[i] != PLAN_NONE) {
            const struct plan_buffer *b = &plan->buffers[buffers[i]];
            TRY(byte_buffer_printf(out, err, " %s[%u]", b->name, b->width));
        }
    return STATUS_OK;
}

static enum status print_step(const struct plan *plan, uint32_t index, struct byte_buffer *out, struct error *err) {
    const struct plan_step *step = &plan->steps[index];
    TRY(byte_buffer_printf(out, err, "%5u ", index));
    TRY(step->layer >= 0 ? byte_buffer_printf(out, err, "%4d ", step->layer) : byte_buffer_printf(out, err, "   - "));
    TRY(byte_buffer_printf(out, err, "%-13s", op_kind_name(step->op.kind)));
    TRY(print_names(plan, step->in, out, err));
    TRY(byte_buffer_printf(out, err, " ->"));
    TRY(print_names(plan, step->out, out, err));
    for (int i = 0; i < OP_WEIGHTS_MAX; i++)
        if (step->weight[i] != PLAN_NONE) {
            const struct plan_weight *w = &plan->weights[step->weight[i]];
            char size[32];
            TRY(byte_buffer_printf(out, err, "  %s %s [%llu][%llu]", w->name, matrix_format_name(w->format), (unsigned long long)w->rows,
                                   (unsigned long long)w->cols));
            if (w->experts)
                TRY(byte_buffer_printf(out, err, " x %u", w->experts));
            TRY(byte_buffer_printf(out, err, " %s", text_format_size(plan_weight_total_bytes(w), size, sizeof size)));
        }
    return byte_buffer_printf(out, err, "\n");
}

enum status plan_print(const struct plan *plan, struct byte_buffer *out, struct error *err) {
    TRY(byte_buffer_printf(out, err, "step layer op            in -> out  weights\n"));
    for (uint32_t i = 0; i < plan->step_count; i++)
        TRY(print_step(plan, i, out, err));
    return byte_buffer_printf(out, err, "%u steps, %u weights, %u constants, %llu bytes of activations a row\n", plan->step_count,
                              plan->weight_count, plan->constant_count, (unsigned long long)(plan->row_floats * 4));
}
