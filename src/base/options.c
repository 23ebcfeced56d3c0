/*
 * options: command line, environment and config file into one table of values, checked while it is filled.
 *
 * Model   every option of the command has one value: the text, where it came from, and what the text means. Sources are
 *         read from weak to strong, and a stronger one replaces what is there.
 * Memory  texts are borrowed: from argv, from the environment, from the table, and from the config file, which is kept.
 */
#include "base/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#define CONFIG_BYTES_MAX (64u << 10)
#define PATH_BYTES_MAX 4096
#define NAME_BYTES_MAX 64
#define PREFIX "SLUICE_"
#define TEST_PREFIX "SLUICE_TEST_"

extern char **environ;

enum source { SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_COMMAND_LINE };

struct value {
    const char *text; /* NULL: unset */
    enum source source;
    union {
        bool flag;
        uint64_t u64; /* also sizes */
        double f64;
    } as;
    bool is_word;       /* OPTION_SIZE: one of the words, not a size */
    const char **texts; /* repeats: all values of the strongest source */
    unsigned texts_count;
};

struct options {
    const struct command_spec *command;
    unsigned option_count;
    struct value *values; /* [option_count], in the order of the command's table */
    const char **arguments;
    unsigned argument_count;
    bool help_wanted;
    int argc; /* bounds how often an option can repeat */
    char *config;
    char config_path[PATH_BYTES_MAX];
};

/* ---- names ---- */

static unsigned find_option(const struct command_spec *command, struct text name, bool *found) {
    unsigned i = 0;
    while (command->options[i] && !text_is(name, command->options[i]->name))
        i++;
    *found = command->options[i] != NULL;
    return i;
}

/* How far a known name is from what was given: edits; or, when one is the beginning of the other ("temperature", "temp"), none. */
static unsigned distance_of(struct text name, struct text known) {
    size_t shorter = name.size_bytes < known.size_bytes ? name.size_bytes : known.size_bytes;
    bool begins = shorter >= 3 && memcmp(name.data, known.data, shorter) == 0;
    return begins ? 0 : text_distance(name, known);
}

/* The known name that was most likely meant, or NULL. */
static const char *nearest_name(const struct command_spec *const *commands, unsigned command_count, struct text name) {
    const char *nearest = NULL;
    unsigned least = name.size_bytes < 4 ? 2 : name.size_bytes < 9 ? 3 : 4; /* must be below this */
    for (unsigned c = 0; c < command_count; c++)
        for (const struct option_spec *const *option = commands[c]->options; *option; option++) {
            unsigned distance = distance_of(name, text_of((*option)->name));
            if (distance < least) {
                least = distance;
                nearest = (*option)->name;
            }
        }
    return nearest;
}

