/*
 * serve_spec: the options of `sluice serve`, apart from its code: the program knows them for its man page.
 */
#include "app.h"

static const struct option_spec host = {.name = "host",
                                        .kind = OPTION_TEXT,
                                        .value = "ADDRESS",
                                        .initial = "127.0.0.1",
                                        .help = "IP address to listen on; 0.0.0.0 is every network of this machine"};
static const struct option_spec port = {
    .name = "port", .kind = OPTION_U64, .value = "N", .initial = "8080", .maximum = 65535, .help = "0: any free port"};
static const struct option_spec api_key = {
    .name = "api-key", .kind = OPTION_TEXT, .value = "KEY", .help = "ask clients for this key (better: SLUICE_API_KEY)"};
static const struct option_spec model_name = {
    .name = "model-name", .kind = OPTION_TEXT, .value = "NAME", .help = "name that clients use; else the file's name"};
static const struct option_spec allow_host = {.name = "allow-host",
                                              .kind = OPTION_TEXT,
                                              .repeats = true,
                                              .value = "NAME",
                                              .help = "a further name that requests may address this server by, and pages may come from"};
static const struct option_spec queue = {
    .name = "queue", .kind = OPTION_U64, .value = "N", .initial = "32", .maximum = 10000, .help = "requests that may wait"};
static const struct option_spec body_limit = {
    .name = "body-limit", .kind = OPTION_SIZE, .value = "SIZE", .initial = "16M", .help = "largest request body"};
static const struct option_spec *const table[] = {&host,
                                                  &port,
                                                  &api_key,
                                                  &model_name,
                                                  &allow_host,
                                                  &queue,
                                                  &body_limit,
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
const struct command_spec app_serve_spec = {.name = "serve",
                                            .arguments = "MODEL",
                                            .summary = "Serves a model with OpenAI's HTTP interface.",
                                            .options = table,
                                            .arguments_min = 1,
                                            .arguments_max = 1};
