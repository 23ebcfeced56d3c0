/*
 * cmd_logits: logits of every position of given ids, as a file: for checks against other implementations.
 */
#include "app.h"
#include "base/log.h"

#define LOGIT_ROWS 16 /* positions per pass whose logits are kept at a time */

static const struct option_spec out_option = {.name = "out",
                                              .kind = OPTION_TEXT,
                                              .short_name = 'o',
                                              .value = "OUT",
                                              .help = "safetensors file that gets the float32 tensor logits [tokens][vocab]"};
static const struct option_spec *const table[] = {
    &option_ids, &out_option,         &option_ram,     &option_ctx,   &option_threads, &option_chunk,        &option_reader,
    &option_isa, &option_activations, &option_metrics, &option_quiet, &option_verbose, &option_print_config, NULL};
static const struct command_spec spec = {.name = "logits",
                                         .arguments = "MODEL",
                                         .summary = "Writes the logits of every position to a file.",
                                         .options = table,
                                         .arguments_min = 1,
                                         .arguments_max = 1};

static int write_logits(const struct options *options, sluice_model *model, const uint32_t *ids, size_t count) {
    sluice_error error;
    sluice_load_options load;
    uint64_t started_ns = 0;
    app_load_options(options, &load, &started_ns);
    load.logit_rows = LOGIT_ROWS;
    if (load.context == 0)
        load.context = (uint32_t)count;
    sluice_status status = sluice_load(model, &load, &error);
    log_progress_end();
    if (status == SLUICE_OK)
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
    if (sluice_tool_read_ids(options_text(options, "ids"), &ids, &count, &error) != SLUICE_OK)
        return app_fail(&error);
    int code;
    if (sluice_open(options_argument(options, 0), &model, &error) == SLUICE_OK) {
        app_watch(model);
        code = write_logits(options, model, ids, count);
        app_watch(NULL);
        sluice_close(model);
    } else {
        code = app_fail(&error);
    }
    sluice_free(ids);
    return code;
}

const struct command app_logits = {&spec, run};
