/*
 * cmd_doctor: whether generate and serve would work here, and how fast at most.
 */
#include "app.h"
#include "base/log.h"

static const struct option_spec json = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON object"};
static const struct option_spec *const table[] = {
    &option_ram, &option_copy,  &option_ctx,     &option_threads,      &option_chunk, &option_reader, &option_isa, &option_activations,
    &json,       &option_quiet, &option_verbose, &option_print_config, NULL};
static const struct command_spec spec = {
    .name = "doctor",
    .arguments = "[MODEL]",
    .summary = "Says whether generate and serve would work here, and how fast at most.",
    .details =
        "Looks at processor, memory and its limits, and with a MODEL at the disks that it and its copies lie on, alone and all at once, "
        "its "
        "files, and the plan under --ram. "
        "Exit code 0: generate works, 1: it does not, 3: the model does not fit. Measurements are kept for 30 days in the cache folder "
        "(~/.cache/sluice).",
    .options = table,
    .arguments_min = 0,
    .arguments_max = 1};

static int run(const struct options *options) {
    sluice_error error;
    sluice_load_options load;
    uint64_t started_ns = 0;
    app_load_options(options, &load, &started_ns);
    const char *const *copies;
    unsigned copy_count = options_texts(options, "copy", &copies);
    const char *path = options_argument_count(options) > 0 ? options_argument(options, 0) : NULL;
    sluice_status status = sluice_tool_doctor(path, copies, copy_count, &load, options_flag(options, "json"), stdout, &error);
    if (status == SLUICE_OK)
        return EXIT_DONE;
    if (options_flag(options, "json"))
        log_line(LOG_ERROR, "%s", error.text); /* else the report says it */
    return status == SLUICE_OVER_BUDGET ? EXIT_BUDGET : EXIT_FAILED;
}

const struct command app_doctor = {&spec, run};
