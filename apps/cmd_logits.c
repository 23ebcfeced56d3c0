/*
 * cmd_logits: logits of every position of given ids, as a file: for checks against other implementations.
 */
#include "app.h"
#include "base/log.h"

#define DRAFT_STEPS 6 /* how far a drafter goes on by itself */
#define LOGIT_ROWS 16 /* positions per pass whose logits are kept at a time */

static const struct option_spec out_option = {.name = "out",
                                              .kind = OPTION_TEXT,
                                              .short_name = 'o',
                                              .value = "OUT",
                                              .help = "safetensors file that gets the float32 tensor logits [tokens][vocab]"};
static const struct option_spec mtp_option = {
    .name = "mtp", .kind = OPTION_FLAG, .help = "logits of the model's prediction layer instead, and of some steps further"};
static const struct option_spec draft_option = {.name = "draft",
                                                .kind = OPTION_TEXT,
                                                .value = "DRAFTER",
                                                .help = "the same of a drafter for the model (EAGLE, assistant): its directory"};
static const struct option_spec *const table[] = {
    &mtp_option,     &draft_option,   &option_ids,     &out_option,          &option_ram, &option_copy,
    &option_ctx,     &option_threads, &option_chunk,   &option_reader,       &option_isa, &option_activations,
    &option_metrics, &option_quiet,   &option_verbose, &option_print_config, NULL};
static const struct command_spec spec = {.name = "logits",
                                         .arguments = "MODEL",
                                         .summary = "Writes the logits of every position to a file.",
                                         .options = table,
                                         .arguments_min = 1,
                                         .arguments_max = 1};

static bool wants_draft(const struct options *options) { return options_flag(options, "mtp") || options_text(options, "draft"); }

static int write_logits(const struct options *options, sluice_model *model, const uint32_t *ids, size_t count) {
    sluice_error error;
    sluice_load_options load;
    uint64_t started_ns = 0;
    app_load_options(options, &load, &started_ns);
    load.logit_rows = LOGIT_ROWS;
    if (load.context == 0)
        load.context = (uint32_t)count + (wants_draft(options) ? DRAFT_STEPS : 0);
    sluice_status status = sluice_load(model, &load, &error);
    log_progress_end();
    if (status == SLUICE_OK && wants_draft(options))
        status = sluice_tool_write_draft(model, ids, count, DRAFT_STEPS, options_text(options, "out"), &error);
    else if (status == SLUICE_OK)
        status = sluice_tool_write_logits(model, ids, count, options_text(options, "out"), &error);
    return status == SLUICE_OK ? app_write_metrics(options, model) : app_fail(&error);
}

static int run(const struct options *options) {
    sluice_model *model;
    sluice_error error;
    uint32_t *ids;
    size_t count;
    if (!options_text(options, "ids") || !options_text(options, "out"))
        return app_usage("logits needs --ids FILE and --out OUT");
    if (options_flag(options, "mtp") && options_text(options, "draft"))
        return app_usage("--mtp and --draft are two drafters: name one");
    if (sluice_tool_read_ids(options_text(options, "ids"), &ids, &count, &error) != SLUICE_OK)
        return app_fail(&error);
    int code;
    if (app_open(options, &model, &error) == SLUICE_OK) {
        app_watch(model);
        bool opened = !wants_draft(options) || sluice_tool_open_draft(model, options_text(options, "draft"), &error) == SLUICE_OK;
        code = opened ? write_logits(options, model, ids, count) : app_fail(&error);
        app_watch(NULL);
        sluice_close(model);
    } else {
        code = app_fail(&error);
    }
    sluice_free(ids);
    return code;
}

const struct command app_logits = {&spec, run};
