/*
 * cmd_generate: continues a prompt. The model's text is all that standard output gets.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "base/clock.h"
#include "base/log.h"

/*
 * An image or a program is no prompt: its tokens would mean nothing, and be very many. A text with a few odd bytes is one, and so is a
 * short one with any; they become U+FFFD or their own tokens.
 */
#define BINARY_BYTES_MIN 4096
#define BINARY_SHARE 64 /* random bytes have 1 in 9 of these codes */

static const struct option_spec prompt = {.name = "prompt",
                                          .kind = OPTION_TEXT,
                                          .short_name = 'p',
                                          .value = "TEXT",
                                          .help = "text to continue; without it and --prompt-file and --ids, standard input"};
static const struct option_spec prompt_file = {.name = "prompt-file",
                                               .kind = OPTION_TEXT,
                                               .short_name = 'f',
                                               .value = "FILE",
                                               .help = "file with the text to continue; - is standard input"};
static const struct option_spec plain = {.name = "plain", .kind = OPTION_FLAG, .help = "control words in the prompt are ordinary text"};
static const struct option_spec max_tokens = {.name = "max-tokens",
                                              .kind = OPTION_U64,
                                              .short_name = 'n',
                                              .value = "N",
                                              .initial = "256",
                                              .maximum = 16777216,
                                              .help = "tokens to generate; 0: as many as the context holds"};
static const struct option_spec print_ids = {
    .name = "print-ids", .kind = OPTION_FLAG, .help = "print token ids on one line instead of text"};
static const struct option_spec ignore_eos = {.name = "ignore-eos", .kind = OPTION_FLAG, .help = "go on after the model's end of text"};
static const struct option_spec stop = {
    .name = "stop", .kind = OPTION_TEXT, .repeats = true, .value = "TEXT", .help = "end before this text; may be given several times"};
static const struct option_spec print_plan = {
    .name = "print-plan", .kind = OPTION_FLAG, .help = "print memory plan and steps of a pass on standard error"};

static const struct option_spec trace = {
    .name = "trace", .kind = OPTION_TEXT, .value = "FILE", .help = "write which experts were wanted, for sluice trace"};

static const struct option_spec *const table[] = {&prompt,
                                                  &prompt_file,
                                                  &option_ids,
                                                  &plain,
                                                  &max_tokens,
                                                  &option_temp,
                                                  &option_top_k,
                                                  &option_top_p,
                                                  &option_min_p,
                                                  &option_frequency_penalty,
                                                  &option_presence_penalty,
                                                  &option_repetition_penalty,
                                                  &option_seed,
                                                  &option_ram,
                                                  &option_copy,
                                                  &option_ctx,
                                                  &option_threads,
                                                  &option_chunk,
                                                  &option_reader,
                                                  &option_isa,
                                                  &option_activations,
                                                  &print_ids,
                                                  &ignore_eos,
                                                  &stop,
                                                  &option_schema,
                                                  &option_json,
                                                  &option_regex,
                                                  &option_grammar,
                                                  &option_choice,
                                                  &option_history,
                                                  &option_lookahead,
                                                  &print_plan,
                                                  &option_metrics,
                                                  &trace,
                                                  &option_quiet,
                                                  &option_verbose,
                                                  &option_print_config,
                                                  NULL};

static const struct command_spec spec = {
    .name = "generate",
    .arguments = "MODEL",
    .summary = "Continues a prompt.",
    .details =
        "MODEL is a GGUF file (any shard of a set) or a Hugging Face or MLX directory, as it was published. Weights that do not fit --ram "
        "are read from disk while it computes; the text does not depend on it.",
    .options = table,
    .arguments_min = 1,
    .arguments_max = 1};

struct output {
    const struct options *options;
    bool ids, first;
    uint64_t prompt_started;
};

static bool on_piece(void *context, const sluice_piece *piece) {
    struct output *out = context;
    if (out->first)
        log_progress_end();
    if (out->ids) {
        if (piece->token != SLUICE_NO_TOKEN)
            (void)printf("%s%" PRIu32, out->first ? "" : " ", piece->token);
    } else {
        (void)fwrite(piece->text, 1, piece->text_bytes, stdout);
        (void)fflush(stdout);
    }
    out->first = false;
    return !ferror(stdout);
}

static void on_prompt(void *context, uint32_t done, uint32_t total) {
    struct output *out = context;
    if (total > 1)
        log_progress("reading the prompt", done, total, "tokens", out->prompt_started);
}

/* Control codes that texts do not have. */
static size_t odd_bytes(const char *bytes, size_t size) {
    size_t odd = 0;
    for (size_t i = 0; i < size; i++)
        odd += (unsigned char)bytes[i] < ' ' && !memchr("\t\n\v\f\r\033", bytes[i], 6);
    return odd;
}

