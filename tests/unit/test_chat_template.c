/* test_chat_template: prompts against transformers 5.24, where templates come from, and what becomes of messages that do not fit. */
#include "model_fixture.h"
#include "template_fixture.h"

#include "text/chat_load.h"
#include "text/chat_messages.h"
#include "text/chat_template.h"

static struct model_folder folder;
static struct tm clock_time;

static int set_up(void **state) {
    (void)state;
    struct error err;
    model_folder_create(&folder);
    ASSERT_OK(chat_clock_parse("2025-03-09T14:05:07", &clock_time, &err), err);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    model_folder_destroy(&folder);
    return 0;
}

static json_t *parse(const char *text) {
    json_error_t problem;
    json_t *json = json_loads(text, 0, &problem);
    if (!json)
        fail_msg("%s: %s", text, problem.text);
    return json;
}

static struct chat_template *open_text(const char *source) {
    struct error err;
    struct chat_template *chat;
    ASSERT_OK(chat_template_open_text(text_of(source), "test", &chat, &err), err);
    return chat;
}

static struct chat_template *open_data(const char *name) {
    char path[1024];
    struct error err;
    struct chat_template *chat;
    ASSERT_OK(chat_template_open_file(template_path(name, path), &chat, &err), err);
    return chat;
}

/* Request with messages (JSON), and more keys as the request's JSON has them. */
struct asked {
    struct chat_request request;
    json_t *messages, *tools;
    struct chat_prompt prompt;
    struct error error;
};

static enum status ask(struct asked *a, const struct chat_template *chat, const char *messages, const char *tools) {
    a->messages = parse(messages);
    a->tools = tools ? parse(tools) : NULL;
    a->request.messages = a->messages;
    a->request.tools = a->tools;
    a->request.clock = &clock_time;
    enum status status = chat_template_render(chat, &a->request, &a->prompt, &a->error);
    assert_true((status == STATUS_OK) == (a->prompt.text != NULL));
    return status;
}

static void asked_deinit(struct asked *a) {
    chat_prompt_deinit(&a->prompt);
    json_decref(a->messages);
    json_decref(a->tools);
    *a = (struct asked){0};
}

static void assert_prompt(const struct chat_template *chat, struct chat_request request, const char *messages, const char *expected) {
    struct asked a = {.request = request};
    ASSERT_OK(ask(&a, chat, messages, NULL), a.error);
    assert_string_equal(a.prompt.text, expected);
    asked_deinit(&a);
}

static void assert_refused(const struct chat_template *chat, struct chat_request request, const char *messages, const char *words) {
    struct asked a = {.request = request};
    ASSERT_FAILS(ask(&a, chat, messages, NULL), STATUS_INVALID, a.error);
    if (!strstr(a.error.text, words))
        fail_msg("\"%s\" is not in: %s", words, a.error.text);
    asked_deinit(&a);
}

/* ---- transformers ---- */

static bool is_text(const struct chat_prompt *prompt, const json_t *text) {
    return text && text_equal((struct text){prompt->text, prompt->size_bytes}, json_text(text));
}

static void judge(const json_t *c, enum status status, const struct asked *a) {
    const json_t *error = json_object_get(c, "error"), *expected = json_object_get(c, "expected");
    const char *type = json_string_value(json_object_get(c, "error_type"));
    const char *place[] = {json_string_value(json_object_get(c, "template")), json_string_value(json_object_get(c, "case"))};
    bool other = is_text(&a->prompt, json_object_get(c, "joined")) || (error && is_text(&a->prompt, json_object_get(c, "alt")));
    if (status == STATUS_OK && !other && !is_text(&a->prompt, expected))
        fail_msg("%s %s: %s", place[0], place[1], a->prompt.text);
    if (status != STATUS_OK && (!error || (strcmp(type, "TemplateError") == 0 && !strstr(a->error.text, json_string_value(error)))))
        fail_msg("%s %s: %s", place[0], place[1], a->error.text);
}

