/*
 * app: what the commands share: tables, exit codes, progress, Ctrl-C.
 *
 * Exit codes (also in the man page): 0 done, 1 the model or a file failed, 2 wrong use of the command line, 3 does not fit the
 * memory budget or the context, 130 stopped by Ctrl-C. A reader that closes our output early ends the program quietly.
 */
#pragma once

#include "base/options.h"
#include "base/text.h"
#include "sluice.h"
#include "sluice_tools.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_BUDGET = 3, EXIT_STOPPED = 130 };

struct command {
    const struct command_spec *spec;
    int (*run)(const struct options *options);
};

/* In the order of --help; NULL-terminated. */
extern const struct command *const app_commands[];
extern const struct command app_doctor, app_generate, app_plan, app_inspect, app_tokenize, app_detokenize, app_logits;
extern const struct command app_parse_reply, app_render, app_mask, app_trace, app_pack;

/* Commands that are executables of their own: their tables, for --help and the man page. */
extern const struct command_spec app_chat_spec, app_serve_spec, app_verify_spec;

/* Options that several commands share; single rows for the commands' tables. */
extern const struct option_spec option_ram, option_copy, option_threads, option_ctx, option_chunk, option_reader, option_isa,
    option_activations, option_temp, option_top_k, option_top_p, option_min_p, option_frequency_penalty, option_presence_penalty,
    option_repetition_penalty, option_seed, option_chat_template, option_reply_format, option_ids, option_schema, option_json, option_regex,
    option_grammar, option_choice, option_history, option_lookahead, option_metrics, option_quiet, option_verbose, option_print_config;

/* Parses a command's options (argv behind the command word), handles --help and --print-config, runs it. */
int app_run(const struct command *command, int argc, char **argv);
/* Prints "sluice: text" and turns a status into an exit code. */
int app_fail(const sluice_error *error);
int app_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opens the model that the first argument names, with the copies that --copy names. *model is NULL on failure. */
sluice_status app_open(const struct options *options, sluice_model **model, sluice_error *error);
/* Fills load options from the shared flags. Progress shows on standard error; *started_ns (0) must live until loaded. */
void app_load_options(const struct options *options, sluice_load_options *load, uint64_t *started_ns);
/* The form of the answer, by --schema, --json, --regex, --grammar or --choice; at most one. *given is false when there is none. */
sluice_status app_read_form(const struct options *options, sluice_form *form, char **text, bool *given, sluice_error *error);
/* Numbers apart by spaces, commas or line ends; ids has room for `size` + 1. False: *bad is none. */
bool app_parse_ids(const char *text, size_t size, uint32_t *ids, size_t *count, struct text *bad);
/* The model that Ctrl-C cancels; NULL: none. A second Ctrl-C ends the program at once. */
void app_watch(sluice_model *model);
bool app_stopped(void);     /* Ctrl-C came */
void app_forget_stop(void); /* before the next thing that Ctrl-C may stop */
/* One screen of what lives where, on standard error. */
void app_print_plan(const sluice_plan *plan, FILE *out);
/* One line of what an answer cost, on standard error. */
void app_print_result(const sluice_result *result, size_t prompt_count);
/* One line of how near that came to what disk and compute allow, when something streams and the disk is known. */
void app_print_bound(const sluice_model *model);
/* Writes sluice_metrics to a file when --metrics was given. */
int app_write_metrics(const struct options *options, sluice_model *model);
/* Whole standard input or file; freed with memory_free. */
sluice_status app_read_text(const char *path, char **text, size_t *size_bytes, sluice_error *error);
