/*
 * doctor: the examination.
 *
 * Order   plans come first: measuring takes memory, which would count as the process's own.
 */
#include "engine/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "engine/inspect.h"
#include "engine/machine.h"
#include "engine/machine_speed.h"

#define REQUEST_TOKENS 512 /* prompt and answer of a short request */

static void put(json_t *root, const char *key, json_t *value) { (void)json_object_set_new(root, key, value); }
static void put_u64(json_t *root, const char *key, uint64_t value) {
    put(root, key, value == UINT64_MAX ? json_null() : json_integer((json_int_t)value));
}
static void advise(json_t *root, const char *text) {
    (void)json_array_append_new(json_object_get(root, "advice"), json_string_nocheck(text));
}

/* ---- machine ---- */

static void examine_machine(json_t *root) {
    struct machine_memory memory = machine_memory_read();
    json_t *machine = json_object(), *levels = json_array();
    put(machine, "processor", json_string_nocheck(cpu_model_name()));
    for (enum cpu_isa isa = 0; isa < CPU_ISA_COUNT; isa++)
        if (cpu_isa_available(isa))
            (void)json_array_append_new(levels, json_string(cpu_isa_name(isa)));
    put(machine, "instruction_levels", levels);
    put_u64(machine, "processors", cpu_count());
    put_u64(machine, "memory_total_bytes", memory.total_bytes);
    put_u64(machine, "memory_available_bytes", memory.available_bytes);
    put_u64(machine, "group_limit_bytes", memory.group_limit_bytes);
    if (memory.group_file[0])
        put(machine, "group_file", json_string_nocheck(memory.group_file));
    put_u64(machine, "swap_total_bytes", memory.swap_total_bytes);
    put_u64(machine, "swap_free_bytes", memory.swap_free_bytes);
    put_u64(machine, "lock_limit_bytes", memory.lock_limit_bytes);
    put(root, "machine", machine);
    if (!memory.known)
        advise(root, "/proc tells nothing about memory: give a budget with --ram SIZE");
    if (memory.lock_limit_bytes < memory.available_bytes && memory.swap_total_bytes > 0)
        advise(root, "weights may be swapped out: only part of them can be locked in memory. Raise the limit with `ulimit -l unlimited` "
                     "(needs LimitMEMLOCK=infinity in the service, or a line `* - memlock unlimited` in /etc/security/limits.conf)");
    else if (memory.lock_limit_bytes < memory.available_bytes)
        advise(root, "memory cannot all be locked (ulimit -l); without swap that costs nothing");
}

/* ---- reading ---- */

static json_t *points_json(const struct io_probe_result *probe) {
    json_t *points = json_array();
    for (unsigned i = 0; i < probe->point_count; i++)
        (void)json_array_append_new(points, json_pack("{s:i,s:i,s:f}", "size_bytes", (int)probe->points[i].size_bytes, "depth",
                                                      (int)probe->points[i].depth, "bytes_per_s", probe->points[i].bytes_per_s));
    return points;
}

/* Of one device or several at once. */
static json_t *speed_json(struct file_set *files, const struct io_sources *sources, unsigned threads, struct machine_speed *speed) {
    struct error err;
    json_t *measured = json_object();
    if (machine_speed_read(files, sources, threads, speed, &err) != STATUS_OK) {
        put(measured, "measured", json_string_nocheck(err.text));
        return measured;
    }
    put(measured, "measured", json_string(speed->kept ? "earlier" : "now"));
    put(measured, "disk_bytes_per_s", json_real(speed->probe.disk_bytes_per_s));
    put(measured, "memory_bytes_per_s", json_real(speed->probe.memory_bytes_per_s));
    put_u64(measured, "best_depth", speed->probe.best_depth);
    put_u64(measured, "best_size_bytes", speed->probe.best_size);
    put(measured, "points", points_json(&speed->probe));
    return measured;
}

/* Each device that the files lie on, and all at once. */
static void examine_devices(json_t *reading, struct file_set *files, unsigned threads) {
    struct io_sources devices = machine_speed_devices(files);
    struct machine_speed speed;
    json_t *list = json_array();
    for (unsigned i = 0; i < devices.count && devices.count > 1; i++) {
        json_t *one = speed_json(files, &(struct io_sources){1, {devices.files[i]}}, threads, &speed);
        put(one, "path", json_string_nocheck(file_set_path(files, devices.files[i])));
        (void)json_array_append_new(list, one);
    }
    put(reading, "devices", list);
    if (devices.count > 1)
        put(reading, "together", speed_json(files, &devices, threads, &speed));
}