static void run_case(const struct chat_template *chat, const json_t *c, const json_t *all_tools) {
    struct asked a = {.request = {.messages = json_object_get(c, "messages"),
                                  .tokens = json_object_get(c, "kwargs"),
                                  .variables = json_object_get(c, "kwargs"),
                                  .add_generation_prompt = json_is_true(json_object_get(c, "add_generation_prompt")),
                                  .continue_final_message = json_is_true(json_object_get(c, "continue_final_message")),
                                  .clock = &clock_time}};
    if (json_object_get(c, "tools"))
        a.request.tools = json_array_get(all_tools, (size_t)json_integer_value(json_object_get(c, "tools")));
    judge(c, chat_template_render(chat, &a.request, &a.prompt, &a.error), &a);
    chat_prompt_deinit(&a.prompt);
}

static void b2_prompts_equal_transformers(void **state) {
    (void)state;
    json_t *data = template_json("cases.json"), *c;
    const json_t *cases = json_object_get(data, "cases");
    struct chat_template *chat = NULL;
    const char *name = "";
    size_t i;
    json_array_foreach(cases, i, c) {
        const char *wanted = json_string_value(json_object_get(c, "template"));
        if (strcmp(name, wanted) != 0) {
            chat_template_close(chat);
            chat = open_data(wanted);
            name = wanted;
        }
        run_case(chat, c, json_object_get(data, "tools"));
    }
    assert_true(json_array_size(cases) > 100);
    chat_template_close(chat);
    json_decref(data);
}

/* ---- messages ---- */

static void b5_text_arguments(void **state) {
    (void)state;
    struct chat_template *chat =
        open_text("{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k, v in c.function.arguments | items %}"
                  "{{ k }}={{ v }};{% endfor %}{% endfor %}{% endfor %}");
    struct chat_request request = {0};
    assert_prompt(chat, request,
                  "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
                  "\"arguments\": \"{\\\"z\\\": \\\"Paris\\\", \\\"a\\\": [1.0]}\"}}]}]",
                  "z=Paris;a=[1.0];");
    const char *frame =
        "[{\"role\": \"user\", \"content\": \"\"}, {\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", "
        "\"arguments\": {}}}, {\"function\": {\"name\": \"f\", \"arguments\": \"%s\"}}]}]";
    static const char *const wrong[] = {"", "{\\\"a\\\": ", "[1]", "1", "null", "\\\"a\\\"", "nonsense", "{} {}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char messages[400];
        (void)snprintf(messages, sizeof messages, frame, wrong[i]);
        assert_refused(chat, request, messages, "messages[1].tool_calls[1]");
    }
    chat_template_close(chat);
    struct chat_template *wants_text = open_text("{{ '<' + messages[0].tool_calls[0].function.arguments + '>' }}");
    assert_prompt(wants_text, request,
                  "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"arguments\": {\"a\": \"\u00fc\"}}}]}]",
                  "<{\"a\": \"\u00fc\"}>");
    assert_prompt(wants_text, request, "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"arguments\": \"{\\\"a\\\":1}\"}}]}]",
                  "<{\"a\":1}>");
    chat_template_close(wants_text);
}

static void b6_developer(void **state) {
    (void)state;
    const char *messages = "[{\"role\": \"developer\", \"content\": \" Be brief.\"}, {\"role\": \"user\", \"content\": \"hi\"}]";
    struct chat_request request = {0}, strict = {.drop_nothing = true};
    struct chat_template *knows = open_text("{% for m in messages %}{{ m.role }}:{{ m.content | trim }};{% endfor %}");
    struct chat_template *refuses =
        open_text("{% for m in messages %}{% if m.role not in ['system', 'user'] %}{{ raise_exception('who?') }}"
                  "{% endif %}{{ m.role }}:{{ m.content }};{% endfor %}");
    struct chat_template *drops =
        open_text("{% for m in messages if m.role in ['system', 'user'] %}{{ m.role }}:{{ m.content }};{% endfor %}");
    assert_prompt(knows, strict, messages, "developer:Be brief.;user:hi;");
    assert_prompt(refuses, request, messages, "system: Be brief.;user:hi;");
    assert_refused(refuses, request, "[{\"role\": \"banana\", \"content\": \"\"}]", "who?");
    assert_prompt(drops, request, messages, "user:hi;"); /* as transformers */
    assert_prompt(drops, strict, messages, "system: Be brief.;user:hi;");
    chat_template_close(knows);
    chat_template_close(refuses);
    chat_template_close(drops);
}

