/*
 * cmd_render: the prompt that a conversation gives, and the message that a raw reply is: for scripts and checks.
 */
#include <string.h>

#include "app.h"

static const struct option_spec jsonl = {
    .name = "jsonl", .kind = OPTION_FLAG, .help = "one JSON object a line on standard input and output"};
static const struct option_spec chat_template = {
    .name = "chat-template", .kind = OPTION_TEXT, .value = "FILE", .help = "Jinja template; without it each line brings its own"};
static const struct option_spec tokenizer = {
    .name = "tokenizer", .kind = OPTION_TEXT, .value = "PATH", .help = "give the token ids of the prompt too"};
static const struct option_spec clock_option = {
    .name = "clock", .kind = OPTION_TEXT, .value = "TIME", .help = "what strftime_now sees, such as 2025-03-09T14:05:07"};
static const struct option_spec messages = {
    .name = "messages", .kind = OPTION_TEXT, .value = "FILE", .help = "JSON list of messages; without it standard input"};
static const struct option_spec tools = {.name = "tools", .kind = OPTION_TEXT, .value = "FILE", .help = "JSON list of tools"};

static const struct option_spec *const render_table[] = {
    &messages, &tools, &chat_template, &jsonl, &tokenizer, &clock_option, &option_quiet, &option_verbose, &option_print_config, NULL};
static const struct command_spec render_spec = {.name = "render",
                                                .arguments = "[MODEL]",
                                                .summary = "Shows the prompt text and ids that a conversation gives.",
                                                .options = render_table,
                                                .arguments_min = 0,
                                                .arguments_max = 1};
static const struct option_spec *const parse_table[] = {&jsonl, &option_quiet, &option_verbose, &option_print_config, NULL};
static const struct command_spec parse_spec = {.name = "parse-reply",
                                               .arguments = "",
                                               .summary = "Turns raw replies into messages (--jsonl).",
                                               .options = parse_table,
                                               .arguments_min = 0,
                                               .arguments_max = 0};

static int show_prompt(sluice_model *model, const char *messages_text, const char *tools_text) {
    const sluice_chat chat = {.messages = messages_text, .tools = tools_text, .add_generation_prompt = true};
    sluice_error error;
    char *text = NULL;
    uint32_t *ids;
    size_t count;
    if (sluice_render_chat(model, &chat, &text, &ids, &count, &error) != SLUICE_OK)
        return app_fail(&error);
    (void)printf("%s\n", text);
    for (size_t i = 0; i < count; i++)
        (void)printf("%s%u", i ? " " : "", ids[i]);
    (void)printf("\n");
    sluice_free(text);
    sluice_free(ids);
    return EXIT_DONE;
}

static int render_model(const struct options *options, sluice_model *model) {
    sluice_error error;
    char *text = NULL, *tools_text = NULL;
    size_t size;
    const char *file = options_text(options, "chat-template");
    if (file && sluice_set_chat_template(model, file, &error) != SLUICE_OK)
        return app_fail(&error);
    if (app_read_text(options_text(options, "messages"), &text, &size, &error) != SLUICE_OK)
        return app_fail(&error);
    int code = EXIT_DONE;
    if (options_text(options, "tools") && app_read_text(options_text(options, "tools"), &tools_text, &size, &error) != SLUICE_OK)
        code = app_fail(&error);
    if (code == EXIT_DONE)
        code = show_prompt(model, text, tools_text);
    sluice_free(text);
    sluice_free(tools_text);
    return code;
}

static int run_render(const struct options *options) {
    sluice_error error;
    sluice_model *model;
    if (options_flag(options, "jsonl"))
        return sluice_tool_render_jsonl(options_text(options, "chat-template"), options_text(options, "tokenizer"),
                                        options_text(options, "clock"), stdin, stdout, &error) == SLUICE_OK
                   ? EXIT_DONE
                   : app_fail(&error);
    if (options_argument_count(options) == 0)
        return app_usage("render needs a MODEL, or --jsonl");
    if (sluice_open(options_argument(options, 0), &model, &error) != SLUICE_OK)
        return app_fail(&error);
    int code = render_model(options, model);
    sluice_close(model);
    return code;
}

static int run_parse_reply(const struct options *options) {
    sluice_error error;
    if (!options_flag(options, "jsonl"))
        return app_usage("parse-reply works on lines: give --jsonl");
    return sluice_tool_parse_reply_jsonl(stdin, stdout, &error) == SLUICE_OK ? EXIT_DONE : app_fail(&error);
}

const struct command app_render = {&render_spec, run_render};
const struct command app_parse_reply = {&parse_spec, run_parse_reply};
