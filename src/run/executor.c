/*
 * executor: create and walk.
 */
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "dtype/scalar_convert.h"
#include "run/executor_internal.h"

/* ---- sizes ---- */

/* Bytes of the longest row of a table that tokens are looked up in. */
static uint64_t table_row_bytes(const struct plan *plan) {
    uint64_t most = 0;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        if (plan->steps[s].op.kind != OP_EMBED)
            continue;
        uint64_t bytes = 0;
        for (int slice = 0; slice < WEIGHT_SLICES; slice++)
            bytes += plan->weights[plan->steps[s].weight[0]].slices[slice].row_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t executor_arena_bytes(const struct plan *plan, uint32_t max_rows, uint32_t max_logit_rows) {
    return (plan->row_floats * max_rows + plan->selected_row_floats * max_logit_rows) * sizeof(float) +
           size_round_up(max_rows * size_round_up(table_row_bytes(plan), 16), 64) + experts_scratch_bytes(plan, max_rows);
}

static void widen(size_t *limit, size_t size) { *limit = size > *limit ? size : *limit; }

static void limit_step(struct backend_limits *limits, const struct plan *plan, const struct plan_step *step) {
    const struct op *op = &step->op;
    bool experts = op->kind == OP_EXPERTS;
    for (int w = 0; w < OP_WEIGHTS_MAX && op->kind != OP_EMBED; w++)
        if (step->weight[w] != PLAN_NONE) {
            const struct plan_weight *weight = &plan->weights[step->weight[w]];
            enum weight_use use = !experts ? WEIGHT_IN_MATMUL : w == 2 ? WEIGHT_OF_EXPERT_DOWN : WEIGHT_OF_EXPERT_INPUT;
            if (op->kind == OP_HEAD_MATMUL)
                backend_limits_add_heads(limits, op, weight->format, weight->group_cols);
            else
                backend_limits_add_weight(limits, use, weight->format, weight->group_cols, weight->cols);
        }
    if (op->kind == OP_ATTENTION) {
        widen(&limits->attention_heads, op->attention.heads);
        widen(&limits->attention_group, op->attention.heads / op->attention.kv_heads);
        widen(&limits->attention_head_dim, op->attention.head_dim);
        widen(&limits->attention_v_dim, op->attention.v_dim);
    }
    if (op->kind == OP_UNPERMUTE)
        widen(&limits->unpermuted_head_dim, op->unpermute.head_dim);
    limits->index = limits->index || op->kind == OP_INDEX;
    limits->recurrent = limits->recurrent || op->kind == OP_SHORT_CONV || op->kind == OP_DELTA_RULE;
    if (experts) {
        widen(&limits->experts, op->experts.experts);
        widen(&limits->top_k, op->experts.top_k);
        widen(&limits->expert_hidden, op->experts.expert_hidden);
    }
}

struct backend_limits executor_limits(const struct plan *const *plans, uint32_t plan_count, const struct kv_options *kv, uint32_t max_rows,
                                      bool exact) {
    struct backend_limits limits = {.exact = exact, .rows = max_rows};
    for (uint32_t p = 0; p < plan_count; p++) {
        uint32_t tiles = kv_cache_tiles(plans[p], kv);
        limits.attention_tiles = tiles > limits.attention_tiles ? tiles : limits.attention_tiles;
        for (uint32_t s = 0; s < plans[p]->step_count; s++)
            limit_step(&limits, plans[p], &plans[p]->steps[s]);
    }
    return limits;
}

/* ---- life ---- */

/* Frequencies of all rotations for the context of this executor. */
static enum status fill_frequencies(struct executor *x, struct error *err) {
    const struct plan *plan = x->options.plan;
    size_t doubles = 0;
    for (uint32_t r = 0; r < plan->rope_count; r++)
        doubles += plan->ropes[r].half;
    x->frequencies = memory_alloc_array(plan->rope_count + doubles + 1, sizeof(double));
    if (!x->frequencies)
        return error_set(err, STATUS_NO_MEMORY, "no memory for rope frequencies");
    double *next = (double *)(void *)(x->frequencies + plan->rope_count);
    for (uint32_t r = 0; r < plan->rope_count; next += plan->ropes[r++].half) {
        x->frequencies[r] = next;
        rope_frequencies(&plan->ropes[r], x->options.context, next);
    }
    return STATUS_OK;
}

static enum status allocate(struct executor *x, struct error *err) {
    const struct plan *plan = x->options.plan;
    uint32_t rows = x->options.max_rows, logit_rows = x->options.max_logit_rows;
    x->rows = memory_alloc_array(rows, sizeof *x->rows);
    x->tokens = memory_alloc_array(rows, sizeof *x->tokens);
    x->selected = memory_alloc_array(rows, sizeof *x->selected);
    x->row_numbers = memory_alloc_array(rows, sizeof *x->row_numbers);
    x->table_pieces = memory_alloc_array((size_t)rows * WEIGHT_SLICES, sizeof *x->table_pieces);
    x->table_targets = memory_alloc_array((size_t)rows * WEIGHT_SLICES, sizeof *x->table_targets);
    x->weights = memory_alloc_array(plan->weight_count + 1, sizeof *x->weights);
    x->parts = memory_alloc_array(x->options.records->part_count + 1, sizeof *x->parts);
    if (!x->rows || !x->tokens || !x->selected || !x->row_numbers || !x->table_pieces || !x->table_targets || !x->weights || !x->parts)
        return error_set(err, STATUS_NO_MEMORY, "no memory for passes of %u rows", rows);
    for (uint32_t r = 0; r < rows; r++)
        x->row_numbers[r] = r;
    TRY(fill_frequencies(x, err));
    TRY(memory_region_create(&x->arena, executor_arena_bytes(plan, rows, logit_rows), MEMORY_ACTIVATIONS, false, err));
    x->row_arena = (float *)(void *)x->arena.data;
    x->selected_arena = x->row_arena + plan->row_floats * rows;
    uint8_t *rest = (uint8_t *)(x->selected_arena + plan->selected_row_floats * logit_rows);
    experts_scratch_cut(&x->experts, plan, rows, rest);
    x->table_rows = rest + experts_scratch_bytes(plan, rows);
    uint32_t mixtures = 0;
    for (uint32_t s = 0; s < plan->step_count; s++)
        mixtures += plan->steps[s].op.kind == OP_EXPERTS;
    TRY(pass_costs_create(mixtures, &x->costs, err));
    x->pair_limit = rows > plan->top_k ? rows : plan->top_k;
    return executor_bind_weights(x, err);
}

enum status executor_create(const struct executor_options *options, struct executor **out, struct error *err) {
    *out = NULL;
    CHECK(options->max_rows > 0 && options->max_logit_rows > 0 && options->max_logit_rows <= options->max_rows);
    struct executor *x = memory_alloc(sizeof *x);
    if (!x)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the executor");
    x->options = *options;
    enum status status = allocate(x, err);
    if (status != STATUS_OK) {
        executor_destroy(x);
        return status;
    }
    *out = x;
    return STATUS_OK;
}

void executor_destroy(struct executor *x) {
    if (!x)
        return;
    memory_region_destroy(&x->arena);
    memory_free(x->weights);
    memory_free(x->parts);
    memory_free(x->rows);
    memory_free(x->tokens);
    memory_free(x->selected);
    memory_free(x->row_numbers);
    memory_free(x->table_pieces);
    memory_free(x->table_targets);
    memory_free(x->frequencies);
    pass_costs_destroy(x->costs);
    memory_free(x);
}

/* ---- one pass ---- */

bool executor_cancelled(const struct executor *x) {
    return x->options.cancel && atomic_load_explicit(x->options.cancel, memory_order_relaxed);
}

enum status executor_was_cancelled(struct error *err) { return error_set(err, STATUS_CANCELLED, "cancelled"); }

enum status executor_compute(struct executor *x, const struct op *op, const struct op_call *call, struct error *err) {
    uint64_t start = clock_now_ns();
    enum status status = backend_run(x->options.backend, op, call, err);
    uint64_t spent = clock_now_ns() - start;
    x->stats.compute_ns += spent;
    x->stats.step_ns[op->kind] += spent;
    return status;
}

static float *buffer_data(const struct executor *x, const struct plan_buffer *buffer) {
    return buffer->selected_rows ? x->selected_arena + buffer->offset * x->options.max_logit_rows
                                 : x->row_arena + buffer->offset * x->options.max_rows;
}

float *executor_buffer(const struct executor *x, uint32_t buffer) { return buffer_data(x, &x->options.plan->buffers[buffer]); }

void executor_resolve_buffers(const struct executor *x, const struct plan_step *step, struct op_call *call) {
    const struct plan *plan = x->options.plan;
    for (int i = 0; i < OP_BUFFERS_MAX; i++) {
        if (step->in[i] != PLAN_NONE) {
            call->in[i] = buffer_data(x, &plan->buffers[step->in[i]]);
            call->in_width[i] = plan->buffers[step->in[i]].width;
        }
        if (step->out[i] != PLAN_NONE) {
            call->out[i] = buffer_data(x, &plan->buffers[step->out[i]]);
            call->out_width[i] = plan->buffers[step->out[i]].width;
        }
    }
    for (int i = 0; i < OP_WEIGHTS_MAX; i++)
        call->constant[i] = plan_constant_data(plan, step->constant[i]);
}

/* The keys and values that attention reads: the plan's own, or the target's. */
static const struct kv_view *attention_views(const struct executor *x, uint32_t index) {
    const struct plan_state *state = &x->options.plan->states[index];
    CHECK(!state->of_target || x->options.target_kv);
    return state->of_target ? kv_cache_views(x->options.target_kv, state->target_state) : kv_cache_views(x->options.kv, index);
}

static void resolve_state(const struct executor *x, const struct plan_step *step, struct op_call *call) {
    const struct op *op = &step->op;
    if (op->kind == OP_KV_WRITE)
        call->kv = kv_cache_views(x->options.kv, op->kv_write.state);
    else if (op->kind == OP_ATTENTION)
        call->kv = attention_views(x, op->attention.state);
    else if (op->kind == OP_INDEX)
        call->kv = kv_cache_views(x->options.kv, op->index.state);
    else if (op->kind == OP_SHORT_CONV)
        call->recurrent = recurrent_state_views(x->options.recurrent, op->short_conv.state);
    else if (op->kind == OP_DELTA_RULE)
        call->recurrent = recurrent_state_views(x->options.recurrent, op->delta_rule.state);
    else if (op->kind == OP_ROPE_TABLE) {
        const struct rope_spec *rope = &x->options.plan->ropes[op->rope_table.rope];
        call->inverse_frequencies = x->frequencies[op->rope_table.rope];
        call->rope_magnitude = rope->magnitude;
    }
}

static bool after_selection(const struct plan *plan, const struct plan_step *step) {
    for (int i = 0; i < OP_BUFFERS_MAX; i++)
        if (step->out[i] != PLAN_NONE && plan->buffers[step->out[i]].selected_rows)
            return true;
    return false;
}

/* ---- costs ---- */

static uint64_t demanded_bytes(const struct executor *x) {
    struct store_stats stats;
    store_stats_read(x->options.store, &stats);
    return stats.demanded_bytes;
}

static enum status run_mixture(struct executor *x, const struct plan_step *step, struct op_call *call, struct error *err) {
    if (!x->costs_kept)
        return executor_run_experts(x, step, call, err);
    uint64_t bytes = demanded_bytes(x), compute_ns = x->stats.compute_ns;
    TRY(executor_run_experts(x, step, call, err));
    bytes = demanded_bytes(x) - bytes;
    pass_costs_mixture(x->costs, compute_ns - x->cost_compute_ns, x->stats.compute_ns - compute_ns, bytes);
    x->cost_compute_ns = x->stats.compute_ns;
    x->cost_bytes += bytes;
    return STATUS_OK;
}

struct pass_costs *executor_costs(const struct executor *x) {
    return x->costs;
}

/* ---- steps ---- */

static enum status run_step(struct executor *x, const struct plan_step *step, struct error *err) {
    struct op_call call = {.rows = x->row_count, .row = x->rows};
    if (after_selection(x->options.plan, step)) {
        if (x->selected_count == 0)
            return STATUS_OK;
        call.rows = x->selected_count;
        call.selected = x->selected;
    }
    executor_resolve_buffers(x, step, &call);
    resolve_state(x, step, &call);
    switch (step->op.kind) {
    case OP_EMBED:
        return executor_run_embed(x, step, &call, err);
    case OP_MATMUL:
    case OP_HEAD_MATMUL:
        return executor_run_matmul(x, step, &call, err);
    case OP_EXPERTS:
        return run_mixture(x, step, &call, err);
    default:
        return executor_compute(x, &step->op, &call, err);
    }
}

/* Checks the rows against the contract in the header and copies them. */
static enum status take_rows(struct executor *x, const struct row *rows, uint32_t count, struct error *err) {
    CHECK(count > 0 && count <= x->options.max_rows);
    x->row_count = count;
    x->selected_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].token >= x->options.plan->embedded)
            return error_set(err, STATUS_INVALID, "token id %u is outside of the model's vocabulary of %u", rows[i].token,
                             x->options.plan->embedded);
        CHECK(rows[i].parent == ROW_NO_PARENT || (rows[i].parent >= 0 && (uint32_t)rows[i].parent < i));
        if (rows[i].parent != ROW_NO_PARENT &&
            (rows[rows[i].parent].sequence != rows[i].sequence || rows[rows[i].parent].position + 1 != rows[i].position))
            return error_set(err, STATUS_UNSUPPORTED,
                             "row %u is not the next position after its parent: branching drafts are not supported", i);
        x->rows[i] = (struct op_row){.token = rows[i].token, .position = rows[i].position, .sequence = rows[i].sequence};
        x->tokens[i] = rows[i].token;
        if (rows[i].wants_logits)
            x->selected[x->selected_count++] = i;
    }
    CHECK(x->selected_count <= x->options.max_logit_rows);
    return STATUS_OK;
}

