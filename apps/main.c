/*
 * main: finds the command and runs it.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

const struct command *const app_commands[] = {&app_generate,   &app_plan,   &app_doctor, &app_inspect,     &app_tokenize,
                                              &app_detokenize, &app_logits, &app_render, &app_parse_reply, &app_mask,
                                              &app_trace,      &app_pack,   NULL};

/* Executables of their own beside this one. */
static const struct command_spec *const apart[] = {&app_chat_spec, &app_serve_spec, &app_verify_spec};

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
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        (void)fprintf(out, "  %-12s %s\n", apart[i]->name, apart[i]->summary);
    (void)fprintf(out, "\nsluice COMMAND --help tells its options. First try: sluice generate MODEL --prompt \"Once upon a time\"\n");
}

#define COMMANDS_MAX 32

/* Those of all commands, NULL-terminated. */
static void list_specs(const struct command_spec *specs[COMMANDS_MAX]) {
    size_t count = 0;
    for (const struct command *const *c = app_commands; *c; c++)
        specs[count++] = (*c)->spec;
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        specs[count++] = apart[i];
    CHECK(count < COMMANDS_MAX);
    specs[count] = NULL;
}

static int unknown_command(const char *name) {
    const struct command_spec *specs[COMMANDS_MAX], *best;
    list_specs(specs);
    best = specs[0];
    for (const struct command_spec *const *s = specs; *s; s++)
        if (text_distance(text_of(name), text_of((*s)->name)) < text_distance(text_of(name), text_of(best->name)))
            best = *s;
    return app_usage("there is no command '%s'; did you mean '%s'? (sluice --help lists all)", name, best->name);
}

static int print_man_page(void) {
    const struct command_spec *specs[COMMANDS_MAX];
    list_specs(specs);
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

/* Commands that need large libraries are executables of their own beside this one. Returns only when that fails. */
static int run_beside(const char *name, char **argv) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    if (length <= 0)
        return app_usage("cannot find the folder of this program, and so not sluice-%s", name);
    path[length] = 0;
    char *slash = strrchr(path, '/');
    (void)snprintf(slash ? slash + 1 : path, 32, "sluice-%s", name);
    (void)execv(path, argv);
    return app_usage("cannot start %s: %s (it belongs beside this program)", path, strerror(errno));
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
    if (strcmp(argv[1], "--family-table") == 0 || strcmp(argv[1], "--format-table") == 0) {
        (strcmp(argv[1], "--family-table") == 0 ? sluice_tool_family_table : sluice_tool_format_table)(stdout);
        return EXIT_DONE;
    }
    const struct command *command = find(argv[1]);
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (strcmp(argv[1], apart[i]->name) == 0)
            return run_beside(argv[1], argv + 1);
    return command ? app_run(command, argc - 2, argv + 2) : unknown_command(argv[1]);
}
