/*
 * plan_memory: buffer lifetimes -> offsets in one arena row.
 *
 * Two arenas: buffers that hold all rows of a pass, and buffers after SELECT_ROWS, which hold only the rows that want logits. Each buffer
 * gets the lowest offset at which it meets no buffer that lives at the same time.
 */
#include "base/check.h"
#include "model/plan.h"

#define ALIGN_FLOATS 16 /* 64 bytes: a cache line, a vector register */

static enum status note_use(struct plan *plan, uint32_t buffer, uint32_t step, bool writes, struct error *err) {
    if (buffer == PLAN_NONE)
        return STATUS_OK;
    CHECK(buffer < plan->buffer_count);
    struct plan_buffer *b = &plan->buffers[buffer];
    if (b->first_step == PLAN_NONE) {
        if (!writes)
            return error_set(err, STATUS_INTERNAL, "plan step %u (%s) reads buffer '%s' before anything wrote it", step,
                             op_kind_name(plan->steps[step].op.kind), b->name);
        b->first_step = step;
    }
    b->last_step = step;
    return STATUS_OK;
}

static bool overlap(const struct plan_buffer *a, const struct plan_buffer *b) {
    return a->first_step <= b->last_step && b->first_step <= a->last_step;
}

/* Lowest offset for buffer `index` among the earlier placed ones of its arena. */
static uint64_t place(const struct plan *plan, uint32_t index) {
    const struct plan_buffer *b = &plan->buffers[index];
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < index; i++) {
            const struct plan_buffer *other = &plan->buffers[i];
            uint64_t end = other->offset + size_round_up(other->width, ALIGN_FLOATS);
            if (other->selected_rows == b->selected_rows && other->first_step != PLAN_NONE && overlap(other, b) && offset < end &&
                other->offset < offset + size_round_up(b->width, ALIGN_FLOATS)) {
                offset = end;
                moved = true;
            }
        }
    }
    return offset;
}

/* Filled before the first step. */
static void note_entry(struct plan *plan, const struct plan_entry *entry) {
    if (entry->width > 0)
        plan->buffers[entry->buffer].first_step = plan->buffers[entry->buffer].last_step = 0;
}

enum status plan_finish(struct plan *plan, struct error *err) {
    bool selected = false;
    note_entry(plan, &plan->given);
    note_entry(plan, &plan->own);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const struct plan_step *step = &plan->steps[s];
        for (int i = 0; i < OP_BUFFERS_MAX; i++)
            TRY(note_use(plan, step->in[i], s, false, err));
        if (step->op.kind == OP_SELECT_ROWS)
            selected = true;
        for (int i = 0; i < OP_BUFFERS_MAX; i++) {
            TRY(note_use(plan, step->out[i], s, true, err));
            if (step->out[i] != PLAN_NONE && plan->buffers[step->out[i]].first_step == s)
                plan->buffers[step->out[i]].selected_rows = selected;
        }
    }
    if (plan->features_width > 0) {
        CHECK(!plan->buffers[plan->features].selected_rows);
        plan->buffers[plan->features].last_step = plan->step_count;
    }
    TRY(plan_look_ahead(plan, err));
    plan->row_floats = plan->selected_row_floats = 0;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        struct plan_buffer *b = &plan->buffers[i];
        if (b->first_step == PLAN_NONE)
            return error_set(err, STATUS_INTERNAL, "plan buffer '%s' is never used", b->name);
        b->offset = place(plan, i);
        uint64_t *floats = b->selected_rows ? &plan->selected_row_floats : &plan->row_floats;
        uint64_t end = b->offset + size_round_up(b->width, ALIGN_FLOATS);
        if (end > *floats)
            *floats = end;
    }
    return STATUS_OK;
}
