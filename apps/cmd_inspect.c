/*
 * cmd_inspect: what a model's files hold; decoded copies of tensors.
 */
#include "app.h"

static const struct option_spec json = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON object"};
static const struct option_spec tensors = {.name = "tensors", .kind = OPTION_FLAG, .help = "list every tensor"};
static const struct option_spec dump = {
    .name = "dump", .kind = OPTION_TEXT, .value = "OUT", .help = "write tensors, decoded to f32, to a safetensors file"};
static const struct option_spec tensor = {.name = "tensor",
                                          .kind = OPTION_TEXT,
                                          .repeats = true,
                                          .value = "NAME",
                                          .help = "with --dump: this tensor only; may be given several times"};
static const struct option_spec *const table[] = {&json, &tensors, &dump, &tensor, &option_quiet, &option_verbose, &option_print_config,
                                                  NULL};
static const struct command_spec spec = {.name = "inspect",
                                         .arguments = "MODEL",
                                         .summary = "Tells what a model is made of.",
                                         .options = table,
                                         .arguments_min = 1,
                                         .arguments_max = 1};

static int run(const struct options *options) {
    const char *path = options_argument(options, 0), *out = options_text(options, "dump");
    const char *const *names;
    unsigned count = options_texts(options, "tensor", &names);
    sluice_error error;
    if (count > 0 && !out)
        return app_usage("--tensor goes with --dump OUT");
    sluice_status status = out ? sluice_tool_dump(path, names, count, out, &error)
                               : sluice_tool_inspect(path, options_flag(options, "json"), options_flag(options, "tensors"), stdout, &error);
    return status == SLUICE_OK ? EXIT_DONE : app_fail(&error);
}

const struct command app_inspect = {&spec, run};
