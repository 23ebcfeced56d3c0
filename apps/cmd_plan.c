/*
 * cmd_plan: what would live where under a budget, without loading.
 */
#include <inttypes.h>

#include "app.h"

static const struct option_spec json = {.name = "json", .kind = OPTION_FLAG, .help = "print one JSON object"};
static const struct option_spec steps = {.name = "steps", .kind = OPTION_FLAG, .help = "print the steps of a pass too"};
static const struct option_spec *const table[] = {
    &option_ram,         &option_copy, &option_ctx, &option_threads, &option_chunk,   &option_reader,       &option_isa,
    &option_activations, &json,        &steps,      &option_quiet,   &option_verbose, &option_print_config, NULL};
static const struct command_spec spec = {.name = "plan",
                                         .arguments = "MODEL",
                                         .summary = "Shows what would live where under a memory budget.",
                                         .options = table,
                                         .arguments_min = 1,
                                         .arguments_max = 1};

static void print_json(const sluice_plan *p) {
    (void)printf("{\"budget_bytes\": ");
    if (p->budget_bytes == UINT64_MAX)
        (void)printf("null");
    else
        (void)printf("%" PRIu64, p->budget_bytes);
    (void)printf(
        ", \"minimum_bytes\": %" PRIu64 ", \"planned_bytes\": %" PRIu64 ", \"process_bytes\": %" PRIu64 ", \"trunk_bytes\": %" PRIu64
        ", \"cache_bytes\": %" PRIu64 ", \"staging_bytes\": %" PRIu64 ", \"kv_bytes\": %" PRIu64 ", \"activation_bytes\": %" PRIu64
        ", \"streamed_bytes_per_pass\": %" PRIu64 ", \"context\": %u, \"chunk\": %u, \"threads\": %u, \"isa\": \"%s\", "
        "\"everything_resident\": %s}\n",
        p->minimum_bytes, p->planned_bytes, p->process_bytes, p->trunk_bytes, p->cache_bytes, p->staging_bytes, p->kv_bytes,
        p->activation_bytes, p->streamed_bytes, p->context, p->chunk, p->threads, p->isa, p->everything_resident ? "true" : "false");
}

static int plan_model(const struct options *options, sluice_model *model) {
    sluice_error error;
    sluice_load_options load;
    uint64_t started_ns = 0;
    sluice_plan plan;
    char *text;
    app_load_options(options, &load, &started_ns);
    if (sluice_make_plan(model, &load, &plan, &error) != SLUICE_OK)
        return app_fail(&error);
    if (options_flag(options, "json"))
        print_json(&plan);
    else
        app_print_plan(&plan, stdout);
    if (!options_flag(options, "steps"))
        return EXIT_DONE;
    if (sluice_print_steps(model, &text, &error) != SLUICE_OK)
        return app_fail(&error);
    (void)fputs(text, stdout);
    sluice_free(text);
    return EXIT_DONE;
}

static int run(const struct options *options) {
    sluice_model *model;
    sluice_error error;
    if (app_open(options, &model, &error) != SLUICE_OK)
        return app_fail(&error);
    int code = plan_model(options, model);
    sluice_close(model);
    return code;
}

const struct command app_plan = {&spec, run};
