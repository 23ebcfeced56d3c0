/*
 * chat_spec: the options of `sluice chat`, apart from its code: the program knows them for its man page.
 */
#include "app.h"

static const struct option_spec system_text = {
    .name = "system", .kind = OPTION_TEXT, .value = "TEXT", .help = "system message that every conversation begins with"};
static const struct option_spec max_tokens = {.name = "max-tokens",
                                              .kind = OPTION_U64,
                                              .short_name = 'n',
                                              .value = "N",
                                              .initial = "0",
                                              .maximum = 16777216,
                                              .help = "longest answer in tokens; 0: as many as the context holds"};
static const struct option_spec *const table[] = {&system_text,
                                                  &max_tokens,
                                                  &option_temp,
                                                  &option_top_k,
                                                  &option_top_p,
                                                  &option_min_p,
                                                  &option_frequency_penalty,
                                                  &option_presence_penalty,
                                                  &option_repetition_penalty,
                                                  &option_seed,
                                                  &option_chat_template,
                                                  &option_reply_format,
                                                  &option_ram,
                                                  &option_copy,
                                                  &option_ctx,
                                                  &option_threads,
                                                  &option_chunk,
                                                  &option_reader,
                                                  &option_history,
                                                  &option_lookahead,
                                                  &option_isa,
                                                  &option_activations,
                                                  &option_quiet,
                                                  &option_verbose,
                                                  &option_print_config,
                                                  NULL};
const struct command_spec app_chat_spec = {
    .name = "chat",
    .arguments = "MODEL",
    .summary = "Talks with a model in the terminal.",
    .details = "Each line is a message; one that ends with a backslash goes on in the next, and a line of three quotes begins and ends a "
               "longer text. Lines that begin with a slash are commands: /help lists them. Ctrl-C stops an answer, Ctrl-D ends. Without a "
               "terminal, lines come from standard input and answers go to standard output.",
    .options = table,
    .arguments_min = 1,
    .arguments_max = 1};
