/*
 * test_recurrent_state: the two copies of a recurrent state: which one a pass reads, what commit and rewind do, and in a whole model: a
 * pass that is stopped in the middle changes nothing, and a sequence goes on from there with the same bits.
 */
#include "engine_fixture.h"

#include "base/check.h"
#include "engine/engine_internal.h"
#include "run/recurrent_state.h"

/* ---- alone ---- */

enum { SEQUENCES = 3 };

static void make_plan(struct plan *plan) {
    struct error err;
    uint32_t index;
    const struct plan_state states[3] = {{.kind = STATE_RECURRENT, .floats = 5},
                                         {.kind = STATE_KV, .kv_heads = 1, .head_dim = 4, .v_dim = 4},
                                         {.kind = STATE_RECURRENT, .floats = 2000}};
    *plan = (struct plan){0};
    for (uint32_t s = 0; s < 3; s++)
        ASSERT_OK(plan_add_state(plan, &states[s], &index, &err), err);
}

/* A pass that leaves `mark` in all states. */
static void pass(struct recurrent_state *state, uint32_t sequence, uint32_t first, uint32_t count, float mark, bool commit) {
    struct op_row rows[16];
    assert_true(count <= 16);
    for (uint32_t r = 0; r < count; r++)
        rows[r] = (struct op_row){.sequence = sequence, .position = first + r};
    recurrent_state_begin(state, rows, count);
    recurrent_state_views(state, 0)[sequence].after[4] = mark;
    recurrent_state_views(state, 2)[sequence].after[1999] = mark;
    if (commit)
        recurrent_state_commit(state, rows, count);
}

static void assert_mark(const struct recurrent_state *state, uint32_t sequence, float mark) {
    assert_true(recurrent_state_views(state, 0)[sequence].before[4] == mark);
    assert_true(recurrent_state_views(state, 2)[sequence].before[1999] == mark);
}

static void copies_change_places(void **context) {
    (void)context;
    struct plan plan;
    struct recurrent_state *state;
    struct error err;
    make_plan(&plan);
    assert_int_equal(recurrent_state_bytes(&plan, SEQUENCES), 2 * SEQUENCES * size_round_up(64 + 8000, 4096));
    ASSERT_OK(recurrent_state_create(&plan, SEQUENCES, &state, &err), err);
    for (uint32_t q = 0; q < SEQUENCES; q++)
        pass(state, q, 0, 4, 10.0f + (float)q, true);
    for (uint32_t q = 0; q < SEQUENCES; q++)
        assert_mark(state, q, 10.0f + (float)q);
    pass(state, 1, 4, 2, 77, false); /* failed */
    assert_mark(state, 1, 11);
    pass(state, 1, 4, 3, 21, true); /* the same again, to the end */
    assert_mark(state, 1, 21);
    assert_mark(state, 0, 10);
    assert_mark(state, 2, 12);

    ASSERT_FAILS(recurrent_state_rewind(state, 1, 5, &err), STATUS_UNSUPPORTED, err);
    ASSERT_OK(recurrent_state_rewind(state, 1, 7, &err), err); /* where it is */
    assert_mark(state, 1, 21);
    ASSERT_OK(recurrent_state_rewind(state, 1, 4, &err), err); /* where the last pass began */
    assert_mark(state, 1, 11);
    pass(state, 1, 4, 1, 31, true);
    assert_mark(state, 1, 31);
    pass(state, 1, 5, 1, 78, false);
    ASSERT_FAILS(recurrent_state_rewind(state, 1, 4, &err), STATUS_UNSUPPORTED, err); /* written over by the pass that failed */
    assert_mark(state, 1, 31);
    ASSERT_OK(recurrent_state_rewind(state, 1, 0, &err), err);
    pass(state, 1, 0, 1, 41, true);
    assert_mark(state, 1, 41);
    pass(state, 2, 0, 1, 42, true); /* a sequence may begin anew without a word */
    assert_mark(state, 2, 42);
    recurrent_state_destroy(state);
    plan_deinit(&plan);
}

static void plans_without_states_need_nothing(void **context) {
    (void)context;
    struct plan plan = {0};
    struct recurrent_state *state;
    struct error err;
    const struct op_row row = {.position = 7};
    assert_int_equal(recurrent_state_bytes(&plan, SEQUENCES), 0);
    ASSERT_OK(recurrent_state_create(&plan, SEQUENCES, &state, &err), err);
    assert_null(state);
    recurrent_state_begin(state, &row, 1);
    recurrent_state_commit(state, &row, 1);
    ASSERT_OK(recurrent_state_rewind(state, 0, 3, &err), err);
    recurrent_state_destroy(state);
}