/* Where the given vectors go in; returns the first step. */
static uint32_t take_given(struct executor *x, const struct executor_given *given) {
    const struct plan *plan = x->options.plan;
    if (!given) {
        CHECK(plan->given.width == 0);
        return 0;
    }
    const struct plan_entry *entry = given->own ? &plan->own : &plan->given;
    CHECK(entry->width > 0);
    /* the drafter's own features may lie in the same memory */
    memmove(buffer_data(x, &plan->buffers[entry->buffer]), given->vectors, sizeof(float) * entry->width * x->row_count);
    return entry->first_step;
}

static bool made_finite(const struct executor *x, const struct plan_step *step) {
    const struct plan *plan = x->options.plan;
    uint32_t rows = after_selection(plan, step) ? x->selected_count : x->row_count;
    if (step->op.kind == OP_ROUTER || step->op.kind == OP_INDEX) /* these make whole numbers too */
        return true;
    for (int i = 0; i < OP_BUFFERS_MAX; i++)
        if (step->out[i] != PLAN_NONE) {
            const struct plan_buffer *buffer = &plan->buffers[step->out[i]];
            size_t count = (size_t)rows * buffer->width;
            if (f32_first_not_finite(buffer_data(x, buffer), count) < count)
                return false;
        }
    return true;
}