static void b7_template_refuses_system(void **state) {
    (void)state;
    struct chat_template *gemma = open_data("google-gemma-2-2b-it.jinja");
    assert_refused(gemma, (struct chat_request){.add_generation_prompt = true},
                   "[{\"role\": \"system\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": \"b\"}]", "System role not supported");
    chat_template_close(gemma);
}

static void b8_late_system(void **state) {
    (void)state;
    const char *late = "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"system\", \"content\": \"b\"}, "
                       "{\"role\": \"user\", \"content\": \"c\"}]";
    const char *two = "[{\"role\": \"developer\", \"content\": \"a\"}, {\"role\": \"system\", \"content\": \"b\"}, "
                      "{\"role\": \"user\", \"content\": \"c\"}]";
    struct chat_request strict = {.drop_nothing = true};
    struct chat_template *qwen = open_data("Qwen3.5-4B.jinja"), *oss = open_data("openai-gpt-oss-120b.jinja");
    assert_refused(qwen, strict, late, "System message must be at the beginning");
    assert_refused(qwen, strict, two, "Unexpected message role"); /* the first failure stands, not that of a later attempt */
    assert_refused(oss, strict, late, "messages[1]");
    chat_template_close(qwen);
    chat_template_close(oss);
    struct chat_template *quotes = open_text("{{ messages | map(attribute='content') | list | tojson }}");
    assert_prompt(quotes, strict, "[{\"role\": \"user\", \"content\": \"a\\nb\"}, {\"role\": \"system\", \"content\": \"\\\"\"}]",
                  "[\"a\\nb\", \"\\\"\"]"); /* changed, not left out */
    chat_template_close(quotes);
    struct chat_template *first = open_text("{{ messages[0].content }}");
    assert_refused(first, strict, "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"tool\", \"content\": \"b\"}]", "role tool");
    assert_prompt(first, strict, "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]", "a");
    chat_template_close(first);
}

static void b16_prefill_with_parts(void **state) {
    (void)state;
    struct chat_template *qwen = open_data("Qwen-Qwen3-0.6B.jinja");
    struct chat_request request = {.continue_final_message = true};
    const char *text = "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"The answer is\"}]";
    const char *parts =
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"q\"}]}, {\"role\": \"assistant\", \"content\": "
        "[{\"type\": \"text\", \"text\": \"The answer\"}, {\"type\": \"text\", \"text\": \" is\"}]}]";
    struct asked a = {.request = request}, b = {.request = request};
    ASSERT_OK(ask(&a, qwen, text, NULL), a.error);
    ASSERT_OK(ask(&b, qwen, parts, NULL), b.error);
    assert_string_equal(a.prompt.text, b.prompt.text);
    assert_true(text_ends_with((struct text){a.prompt.text, a.prompt.size_bytes}, TEXT("The answer is")));
    asked_deinit(&a);
    asked_deinit(&b);
    chat_template_close(qwen);
    struct chat_template *changes = open_text("{{ messages[0].content | upper }}");
    assert_refused(changes, request, "[{\"role\": \"assistant\", \"content\": \"abc\"}]", "cannot be continued");
    chat_template_close(changes);
    struct chat_template *keeps = open_text("<{% for m in messages %}{{ m.content }}|{% endfor %}");
    assert_prompt(keeps, request, "[{\"role\": \"assistant\", \"content\": \" abc \\n\"}]", "< abc \n");
    assert_prompt(keeps, request, "[{\"role\": \"assistant\", \"content\": \"\"}]", "<");
    assert_refused(keeps, request, "[{\"role\": \"assistant\", \"tool_calls\": []}]", "no text to continue");
    request.add_generation_prompt = true;
    assert_refused(keeps, request, text, "exclude each other");
    chat_template_close(keeps);
}

