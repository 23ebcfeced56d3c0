/*
 * options: one table says everything about an option; flags, environment, config file, --help and the man page come from it.
 *
 * Order of force: command line, then environment (SLUICE_ + name in capitals, '-' as '_'), then config file
 * ($XDG_CONFIG_HOME/sluice/config, lines "name = value", '#' comments), then the default. This is the only place that calls getenv.
 *
 * Forms    --name VALUE, --name=VALUE, -n VALUE, -nVALUE; flags: --name, --no-name, --name=false; "--" ends the options.
 *          Given twice, the last one counts, unless the option repeats. In environment and file a flag is true or false.
 * Errors   an unknown flag names the nearest known one; a bad value names option, value, range and where it came from.
 * Threads  filled once at start, then read only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/byte_buffer.h"
#include "base/status.h"

enum option_kind { OPTION_FLAG, OPTION_U64, OPTION_F64, OPTION_SIZE, OPTION_TEXT, OPTION_CHOICE };

struct option_spec {
    const char *name; /* "max-tokens" */
    enum option_kind kind;
    char short_name;         /* 'p', or 0 */
    bool repeats;            /* values are collected: options_texts */
    const char *value;       /* "N", "FILE": shown in help; NULL for flags */
    const char *initial;     /* default as text; NULL: unset */
    double minimum, maximum; /* range of numbers; both 0: none */
    const char *choices;     /* OPTION_CHOICE: "uring|threads|sync". OPTION_SIZE: words allowed beside a size, "auto|all|min" */
    const char *help;        /* one sentence */
};

struct command_spec {
    const char *name, *arguments, *summary;   /* "generate", "MODEL", "Continues a prompt." */
    const char *details;                      /* paragraphs for --help and the man page, or NULL */
    const struct option_spec *const *options; /* NULL-terminated */
    unsigned arguments_min, arguments_max;    /* positional */
};

struct options; /* values of one command line */

/*
 * Parses argv (after the command word). --help sets options_help_wanted. *out is NULL on failure.
 * argv must outlive *out.
 */
MUST_CHECK enum status options_parse(const struct command_spec *command, int argc, char **argv, struct options **out, struct error *err);
void options_destroy(struct options *options);
bool options_help_wanted(const struct options *options);
unsigned options_argument_count(const struct options *options);
const char *options_argument(const struct options *options, unsigned index);

/* Values by name; the name must be in the command's table (CHECK). */
bool options_is_set(const struct options *options, const char *name); /* by flag, environment or file */
bool options_flag(const struct options *options, const char *name);
uint64_t options_u64(const struct options *options, const char *name);
double options_f64(const struct options *options, const char *name);
const char *options_text(const struct options *options, const char *name);                           /* NULL when unset; CHOICE too */
unsigned options_texts(const struct options *options, const char *name, const char *const **values); /* repeats */
/* OPTION_SIZE: true and *size_bytes when it is a size, false when it is one of the words (options_text gives it). */
bool options_size(const struct options *options, const char *name, uint64_t *size_bytes);

/*
 * Finds typing errors where no single command can: every SLUICE_ variable and every name in the config file must be an
 * option of one of the commands (NULL-terminated). SLUICE_TEST_ variables belong to the tests.
 */
MUST_CHECK enum status options_check_names(const struct command_spec *const *commands, struct error *err);

/*
 * Path of a file that is kept over runs ($XDG_STATE_HOME/sluice/NAME or ~/.local/state/sluice/NAME), or that can be made again
 * ($XDG_CACHE_HOME, ~/.cache). Missing folders are made. False: none is known, it cannot be made, or the path does not fit; then nothing is
 * kept.
 */
bool options_state_path(const char *name, char *path, size_t path_bytes);
bool options_cache_path(const char *name, char *path, size_t path_bytes);

void options_print_help(const struct command_spec *command, FILE *out);
/* roff man page of all commands. */
MUST_CHECK enum status options_man_page(const struct command_spec *const *commands, struct byte_buffer *out, struct error *err);
/* "name = value (from where)" for every option of the command: --print-config. */
void options_print_config(const struct options *options, FILE *out);