/* "max-tokens" -> "SLUICE_MAX_TOKENS" */
static void environment_name(const char *name, char *buffer, size_t buffer_bytes) {
    int length = snprintf(buffer, buffer_bytes, PREFIX "%s", name);
    CHECK(length > 0 && (size_t)length < buffer_bytes);
    for (char *c = buffer; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

/* Where a value came from, for people. */
static const char *source_text(const struct options *options, const struct option_spec *spec, enum source source, char *buffer,
                               size_t buffer_bytes) {
    char name[NAME_BYTES_MAX + sizeof(PREFIX)];
    switch (source) {
    case SOURCE_DEFAULT:
        snprintf(buffer, buffer_bytes, "default");
        break;
    case SOURCE_FILE:
        snprintf(buffer, buffer_bytes, "%s", options->config_path);
        break;
    case SOURCE_ENVIRONMENT:
        environment_name(spec->name, name, sizeof(name));
        snprintf(buffer, buffer_bytes, "environment, %s", name);
        break;
    case SOURCE_COMMAND_LINE:
        snprintf(buffer, buffer_bytes, "command line");
        break;
    }
    return buffer;
}

/* ---- meaning of a text ---- */

/* Does the '|'-separated list have the word? */
static bool list_has(const char *list, struct text word) {
    for (const char *at = list; at;) {
        size_t length = strcspn(at, "|");
        if (text_equal((struct text){at, length}, word))
            return true;
        at = at[length] ? at + length + 1 : NULL;
    }
    return false;
}

static bool in_range(const struct option_spec *spec, double value) {
    return (spec->minimum == 0 && spec->maximum == 0) || (value >= spec->minimum && value <= spec->maximum);
}

static bool parse_flag(struct text text, bool *out) {
    static const char yes[] = "1|true|yes|on", no[] = "0|false|no|off";
    *out = list_has(yes, text);
    return *out || list_has(no, text);
}

/* Fills value->as from the text; false when the text is not a value of this option. */
static bool parse_value(const struct option_spec *spec, struct text text, struct value *value) {
    switch (spec->kind) {
    case OPTION_FLAG:
        return parse_flag(text, &value->as.flag);
    case OPTION_U64:
        return text_parse_u64(text, &value->as.u64) && in_range(spec, (double)value->as.u64);
    case OPTION_F64:
        return text_parse_f64(text, &value->as.f64) && in_range(spec, value->as.f64);
    case OPTION_SIZE:
        value->is_word = spec->choices && list_has(spec->choices, text);
        return value->is_word || (text_parse_size(text, &value->as.u64) && in_range(spec, (double)value->as.u64));
    case OPTION_TEXT:
        return true;
    case OPTION_CHOICE:
        CHECK(spec->choices != NULL);
        return list_has(spec->choices, text);
    }
    return false;
}

/* What would have been right: "a whole number from 1 to 64", "one of uring|threads". */
static void expected_text(const struct option_spec *spec, char *buffer, size_t buffer_bytes) {
    static const char *const kinds[] = {"true or false", "a whole number", "a number", "a size such as 1536M or 8G", "a text", "one of "};
    bool range = spec->minimum != 0 || spec->maximum != 0, words = spec->choices != NULL;
    int used = snprintf(buffer, buffer_bytes, "%s%s%s", kinds[spec->kind], words && spec->kind == OPTION_SIZE ? ", or one of " : "",
                        words ? spec->choices : "");
    CHECK(used > 0 && (size_t)used < buffer_bytes);
    if (range)
        snprintf(buffer + used, buffer_bytes - (size_t)used, " from %.15g to %.15g", spec->minimum, spec->maximum);
}

static enum status set_value(struct options *options, unsigned index, const char *text, enum source source, struct error *err) {
    const struct option_spec *spec = options->command->options[index];
    struct value *value = &options->values[index], parsed = {.texts = value->texts};
    if (!parse_value(spec, text_of(text), &parsed)) {
        char expected[256], from[PATH_BYTES_MAX];
        expected_text(spec, expected, sizeof(expected));
        return error_set(err, STATUS_INVALID, "--%s: '%.200s' is not %s (%s)", spec->name, text, expected,
                         source_text(options, spec, source, from, sizeof(from)));
    }
    parsed.text = text;
    parsed.source = source;
    if (spec->repeats) {
        parsed.texts_count = source == value->source && value->text ? value->texts_count : 0;
        if (!parsed.texts)
            parsed.texts = memory_alloc_array((size_t)options->argc + 1, sizeof(*parsed.texts));
        if (!parsed.texts)
            return error_set(err, STATUS_NO_MEMORY, "no memory for the values of --%s", spec->name);
        CHECK(parsed.texts_count <= (unsigned)options->argc);
        parsed.texts[parsed.texts_count++] = text;
    }
    *value = parsed;
    return STATUS_OK;
}

/* ---- defaults, config file, environment ---- */

static enum status read_defaults(struct options *options, struct error *err) {
    for (unsigned i = 0; i < options->option_count; i++) {
        const struct option_spec *spec = options->command->options[i];
        CHECK(spec->name && spec->help && strlen(spec->name) < NAME_BYTES_MAX && (spec->kind == OPTION_FLAG) == (spec->value == NULL));
        if (spec->initial)
            TRY(set_value(options, i, spec->initial, SOURCE_DEFAULT, err));
    }
    return STATUS_OK;
}

/* "$VARIABLE/sluice/name", or "~/below/sluice/name" when it is not set; empty when neither is known. */
static void find_own_file(const char *variable, const char *below, const char *name, char *path, size_t path_bytes) {
    const char *home = getenv("HOME"), *folder = getenv(variable);
    int length = 0;
    path[0] = 0;
    if (folder && folder[0] == '/')
        length = snprintf(path, path_bytes, "%s/sluice/%s", folder, name);
    else if (home && home[0] == '/')
        length = snprintf(path, path_bytes, "%s/%s/sluice/%s", home, below, name);
    if (length < 0 || (size_t)length >= path_bytes)
        path[0] = 0;
}

static void find_config(char *path, size_t path_bytes) { find_own_file("XDG_CONFIG_HOME", ".config", "config", path, path_bytes); }

/* Makes the folders above a file. False: the last one cannot be made. */
static bool make_folders(char *path) {
    bool there = false;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        there = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
    }
    return there;
}

bool options_state_path(const char *name, char *path, size_t path_bytes) {
    find_own_file("XDG_STATE_HOME", ".local/state", name, path, path_bytes);
    return path[0] != 0 && make_folders(path);
}

bool options_cache_path(const char *name, char *path, size_t path_bytes) {
    find_own_file("XDG_CACHE_HOME", ".cache", name, path, path_bytes);
    return path[0] != 0 && make_folders(path);
}

/* The config file in memory (NULL when there is none); the caller frees it. */
static enum status load_config(char *path, size_t path_bytes, char **out, struct error *err) {
    struct text text;
    *out = NULL;
    find_config(path, path_bytes);
    if (!path[0] || !file_exists(path))
        return STATUS_OK;
    TRY(file_read(path, CONFIG_BYTES_MAX, &text, err));
    *out = (char *)text.data;
    if (strlen(text.data) == text.size_bytes)
        return STATUS_OK;
    memory_free(*out);
    *out = NULL;
    return error_set(err, STATUS_INVALID, "%s: holds a byte 0; it must be text", path);
}

static char *trim(char *text) {
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]))
        text[--length] = 0;
    return text;
}

