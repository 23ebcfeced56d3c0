/*
 * metrics: include/sluice.h, part three: what a run did, beside what the machine could.
 *
 * Bounds   decode tokens/s that disk and memory set: active bytes over the measured memory bandwidth, bytes read per token over the
 *          measured disk rate; the run cannot be faster than the slower of the two. And of the last tokens what run/pass_costs.h makes
 *          of their own compute and misses, beside what they took. The machine is measured once (engine/machine_speed.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "engine/machine_speed.h"
#include "sluice_tools.h"

json_t *engine_plan_json(const sluice_plan *p) {
    json_t *budget = p->budget_bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)p->budget_bytes);
    return json_pack("{s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:i,s:i,s:i,s:s,s:s,s:b,s:b,s:s}", "budget_bytes", budget,
                     "minimum_bytes", (json_int_t)p->minimum_bytes, "planned_bytes", (json_int_t)p->planned_bytes, "process_bytes",
                     (json_int_t)p->process_bytes, "trunk_bytes", (json_int_t)p->trunk_bytes, "cache_bytes", (json_int_t)p->cache_bytes,
                     "staging_bytes", (json_int_t)p->staging_bytes, "kv_bytes", (json_int_t)p->kv_bytes, "activation_bytes",
                     (json_int_t)p->activation_bytes, "streamed_bytes_per_pass", (json_int_t)p->streamed_bytes, "expert_bytes",
                     (json_int_t)p->expert_bytes, "token_expert_bytes", (json_int_t)p->token_expert_bytes, "context", (int)p->context,
                     "chunk", (int)p->chunk, "threads", (int)p->threads, "isa", p->isa, "reader", p->reader, "everything_resident",
                     p->everything_resident, "cache_useless", p->cache_useless, "note", p->note);
}

static json_t *memory_json(const struct sluice_model *m) {
    json_t *owners = json_object();
    uint64_t sum = 0;
    for (enum memory_owner o = 0; o < MEMORY_OWNER_COUNT; o++) {
        (void)json_object_set_new(owners, memory_owner_name(o), json_integer((json_int_t)memory_owner_bytes(o)));
        sum += memory_owner_bytes(o);
    }
    struct memory_process self = memory_process_read();
    struct store_stats stats;
    store_stats_read(m->store, &stats);
    return json_pack("{s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "by_owner_bytes", owners, "accounted_bytes", (json_int_t)sum,
                     "peak_bytes", (json_int_t)self.peak_rss_bytes, "locked_bytes", (json_int_t)self.locked_bytes, "page_table_bytes",
                     (json_int_t)self.page_table_bytes, "swap_bytes", (json_int_t)self.swap_bytes, "cache_limit_bytes",
                     (json_int_t)stats.cache_limit_bytes, "trunk_limit_bytes", (json_int_t)stats.trunk_limit_bytes, "given_back_bytes",
                     (json_int_t)stats.given_back_bytes, "given_back_times", (json_int_t)stats.given_back_times);
}

static int compare_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* p-quantile of the times between tokens, the first excluded (it belongs to the prompt). */
static double token_seconds(const struct request_numbers *n, double p) {
    if (n->token_count < 2)
        return 0;
    uint32_t count = (n->token_count < n->token_capacity ? n->token_count : n->token_capacity) - 1;
    uint64_t *sorted = memory_alloc_array(count, sizeof *sorted);
    if (!sorted)
        return 0;
    memcpy(sorted, n->token_ns + 1, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_u64);
    double result = (double)sorted[(size_t)((count - 1) * p + 0.5)] / 1e9;
    memory_free(sorted);
    return result;
}

static double hit_rate(uint64_t hits, uint64_t misses) { return hits + misses ? (double)hits / (double)(hits + misses) : 1; }

