/*
 * trace_record: include/sluice_tools.h: a trace of a loaded model.
 *
 * What the store counts between two mixtures belongs to the pass of the first, so prompt and decode are told apart as metrics do.
 */
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "engine/model_identity.h"
#include "engine/trace_file.h"
#include "sluice_tools.h"

struct engine_trace {
    struct sluice_model *model;
    struct trace_writer *writer; /* NULL after an error */
    struct trace_totals totals;
    struct store_stats before; /* the last mixture */
    bool decode;               /* the pass of the last mixture */
    enum status status;
    struct error err;
};

static uint64_t piece_bytes(const struct record_table *table, uint32_t id) {
    const struct weight_record *record = &table->records[id];
    uint64_t sum = 0;
    for (uint32_t p = 0; p < record->piece_count; p++)
        sum += table->pieces[record->first_piece + p].size_bytes;
    return sum;
}

/* Fills layers and records from the plan's mixtures, or counts them when head->layers is NULL. */
static void walk_mixtures(const struct sluice_model *m, struct trace_head *head) {
    const struct plan *plan = &m->model->plan;
    const struct record_table *table = &m->memory.records;
    head->layer_count = head->record_count = 0;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const struct plan_step *step = &plan->steps[s];
        if (step->op.kind != OP_EXPERTS)
            continue;
        uint32_t experts = step->op.experts.experts, first = record_table_weights(table, 0)[step->weight[2]].first_record;
        CHECK(step->layer >= 0);
        if (head->layers) {
            head->layers[head->layer_count] = (struct trace_layer){(uint32_t)step->layer, head->record_count, experts};
            for (uint32_t e = 0; e < experts; e++)
                head->records[head->record_count + e] =
                    (struct trace_record){table->placements[first + e].memory_bytes, piece_bytes(table, first + e)};
        }
        head->layer_count++;
        head->record_count += experts;
    }
}

static enum status fill_head(const struct sluice_model *m, struct trace_head *head, struct error *err) {
    walk_mixtures(m, head);
    if (head->record_count == 0)
        return error_set(err, STATUS_INVALID, "%s has no experts: there is nothing to trace", catalogue_path(m->model->catalogue));
    head->layers = memory_alloc_array(head->layer_count, sizeof *head->layers);
    head->records = memory_alloc_array(head->record_count, sizeof *head->records);
    if (!head->layers || !head->records)
        return error_set(err, STATUS_NO_MEMORY, "no memory to trace %u experts", head->record_count);
    walk_mixtures(m, head);
    model_identity(m->model->catalogue, head->identity);
    head->experts_per_token = m->model->plan.top_k;
    head->cache_bytes = m->memory.placement.cache_bytes;
    size_t length = strlen(m->model->arch->name);
    memcpy(head->family, m->model->arch->name, length < TRACE_FAMILY_BYTES ? length : TRACE_FAMILY_BYTES - 1);
    return STATUS_OK;
}

static void count(struct engine_trace *trace) {
    struct store_stats now;
    store_stats_read(trace->model->store, &now);
    struct trace_counts *counts = trace->decode ? &trace->totals.decode : &trace->totals.prompt;
    counts->hits += now.hits - trace->before.hits;
    counts->misses += now.misses - trace->before.misses;
    trace->before = now;
}

static void on_wanted(void *context, const struct executor_wanted *wanted) {
    struct engine_trace *trace = context;
    count(trace);
    trace->decode = trace->model->numbers.token_count > 0;
    if (!trace->writer)
        return;
    const struct trace_wanted step = {.layer = (uint32_t)wanted->layer,
                                      .position = wanted->position,
                                      .rows = wanted->rows,
                                      .experts = wanted->experts,
                                      .count = wanted->count,
                                      .decode = trace->decode};
    trace->status = trace_writer_add(trace->writer, &step, &trace->err);
    if (trace->status != STATUS_OK) {
        trace_writer_abandon(trace->writer);
        trace->writer = NULL;
    }
}

static enum status begin(struct sluice_model *m, const char *path, struct error *err) {
    if (!m->loaded || m->trace)
        return error_set(err, STATUS_INVALID, m->trace ? "a trace of this model is being recorded already" : "the model is not loaded yet");
    struct engine_trace *trace = memory_alloc(sizeof *trace);
    if (!trace)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to trace", path);
    trace->model = m;
    struct trace_head head = {0};
    enum status status = fill_head(m, &head, err);
    if (status == STATUS_OK)
        status = trace_writer_create(path, &head, &trace->writer, err);
    trace_head_deinit(&head);
    if (status != STATUS_OK) {
        memory_free(trace);
        return status;
    }
    store_stats_read(m->store, &trace->before);
    m->trace = trace;
    executor_set_trace(m->executor, on_wanted, trace);
    return STATUS_OK;
}

void engine_trace_abandon(struct sluice_model *m) {
    if (!m->trace)
        return;
    if (m->executor)
        executor_set_trace(m->executor, NULL, NULL);
    trace_writer_abandon(m->trace->writer);
    memory_free(m->trace);
    m->trace = NULL;
}

sluice_status sluice_tool_trace_begin(sluice_model *m, const char *path, sluice_error *error) {
    struct error err = {0};
    return engine_report(begin(m, path, &err), &err, error);
}

sluice_status sluice_tool_trace_end(sluice_model *m, sluice_error *error) {
    struct error err = {0};
    struct engine_trace *trace = m->trace;
    enum status status = trace ? trace->status : error_set(&err, STATUS_INVALID, "no trace was begun");
    if (trace && status != STATUS_OK)
        err = trace->err;
    if (trace && status == STATUS_OK) {
        count(trace);
        status = trace_writer_finish(trace->writer, &trace->totals, &err);
        trace->writer = NULL;
    }
    engine_trace_abandon(m);
    return engine_report(status, &err, error);
}