/*
 * Cuts the next "name = value" from *rest, in place. Returns false at the end, and with an error in a line that is neither
 * that nor a comment.
 */
static bool next_setting(char **rest, unsigned *line_number, const char *path, char **name, char **value, struct error *err) {
    for (char *line; (line = strsep(rest, "\n")) != NULL;) {
        ++*line_number;
        line = trim(line);
        if (*line == 0 || *line == '#')
            continue;
        char *equals = strchr(line, '=');
        if (!equals || equals == line) {
            (void)error_set(err, STATUS_INVALID, "%s: line %u: '%.100s' is not \"name = value\"", path, *line_number, line);
            return false;
        }
        *equals = 0;
        *name = trim(line);
        *value = trim(equals + 1);
        return true;
    }
    return false;
}

/* Names of other commands' options are passed over; options_check_names finds those of none. */
static enum status read_config(struct options *options, struct error *err) {
    TRY(load_config(options->config_path, sizeof(options->config_path), &options->config, err));
    struct error problem = {0};
    char *rest = options->config, *name, *value;
    unsigned line = 0;
    while (next_setting(&rest, &line, options->config_path, &name, &value, &problem)) {
        bool found;
        unsigned index = find_option(options->command, text_of(name), &found);
        if (found && set_value(options, index, value, SOURCE_FILE, err) != STATUS_OK)
            return err ? error_prefix(err, "line %u", line) : STATUS_INVALID;
    }
    return problem.status == STATUS_OK ? STATUS_OK : error_set(err, problem.status, "%s", problem.text);
}

static enum status read_environment(struct options *options, struct error *err) {
    char name[NAME_BYTES_MAX + sizeof(PREFIX)];
    for (unsigned i = 0; i < options->option_count; i++) {
        environment_name(options->command->options[i]->name, name, sizeof(name));
        const char *text = getenv(name);
        if (text)
            TRY(set_value(options, i, text, SOURCE_ENVIRONMENT, err));
    }
    return STATUS_OK;
}

/* ---- command line ---- */

struct cursor {
    char **argv;
    int argc, at;
};

static enum status unknown_option(const struct options *options, const char *given, struct text name, struct error *err) {
    const char *nearest = nearest_name(&options->command, 1, name);
    return error_set(err, STATUS_INVALID, "unknown option %.100s%s%s%s", given, nearest ? "; did you mean --" : "", nearest ? nearest : "",
                     nearest ? "?" : "");
}

/* The value of an option that takes one: what is attached, or the next word. */
static enum status take_value(const struct options *options, struct cursor *cursor, const struct option_spec *spec, const char *attached,
                              const char **out, struct error *err) {
    *out = attached;
    if (attached)
        return STATUS_OK;
    if (cursor->at >= cursor->argc)
        return error_set(err, STATUS_INVALID, "--%s needs a value: --%s %s", spec->name, spec->name, spec->value);
    const char *next = cursor->argv[cursor->at];
    bool is_option = false;
    if (strncmp(next, "--", 2) == 0)
        (void)find_option(options->command, (struct text){next + 2, strcspn(next + 2, "=")}, &is_option);
    if (is_option)
        return error_set(err, STATUS_INVALID, "--%s needs a value, but %.100s follows; if that is the value, write --%s=%.100s", spec->name,
                         next, spec->name, next);
    cursor->at++;
    *out = next;
    return STATUS_OK;
}