static json_t *reads_json(const struct request_numbers *n) {
    const struct store_stats *first = &n->after_prompt, *last = &n->after;
    uint32_t tokens = n->token_count > 1 ? n->token_count - 1 : 0;
    double per = tokens ? 1.0 / tokens : 0;
    uint32_t half = n->token_count / 2, end = n->token_count < n->token_capacity ? n->token_count : n->token_capacity;
    double last_half = end > half + 1 ? hit_rate(n->hits[end - 1] - n->hits[half], n->misses[end - 1] - n->misses[half])
                                      : hit_rate(last->hits - first->hits, last->misses - first->misses);
    uint64_t read = last->read_bytes - first->read_bytes, demanded = last->demanded_bytes - first->demanded_bytes;
    return json_pack("{s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:I,s:I,s:I,s:I,s:I}", "load_bytes", (json_int_t)last->resident_bytes,
                     "prompt_read_bytes", (json_int_t)(first->read_bytes - n->before.read_bytes), "read_bytes",
                     (json_int_t)(last->read_bytes - n->before.read_bytes), "demanded_bytes",
                     (json_int_t)(last->demanded_bytes - n->before.demanded_bytes), "read_bytes_per_token", (double)read * per,
                     "demanded_bytes_per_token", (double)demanded * per, "wasted_bytes_per_token",
                     read > demanded ? (double)(read - demanded) * per : 0.0, "hit_rate",
                     hit_rate(last->hits - n->before.hits, last->misses - n->before.misses), "hit_rate_decode",
                     hit_rate(last->hits - first->hits, last->misses - first->misses), "hit_rate_last_half", last_half, "reads",
                     (json_int_t)(last->reads - n->before.reads), "read_retries", (json_int_t)(last->read_retries - n->before.read_retries),
                     "evictions", (json_int_t)(last->evictions - n->before.evictions), "prefilled_bytes", (json_int_t)last->prefilled_bytes,
                     "expected_bytes", (json_int_t)(last->expected_bytes - n->before.expected_bytes), "expected_used_bytes",
                     (json_int_t)(last->expected_used_bytes - n->before.expected_used_bytes));
}

/* What each copy of the model gave since it was loaded; NULL: there is one. Copies are called by their first file. */
static json_t *copies_json(const struct sluice_model *m) {
    unsigned count = file_set_copies(m->files, 0);
    json_t *list = count > 1 ? json_array() : NULL;
    struct store_stats stats;
    store_stats_read(m->store, &stats);
    for (unsigned n = 0; n < count && list; n++) {
        uint32_t file = file_set_copy(m->files, 0, n);
        (void)json_array_append_new(list,
                                    json_pack("{s:o,s:I,s:b}", "path", json_string_nocheck(file_set_path(m->files, file)), "read_bytes",
                                              (json_int_t)stats.copy_bytes[n], "left_out", file_set_left_out(m->files, file)));
    }
    return list;
}

static json_t *times_json(const struct sluice_model *m) {
    const struct request_numbers *n = &m->numbers;
    struct executor_stats stats;
    executor_stats_read(m->executor, &stats);
    double prompt = (double)n->prompt_ns / 1e9, decode = (double)n->decode_ns / 1e9;
    json_t *steps = json_object();
    for (enum op_kind k = 0; k < OP_KIND_COUNT; k++)
        if (stats.step_ns[k])
            (void)json_object_set_new(steps, op_kind_name(k), json_real((double)stats.step_ns[k] / 1e9));
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "load_s", (double)m->load_ns / 1e9, "first_token_s", prompt,
                     "prompt_s", prompt, "prompt_tokens_per_s", prompt > 0 ? (n->prompt_tokens - n->reused) / prompt : 0.0, "decode_s",
                     decode, "decode_tokens_per_s", decode > 0 && n->generated > 1 ? (n->generated - 1) / decode : 0.0, "token_p50_s",
                     token_seconds(n, 0.5), "token_p95_s", token_seconds(n, 0.95), "stall_s",
                     (double)(n->after.stall_ns - n->before.stall_ns) / 1e9, "compute_s", (double)stats.compute_ns / 1e9, "compute_by_op_s",
                     steps);
}

