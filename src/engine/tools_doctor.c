/*
 * tools_doctor: include/sluice_tools.h: printing what doctor found.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "engine/doctor.h"
#include "engine/inspect.h"
#include "sluice_tools.h"

#define KEY_WIDTH 24
#define GIGA 1e9

static const json_t *at(const json_t *root, const char *group, const char *key) {
    return json_object_get(json_object_get(root, group), key);
}

static const char *size_of(const json_t *value, const char *none, char text[32]) {
    return json_is_integer(value) ? text_format_size((uint64_t)json_integer_value(value), text, 32) : none;
}

static void print_machine(const json_t *root, FILE *out) {
    char a[32], b[32];
    const json_t *level;
    size_t index;
    (void)fprintf(out, "machine\n%-*s %s, %d threads, levels", KEY_WIDTH, "  processor",
                  json_string_value(at(root, "machine", "processor")), (int)json_integer_value(at(root, "machine", "processors")));
    json_array_foreach(at(root, "machine", "instruction_levels"), index, level)(void) fprintf(out, " %s", json_string_value(level));
    (void)fprintf(out, "\n%-*s %s free of %s\n", KEY_WIDTH, "  memory", size_of(at(root, "machine", "memory_available_bytes"), "?", a),
                  size_of(at(root, "machine", "memory_total_bytes"), "?", b));
    const char *group = json_string_value(at(root, "machine", "group_file"));
    (void)fprintf(out, "%-*s %s%s%s\n", KEY_WIDTH, "  control group", size_of(at(root, "machine", "group_limit_bytes"), "no limit", a),
                  group ? " by " : "", group ? group : "");
    (void)fprintf(out, "%-*s %s free of %s\n", KEY_WIDTH, "  swap", size_of(at(root, "machine", "swap_free_bytes"), "?", a),
                  size_of(at(root, "machine", "swap_total_bytes"), "?", b));
    (void)fprintf(out, "%-*s %s\n", KEY_WIDTH, "  may be locked", size_of(at(root, "machine", "lock_limit_bytes"), "all", a));
}

static void print_points(const json_t *measured, const char *label, FILE *out) {
    char size[32];
    size_t index;
    const json_t *point, *path = json_object_get(measured, "path");
    if (path)
        (void)fprintf(out, "%-*s %s\n", KEY_WIDTH, label, json_string_value(path));
    json_array_foreach(json_object_get(measured, "points"), index, point)(void)
        fprintf(out, "%-*s %.2f GB/s with %d reads of %s at a time\n", KEY_WIDTH, index == 0 && !path ? label : "",
                json_number_value(json_object_get(point, "bytes_per_s")) / GIGA, (int)json_integer_value(json_object_get(point, "depth")),
                size_of(json_object_get(point, "size_bytes"), "?", size));
    if (path && !json_object_get(measured, "points"))
        (void)fprintf(out, "%-*s %s\n", KEY_WIDTH, "", json_string_value(json_object_get(measured, "measured")));
}

static void print_reading(const json_t *root, FILE *out) {
    const json_t *reading = json_object_get(root, "reading"), *device;
    size_t index;
    if (!reading)
        return;
    (void)fprintf(out, "reading\n%-*s %s\n", KEY_WIDTH, "  io_uring", json_string_value(json_object_get(reading, "io_uring")));
    (void)fprintf(out, "%-*s %s\n", KEY_WIDTH, "  direct reads",
                  json_is_true(json_object_get(reading, "direct_reads")) ? "yes" : "refused");
    (void)fprintf(out, "%-*s %s\n", KEY_WIDTH, "  measured", json_string_value(json_object_get(reading, "measured")));
    json_array_foreach(json_object_get(reading, "devices"), index, device) print_points(device, "  disk", out);
    if (index > 0)
        print_points(json_object_get(reading, "together"), "  all disks at once", out);
    else
        print_points(reading, "  disk", out);
    if (json_object_get(reading, "memory_bytes_per_s"))
        (void)fprintf(out, "%-*s %.1f GB/s\n", KEY_WIDTH, "  memory",
                      json_number_value(json_object_get(reading, "memory_bytes_per_s")) / GIGA);
}

static void print_plan(const json_t *root, FILE *out) {
    static const char *const rows[] = {"budget_bytes", "minimum_bytes", "planned_bytes", "process_bytes",    "trunk_bytes",
                                       "cache_bytes",  "staging_bytes", "kv_bytes",      "activation_bytes", "streamed_bytes_per_pass"};
    char size[32];
    if (!json_object_get(root, "plan"))
        return;
    (void)fprintf(out, "plan for a request of %d tokens\n", (int)json_integer_value(at(root, "plan", "context")));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        (void)fprintf(out, "  %-*s %s\n", KEY_WIDTH - 2, rows[i], size_of(at(root, "plan", rows[i]), "none", size));
}

static void print_bounds(const json_t *root, FILE *out) {
    const json_t *bounds = json_object_get(root, "bounds"), *cold = json_object_get(bounds, "disk_tokens_per_s_cold"),
                 *warm = json_object_get(bounds, "disk_tokens_per_s_warm"), *memory = json_object_get(bounds, "memory_tokens_per_s");
    if (!bounds)
        return;
    (void)fprintf(out, "at most\n");
    if (memory)
        (void)fprintf(out, "%-*s %.1f tokens/s\n", KEY_WIDTH, "  by memory", json_number_value(memory));
    if (cold)
        (void)fprintf(out, "%-*s %.2f tokens/s\n", KEY_WIDTH, "  by disk", json_number_value(cold));
    if (warm && json_number_value(warm) > json_number_value(cold))
        (void)fprintf(out, "%-*s %.2f tokens/s if experts are found in the cache by its size\n", KEY_WIDTH, "", json_number_value(warm));
    if (json_object_get(bounds, "load_seconds"))
        (void)fprintf(out, "%-*s %.1f s\n", KEY_WIDTH, "  loading", json_number_value(json_object_get(bounds, "load_seconds")));
}

static void print_verdict(const json_t *root, const char *command, FILE *out) {
    const char *why = json_string_value(at(root, command, "why"));
    if (json_object_get(root, command))
        (void)fprintf(out, "%-*s %s%s\n", KEY_WIDTH, command, why ? "no: " : "works", why ? why : "");
}

static void print_report(const json_t *root, FILE *out) {
    const json_t *advice;
    size_t index;
    print_machine(root, out);
    print_reading(root, out);
    if (json_object_get(root, "model")) {
        (void)fprintf(out, "model\n");
        inspect_print(json_object_get(root, "model"), out);
    }
    print_plan(root, out);
    print_bounds(root, out);
    json_array_foreach(json_object_get(root, "advice"), index, advice)(void)
        fprintf(out, "%-*s %s\n", KEY_WIDTH, index == 0 ? "advice" : "", json_string_value(advice));
    print_verdict(root, "generate", out);
    print_verdict(root, "serve", out);
}

sluice_status sluice_tool_doctor(const char *path, const char *const *copies, size_t copy_count, const sluice_load_options *options,
                                 bool json, FILE *out, sluice_error *error) {
    const struct doctor_paths paths = {path, copies, copy_count};
    struct error err = {0};
    json_t *root = NULL;
    enum status status = doctor_examine(&paths, options, &root, &err);
    if (root && json) {
        (void)json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        (void)fputc('\n', out);
    } else if (root) {
        print_report(root, out);
    }
    json_decref(root);
    return engine_report(status, &err, error);
}
