/*
 * tools_trace: include/sluice_tools.h: a trace replayed at other sizes and under other rules.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/text.h"
#include "engine/engine_internal.h"
#include "engine/trace_curve.h"
#include "engine/trace_file.h"
#include "sluice_tools.h"

static const unsigned shares_percent[] = {2, 5, 10, 15, 20, 30, 40, 50, 60, 75, 90, 100};
_Static_assert(sizeof shares_percent / sizeof *shares_percent < TRACE_POINTS_MAX, "a place is left for the run's own size");

/* What is told: of decode, or of the prompt when the run made no token. */
static const struct trace_counts *told(const struct trace_file *trace, const struct trace_result *result) {
    return trace->decode_passes ? &result->decode : &result->prompt;
}

static void choose_sizes(const struct trace_file *trace, struct trace_curve *curve) {
    uint64_t run = trace->head.cache_bytes;
    bool told_run = run == 0;
    for (size_t i = 0; i < sizeof shares_percent / sizeof *shares_percent; i++) {
        uint64_t bytes = (uint64_t)((double)curve->all_bytes * shares_percent[i] / 100);
        if (shares_percent[i] == 100)
            bytes = curve->all_bytes;
        if (!told_run && run <= bytes) {
            curve->points[curve->count++] = (struct trace_point){.cache_bytes = run, .of_the_run = true};
            told_run = true;
        }
        if (run != bytes)
            curve->points[curve->count++] = (struct trace_point){.cache_bytes = bytes};
    }
}

static enum status replay(const struct trace_file *trace, struct trace_curve *curve, struct error *err) {
    const struct trace_wants wants = {.records = trace->head.records,
                                      .record_count = trace->head.record_count,
                                      .layer_count = trace->head.layer_count,
                                      .steps = trace->steps,
                                      .step_count = trace->step_count,
                                      .ids = trace->ids,
                                      .id_count = trace->id_count};
    curve->all_bytes = trace_all_bytes(&wants);
    choose_sizes(trace, curve);
    for (uint32_t i = 0; i < curve->count; i++)
        for (enum trace_policy p = 0; p < TRACE_POLICY_COUNT; p++) {
            struct trace_result result;
            TRY(trace_replay(&wants, p, curve->points[i].cache_bytes, &result, err));
            curve->points[i].counts[p] = *told(trace, &result);
        }
    return STATUS_OK;
}

static void print_head(const struct trace_file *trace, const struct trace_curve *curve, FILE *out) {
    char size[32];
    const struct trace_head *head = &trace->head;
    const struct trace_counts *run = trace->decode_passes ? &trace->totals.decode : &trace->totals.prompt;
    (void)fprintf(out, "model  %s, identity ", head->family);
    for (int i = 0; i < 8; i++)
        (void)fprintf(out, "%02x", head->identity[i]);
    (void)fprintf(out, ": %u layers with experts, %u chosen of %u, %s in all\n", head->layer_count, head->experts_per_token,
                  head->layers[0].experts, text_format_size(curve->all_bytes, size, sizeof size));
    (void)fprintf(out, "trace  %u passes over the prompt, %u tokens after it%s\n", trace->prompt_passes, trace->decode_passes,
                  trace->decode_passes ? ", which the numbers are about" : "; the numbers are about the prompt");
    if (head->cache_bytes)
        (void)fprintf(out, "run    cache %s, hit rate %.2f %% (the row with *)\n\n", text_format_size(head->cache_bytes, size, sizeof size),
                      100 * trace_hit_rate(run));
    else
        (void)fprintf(out, "run    everything was in memory\n\n");
}

static void print_table(const struct trace_file *trace, const struct trace_curve *curve, FILE *out) {
    char size[32];
    double passes = trace->decode_passes ? trace->decode_passes : trace->prompt_passes;
    (void)fprintf(out, "%12s %6s", "cache", "share");
    for (enum trace_policy p = 0; p < TRACE_POLICY_COUNT; p++)
        (void)fprintf(out, "  %20s", trace_policy_name(p));
    (void)fprintf(out, "\n%12s %6s", "", "");
    for (enum trace_policy p = 0; p < TRACE_POLICY_COUNT; p++)
        (void)fprintf(out, "  %8s %11s", "hits", trace->decode_passes ? "read/token" : "read/pass");
    (void)fputc('\n', out);
    for (uint32_t i = 0; i < curve->count; i++) {
        const struct trace_point *point = &curve->points[i];
        (void)fprintf(out, "%12s %5.1f%%", text_format_size(point->cache_bytes, size, sizeof size),
                      100 * (double)point->cache_bytes / (double)curve->all_bytes);
        for (enum trace_policy p = 0; p < TRACE_POLICY_COUNT; p++)
            (void)fprintf(out, "  %6.2f %% %11s", 100 * trace_hit_rate(&point->counts[p]),
                          text_format_size((uint64_t)((double)point->counts[p].miss_bytes / passes), size, sizeof size));
        (void)fprintf(out, "%s\n", point->of_the_run ? " *" : "");
    }
}

sluice_status sluice_tool_trace(const char *path, const char *svg_path, FILE *out, sluice_error *error) {
    struct error err = {0};
    struct trace_file trace;
    struct trace_curve curve = {.title = "Hits in a cache of experts"};
    enum status status = trace_file_read(path, &trace, &err);
    if (status == STATUS_OK)
        status = replay(&trace, &curve, &err);
    if (status == STATUS_OK) {
        print_head(&trace, &curve, out);
        print_table(&trace, &curve, out);
        if (svg_path)
            status = trace_curve_write(&curve, svg_path, &err);
    }
    trace_file_deinit(&trace);
    return engine_report(status, &err, error);
}