/* All steps, or with `suspect` up to the first that makes a number that is not finite. */
static enum status run_steps(struct executor *x, uint32_t first_step, uint32_t *suspect, struct error *err) {
    const struct plan *plan = x->options.plan;
    enum status status = STATUS_OK;
    for (uint32_t s = first_step; s < plan->step_count && status == STATUS_OK; s++) {
        if (executor_cancelled(x))
            status = executor_was_cancelled(err);
        else if (x->losses != store_losses(x->options.store))
            status = executor_bind_weights(x, err);
        if (status == STATUS_OK)
            status = run_step(x, &plan->steps[s], err);
        if (status != STATUS_OK && status != STATUS_CANCELLED && plan->steps[s].layer >= 0)
            status = error_prefix(err, "layer %d, %s", plan->steps[s].layer, op_kind_name(plan->steps[s].op.kind));
        store_poll(x->options.store);
        if (x->options.between_steps && status == STATUS_OK)
            x->options.between_steps(x->options.context_pointer);
        if (suspect && status == STATUS_OK && !made_finite(x, &plan->steps[s])) {
            *suspect = s;
            break;
        }
    }
    return status;
}

enum status executor_run_given(struct executor *x, const struct row *rows, uint32_t count, const struct executor_given *given,
                               struct error *err) {
    uint64_t start = clock_now_ns();
    TRY(take_rows(x, rows, count, err));
    recurrent_state_begin(x->options.recurrent, x->rows, count);
    uint64_t bytes = demanded_bytes(x);
    x->cost_compute_ns = x->stats.compute_ns;
    x->cost_bytes = 0;
    x->costs_kept = !given && count == 1 && x->selected_count == 1; /* passes that are alike, and whose time is the user's */
    pass_costs_begin(x->costs);
    enum status status = run_steps(x, take_given(x, given), NULL, err);
    if (status == STATUS_OK)
        status = store_intact(x->options.store, err);
    if (status == STATUS_OK && x->costs_kept)
        pass_costs_end(x->costs, x->stats.compute_ns - x->cost_compute_ns, demanded_bytes(x) - bytes - x->cost_bytes);
    if (status == STATUS_OK)
        recurrent_state_commit(x->options.recurrent, x->rows, count);
    else
        store_reset(x->options.store);
    if (status == STATUS_OK && x->selected_count == 0) /* the head was skipped: the next pass begins with the first streamed record again */
        store_stream_rewind(x->options.store);
    x->stats.passes++;
    x->stats.rows += count;
    x->stats.total_ns += clock_now_ns() - start;
    return status;
}

