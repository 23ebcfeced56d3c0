/*
 * cmd_tokenize: text to ids and back.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "base/memory.h"
#include "base/text.h"

static const struct option_spec text_option = {
    .name = "text", .kind = OPTION_TEXT, .value = "TEXT", .help = "the text; without it standard input"};
static const struct option_spec plain = {.name = "plain", .kind = OPTION_FLAG, .help = "control words in the text are ordinary text"};
static const struct option_spec no_special = {
    .name = "no-special", .kind = OPTION_FLAG, .help = "do not add what the tokenizer adds by itself (BOS)"};
static const struct option_spec jsonl = {
    .name = "jsonl", .kind = OPTION_FLAG, .help = "one JSON object a line on standard input and output"};
static const struct option_spec ids_option = {
    .name = "ids", .kind = OPTION_TEXT, .value = "\"1 2 3\"", .help = "the ids; without it standard input"};
static const struct option_spec skip_special = {.name = "skip-special", .kind = OPTION_FLAG, .help = "leave control words out"};

static const struct option_spec *const tokenize_table[] = {&text_option,  &plain,          &no_special,          &jsonl,
                                                           &option_quiet, &option_verbose, &option_print_config, NULL};
static const struct command_spec tokenize_spec = {.name = "tokenize",
                                                  .arguments = "MODEL",
                                                  .summary = "Turns text into token ids.",
                                                  .details = "MODEL is a model, or a tokenizer.json alone.",
                                                  .options = tokenize_table,
                                                  .arguments_min = 1,
                                                  .arguments_max = 1};
static const struct option_spec *const detokenize_table[] = {&ids_option,     &skip_special,        &option_quiet,
                                                             &option_verbose, &option_print_config, NULL};
static const struct command_spec detokenize_spec = {.name = "detokenize",
                                                    .arguments = "MODEL",
                                                    .summary = "Turns token ids into text.",
                                                    .options = detokenize_table,
                                                    .arguments_min = 1,
                                                    .arguments_max = 1};

static int run_tokenize(const struct options *options) {
    const char *path = options_argument(options, 0), *text = options_text(options, "text");
    sluice_error error;
    char *bytes = NULL;
    size_t size = text ? strlen(text) : 0, count;
    uint32_t *ids;
    if (options_flag(options, "jsonl"))
        return sluice_tool_tokenize_jsonl(path, stdin, stdout, &error) == SLUICE_OK ? EXIT_DONE : app_fail(&error);
    if (!text && app_read_text(NULL, &bytes, &size, &error) != SLUICE_OK)
        return app_fail(&error);
    unsigned flags = (options_flag(options, "plain") ? SLUICE_PLAIN : 0u) | (options_flag(options, "no-special") ? SLUICE_NO_SPECIAL : 0u);
    sluice_status status = sluice_tool_tokenize(path, text ? text : bytes, size, flags, &ids, &count, &error);
    sluice_free(bytes);
    if (status != SLUICE_OK)
        return app_fail(&error);
    for (size_t i = 0; i < count; i++)
        (void)printf("%s%" PRIu32, i ? " " : "", ids[i]);
    (void)printf("\n");
    sluice_free(ids);
    return EXIT_DONE;
}

static int run_detokenize(const struct options *options) {
    const char *given = options_text(options, "ids");
    sluice_error error;
    struct text bad;
    char *bytes = NULL, *text = NULL;
    size_t size = given ? strlen(given) : 0, count = 0, text_bytes = 0;
    if (!given && app_read_text(NULL, &bytes, &size, &error) != SLUICE_OK)
        return app_fail(&error);
    uint32_t *ids = memory_alloc_array(size + 1, sizeof *ids);
    if (!ids || !app_parse_ids(given ? given : bytes, size, ids, &count, &bad)) {
        memory_free(ids);
        sluice_free(bytes);
        return ids ? app_usage("'%.*s' is no token id: ids are whole numbers apart by spaces", TEXT_ARGUMENTS(bad))
                   : app_usage("no memory for the ids");
    }
    sluice_status status =
        sluice_tool_detokenize(options_argument(options, 0), ids, count, options_flag(options, "skip-special"), &text, &text_bytes, &error);
    memory_free(ids);
    sluice_free(bytes);
    if (status != SLUICE_OK)
        return app_fail(&error);
    (void)fwrite(text, 1, text_bytes, stdout);
    (void)printf("\n");
    sluice_free(text);
    return EXIT_DONE;
}

const struct command app_tokenize = {&tokenize_spec, run_tokenize};
const struct command app_detokenize = {&detokenize_spec, run_detokenize};