static void allocation_failures_are_errors(void **context) {
    (void)context;
    struct plan plan;
    struct recurrent_state *state;
    struct error err;
    make_plan(&plan);
    for (uint64_t n = 1; n <= 4; n++) {
        memory_fail_after(n);
        ASSERT_FAILS(recurrent_state_create(&plan, SEQUENCES, &state, &err), STATUS_NO_MEMORY, err);
        assert_null(state);
    }
    memory_fail_after(0);
    plan_deinit(&plan);
}

/* ---- in a model ---- */

enum { PROMPT = 40, FIRST = 17, STOPPED = 9 };

static enum status keep_logits(void *context, uint32_t position, float *logits, struct error *err) {
    struct engine_logits *to = context;
    (void)err;
    memcpy(to->rows + (size_t)position * to->vocab, logits, to->vocab * sizeof *logits);
    return STATUS_OK;
}

static enum status extend(sluice_model *model, const uint32_t *ids, uint32_t count, struct engine_logits *logits, struct error *err) {
    const struct session_extend request = {.tokens = ids, .count = count, .logits = keep_logits, .context = logits};
    return session_extend(model->session, &request, err);
}

struct stopping { /* cancels after the router of the third layer */
    sluice_model *model;
    int32_t last_layer;
};

static void stop(void *context, const struct executor_wanted *wanted) {
    struct stopping *stopping = context;
    stopping->last_layer = wanted->layer;
    if (wanted->layer == 2)
        sluice_cancel(stopping->model);
}

static void stopped_pass_changes_nothing(const char *path) {
    const sluice_load_options options = {.ram = SLUICE_RAM_ALL, .context = 64, .threads = 2, .logit_rows = 64};
    sluice_model *model = engine_load(engine_path(path), &options);
    struct engine_logits want, got;
    struct error err;
    uint32_t ids[PROMPT], other[PROMPT];
    engine_logits_init(&want, model, PROMPT);
    engine_logits_init(&got, model, PROMPT);
    engine_prompt(ids, PROMPT, want.vocab, 5);
    engine_prompt(other, PROMPT, want.vocab, 6);
    ASSERT_OK(extend(model, ids, PROMPT, &want, &err), err);
    ASSERT_OK(session_rewind(model->session, 0, &err), err);
    ASSERT_OK(extend(model, ids, FIRST, &got, &err), err);

    struct stopping stopping = {.model = model};
    executor_set_trace(model->executor, stop, &stopping);
    ASSERT_FAILS(extend(model, other, STOPPED, &want, &err), STATUS_CANCELLED, err);
    assert_int_equal(stopping.last_layer, 2);
    executor_set_trace(model->executor, NULL, NULL);
    atomic_store(&model->cancel, false);
    assert_int_equal(session_length(model->session), FIRST);

    /* a pass that is taken back, one token by one, the rest */
    ASSERT_OK(extend(model, other, STOPPED, &got, &err), err);
    ASSERT_FAILS(session_rewind(model->session, FIRST + 1, &err), STATUS_UNSUPPORTED, err);
    assert_int_equal(session_length(model->session), FIRST + STOPPED);
    ASSERT_OK(session_rewind(model->session, FIRST, &err), err);
    for (uint32_t i = FIRST; i < PROMPT - 5; i++)
        ASSERT_OK(extend(model, ids + i, 1, &got, &err), err);
    ASSERT_OK(extend(model, ids + PROMPT - 5, 5, &got, &err), err);
    assert_memory_equal(want.rows, got.rows, (size_t)PROMPT * want.vocab * sizeof *want.rows);
    free(want.rows);
    free(got.rows);
    sluice_close(model);
}

static void stopped_pass_of_delta_nets(void **context) {
    (void)context;
    stopped_pass_changes_nothing("models/qwen3_next");
}
static void stopped_pass_of_convolutions(void **context) {
    (void)context;
    stopped_pass_changes_nothing("models/lfm2_moe");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_change_places),           cmocka_unit_test(plans_without_states_need_nothing),
        cmocka_unit_test(allocation_failures_are_errors), cmocka_unit_test(stopped_pass_of_delta_nets),
        cmocka_unit_test(stopped_pass_of_convolutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
