/*
 * app_form: the options that give an answer a form, and ids as text.
 */
#include <string.h>

#include "app.h"
#include "base/json.h"
#include "base/memory.h"

const struct option_spec option_schema = {
    .name = "schema", .kind = OPTION_TEXT, .value = "FILE", .help = "the answer is JSON that is valid under the JSON schema in FILE"};
const struct option_spec option_json = {.name = "json", .kind = OPTION_FLAG, .help = "the answer is a JSON object"};
const struct option_spec option_regex = {
    .name = "regex", .kind = OPTION_TEXT, .value = "TEXT", .help = "the answer is what this regular expression matches as a whole"};
const struct option_spec option_grammar = {
    .name = "grammar", .kind = OPTION_TEXT, .value = "FILE", .help = "the answer is what rule root of the GBNF grammar in FILE matches"};
const struct option_spec option_choice = {.name = "choice",
                                          .kind = OPTION_TEXT,
                                          .repeats = true,
                                          .value = "TEXT",
                                          .help = "the answer is one of these texts; given once for each"};

static sluice_status fail(sluice_error *error, sluice_status status, const char *text) {
    error->status = status;
    (void)snprintf(error->text, sizeof error->text, "%s", text);
    return status;
}

static sluice_status write_choices(const char *const *choices, unsigned count, char **text, sluice_error *error) {
    json_t *list = json_array();
    bool valid = true;
    for (unsigned i = 0; i < count; i++)
        valid = valid && json_array_append_new(list, json_string(choices[i])) == 0;
    *text = valid ? json_dumps(list, 0) : NULL;
    json_decref(list);
    return *text ? SLUICE_OK : fail(error, SLUICE_INVALID, "--choice: the text is no UTF-8");
}

sluice_status app_read_form(const struct options *options, sluice_form *form, char **text, bool *given, sluice_error *error) {
    const char *const *choices;
    unsigned choice_count = options_texts(options, "choice", &choices);
    const char *schema = options_text(options, "schema"), *regex = options_text(options, "regex"),
               *grammar = options_text(options, "grammar");
    bool json = options_flag(options, "json");
    size_t size;
    *form = (sluice_form){.kind = SLUICE_FORM_JSON};
    *text = NULL;
    *given = schema || regex || grammar || json || choice_count > 0;
    if ((schema != NULL) + (regex != NULL) + (grammar != NULL) + json + (choice_count > 0) > 1)
        return fail(error, SLUICE_INVALID, "an answer has one form: give one of --schema, --json, --regex, --grammar and --choice");
    sluice_status status = SLUICE_OK;
    if (schema || grammar) {
        form->kind = schema ? SLUICE_FORM_SCHEMA : SLUICE_FORM_GRAMMAR;
        status = app_read_text(schema ? schema : grammar, text, &size, error);
        if (status == SLUICE_OK && memchr(*text, 0, size))
            status = fail(error, SLUICE_INVALID, "the file of the form holds a byte 0: it is no text");
    } else if (choice_count > 0) {
        form->kind = SLUICE_FORM_CHOICES;
        status = write_choices(choices, choice_count, text, error);
    } else if (regex) {
        form->kind = SLUICE_FORM_REGEX;
    }
    form->text = regex ? regex : *text;
    return status;
}

bool app_parse_ids(const char *text, size_t size, uint32_t *ids, size_t *count, struct text *bad) {
    *count = 0;
    for (size_t i = 0; i < size;) {
        size_t begin = i;
        while (i < size && !strchr(" ,\t\r\n", text[i]))
            i++;
        uint64_t id;
        *bad = (struct text){text + begin, i - begin};
        if (i > begin && (!text_parse_u64(*bad, &id) || id > UINT32_MAX))
            return false;
        if (i > begin)
            ids[(*count)++] = (uint32_t)id;
        i += i == begin;
    }
    return true;
}