enum status executor_run(struct executor *x, const struct row *rows, uint32_t count, struct error *err) {
    return executor_run_given(x, rows, count, NULL, err);
}

const float *executor_features(const struct executor *x, uint32_t row) {
    const struct plan *plan = x->options.plan;
    CHECK(plan->features_width > 0 && row < x->row_count);
    return buffer_data(x, &plan->buffers[plan->features]) + (uint64_t)row * plan->features_width;
}

enum status executor_find_not_finite(struct executor *x, uint32_t *step, struct error *err) {
    *step = PLAN_NONE;
    CHECK(x->options.plan->given.width == 0);
    if (x->row_count == 0)
        return STATUS_OK;
    TRY(executor_rewind(x, x->rows[0].sequence, x->rows[0].position, err));
    x->costs_kept = false;
    recurrent_state_begin(x->options.recurrent, x->rows, x->row_count);
    enum status status = run_steps(x, 0, step, err);
    store_reset(x->options.store);
    return status;
}

enum status executor_rewind(struct executor *x, uint32_t sequence, uint32_t length, struct error *err) {
    return recurrent_state_rewind(x->options.recurrent, sequence, length, err);
}

bool executor_forgets(const struct executor *x) { return kv_cache_wraps(x->options.kv); }

float *executor_logits(struct executor *x, uint32_t index) {
    CHECK(index < x->selected_count);
    return buffer_data(x, &x->options.plan->buffers[x->options.plan->logits]) + (uint64_t)index * x->options.plan->vocab;
}

void executor_stats_read(const struct executor *x, struct executor_stats *out) { *out = x->stats; }

void executor_set_trace(struct executor *x, executor_trace *trace, void *context) {
    x->trace = trace;
    x->trace_context = context;
}
