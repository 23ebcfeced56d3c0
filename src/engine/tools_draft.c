/*
 * tools_draft: include/sluice_tools.h: a drafter beside a model, looked at from outside.
 */
#include "base/check.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "format/safetensors_write.h"
#include "run/draft.h"
#include "sluice_tools.h"

struct draft_run {
    struct sluice_model *model;
    struct draft *draft;
    const uint32_t *ids;
    uint32_t count;
    uint32_t best; /* of the last logits */
    bool (*on_row)(void *context, uint32_t row, const float *logits);
    void *context;
};

sluice_status sluice_tool_open_draft(sluice_model *m, const char *path, sluice_error *error) {
    struct error err = {0};
    return engine_report(engine_open_draft(m, path, &err), &err, error);
}

uint32_t sluice_tool_draft_vocab(const sluice_model *m) { return m->draft_model ? m->draft_model->plan.vocab : 0; }

static uint32_t best_of(const float *logits, uint32_t count) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static enum status hand_out(struct draft_run *run, uint32_t row, const float *logits, struct error *err) {
    run->best = draft_target_token(run->draft, best_of(logits, run->model->draft_model->plan.vocab));
    return run->on_row(run->context, row, logits) ? STATUS_OK : error_set(err, STATUS_CANCELLED, "stopped by the caller");
}

static enum status on_draft_logits(void *context, uint32_t position, float *logits, struct error *err) {
    return hand_out(context, position, logits, err);
}

/* The drafter follows each pass as far as the tokens behind it are known. */
static enum status on_pass(void *context, uint32_t position, uint32_t count, struct error *err) {
    struct draft_run *run = context;
    uint32_t known = position + count < run->count ? count : count - 1;
    const struct draft_follow follow = {.position = position,
                                        .next = run->ids + position + 1,
                                        .count = known,
                                        .wants_logits = true,
                                        .logits = on_draft_logits,
                                        .context = run};
    return known > 0 ? draft_follow(run->draft, &follow, err) : STATUS_OK;
}

static enum status on_target_logits(void *context, uint32_t position, float *logits, struct error *err) {
    struct draft_run *run = context;
    (void)position;
    (void)err;
    run->best = best_of(logits, run->model->model->plan.vocab);
    return STATUS_OK;
}

/* The last row of the target's last pass, then from row to row. */
static enum status run_steps(struct draft_run *run, uint32_t last_row, uint32_t steps, struct error *err) {
    uint32_t bootstrap = run->best;
    const struct draft_follow follow = {.first_row = last_row,
                                        .position = run->count - 1,
                                        .next = &bootstrap,
                                        .count = 1,
                                        .wants_logits = true,
                                        .logits = on_draft_logits,
                                        .context = run};
    if (steps > 0)
        TRY(draft_follow(run->draft, &follow, err));
    for (uint32_t s = 1; s < steps; s++) {
        float *logits;
        TRY(draft_step(run->draft, run->best, &logits, err));
        TRY(hand_out(run, run->count - 1 + s, logits, err));
    }
    return STATUS_OK;
}

static enum status run_draft(struct draft_run *run, uint32_t steps, struct error *err) {
    struct sluice_model *m = run->model;
    const struct memory_plan *p = &m->memory;
    if (!m->loaded || !m->draft_model)
        return error_set(err, STATUS_INVALID, "no drafter was opened for this model, or the model is not loaded");
    if (run->count == 0 || run->count > p->plan.context || steps > p->plan.context - run->count)
        return error_set(err, STATUS_OVER_BUDGET, "%u ids and %u steps do not fit a context of %u (--ctx)", run->count, steps,
                         p->plan.context);
    TRY(draft_create(m->executor, m->draft_executor, &m->draft_model->plan, 0, p->max_rows, p->logit_rows, &run->draft, err));
    TRY(session_rewind(m->session, 0, err));
    const struct session_extend extend = {.tokens = run->ids,
                                          .count = run->count,
                                          .logits_from = run->count - 1,
                                          .logits = on_target_logits,
                                          .passed = on_pass,
                                          .context = run};
    TRY(session_extend(m->session, &extend, err));
    return run_steps(run, (run->count - 1) % p->max_rows, steps, err);
}

sluice_status sluice_tool_draft(sluice_model *m, const uint32_t *ids, size_t count, uint32_t steps,
                                bool (*on_row)(void *, uint32_t, const float *), void *context_pointer, sluice_error *error) {
    struct error err = {0};
    struct draft_run run = {.model = m, .ids = ids, .count = (uint32_t)count, .on_row = on_row, .context = context_pointer};
    enum status status = run_draft(&run, steps, &err);
    draft_destroy(run.draft);
    atomic_store(&m->cancel, false);
    return engine_report(status, &err, error);
}

/* ---- as a file ---- */

struct rows_file {
    struct safetensors_writer *writer;
    uint64_t row_bytes;
    enum status status;
    struct error err;
};

static bool append_row(void *context, uint32_t row, const float *logits) {
    struct rows_file *file = context;
    (void)row;
    file->status = safetensors_writer_append(file->writer, logits, file->row_bytes, &file->err);
    return file->status == STATUS_OK;
}

sluice_status sluice_tool_write_draft(sluice_model *m, const uint32_t *ids, size_t count, uint32_t steps, const char *out_path,
                                      sluice_error *error) {
    struct rows_file file = {.row_bytes = (uint64_t)sluice_tool_draft_vocab(m) * sizeof(float)};
    const struct plan *plan = m->draft_model ? &m->draft_model->plan : &m->model->plan;
    const uint64_t shape[2] = {count - 1 + steps, plan->vocab};
    file.status = safetensors_writer_create(out_path, &file.writer, &file.err);
    if (file.status == STATUS_OK)
        file.status = safetensors_writer_declare(file.writer, "logits", "F32", shape, 2, &file.err);
    if (file.status == STATUS_OK && plan->target_tokens)
        file.status = safetensors_writer_declare(file.writer, "target_ids", "I32", shape + 1, 1, &file.err);
    if (file.status == STATUS_OK) {
        sluice_error run = {0};
        sluice_status status = sluice_tool_draft(m, ids, count, steps, append_row, &file, &run);
        if (status != SLUICE_OK && file.status == STATUS_OK)
            file.status = error_set(&file.err, (enum status)status, "%s", run.text);
    }
    if (file.status == STATUS_OK && plan->target_tokens)
        file.status = safetensors_writer_append(file.writer, plan->target_tokens, plan->vocab * sizeof(uint32_t), &file.err);
    if (file.status == STATUS_OK)
        file.status = safetensors_writer_finish(file.writer, &file.err);
    else
        safetensors_writer_abandon(file.writer);
    return engine_report(file.status, &file.err, error);
}