static bool reads_direct(const struct file_set *files) {
    for (uint32_t file = 0; file < file_set_count(files); file++)
        if (file_set_direct_fd(files, file) < 0)
            return false;
    return true;
}

static void examine_reading(json_t *root, sluice_model *m, unsigned threads, struct machine_speed *speed) {
    struct error err;
    struct read_queue *queue;
    struct io_sources sources = machine_speed_sources(m->files);
    enum status status = read_queue_create(READ_QUEUE_URING, m->files, 4, &queue, &err);
    if (status == STATUS_OK)
        read_queue_destroy(queue);
    json_t *reading = speed_json(m->files, &sources, threads, speed);
    put(reading, "io_uring", json_string_nocheck(status == STATUS_OK ? "yes" : err.text));
    examine_devices(reading, m->files, threads);
    bool direct = reads_direct(m->files);
    put(reading, "direct_reads", json_boolean(direct));
    put(root, "reading", reading);
    if (!direct)
        advise(root,
               "the file system refuses direct reads: streamed weights pass through the page cache, and the speed measured may be its");
    if (sources.count < file_set_copies(m->files, sources.files[0]))
        advise(root, "several copies lie on one device: only copies on devices of their own make reading faster");
}

/* ---- plan and bounds ---- */

static void put_verdict(json_t *root, const char *command, const sluice_error *error) {
    json_t *verdict = json_object();
    put(verdict, "works", json_boolean(error->status == SLUICE_OK));
    if (error->status != SLUICE_OK)
        put(verdict, "why", json_string_nocheck(error->text));
    put(root, command, verdict);
}

static uint64_t token_bytes(const json_t *root) {
    return (uint64_t)json_integer_value(json_object_get(json_object_get(root, "model"), "bytes_per_token"));
}

/* Tokens per second that decoding cannot exceed; disk from "no expert is found again" to "as often as its share of memory says". */
static void put_bounds(json_t *root, const sluice_plan *plan, const struct io_probe_result *probe) {
    json_t *bounds = json_object();
    double active = (double)token_bytes(root), cold = (double)plan->streamed_bytes, warm = cold;
    double kept = plan->expert_bytes ? (double)plan->cache_bytes / (double)plan->expert_bytes : 0;
    if (plan->cache_bytes > 0) {
        cold += (double)plan->token_expert_bytes;
        warm += plan->cache_useless || kept > 1 ? (double)plan->token_expert_bytes : (double)plan->token_expert_bytes * (1 - kept);
    }
    if (probe->memory_bytes_per_s > 0 && active > 0)
        put(bounds, "memory_tokens_per_s", json_real(probe->memory_bytes_per_s / active));
    if (probe->disk_bytes_per_s > 0 && cold > 0) {
        put(bounds, "disk_bytes_per_token_cold", json_integer((json_int_t)cold));
        put(bounds, "disk_tokens_per_s_cold", json_real(probe->disk_bytes_per_s / cold));
        if (warm > 0)
            put(bounds, "disk_tokens_per_s_warm", json_real(probe->disk_bytes_per_s / warm));
    }
    if (probe->disk_bytes_per_s > 0)
        put(bounds, "load_seconds", json_real((double)plan->trunk_bytes / probe->disk_bytes_per_s));
    put(root, "bounds", bounds);
}

static void refuse(sluice_error *error, enum status status, const char *text) {
    error->status = (sluice_status)status;
    (void)snprintf(error->text, sizeof error->text, "%s", text);
}

/* Whether the reader that was asked for exists here. */
static void check_reader(sluice_model *m, sluice_reader reader, sluice_error *error) {
    static const enum read_queue_kind kinds[] = {
        [SLUICE_READER_URING] = READ_QUEUE_URING, [SLUICE_READER_THREADS] = READ_QUEUE_THREADS, [SLUICE_READER_SYNC] = READ_QUEUE_SYNC};
    struct error err;
    struct read_queue *queue;
    enum status status = reader == SLUICE_READER_BEST ? read_queue_create_best(m->files, 4, &queue, &err)
                                                      : read_queue_create(kinds[reader], m->files, 4, &queue, &err);
    if (status == STATUS_OK)
        read_queue_destroy(queue);
    else
        refuse(error, status, err.text);
}

