/*
 * cmd_mask: which tokens may come next in an answer that has a form.
 */
#include <string.h>

#include "app.h"
#include "base/memory.h"

static const struct option_spec prefix = {.name = "prefix-ids",
                                          .kind = OPTION_TEXT,
                                          .value = "\"1 2 3\"",
                                          .initial = "",
                                          .help = "ids of the answer so far; without it the answer's beginning"};
static const struct option_spec *const table[] = {&option_schema, &option_json,  &option_regex,   &option_grammar,      &option_choice,
                                                  &prefix,        &option_quiet, &option_verbose, &option_print_config, NULL};
static const struct command_spec spec = {.name = "mask",
                                         .arguments = "MODEL",
                                         .summary = "Prints the token ids that may come next in an answer of a given form.",
                                         .details =
                                             "MODEL is a model, or a tokenizer.json alone. End tokens are among the ids exactly when "
                                             "the answer is complete.",
                                         .options = table,
                                         .arguments_min = 1,
                                         .arguments_max = 1};

static int run(const struct options *options) {
    sluice_error error;
    sluice_form form;
    char *text;
    bool given;
    size_t count;
    struct text bad;
    const char *ids_text = options_text(options, "prefix-ids");
    if (app_read_form(options, &form, &text, &given, &error) != SLUICE_OK)
        return app_fail(&error);
    if (!given)
        return app_usage("the form is missing: give --schema, --json, --regex, --grammar or --choice");
    uint32_t *ids = memory_alloc_array(strlen(ids_text) + 1, sizeof *ids);
    int code;
    if (!ids)
        code = app_usage("no memory for the ids");
    else if (!app_parse_ids(ids_text, strlen(ids_text), ids, &count, &bad))
        code = app_usage("'%.*s' is no token id: ids are whole numbers apart by spaces", TEXT_ARGUMENTS(bad));
    else if (sluice_tool_mask(options_argument(options, 0), &form, ids, count, stdout, &error) != SLUICE_OK)
        code = app_fail(&error);
    else
        code = EXIT_DONE;
    memory_free(ids);
    sluice_free(text);
    return code;
}

const struct command app_mask = {&spec, run};