static void messages_are_prepared(void **state) {
    (void)state;
    struct chat_request request = {0};
    struct chat_template *print = open_text("{{ messages[0] }}");
    assert_prompt(print, request, "[{\"role\": \"user\", \"content\": null, \"x\": [null]}]", "{'role': 'user', 'x': [None]}");
    assert_prompt(print, request, "[{\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"r\"}]",
                  "{'thinking': 'r', 'role': 'assistant', 'content': 'a', 'reasoning_content': 'r'}");
    assert_prompt(print, request, "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"image\"}]}]",
                  "{'role': 'user', 'content': [{'type': 'text', 'text': 'a'}, {'type': 'image'}]}");
    static const char *const wrong[][2] = {
        {"[]", "at least one message"},     {"{}", "must be a list"}, {"[1]", "messages[0]"}, {"[{\"role\": \"user\"}, {}]", "messages[1]"},
        {"[{\"role\": 7}]", "messages[0]"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_refused(print, request, wrong[i][0], wrong[i][1]);
    chat_template_close(print);
    struct chat_template *adds = open_text("{{ 'x' + messages[0].content }}"); /* content that is missing counts as empty */
    assert_prompt(adds, request, "[{\"role\": \"assistant\", \"content\": null}]", "x");
    chat_template_close(adds);
    struct chat_template *variables = open_text("{{ tools }} {{ documents }} {{ add_generation_prompt }} {{ a }} {{ b }}");
    json_t *values = parse("{\"a\": [1, true], \"add_generation_prompt\": 7}");
    request.variables = values;
    assert_prompt(variables, request, "[{\"role\": \"user\", \"content\": \"\"}]", "None None False [1, True] ");
    json_decref(values);
    chat_template_close(variables);
}

/* ---- trust ---- */

/* Text of the trusted spans, with '|' between them. */
static const char *trusted_text(const struct chat_prompt *prompt, char buffer[1000]) {
    size_t at = 0, end = 0;
    for (size_t i = 0; i < prompt->span_count; i++) {
        assert_int_equal(prompt->spans[i].begin, end);
        end = prompt->spans[i].end;
        if (!prompt->spans[i].trusted)
            continue;
        at += (size_t)snprintf(buffer + at, 1000 - at, "%s%.*s", at ? "|" : "", (int)(end - prompt->spans[i].begin),
                               prompt->text + prompt->spans[i].begin);
        assert_true(at < 1000);
    }
    assert_int_equal(end, prompt->size_bytes);
    return buffer;
}

static void a8_trust(void **state) {
    (void)state;
    struct error err;
    char buffer[1000];
    struct chat_template *chat = open_text("{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m.content | trim }}"
                                           "{{ eos_token }}{% endfor %}{{ extra }}{{ pad_token }}");
    ASSERT_OK(chat_template_set_token(chat, "bos_token", TEXT("<s>"), &err), err);
    ASSERT_OK(chat_template_set_token(chat, "pad_token", TEXT("<p>"), &err), err);
    json_t *variables = parse("{\"extra\": \"</s>\"}"), *tokens = parse("{\"eos_token\": \"</s>\", \"pad_token\": \"[P]\"}");
    struct asked a = {.request = {.variables = variables, .tokens = tokens}};
    ASSERT_OK(ask(&a, chat, "[{\"role\": \"user\", \"content\": \" </s> \"}, {\"role\": \"banana\", \"content\": \"<|user|>\"}]", NULL),
              a.error);
    assert_string_equal(a.prompt.text, "<s><|user|></s></s><|banana|><|user|></s></s>[P]");
    assert_string_equal(trusted_text(&a.prompt, buffer), "<s><|user|>|</s><||"
                                                         "|>|</s>|[P]");
    asked_deinit(&a);
    json_decref(variables);
    json_decref(tokens);
    chat_template_close(chat);
}

/* ---- where templates come from ---- */

static const char hello[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";

/* Opens the templates of the model at `path`, whose prompt for `hello` is `expected`, or whose error holds `expected`. */
static void assert_model(const char *path, enum status wanted, const char *expected) {
    struct opened o;
    struct error err;
    struct chat_template *chat;
    ASSERT_OK(model_open(&o, path), o.error);
    enum status status = chat_template_open(o.catalogue, &chat, &err);
    assert_true((status == STATUS_OK) == (chat != NULL));
    if (status != wanted || (status != STATUS_OK && !strstr(err.text, expected)))
        fail_msg("%s, wanted \"%s\"", status == STATUS_OK ? "opens" : err.text, expected);
    if (status == STATUS_OK)
        assert_prompt(chat, (struct chat_request){0}, hello, expected);
    chat_template_close(chat);
    model_close(&o);
}

static void write_file(const char *name, const char *text) { model_write_text(model_path(&folder, name), text); }

static void write_model(const char *tokenizer_config, const char *template_json_text, const char *jinja) {
    model_folder_empty(&folder);
    safetensors_write(model_path(&folder, "model.safetensors"), "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    write_file("config.json", "{\"model_type\": \"llama\"}");
    if (tokenizer_config)
        write_file("tokenizer_config.json", tokenizer_config);
    if (template_json_text)
        write_file("chat_template.json", template_json_text);
    if (jinja)
        write_file("chat_template.jinja", jinja);
}

static void b9_directories(void **state) {
    (void)state;
    const char *config = "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": null, \"chat_template\": \"config {{ bos_token }}\"}";
    write_model(NULL, NULL, NULL);
    assert_model(folder.path, STATUS_NOT_FOUND, "--chat-template");
    write_model("{\"bos_token\": \"<s>\", \"chat_template\": null}", "{}", NULL);
    assert_model(folder.path, STATUS_NOT_FOUND, "chat_template.jinja, chat_template.json and tokenizer_config.json");
    write_model(config, NULL, NULL);
    assert_model(folder.path, STATUS_OK, "config <s>");
    write_model(config, "{\"chat_template\": \"json {{ bos_token }}\"}", NULL);
    assert_model(folder.path, STATUS_OK, "json <s>");
    write_model(config, "{\"chat_template\": \"json\"}", "jinja {{ bos_token }}{{ eos_token }}");
    assert_model(folder.path, STATUS_OK, "jinja <s>");
    write_model(config, "{\"chat_template\": {\"default\": \"of an object\"}}", NULL);
    assert_model(folder.path, STATUS_OK, "of an object");
    write_model("{\"chat_template\": [{\"name\": \"rag\", \"template\": \"r\"}, {\"name\": \"default\", \"template\": \"d\"}]}", NULL,
                NULL);
    assert_model(folder.path, STATUS_OK, "d");
    write_model("{\"chat_template\": [{\"name\": \"only\", \"template\": \"o\"}]}", NULL, NULL);
    assert_model(folder.path, STATUS_OK, "o");
    write_model("{\"chat_template\": [{\"name\": \"rag\", \"template\": \"r\"}, {\"name\": \"x\", \"template\": \"x\"}]}", NULL, NULL);
    assert_model(folder.path, STATUS_UNSUPPORTED, "rag, x");
    write_model("{\"chat_template\": [{\"name\": \"rag\"}]}", NULL, NULL);
    assert_model(folder.path, STATUS_CORRUPT, "chat_template[0]");
    write_model("{\"chat_template\": {\"default\": 1}}", NULL, NULL);
    assert_model(folder.path, STATUS_CORRUPT, "default");
}

/* B3: a template that does not compile, or not render, is never replaced by another one that is there too. */
static void b3_no_fallback(void **state) {
    (void)state;
    const char *config = "{\"chat_template\": \"good\"}";
    write_model(config, NULL, "bad {% frobnicate %}");
    assert_model(folder.path, STATUS_CORRUPT, "unknown tag 'frobnicate'");
    write_model(config, "{\"chat_template\": \"{{\"}", NULL);
    assert_model(folder.path, STATUS_CORRUPT, "line 1");
    write_model(config, "{\"chat_template\": ", NULL);
    assert_model(folder.path, STATUS_CORRUPT, "chat_template.json");
    struct chat_template *date = open_text("{{ strftime_now(\"%Y-%m-%d\") }}");
    assert_prompt(date, (struct chat_request){0}, hello, "2025-03-09");
    chat_template_close(date);
    struct chat_template *fails = open_text("{{ nosuch() }}");
    assert_refused(fails, (struct chat_request){0}, hello, "'nosuch' is undefined");
    chat_template_close(fails);
}

static void gguf_model(const char *const entries[][2], size_t count) {
    struct gguf_file g;
    gguf_init_small(&g);
    for (size_t i = 0; i < count; i++)
        gguf_text(&g, entries[i][0], entries[i][1]);
    gguf_key(&g, "tokenizer.ggml.tokens", 9);
    put_u32(&g.entries, 8);
    put_u64(&g.entries, 2);
    put_text(&g.entries, "<unk>");
    put_text(&g.entries, "<s>");
    gguf_u32(&g, "tokenizer.ggml.bos_token_id", 1);
    gguf_u32(&g, "tokenizer.ggml.eos_token_id", 70000); /* not in the list: no variable */
    model_folder_empty(&folder);
    gguf_write(&g, model_path(&folder, "m.gguf"));
    gguf_deinit(&g);
}

static void b9_gguf(void **state) {
    (void)state;
    static const char *const one[][2] = {{"tokenizer.chat_template", "{{ bos_token }}{{ eos_token }}gguf"}};
    static const char *const named[][2] = {{"tokenizer.chat_template.tool_use", "with tools"}, {"tokenizer.chat_template", "without"}};
    static const char *const foreign[][2] = {{"tokenizer.chat_template", "{{- if .System }}{{ .System }}{{ end }}"}};
    gguf_model(NULL, 0);
    assert_model(model_path(&folder, "m.gguf"), STATUS_NOT_FOUND, "tokenizer.chat_template");
    gguf_model(one, 1);
    assert_model(model_path(&folder, "m.gguf"), STATUS_OK, "<s>gguf");
    gguf_model(named, 2);
    assert_model(model_path(&folder, "m.gguf"), STATUS_OK, "without");
    gguf_model(foreign, 1); /* B17 */
    assert_model(model_path(&folder, "m.gguf"), STATUS_CORRUPT, "m.gguf (default): line 1, column 21");
}

static void tools_choose_a_template(void **state) {
    (void)state;
    struct error err;
    struct chat_template *chat;
    write_model(NULL, "{\"chat_template\": {\"default\": \"d\", \"tool_use\": \"t{{ tools | length }}\"}}", NULL);
    ASSERT_OK(chat_template_open_file(model_path(&folder, "chat_template.json"), &chat, &err), err);
    struct asked a = {.request = {0}};
    ASSERT_OK(ask(&a, chat, hello, "[{}, {}]"), a.error);
    assert_string_equal(a.prompt.text, "t2");
    asked_deinit(&a);
    assert_prompt(chat, (struct chat_request){0}, hello, "d");
    assert_true(text_is(chat_template_source(chat, false), "d"));
    assert_true(text_starts_with(chat_template_source(chat, true), TEXT("t")));
    chat_template_close(chat);
    ASSERT_FAILS(ask(&a, chat = open_text("x"), hello, "{}"), STATUS_INVALID, a.error);
    asked_deinit(&a);
    chat_template_close(chat);
}

static void files(void **state) {
    (void)state;
    struct error err;
    struct chat_template *chat;
    write_model("{\"bos_token\": \"<s>\", \"chat_template\": \"config\"}", NULL, NULL);
    write_file("my.template", "my {{ bos_token }}");
    write_file("none.json", "{\"a\": 1}");
    ASSERT_OK(chat_template_open_file(model_path(&folder, "my.template"), &chat, &err), err);
    assert_prompt(chat, (struct chat_request){0}, hello, "my <s>");
    chat_template_close(chat);
    ASSERT_OK(chat_template_open_file(folder.path, &chat, &err), err);
    assert_prompt(chat, (struct chat_request){0}, hello, "config");
    chat_template_close(chat);
    ASSERT_FAILS(chat_template_open_file(model_path(&folder, "none.json"), &chat, &err), STATUS_NOT_FOUND, err);
    ASSERT_FAILS(chat_template_open_file(model_path(&folder, "absent"), &chat, &err), STATUS_NOT_FOUND, err);
    assert_null(chat);
    write_file("my.template", "\xff{{ x");
    ASSERT_FAILS(chat_template_open_file(model_path(&folder, "my.template"), &chat, &err), STATUS_CORRUPT, err);
    assert_non_null(strstr(err.text, "my.template"));
}

static void clocks(void **state) {
    (void)state;
    struct tm time;
    struct error err;
    ASSERT_OK(chat_clock_parse("2024-02-29T23:59:59", &time, &err), err);
    assert_int_equal(time.tm_wday, 4);
    assert_int_equal(time.tm_yday, 59);
    static const char *const wrong[] = {"",
                                        "2025-03-09",
                                        "2025-02-29T00:00:00",
                                        "2025-03-09T24:00:00",
                                        "2025-03-09T14:05:07Z",
                                        "2025-03-09 14:05:07",
                                        "+025-03-09T14:05:07"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ASSERT_FAILS(chat_clock_parse(wrong[i], &time, &err), STATUS_INVALID, err);
}

/* 4000 texts that stand in the prompt in another form. */
static void long_conversations_are_linear(void **state) {
    (void)state;
    struct chat_template *chat = open_text("{% for m in messages %}<{{ m.role }}>{{ m.content | tojson }}{% endfor %}");
    json_t *messages = json_array();
    for (unsigned i = 0; i < 4000; i++)
        assert_int_equal(json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "tool", "content", "a \"quoted\" text")), 0);
    struct chat_request request = {.messages = messages, .drop_nothing = true};
    struct chat_prompt prompt;
    struct error err;
    ASSERT_OK(chat_template_render(chat, &request, &prompt, &err), err);
    assert_int_equal(prompt.size_bytes, 4000 * strlen("<tool>\"a \\\"quoted\\\" text\""));
    chat_prompt_deinit(&prompt);
    json_decref(messages);
    chat_template_close(chat);
}

/* The n-th allocation fails, for every n: an error, and nothing leaks. */
static void memory_runs_out(void **state) {
    (void)state;
    static const char source[] = "{% macro f(x) %}[{{ x | upper }}]{% endmacro %}{% set ns = namespace(n=0) %}{% for m in messages %}"
                                 "{{ f(m.content) }}{% set ns.n = ns.n + m.content | length %}{{ m | tojson }}{% endfor %}{{ ns.n }}";
    json_t *messages = parse("[{\"role\": \"developer\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}, "
                             "{\"role\": \"assistant\", \"content\": \"b\", \"tool_calls\": [{\"function\": {\"arguments\": \"{}\"}}]}]");
    struct chat_request request = {.messages = messages, .drop_nothing = true, .clock = &clock_time};
    uint64_t heap_bytes = memory_owner_bytes(MEMORY_OTHER);
    uint64_t number = 1;
    for (bool done = false; !done; number++) {
        struct chat_template *chat;
        struct chat_prompt prompt = {0};
        struct error err = {0};
        uint64_t refusals = memory_refusals();
        memory_fail_after(number);
        enum status status = chat_template_open_text(text_of(source), "test", &chat, &err);
        if (status == STATUS_OK)
            status = chat_template_render(chat, &request, &prompt, &err);
        memory_fail_after(0);
        done = memory_refusals() == refusals;
        if (status != (done ? STATUS_OK : STATUS_NO_MEMORY))
            fail_msg("allocation %u: %s: %s", (unsigned)number, status_name(status), err.text);
        chat_prompt_deinit(&prompt);
        chat_template_close(chat);
        assert_int_equal(memory_owner_bytes(MEMORY_OTHER), heap_bytes);
    }
    assert_true(number > 30);
    json_decref(messages);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(b2_prompts_equal_transformers),
        cmocka_unit_test(b3_no_fallback),
        cmocka_unit_test(b5_text_arguments),
        cmocka_unit_test(b6_developer),
        cmocka_unit_test(b7_template_refuses_system),
        cmocka_unit_test(b8_late_system),
        cmocka_unit_test(b9_directories),
        cmocka_unit_test(b9_gguf),
        cmocka_unit_test(b16_prefill_with_parts),
        cmocka_unit_test(messages_are_prepared),
        cmocka_unit_test(a8_trust),
        cmocka_unit_test(tools_choose_a_template),
        cmocka_unit_test(files),
        cmocka_unit_test(clocks),
        cmocka_unit_test(long_conversations_are_linear),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
