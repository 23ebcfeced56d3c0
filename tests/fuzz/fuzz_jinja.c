/* fuzz_jinja: any bytes as a template, rendered with a small conversation; the output must be UTF-8 and its spans must tile it. */
#include "fuzz.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"
#include "text/jinja.h"
#include "text/unicode.h"

static const char messages[] =
    "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"h\\u00e9 <|x|> </think> 'q' \\\"d\\\"\\n\"},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, "
    "true]}}}]}]";

static void check_output(const struct jinja_output *output) {
    size_t at = 0;
    CHECK(utf8_valid_bytes(output->text) == output->text.size_bytes);
    for (size_t i = 0; i < output->span_count; i++) {
        CHECK(output->spans[i].begin == at && output->spans[i].end > at);
        CHECK(i == 0 || output->spans[i].trusted != output->spans[i - 1].trusted);
        at = output->spans[i].end;
    }
    CHECK(at == output->text.size_bytes);
}

static void render(const struct jinja_template *template, const json_t *json, bool allow_mutation) {
    struct jinja_limits limits = {
        .steps = 100000, .output_bytes = 1 << 18, .memory_bytes = 16 << 20, .depth = 200, .allow_mutation = allow_mutation};
    struct jinja_run *run;
    struct jinja_output output;
    struct jinja_error problem;
    struct tm clock = {.tm_year = 125, .tm_mon = 2, .tm_mday = 9};
    CHECK(jinja_run_create(&limits, &run, NULL) == STATUS_OK);
    jinja_set_clock(run, &clock);
    jinja_set_json(run, "messages", json, (const char *const[]){"user", NULL});
    jinja_set_text(run, "bos_token", TEXT("<s>"), true);
    jinja_set_bool(run, "add_generation_prompt", true);
    jinja_set_none(run, "tools");
    if (jinja_render(run, template, &output, &problem) == STATUS_OK)
        check_output(&output);
    else
        CHECK(problem.failure != JINJA_OK && problem.line > 0);
    jinja_run_destroy(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
    json_t *json;
    struct jinja_template *template;
    struct jinja_error problem;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    if (size_bytes > 8192)
        return 0;
    if (jinja_compile((struct text){(const char *)data, size_bytes}, &template, &problem) == STATUS_OK) {
        CHECK(json_parse(TEXT(messages), "messages", sizeof messages, &json, NULL) == STATUS_OK);
        render(template, json, false);
        render(template, json, true);
        json_decref(json);
    } else {
        CHECK(template == NULL && problem.message[0] != 0);
    }
    jinja_template_destroy(template);
    CHECK(memory_owner_bytes(MEMORY_OTHER) == before);
    return 0;
}