static enum status parse_long(struct options *options, struct cursor *cursor, const char *word, struct error *err) {
    struct text name = {word + 2, strcspn(word + 2, "=")};
    const char *attached = word[2 + name.size_bytes] ? word + 3 + name.size_bytes : NULL, *text;
    bool found;
    unsigned index = find_option(options->command, name, &found);
    if (!found && !attached && text_starts_with(name, TEXT("no-"))) {
        index = find_option(options->command, (struct text){name.data + 3, name.size_bytes - 3}, &found);
        found = found && options->command->options[index]->kind == OPTION_FLAG;
        attached = "false";
    }
    if (!found && text_is(name, "help")) {
        options->help_wanted = true;
        return STATUS_OK;
    }
    if (!found)
        return unknown_option(options, word, name, err);
    const struct option_spec *spec = options->command->options[index];
    if (spec->kind == OPTION_FLAG)
        return set_value(options, index, attached ? attached : "true", SOURCE_COMMAND_LINE, err);
    TRY(take_value(options, cursor, spec, attached, &text, err));
    return set_value(options, index, text, SOURCE_COMMAND_LINE, err);
}

/* "-qp TEXT", "-pTEXT": letters of flags, then at most one that takes a value. */
static enum status parse_short(struct options *options, struct cursor *cursor, const char *word, struct error *err) {
    for (const char *letter = word + 1; *letter; letter++) {
        unsigned index = 0;
        while (options->command->options[index] && options->command->options[index]->short_name != *letter)
            index++;
        const struct option_spec *spec = options->command->options[index];
        if (!spec && *letter == 'h') {
            options->help_wanted = true;
        } else if (!spec) {
            return unknown_option(options, word, text_of(word + 1), err);
        } else if (spec->kind == OPTION_FLAG) {
            TRY(set_value(options, index, "true", SOURCE_COMMAND_LINE, err));
        } else {
            const char *text;
            TRY(take_value(options, cursor, spec, letter[1] ? letter + 1 : NULL, &text, err));
            return set_value(options, index, text, SOURCE_COMMAND_LINE, err);
        }
    }
    return STATUS_OK;
}

static enum status parse_words(struct options *options, int argc, char **argv, struct error *err) {
    struct cursor cursor = {argv, argc, 0};
    bool only_arguments = false;
    while (cursor.at < argc) {
        const char *word = argv[cursor.at++];
        if (only_arguments || word[0] != '-' || word[1] == 0)
            options->arguments[options->argument_count++] = word;
        else if (strcmp(word, "--") == 0)
            only_arguments = true;
        else if (word[1] == '-')
            TRY(parse_long(options, &cursor, word, err));
        else
            TRY(parse_short(options, &cursor, word, err));
    }
    const struct command_spec *command = options->command;
    if (options->help_wanted)
        return STATUS_OK;
    if (options->argument_count < command->arguments_min)
        return error_set(err, STATUS_INVALID, "%s needs %s; see: sluice %s --help", command->name, command->arguments, command->name);
    if (options->argument_count > command->arguments_max)
        return error_set(err, STATUS_INVALID, "%s takes %u argument%s, '%.100s' is one too many; quote texts that hold spaces",
                         command->name, command->arguments_max, command->arguments_max == 1 ? "" : "s",
                         options->arguments[command->arguments_max]);
    return STATUS_OK;
}

/* ---- life cycle ---- */

enum status options_parse(const struct command_spec *command, int argc, char **argv, struct options **out, struct error *err) {
    CHECK(command != NULL && command->options != NULL && argc >= 0);
    *out = NULL;
    struct options *options = memory_alloc(sizeof(*options));
    if (!options)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the command line");
    options->command = command;
    options->argc = argc;
    while (command->options[options->option_count])
        options->option_count++;
    options->values = memory_alloc_array(options->option_count, sizeof(*options->values));
    options->arguments = memory_alloc_array((size_t)argc, sizeof(*options->arguments));
    enum status status = STATUS_OK;
    if (!options->values || !options->arguments)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for the command line");
    if (status == STATUS_OK)
        status = read_defaults(options, err);
    if (status == STATUS_OK)
        status = read_config(options, err);
    if (status == STATUS_OK)
        status = read_environment(options, err);
    if (status == STATUS_OK)
        status = parse_words(options, argc, argv, err);
    if (status == STATUS_OK)
        *out = options;
    else
        options_destroy(options);
    return status;
}

void options_destroy(struct options *options) {
    if (!options)
        return;
    for (unsigned i = 0; options->values && i < options->option_count; i++)
        memory_free(options->values[i].texts);
    memory_free(options->values);
    memory_free(options->arguments);
    memory_free(options->config);
    memory_free(options);
}

static bool is_known(const struct command_spec *const *commands, struct text name) {
    bool found = false;
    for (; *commands && !found; commands++)
        (void)find_option(*commands, name, &found);
    return found;
}