static void check_tokenizer(const sluice_model *m, sluice_error *error) {
    struct error err;
    enum status status = engine_need_tokenizer(m, &err);
    if (status != STATUS_OK)
        refuse(error, status, err.text);
}

/* `sluice serve` is an executable of its own beside the program. */
static void check_server(sluice_error *error) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    path[length > 0 ? length : 0] = 0;
    char *slash = strrchr(path, '/');
    if (!slash)
        return;
    (void)snprintf(slash + 1, 32, "sluice-serve");
    if (access(path, X_OK) != 0)
        refuse(error, STATUS_NOT_FOUND, "the executable sluice-serve is not beside this program");
}

static void check_template(json_t *root) {
    const json_t *model = json_object_get(root, "model");
    const char *has = json_string_value(json_object_get(model, "chat_template"));
    if (has && strcmp(has, "yes") != 0)
        advise(root, "chat needs --chat-template FILE: the model brings no template that can be used; completions work without");
}

static enum status examine_model(json_t *root, sluice_model *m, const char *path, const sluice_load_options *given, struct error *err) {
    sluice_load_options options = *given;
    sluice_plan plan, serve_plan;
    sluice_error generate = {0}, serve = {0};
    if (options.context == 0)
        options.context = m->model->context < REQUEST_TOKENS ? m->model->context : REQUEST_TOKENS;
    (void)!sluice_make_plan(m, &options, &plan, &generate);
    (void)!sluice_make_plan(m, given, &serve_plan, &serve);
    if (generate.status == SLUICE_OK)
        check_reader(m, given->reader, &generate);
    if (generate.status == SLUICE_OK)
        check_tokenizer(m, &generate);
    if (serve.status == SLUICE_OK && generate.status != SLUICE_OK)
        serve = generate;
    if (serve.status == SLUICE_OK)
        check_server(&serve);
    json_t *model = NULL;
    TRY(inspect_model(path, m, &model, err));
    put(root, "model", model);
    put(root, "plan", engine_plan_json(&plan));
    struct machine_speed speed = {0};
    examine_reading(root, m, plan.threads ? plan.threads : cpu_count(), &speed);
    if (generate.status == SLUICE_OK)
        put_bounds(root, &plan, &speed.probe);
    put_verdict(root, "generate", &generate);
    put_verdict(root, "serve", &serve);
    check_template(root);
    return generate.status == SLUICE_OK ? STATUS_OK : error_set(err, (enum status)generate.status, "%s", generate.text);
}

static sluice_status open_with_copies(const struct doctor_paths *paths, sluice_model **m, sluice_error *problem) {
    sluice_status status = sluice_open(paths->model, m, problem);
    for (size_t i = 0; i < paths->copy_count && status == SLUICE_OK; i++)
        status = sluice_add_copy(*m, paths->copies[i], problem);
    if (status != SLUICE_OK)
        sluice_close(*m);
    return status;
}

enum status doctor_examine(const struct doctor_paths *paths, const sluice_load_options *options, json_t **out, struct error *err) {
    const char *path = paths->model;
    json_t *root = *out = json_pack("{s:s,s:[]}", "version", sluice_version(), "advice");
    if (!root)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the report");
    if (!path) {
        examine_machine(root);
        return STATUS_OK;
    }
    sluice_model *m;
    sluice_error problem;
    enum status status;
    if (open_with_copies(paths, &m, &problem) == SLUICE_OK) {
        status = examine_model(root, m, path, options, err);
        sluice_close(m);
    } else {
        struct error ignored;
        json_t *model = NULL;
        if (inspect_path(path, false, &model, &ignored) == STATUS_OK)
            put(root, "model", model);
        put_verdict(root, "generate", &problem);
        put_verdict(root, "serve", &problem);
        status = error_set(err, (enum status)problem.status, "%s", problem.text);
    }
    examine_machine(root);
    return status;
}
