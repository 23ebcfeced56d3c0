/*
 * cmd_trace: what more memory, or another rule of eviction, would have made of a run.
 */
#include "app.h"

static const struct option_spec svg = {
    .name = "svg", .kind = OPTION_TEXT, .value = "FILE", .help = "draw the hit rates over the size of the cache into an SVG file"};
static const struct option_spec *const table[] = {&svg, &option_quiet, &option_verbose, &option_print_config, NULL};
static const struct command_spec spec = {.name = "trace",
                                         .arguments = "FILE",
                                         .summary = "Tells how a run would have hit its cache at other sizes.",
                                         .details =
                                             "FILE is what generate --trace FILE wrote. The experts that the run wanted are replayed "
                                             "through caches of a row of sizes that evict the least recently used (as sluice "
                                             "does), the least often used, the same with a memory that fades, and by Belady's "
                                             "rule, which knows the future and that none can beat.",
                                         .options = table,
                                         .arguments_min = 1,
                                         .arguments_max = 1};

static int run(const struct options *options) {
    sluice_error error;
    if (sluice_tool_trace(options_argument(options, 0), options_text(options, "svg"), stdout, &error) != SLUICE_OK)
        return app_fail(&error);
    return EXIT_DONE;
}

const struct command app_trace = {&spec, run};