static sluice_status read_prompt(const struct options *options, sluice_model *model, uint32_t **ids, size_t *count, sluice_error *error) {
    if (options_text(options, "ids"))
        return sluice_tool_read_ids(options_text(options, "ids"), ids, count, error);
    unsigned flags = options_flag(options, "plain") ? SLUICE_PLAIN : 0;
    const char *text = options_text(options, "prompt");
    if (text)
        return sluice_tokenize(model, text, strlen(text), flags, ids, count, error);
    char *bytes;
    size_t size;
    if (!options_text(options, "prompt-file") && isatty(STDIN_FILENO))
        log_line(LOG_NOTICE, "type the prompt, end it with Ctrl-D");
    sluice_status status = app_read_text(options_text(options, "prompt-file"), &bytes, &size, error);
    if (status != SLUICE_OK)
        return status;
    size_t odd = odd_bytes(bytes, size);
    if (size >= BINARY_BYTES_MIN && odd > size / BINARY_SHARE) {
        error->status = status = SLUICE_INVALID;
        (void)snprintf(error->text, sizeof error->text, "the prompt is no text: %zu of its %zu bytes are control codes; name a text file",
                       odd, size);
    } else {
        status = sluice_tokenize(model, bytes, size, flags, ids, count, error);
    }
    sluice_free(bytes);
    return status;
}

/* The context that prompt and answer need, when --ctx does not say. */
static void fit_context(const struct options *options, const sluice_model *model, size_t prompt_count, sluice_load_options *load) {
    sluice_info info;
    sluice_get_info(model, &info);
    uint64_t answer = options_u64(options, "max-tokens"), needed = prompt_count + (answer ? answer : 4096);
    if (load->context == 0)
        load->context = needed < info.context || prompt_count > info.context ? (uint32_t)needed : info.context;
}

static int generate(const struct options *options, sluice_model *model, uint32_t *ids, size_t count, sluice_constraint *constraint) {
    sluice_error error;
    sluice_load_options load;
    uint64_t started_ns = 0;
    sluice_plan plan;
    sluice_result result;
    app_load_options(options, &load, &started_ns);
    load.forms = constraint != NULL;
    load.history = options_flag(options, "history");
    load.no_lookahead = !options_flag(options, "lookahead");
    fit_context(options, model, count, &load);
    if (sluice_load(model, &load, &error) != SLUICE_OK) {
        log_progress_end();
        return app_fail(&error);
    }
    log_progress_end();
    sluice_get_plan(model, &plan);
    if (options_flag(options, "print-plan") || log_get_level() >= LOG_NOTICE)
        app_print_plan(&plan, stderr);
    char *steps;
    if (options_flag(options, "print-plan") && sluice_print_steps(model, &steps, &error) == SLUICE_OK) {
        (void)fputs(steps, stderr);
        sluice_free(steps);
    }
    const char *const *stops;
    unsigned stop_count = options_texts(options, "stop", &stops);
    struct output out = {.options = options, .ids = options_flag(options, "print-ids"), .first = true, .prompt_started = clock_now_ns()};
    const sluice_request request = {.prompt = ids,
                                    .prompt_count = count,
                                    .max_tokens = (uint32_t)options_u64(options, "max-tokens"),
                                    .temperature = (float)options_f64(options, "temp"),
                                    .top_k = (uint32_t)options_u64(options, "top-k"),
                                    .top_p = (float)options_f64(options, "top-p"),
                                    .min_p = (float)options_f64(options, "min-p"),
                                    .frequency_penalty = (float)options_f64(options, "frequency-penalty"),
                                    .presence_penalty = (float)options_f64(options, "presence-penalty"),
                                    .repetition_penalty = (float)options_f64(options, "repetition-penalty"),
                                    .seed = options_u64(options, "seed"),
                                    .ignore_end = options_flag(options, "ignore-eos"),
                                    .stop = stops,
                                    .stop_count = stop_count,
                                    .constraint = constraint,
                                    .on_piece = on_piece,
                                    .on_prompt = on_prompt,
                                    .context_pointer = &out};
    if (app_stopped())
        return EXIT_STOPPED; /* after loading: the call would forget it */
    const char *trace_path = options_text(options, "trace");
    if (trace_path && sluice_tool_trace_begin(model, trace_path, &error) != SLUICE_OK)
        return app_fail(&error);
    sluice_status status = sluice_generate(model, &request, &result, &error);
    if (out.first)
        log_progress_end();
    if (!out.first)
        (void)printf("\n");
    (void)fflush(stdout);
    if (status != SLUICE_OK)
        return app_fail(&error); /* a trace of it is given up with the model */
    app_print_result(&result, count);
    app_print_bound(model);
    if (trace_path && sluice_tool_trace_end(model, &error) != SLUICE_OK)
        return app_fail(&error);
    return app_write_metrics(options, model);
}

static sluice_status open_form(const struct options *options, sluice_model *model, sluice_constraint **constraint, sluice_error *error) {
    sluice_form form;
    char *text;
    bool given;
    sluice_status status = app_read_form(options, &form, &text, &given, error);
    if (status == SLUICE_OK && given)
        status = sluice_constraint_open(model, &form, constraint, error);
    sluice_free(text);
    return status;
}

static int run(const struct options *options) {
    sluice_model *model;
    sluice_error error;
    uint32_t *ids = NULL;
    size_t count = 0;
    if (app_open(options, &model, &error) != SLUICE_OK)
        return app_fail(&error);
    int code;
    sluice_constraint *constraint = NULL; /* before the model is loaded: its memory is in the plan */
    if (open_form(options, model, &constraint, &error) == SLUICE_OK && read_prompt(options, model, &ids, &count, &error) == SLUICE_OK) {
        app_watch(model); /* until now Ctrl-C ends the program at once: nothing is to be undone */
        code = generate(options, model, ids, count, constraint);
        app_watch(NULL);
    } else {
        code = app_fail(&error);
    }
    sluice_free(ids);
    sluice_constraint_close(constraint);
    sluice_close(model);
    return code;
}

const struct command app_generate = {&spec, run};
