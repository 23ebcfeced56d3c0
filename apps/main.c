/*
 * main: finds the command and runs it.
 */
#include <signal.h>
#include <string.h>

#include "app.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

const struct command *const app_commands[] = {&app_generate, &app_plan, &app_inspect, &app_tokenize, &app_detokenize, &app_logits, NULL};

static const struct command *find(const char *name) {
    for (const struct command *const *c = app_commands; *c; c++)
        if (strcmp((*c)->spec->name, name) == 0)
            return *c;
    return NULL;
}

static void print_overview(FILE *out) {
    (void)fprintf(
        out, "sluice %s: runs language models that are bigger than memory, from disk.\n\nusage: sluice COMMAND ARGUMENTS [OPTIONS]\n\n",
        sluice_version());
    for (const struct command *const *c = app_commands; *c; c++)
        (void)fprintf(out, "  %-12s %s\n", (*c)->spec->name, (*c)->spec->summary);
    (void)fprintf(out, "\nsluice COMMAND --help tells its options. First try: sluice generate MODEL --prompt \"Once upon a time\"\n");
}

static int unknown_command(const char *name) {
    const struct command *best = app_commands[0];
    for (const struct command *const *c = app_commands; *c; c++)
        if (text_distance(text_of(name), text_of((*c)->spec->name)) < text_distance(text_of(name), text_of(best->spec->name)))
            best = *c;
    return app_usage("there is no command '%s'; did you mean '%s'? (sluice --help lists all)", name, best->spec->name);
}

static int print_man_page(void) {
    const struct command_spec *specs[16];
    size_t count = 0;
    for (const struct command *const *c = app_commands; *c; c++)
        specs[count++] = (*c)->spec;
    specs[count] = NULL;
    struct byte_buffer page;
    struct error err;
    byte_buffer_init(&page, 1u << 20);
    enum status status = options_man_page(specs, &page, &err);
    if (status == STATUS_OK)
        (void)fwrite(page.data, 1, page.size_bytes, stdout);
    else
        log_line(LOG_ERROR, "%s", err.text);
    byte_buffer_deinit(&page);
    return status == STATUS_OK ? EXIT_DONE : EXIT_FAILED;
}

static int run_command(const struct command *command, int argc, char **argv) {
    struct options *options;
    struct error err;
    if (options_parse(command->spec, argc, argv, &options, &err) != STATUS_OK)
        return app_usage("%s (sluice %s --help tells more)", err.text, command->spec->name);
    int code = EXIT_DONE;
    if (options_help_wanted(options)) {
        options_print_help(command->spec, stdout);
    } else if (options_flag(options, "print-config")) {
        options_print_config(options, stdout);
    } else {
        log_set_level(options_flag(options, "quiet") ? LOG_ERROR : options_flag(options, "verbose") ? LOG_DEBUG : LOG_NOTICE);
        code = command->run(options);
    }
    options_destroy(options);
    if (fflush(stdout) != 0 && code == EXIT_DONE)
        code = EXIT_FAILED;
    return code;
}

int main(int argc, char **argv) {
    memory_setup();
    (void)signal(SIGPIPE, SIG_DFL); /* a reader that has seen enough ends us quietly */
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_overview(argc < 2 ? stderr : stdout);
        return argc < 2 ? EXIT_USAGE : EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("sluice %s\n", sluice_version());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--man-page") == 0)
        return print_man_page();
    const struct command *command = find(argv[1]);
    return command ? run_command(command, argc - 2, argv + 2) : unknown_command(argv[1]);
}
