/*
 * app: shared behaviour of the commands.
 */
#include "app.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/byte_buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

#define TEXT_LIMIT (256u << 20)

static sluice_model *volatile watched; /* the signal handler's only way to the model */
static volatile sig_atomic_t interrupts;

int app_fail(const sluice_error *error) {
    if (error->status == SLUICE_CANCELLED)
        return EXIT_STOPPED;
    log_line(LOG_ERROR, "%s", error->text);
    return error->status == SLUICE_OVER_BUDGET ? EXIT_BUDGET : error->status == SLUICE_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

int app_usage(const char *format, ...) {
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_line(LOG_ERROR, "%s", text);
    return EXIT_USAGE;
}

/* ---- Ctrl-C ---- */

static void on_interrupt(int signal_number) {
    (void)signal_number;
    if (interrupts++ > 0)
        _exit(EXIT_STOPPED);
    if (watched)
        sluice_cancel(watched);
    else
        _exit(EXIT_STOPPED); /* nothing is under way that would have to be undone */
}

void app_watch(sluice_model *model) {
    struct sigaction action = {.sa_handler = on_interrupt};
    (void)sigemptyset(&action.sa_mask);
    watched = model;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

bool app_stopped(void) { return interrupts > 0; }

void app_forget_stop(void) { interrupts = 0; }

/* ---- one command ---- */

int app_run(const struct command *command, int argc, char **argv) {
    struct options *options;
    struct error err;
    if (options_parse(command->spec, argc, argv, &options, &err) != STATUS_OK)
        return app_usage("%s (sluice %s --help tells more)", err.text, command->spec->name);
    int code = EXIT_DONE;
    if (options_help_wanted(options)) {
        options_print_help(command->spec, stdout);
    } else if (options_flag(options, "print-config")) {
        options_print_config(options, stdout);
    } else {
        log_set_level(options_flag(options, "quiet") ? LOG_ERROR : options_flag(options, "verbose") ? LOG_DEBUG : LOG_NOTICE);
        code = command->run(options);
    }
    options_destroy(options);
    if (fflush(stdout) != 0 && code == EXIT_DONE)
        code = EXIT_FAILED;
    return code;
}

/* ---- loading ---- */

sluice_status app_open(const struct options *options, sluice_model **model, sluice_error *error) {
    const char *const *copies;
    unsigned count = options_texts(options, "copy", &copies);
    sluice_status status = sluice_open(options_argument(options, 0), model, error);
    for (unsigned i = 0; i < count && status == SLUICE_OK; i++)
        status = sluice_add_copy(*model, copies[i], error);
    if (status != SLUICE_OK) {
        sluice_close(*model);
        *model = NULL;
    }
    return status;
}

static bool show_loading(void *context, uint64_t done, uint64_t total) {
    uint64_t *started = context;
    if (*started == 0)
        *started = clock_now_ns();
    log_progress("loading", done, total, "B", *started);
    return interrupts == 0;
}

void app_load_options(const struct options *options, sluice_load_options *load, uint64_t *started_ns) {
    static const char *const readers[] = {"best", "uring", "threads", "sync"};
    *load = (sluice_load_options)SLUICE_INIT;
    if (options_size(options, "ram", &load->ram_bytes))
        load->ram = SLUICE_RAM_BYTES;
    else
        load->ram = strcmp(options_text(options, "ram"), "all") == 0   ? SLUICE_RAM_ALL
                    : strcmp(options_text(options, "ram"), "min") == 0 ? SLUICE_RAM_MIN
                                                                       : SLUICE_RAM_AUTO;
    load->threads = (uint32_t)options_u64(options, "threads");
    load->context = (uint32_t)options_u64(options, "ctx");
    load->chunk = (uint32_t)options_u64(options, "chunk");
    for (int i = 0; i < 4; i++)
        if (strcmp(options_text(options, "reader"), readers[i]) == 0)
            load->reader = (sluice_reader)i;
    load->isa = strcmp(options_text(options, "isa"), "best") == 0 ? NULL : options_text(options, "isa");
    load->exact = strcmp(options_text(options, "activations"), "f32") == 0;
    load->progress = show_loading;
    load->context_pointer = started_ns;
}

static void print_row(FILE *out, const char *what, uint64_t bytes, const char *remark) {
    char size[32];
    (void)fprintf(out, "  %-14s %12s  %s\n", what, text_format_size(bytes, size, sizeof size), remark);
}

void app_print_plan(const sluice_plan *p, FILE *out) {
    char size[32], remark[160];
    if (p->note[0])
        (void)fprintf(out, "note: %s\n", p->note);
    if (p->budget_bytes == UINT64_MAX)
        (void)fprintf(out, "plan: no budget, context %u, chunk %u, %u threads, %s\n", p->context, p->chunk, p->threads, p->isa);
    else
        (void)fprintf(out, "plan for %s: context %u, chunk %u, %u threads, %s\n", text_format_size(p->budget_bytes, size, sizeof size),
                      p->context, p->chunk, p->threads, p->isa);
    print_row(out, "process", p->process_bytes, "program, libraries, tokenizer, tables");
    (void)snprintf(remark, sizeof remark, "%s", p->everything_resident ? "all weights" : "weights that stay");
    print_row(out, "trunk", p->trunk_bytes, remark);
    if (p->cache_bytes) {
        char all[32], one[32];
        (void)snprintf(remark, sizeof remark, "experts: %s in all, %s a token%s", text_format_size(p->expert_bytes, all, sizeof all),
                       text_format_size(p->token_expert_bytes, one, sizeof one),
                       p->cache_useless ? "; less than one token needs, so nothing will be found again" : "");
        print_row(out, "cache", p->cache_bytes, remark);
    }
    (void)snprintf(remark, sizeof remark, "%s", p->streamed_bytes ? "" : "read buffers");
    if (p->streamed_bytes)
        (void)snprintf(remark, sizeof remark, "%s are read again for every pass", text_format_size(p->streamed_bytes, size, sizeof size));
    print_row(out, "staging", p->staging_bytes, remark);
    print_row(out, "keys, values", p->kv_bytes, "");
    print_row(out, "activations", p->activation_bytes, "");
    (void)snprintf(remark, sizeof remark, "smallest that works: %s", text_format_size(p->minimum_bytes, size, sizeof size));
    print_row(out, "sum", p->planned_bytes, remark);
}

void app_print_result(const sluice_result *r, size_t prompt_count) {
    static const char *const reasons[] = {"the end of the text", "--max-tokens", "the context's end", "Ctrl-C", "a stop string"};
    char kept[64] = "";
    size_t read = prompt_count - r->reused;
    if (r->reused)
        (void)snprintf(kept, sizeof kept, " and %u kept from before", r->reused);
    log_line(LOG_NOTICE, "%zu prompt tokens in %.2f s (%.1f/s)%s, %u tokens in %.2f s (%.1f/s), ended by %s", read, r->prompt_seconds,
             r->prompt_seconds > 0 ? (double)read / r->prompt_seconds : 0, kept, r->generated, r->decode_seconds,
             r->decode_seconds > 0 && r->generated > 1 ? (r->generated - 1) / r->decode_seconds : 0, reasons[r->stop]);
}

void app_print_bound(const sluice_model *model) {
    sluice_bound b;
    if (sluice_tool_bound(model, &b))
        log_line(LOG_NOTICE, "the last %u tokens: %.2f/s, %.0f %% of the %.2f/s that their compute and a disk of %.2f GB/s allow", b.tokens,
                 b.tokens_per_s, 100 * b.tokens_per_s / b.bound_tokens_per_s, b.bound_tokens_per_s, b.disk_bytes_per_s / 1e9);
}

/* ---- files ---- */

int app_write_metrics(const struct options *options, sluice_model *model) {
    const char *path = options_text(options, "metrics");
    if (!path)
        return EXIT_DONE;
    sluice_error error;
    struct error err;
    char *json;
    if (sluice_metrics(model, true, &json, &error) != SLUICE_OK)
        return app_fail(&error);
    enum status status = file_write(path, json, strlen(json), &err);
    sluice_free(json);
    if (status == STATUS_OK)
        return EXIT_DONE;
    log_line(LOG_ERROR, "%s", err.text);
    return EXIT_FAILED;
}

static enum status read_stream(FILE *in, struct byte_buffer *out, struct error *err) {
    char block[65536];
    size_t got;
    while ((got = fread(block, 1, sizeof block, in)) > 0)
        TRY(byte_buffer_append(out, block, got, err));
    return ferror(in) ? error_set(err, STATUS_IO, "reading standard input failed: %s", strerror(errno)) : STATUS_OK;
}

sluice_status app_read_text(const char *path, char **text, size_t *size_bytes, sluice_error *error) {
    struct error err = {0};
    struct text file;
    enum status status;
    if (path && strcmp(path, "-") != 0) {
        status = file_read(path, TEXT_LIMIT, &file, &err);
        *text = (char *)file.data;
        *size_bytes = file.size_bytes;
    } else {
        struct byte_buffer buffer;
        byte_buffer_init(&buffer, TEXT_LIMIT);
        status = read_stream(stdin, &buffer, &err);
        if (status == STATUS_OK)
            status = byte_buffer_append(&buffer, "", 0, &err);
        *size_bytes = buffer.size_bytes;
        *text = status == STATUS_OK ? byte_buffer_take(&buffer) : NULL;
        byte_buffer_deinit(&buffer);
    }
    if (status != STATUS_OK) {
        error->status = (sluice_status)status;
        (void)snprintf(error->text, sizeof error->text, "%s", err.text);
    }
    return (sluice_status)status;
}
