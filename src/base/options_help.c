/* options_help: the table of options as --help text and as a man page, so that neither can differ from what is parsed. */
#include "base/options.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define COLUMNS 100
#define HELP_INDENT 28

/* ", from 1 to 64", ", default 8" and the like, in brackets; empty when there is nothing to say. */
static void notes_text(const struct option_spec *spec, char *buffer, size_t buffer_bytes) {
    char choices[160] = "", range[80] = "", initial[160] = "", *parts[] = {choices, range, initial};
    if (spec->choices)
        snprintf(choices, sizeof(choices), "%s%s", spec->kind == OPTION_SIZE ? "or " : "", spec->choices);
    if (spec->minimum != 0 || spec->maximum != 0)
        snprintf(range, sizeof(range), "%.15g to %.15g", spec->minimum, spec->maximum);
    if (spec->initial)
        snprintf(initial, sizeof(initial), "default %s", spec->initial);
    size_t used = 0;
    buffer[0] = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i][0] && used < buffer_bytes)
            used += (size_t)snprintf(buffer + used, buffer_bytes - used, "%s%s", used ? "; " : " (", parts[i]);
    if (used && used < buffer_bytes)
        snprintf(buffer + used, buffer_bytes - used, ")");
}

/* Prints words from column `column` on, wrapped at COLUMNS, later lines indented. */
static void print_wrapped(const char *text, size_t column, size_t indent, FILE *out) {
    bool first = true;
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (!first && column + 1 + word > COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", (int)word, text);
        column += word + !first;
        first = false;
        text += word;
        for (; *text == ' ' || *text == '\n'; text++)
            if (*text == '\n') {
                fprintf(out, "\n%*s", (int)indent, "");
                column = indent;
                first = true;
            }
    }
    fputc('\n', out);
}

static void print_option(const struct option_spec *spec, FILE *out) {
    char left[HELP_INDENT * 3], help[1024], notes[512];
    char letter[] = {'-', spec->short_name, ',', ' ', 0};
    int used = snprintf(left, sizeof(left), "  %s--%s%s%s", spec->short_name ? letter : "    ", spec->name, spec->value ? " " : "",
                        spec->value ? spec->value : "");
    CHECK(used > 0 && (size_t)used < sizeof(left));
    notes_text(spec, notes, sizeof(notes));
    snprintf(help, sizeof(help), "%s%s", spec->help, notes);
    if (used + 2 > HELP_INDENT)
        fprintf(out, "%s\n%*s", left, HELP_INDENT, "");
    else
        fprintf(out, "%-*s", HELP_INDENT, left);
    print_wrapped(help, HELP_INDENT, HELP_INDENT, out);
}

void options_print_help(const struct command_spec *command, FILE *out) {
    fprintf(out, "Usage: sluice %s [options]%s%s\n\n", command->name, command->arguments ? " " : "",
            command->arguments ? command->arguments : "");
    print_wrapped(command->summary, 0, 0, out);
    if (command->details) {
        fputc('\n', out);
        print_wrapped(command->details, 0, 0, out);
    }
    fprintf(out, "\nOptions:\n");
    for (const struct option_spec *const *option = command->options; *option; option++)
        print_option(*option, out);
    fprintf(out, "%-*s%s\n", HELP_INDENT, "  -h, --help", "Prints this text.");
    fprintf(out, "\nOptions can also be set in the environment (--max-tokens as SLUICE_MAX_TOKENS) and in\n"
                 "~/.config/sluice/config (lines such as: max-tokens = 100). --print-config shows what counts and why.\n");
}

/* ---- man page ---- */

/* Text as roff: '-' and '\' escaped, no line begins with a control character. */
static enum status append_roff(struct byte_buffer *out, const char *text, struct error *err) {
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            TRY(byte_buffer_append_text(out, TEXT("\\&"), err));
        if (*text == '-')
            TRY(byte_buffer_append_text(out, TEXT("\\-"), err));
        else if (*text == '\\')
            TRY(byte_buffer_append_text(out, TEXT("\\e"), err));
        else
            TRY(byte_buffer_append(out, text, 1, err));
        line_start = *text == '\n';
    }
    return STATUS_OK;
}

static enum status append_option(const struct option_spec *spec, struct byte_buffer *out, struct error *err) {
    char head[160], notes[512];
    notes_text(spec, notes, sizeof(notes));
    char letter[] = {'-', spec->short_name, ',', ' ', 0};
    snprintf(head, sizeof(head), "%s--%s", spec->short_name ? letter : "", spec->name);
    TRY(byte_buffer_append_text(out, TEXT(".TP\n\\fB"), err));
    TRY(append_roff(out, head, err));
    TRY(byte_buffer_append_text(out, TEXT("\\fR"), err));
    if (spec->value)
        TRY(byte_buffer_printf(out, err, " \\fI%s\\fR", spec->value));
    TRY(byte_buffer_append_text(out, TEXT("\n"), err));
    TRY(append_roff(out, spec->help, err));
    TRY(append_roff(out, notes, err));
    return byte_buffer_append_text(out, TEXT("\n"), err);
}

static enum status append_command(const struct command_spec *command, struct byte_buffer *out, struct error *err) {
    TRY(byte_buffer_printf(out, err, ".SS \"sluice %s [options]%s%s\"\n", command->name, command->arguments ? " " : "",
                           command->arguments ? command->arguments : ""));
    TRY(append_roff(out, command->summary, err));
    TRY(byte_buffer_append_text(out, TEXT("\n"), err));
    if (command->details) {
        TRY(byte_buffer_append_text(out, TEXT(".PP\n"), err));
        TRY(append_roff(out, command->details, err));
        TRY(byte_buffer_append_text(out, TEXT("\n"), err));
    }
    for (const struct option_spec *const *option = command->options; *option; option++)
        TRY(append_option(*option, out, err));
    return STATUS_OK;
}

enum status options_man_page(const struct command_spec *const *commands, struct byte_buffer *out, struct error *err) {
    TRY(byte_buffer_append_text(out,
                                TEXT(".TH SLUICE 1\n.SH NAME\nsluice \\- runs language models bigger than memory\n"
                                     ".SH SYNOPSIS\n\\fBsluice\\fR \\fIcommand\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]\n.SH COMMANDS\n"),
                                err));
    for (; *commands; commands++)
        TRY(append_command(*commands, out, err));
    return byte_buffer_append_text(out,
                                   TEXT(".SH ENVIRONMENT\nEvery option can be set as SLUICE_ and its name in capitals, with '_' for '\\-': "
                                        "SLUICE_MAX_TOKENS. The command line counts more.\n"
                                        ".SH FILES\n.TP\n~/.config/sluice/config\nLines \"name = value\"; '#' begins a comment line. "
                                        "Environment and command line count more.\n"),
                                   err);
}