static enum status check_name(const struct command_spec *const *commands, const char *name, const char *where, struct error *err) {
    unsigned count = 0;
    while (commands[count])
        count++;
    if (is_known(commands, text_of(name)))
        return STATUS_OK;
    const char *nearest = nearest_name(commands, count, text_of(name));
    return error_set(err, STATUS_INVALID, "%s: no command has an option '%.100s'%s%s%s", where, name, nearest ? "; did you mean '" : "",
                     nearest ? nearest : "", nearest ? "'?" : "");
}

enum status options_check_names(const struct command_spec *const *commands, struct error *err) {
    char path[PATH_BYTES_MAX], *config, *name, *value, where[NAME_BYTES_MAX * 2];
    for (char **variable = environ; *variable; variable++) {
        struct text text = text_of(*variable);
        if (!text_starts_with(text, TEXT(PREFIX)) || text_starts_with(text, TEXT(TEST_PREFIX)))
            continue;
        char option[NAME_BYTES_MAX];
        size_t length = strcspn(*variable, "=") - strlen(PREFIX);
        snprintf(where, sizeof(where), "environment, %.*s", (int)(length < 60 ? length : 60) + (int)strlen(PREFIX), *variable);
        if (length >= sizeof(option))
            return error_set(err, STATUS_INVALID, "%s: no command has such an option", where);
        for (size_t i = 0; i < length; i++) {
            char c = (*variable)[strlen(PREFIX) + i];
            option[i] = c == '_' ? '-' : (char)tolower((unsigned char)c);
        }
        option[length] = 0;
        TRY(check_name(commands, option, where, err));
    }
    TRY(load_config(path, sizeof(path), &config, err));
    struct error problem = {0};
    enum status status = STATUS_OK;
    char *rest = config;
    for (unsigned line = 0; status == STATUS_OK && next_setting(&rest, &line, path, &name, &value, &problem);) {
        status = check_name(commands, name, path, err);
        if (status != STATUS_OK && err)
            (void)error_prefix(err, "line %u", line);
    }
    memory_free(config);
    if (status == STATUS_OK && problem.status != STATUS_OK)
        status = error_set(err, problem.status, "%s", problem.text);
    return status;
}

/* ---- values ---- */

static unsigned index_of(const struct options *options, const char *name) {
    bool found;
    unsigned index = find_option(options->command, text_of(name), &found);
    CHECK(found);
    return index;
}

static const struct value *value_of(const struct options *options, const char *name) { return &options->values[index_of(options, name)]; }

static const struct value *value_of_kind(const struct options *options, const char *name, enum option_kind kind) {
    unsigned index = index_of(options, name);
    CHECK(options->command->options[index]->kind == kind);
    return &options->values[index];
}

bool options_help_wanted(const struct options *options) { return options->help_wanted; }

unsigned options_argument_count(const struct options *options) { return options->argument_count; }

const char *options_argument(const struct options *options, unsigned index) {
    CHECK(index < options->argument_count);
    return options->arguments[index];
}

bool options_is_set(const struct options *options, const char *name) { return value_of(options, name)->source != SOURCE_DEFAULT; }

bool options_flag(const struct options *options, const char *name) { return value_of_kind(options, name, OPTION_FLAG)->as.flag; }

uint64_t options_u64(const struct options *options, const char *name) { return value_of_kind(options, name, OPTION_U64)->as.u64; }

double options_f64(const struct options *options, const char *name) { return value_of_kind(options, name, OPTION_F64)->as.f64; }

const char *options_text(const struct options *options, const char *name) { return value_of(options, name)->text; }

unsigned options_texts(const struct options *options, const char *name, const char *const **values) {
    const struct value *value = value_of(options, name);
    *values = value->texts;
    return value->texts_count;
}

bool options_size(const struct options *options, const char *name, uint64_t *size_bytes) {
    const struct value *value = value_of_kind(options, name, OPTION_SIZE);
    if (!value->text || value->is_word)
        return false;
    *size_bytes = value->as.u64;
    return true;
}

void options_print_config(const struct options *options, FILE *out) {
    for (unsigned i = 0; i < options->option_count; i++) {
        const struct option_spec *spec = options->command->options[i];
        const struct value *value = &options->values[i];
        const char *unset = spec->kind == OPTION_FLAG ? "false" : "";
        char from[PATH_BYTES_MAX];
        source_text(options, spec, value->source, from, sizeof(from));
        for (unsigned j = 0; j < (value->texts_count ? value->texts_count : 1); j++)
            fprintf(out, "%s = %s (%s)\n", spec->name, value->texts_count ? value->texts[j] : value->text ? value->text : unset, from);
    }
}
