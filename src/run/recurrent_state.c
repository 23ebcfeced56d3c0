/*
 * recurrent_state: layout, exchange.
 */
#include "run/recurrent_state.h"

#include "base/check.h"
#include "base/memory.h"

struct timeline {
    uint32_t length, earlier; /* tokens in the committed copy, in the other one */
    bool has_earlier;         /* the other copy is whole */
};

struct recurrent_state {
    struct memory_region region;
    struct recurrent_view *views; /* [states][sequences]; empty where the state is of another kind */
    struct timeline *timelines;   /* [sequences] */
    uint32_t states, sequences;
};

static uint64_t state_bytes(const struct plan_state *state) {
    return state->kind == STATE_RECURRENT ? size_round_up(state->floats * sizeof(float), 64) : 0;
}

/* One copy of one sequence, in whole pages. */
static uint64_t copy_bytes(const struct plan *plan) {
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < plan->state_count; s++)
        bytes += state_bytes(&plan->states[s]);
    return size_round_up(bytes, 4096);
}

uint64_t recurrent_state_bytes(const struct plan *plan, uint32_t sequences) { return 2 * copy_bytes(plan) * sequences; }

enum status recurrent_state_create(const struct plan *plan, uint32_t sequences, struct recurrent_state **out, struct error *err) {
    uint64_t bytes = recurrent_state_bytes(plan, sequences);
    *out = NULL;
    CHECK(sequences > 0);
    if (bytes == 0)
        return STATUS_OK;
    struct recurrent_state *state = memory_alloc(sizeof *state);
    if (state) {
        state->views = memory_alloc_array((size_t)plan->state_count * sequences, sizeof *state->views);
        state->timelines = memory_alloc_array(sequences, sizeof *state->timelines);
    }
    if (!state || !state->views || !state->timelines) {
        recurrent_state_destroy(state);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the tables of the recurrent state");
    }
    state->states = plan->state_count;
    state->sequences = sequences;
    enum status status = memory_region_create(&state->region, bytes, MEMORY_KV, false, err);
    if (status != STATUS_OK) {
        recurrent_state_destroy(state);
        return status;
    }
    for (uint32_t q = 0; q < sequences; q++) {
        uint64_t at = 2 * q * copy_bytes(plan);
        for (uint32_t s = 0; s < plan->state_count; at += state_bytes(&plan->states[s++]))
            if (plan->states[s].kind == STATE_RECURRENT)
                state->views[s * sequences + q] =
                    (struct recurrent_view){.before = (float *)(void *)(state->region.data + at),
                                            .after = (float *)(void *)(state->region.data + at + copy_bytes(plan))};
    }
    *out = state;
    return STATUS_OK;
}

void recurrent_state_destroy(struct recurrent_state *state) {
    if (!state)
        return;
    memory_region_destroy(&state->region);
    memory_free(state->views);
    memory_free(state->timelines);
    memory_free(state);
}

const struct recurrent_view *recurrent_state_views(const struct recurrent_state *state, uint32_t index) {
    CHECK(state && index < state->states && state->views[index * state->sequences].after);
    return &state->views[index * state->sequences];
}

static bool begins_run(const struct op_row *rows, uint32_t r) { return r == 0 || rows[r].sequence != rows[r - 1].sequence; }

void recurrent_state_begin(struct recurrent_state *state, const struct op_row *rows, uint32_t count) {
    for (uint32_t r = 0; state && r < count; r++) {
        CHECK(rows[r].sequence < state->sequences);
        if (!begins_run(rows, r)) {
            CHECK(rows[r].position == rows[r - 1].position + 1);
            continue;
        }
        struct timeline *timeline = &state->timelines[rows[r].sequence];
        CHECK(rows[r].position == 0 || rows[r].position == timeline->length);
        timeline->has_earlier = false; /* will be written over */
        for (uint32_t other = 0; other < r; other++)
            CHECK(rows[other].sequence != rows[r].sequence || !begins_run(rows, other));
    }
}

/* The copies of a sequence change places. */
static void exchange(struct recurrent_state *state, uint32_t sequence) {
    for (uint32_t s = 0; s < state->states; s++) {
        struct recurrent_view *view = &state->views[s * state->sequences + sequence];
        *view = (struct recurrent_view){.before = view->after, .after = view->before};
    }
}

void recurrent_state_commit(struct recurrent_state *state, const struct op_row *rows, uint32_t count) {
    for (uint32_t r = 0; state && r < count; r++) {
        struct timeline *timeline = &state->timelines[rows[r].sequence];
        if (begins_run(rows, r)) {
            exchange(state, rows[r].sequence);
            *timeline = (struct timeline){.length = rows[r].position, .earlier = rows[r].position, .has_earlier = true};
        }
        timeline->length++;
    }
}

enum status recurrent_state_rewind(struct recurrent_state *state, uint32_t sequence, uint32_t length, struct error *err) {
    if (!state)
        return STATUS_OK;
    CHECK(sequence < state->sequences);
    struct timeline *timeline = &state->timelines[sequence];
    if (length == timeline->length)
        return STATUS_OK;
    if (length > 0 && (!timeline->has_earlier || length != timeline->earlier))
        return error_set(
            err, STATUS_UNSUPPORTED,
            "cannot return to %u of %u tokens: the recurrent layers of this model keep no states of earlier tokens; start again "
            "from 0",
            length, timeline->length);
    if (length > 0)
        exchange(state, sequence);
    *timeline = (struct timeline){.length = length};
    return STATUS_OK;
}