static json_t *bounds_json(const struct sluice_model *m, const struct io_probe_result *probe) {
    const struct request_numbers *n = &m->numbers;
    uint32_t tokens = n->token_count > 1 ? n->token_count - 1 : 0;
    double active = (double)m->active_parameters / (double)m->parameters * (double)m->weight_bytes;
    double per_token = tokens ? (double)(n->after.read_bytes - n->after_prompt.read_bytes) / tokens : 0;
    struct engine_bound bound;
    engine_bound_read(m, probe->disk_bytes_per_s, &bound);
    double memory_bound = probe->memory_bytes_per_s / active, disk_bound = per_token > 0 ? probe->disk_bytes_per_s / per_token : 0;
    return json_pack("{s:f,s:f,s:i,s:i,s:f,s:f,s:f,s:i,s:f,s:f,s:f}", "disk_bytes_per_s", probe->disk_bytes_per_s, "memory_bytes_per_s",
                     probe->memory_bytes_per_s, "disk_best_depth", (int)probe->best_depth, "disk_best_size_bytes", (int)probe->best_size,
                     "active_bytes_per_token", active, "memory_bound_tokens_per_s", memory_bound, "disk_bound_tokens_per_s", disk_bound,
                     "dependency_tokens", (int)bound.tokens, "dependency_bound_tokens_per_s",
                     bound.least_s > 0 ? bound.tokens / bound.least_s : 0, "dependency_tokens_per_s",
                     bound.took_s > 0 ? bound.tokens / bound.took_s : 0, "dependency_share",
                     bound.took_s > 0 ? bound.least_s / bound.took_s : 0);
}

/* Decode's pass p gave token p + 1. A pass may come behind the last token: it gave the end, or none at all. */
void engine_bound_read(const struct sluice_model *m, double disk_bytes_per_s, struct engine_bound *out) {
    const struct request_numbers *n = &m->numbers;
    const struct pass_costs *costs = executor_costs(m->executor);
    uint64_t passes = pass_costs_count(costs), first = passes > PASS_COSTS_KEPT ? passes - PASS_COSTS_KEPT : 0;
    uint64_t end = n->token_count > 0 ? n->token_count - 1 : 0;
    *out = (struct engine_bound){0};
    if (first >= end || end > passes)
        return;
    out->tokens = (uint32_t)(end - first);
    out->least_s = pass_costs_least_seconds(costs, first, end, disk_bytes_per_s);
    for (uint64_t p = first; p < end; p++)
        out->took_s += (double)n->token_ns[p + 1] / 1e9;
}

bool sluice_tool_bound(const sluice_model *m, sluice_bound *out) {
    struct machine_speed speed;
    struct engine_bound bound;
    struct io_sources sources = machine_speed_sources(m->files);
    *out = (sluice_bound){0};
    if (!m->loaded || m->memory.plan.everything_resident || !machine_speed_kept(m->files, &sources, m->memory.plan.threads, &speed))
        return false;
    engine_bound_read(m, speed.probe.disk_bytes_per_s, &bound);
    if (bound.tokens == 0 || bound.took_s <= 0 || bound.least_s <= 0)
        return false;
    *out = (sluice_bound){bound.tokens, bound.tokens / bound.took_s, bound.tokens / bound.least_s, speed.probe.disk_bytes_per_s};
    return true;
}

sluice_status sluice_metrics(sluice_model *m, bool measure_bounds, char **json, sluice_error *error) {
    struct error err = {0};
    *json = NULL;
    if (!m->loaded)
        return engine_report(error_set(&err, STATUS_INVALID, "the model is not loaded yet: there is nothing to report"), &err, error);
    json_t *memory = memory_json(m); /* before the probe takes memory of its own */
    struct machine_speed speed = {0};
    struct io_sources sources = machine_speed_sources(m->files);
    enum status status = measure_bounds ? machine_speed_read(m->files, &sources, m->memory.plan.threads, &speed, &err) : STATUS_OK;
    json_t *root =
        json_pack("{s:s,s:s,s:s,s:i,s:i,s:i,s:o,s:o,s:o,s:o}", "version", sluice_version(), "model", catalogue_path(m->model->catalogue),
                  "family", m->model->arch->name, "prompt_tokens", (int)m->numbers.prompt_tokens, "reused_tokens", (int)m->numbers.reused,
                  "generated_tokens", (int)m->numbers.generated, "plan", engine_plan_json(&m->memory.plan), "memory", memory, "times",
                  times_json(m), "reads", reads_json(&m->numbers));
    json_t *copies = copies_json(m);
    if (root && copies)
        (void)json_object_set(root, "copies", copies);
    json_decref(copies);
    if (root && measure_bounds && status == STATUS_OK)
        (void)json_object_set_new(root, "bounds", bounds_json(m, &speed.probe));
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (status == STATUS_OK && !text)
        status = error_set(&err, STATUS_NO_MEMORY, "no memory for the metrics");
    if (status == STATUS_OK)
        *json = text;
    else
        memory_free(text);
    return engine_report(status, &err, error);
}
