/* test_reply_parser: raw replies of every family against messages written down by hand, whole and in pieces. */
#include "template_fixture.h"

#include "base/memory.h"
#include "text/reply_parser.h"

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"lookup\", \"parameters\": {\"type\": \"object\", \"properties\": "
    "{\"city\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\"}}}}}]";

static void push_all(struct reply_parser *parser, struct text raw, size_t piece_bytes, struct reply_output *out) {
    struct error err;
    for (size_t at = 0; at < raw.size_bytes; at += piece_bytes) {
        size_t left = raw.size_bytes - at;
        ASSERT_OK(reply_parser_push(parser, (struct text){raw.data + at, left < piece_bytes ? left : piece_bytes}, out, &err), err);
    }
}

static void parse(const struct reply_parser_options *options, struct text raw, size_t piece_bytes, struct reply_output *out) {
    struct error err;
    struct reply_parser *parser;
    reply_output_init(out);
    ASSERT_OK(reply_parser_create(options, &parser, &err), err);
    push_all(parser, raw, piece_bytes, out);
    ASSERT_OK(reply_parser_finish(parser, out, &err), err);
    reply_parser_destroy(parser);
}

static struct text trimmed(struct text text, bool trim) {
    const char *space = " \t\r\n";
    while (trim && text.size_bytes > 0 && strchr(space, text.data[text.size_bytes - 1]))
        text.size_bytes--;
    while (trim && text.size_bytes > 0 && strchr(space, text.data[0]))
        text = (struct text){text.data + 1, text.size_bytes - 1};
    return text;
}

static void assert_text(struct text got, struct text wanted, const char *what, const char *raw) {
    if (!text_equal(got, wanted))
        fail_msg("%s of: %s\ngot:    %.*s\nwanted: %.*s", what, raw, (int)got.size_bytes, got.data ? got.data : "", (int)wanted.size_bytes,
                 wanted.data);
}

static void assert_call(const struct reply_call *got, const json_t *wanted, const char *raw) {
    json_t *arguments = json_loads(got->arguments, JSON_DECODE_ANY, NULL);
    if (!arguments || !json_equal(arguments, json_object_get(wanted, "arguments")))
        fail_msg("arguments of: %s\ngot: %s", raw, got->arguments);
    assert_text(text_of(got->name), json_text(json_object_get(wanted, "name")), "name", raw);
    const json_t *id = json_object_get(wanted, "id");
    if (id)
        assert_text(text_of(got->id ? got->id : ""), json_text(id), "id", raw);
    json_decref(arguments);
}

static void assert_message(const struct reply_output *got, const json_t *wanted, bool exact, const char *raw) {
    const json_t *calls = json_object_get(wanted, "tool_calls");
    assert_text(trimmed(byte_buffer_text(&got->content), !exact), trimmed(json_text(json_object_get(wanted, "content")), !exact), "content",
                raw);
    assert_text(trimmed(byte_buffer_text(&got->reasoning), !exact),
                trimmed(json_text(json_object_get(wanted, "reasoning_content")), !exact), "reasoning", raw);
    if (got->calls.count != json_array_size(calls))
        fail_msg("%zu calls of: %s", got->calls.count, raw);
    for (size_t i = 0; i < got->calls.count; i++)
        assert_call(&got->calls.items[i], json_array_get(calls, i), raw);
}

static void assert_same(const struct reply_output *a, const struct reply_output *b, const char *raw) {
    assert_text(byte_buffer_text(&a->content), byte_buffer_text(&b->content), "content in pieces", raw);
    assert_text(byte_buffer_text(&a->reasoning), byte_buffer_text(&b->reasoning), "reasoning in pieces", raw);
    assert_int_equal(a->calls.count, b->calls.count);
    for (size_t i = 0; i < a->calls.count; i++) {
        assert_string_equal(a->calls.items[i].name, b->calls.items[i].name);
        assert_string_equal(a->calls.items[i].arguments, b->calls.items[i].arguments);
    }
}

/* Every split in two, and pieces of 1 to 7 bytes, give the message of the whole. */
static void assert_splits(const struct reply_parser_options *options, struct text raw, const struct reply_output *whole) {
    struct reply_output pieces;
    for (size_t size = 1; size <= 7; size++) {
        parse(options, raw, size, &pieces);
        assert_same(&pieces, whole, raw.data);
        reply_output_deinit(&pieces);
    }
    for (size_t size = raw.size_bytes / 2; size < raw.size_bytes; size++) {
        parse(options, raw, size + 1, &pieces);
        assert_same(&pieces, whole, raw.data);
        reply_output_deinit(&pieces);
    }
}

static void replies_of_all_families(void **state) {
    (void)state;
    json_t *data = template_json("replies.json"), *c;
    const json_t *cases = json_object_get(data, "cases"), *tools = json_object_get(data, "tools");
    size_t i;
    json_array_foreach(cases, i, c) {
        struct text raw = json_text(json_object_get(c, "raw"));
        struct reply_parser_options options = {.family = reply_family_find(json_text(json_object_get(c, "family"))),
                                               .tools = json_is_true(json_object_get(c, "tools")) ? tools : NULL,
                                               .reasoning_opened = json_is_true(json_object_get(c, "reasoning_opened"))};
        struct reply_output whole;
        assert_non_null(options.family);
        parse(&options, raw, raw.size_bytes + 1, &whole);
        assert_message(&whole, json_object_get(c, "expected"), json_is_true(json_object_get(c, "exact")), raw.data);
        assert_splits(&options, raw, &whole);
        reply_output_deinit(&whole);
    }
    assert_true(json_array_size(cases) > 400);
    json_decref(data);
}

/* ---- single rules ---- */

struct wanted { /* NULL: empty, or no call */
    const char *reasoning, *content, *name, *arguments;
};

static void assert_reply(const char *family, bool opened, const char *raw, struct wanted wanted) {
    json_t *tools = json_loads(tools_text, 0, NULL);
    struct reply_parser_options options = {.family = reply_family_find(text_of(family)), .tools = tools, .reasoning_opened = opened};
    struct reply_output whole;
    parse(&options, text_of(raw), strlen(raw) + 1, &whole);
    assert_text(byte_buffer_text(&whole.reasoning), text_of(wanted.reasoning ? wanted.reasoning : ""), "reasoning", raw);
    assert_text(byte_buffer_text(&whole.content), text_of(wanted.content ? wanted.content : ""), "content", raw);
    assert_int_equal(whole.calls.count, wanted.name != NULL);
    if (wanted.name && whole.calls.count == 1) {
        assert_string_equal(whole.calls.items[0].name, wanted.name);
        assert_string_equal(whole.calls.items[0].arguments, wanted.arguments);
    }
    assert_splits(&options, text_of(raw), &whole);
    reply_output_deinit(&whole);
    json_decref(tools);
}

static void b10_template_opens_reasoning(void **state) {
    (void)state;
    const struct reply_family *hermes = reply_family_find(TEXT("hermes"));
    assert_reply("hermes", true, "plan </think>answer", (struct wanted){.reasoning = "plan ", .content = "answer"});
    assert_reply("hermes", true, "plan", (struct wanted){.reasoning = "plan"});
    assert_reply("hermes", true, "<think>plan</think>a", (struct wanted){.reasoning = "plan", .content = "a"});
    assert_reply("hermes", true, "</think>\n\na", (struct wanted){.content = "a"});
    assert_reply("hermes", false, "\n<think>\nplan\n</think>\n\na", (struct wanted){.reasoning = "plan", .content = "a"});
    assert_true(reply_reasoning_opened(hermes, TEXT("<|im_start|>assistant\n<think>\n")));
    assert_false(reply_reasoning_opened(hermes, TEXT("<|im_start|>assistant\n<think>\n\n</think>\n\n")));
    assert_false(reply_reasoning_opened(hermes, TEXT("")));
    assert_false(reply_reasoning_opened(reply_family_find(TEXT("plain")), TEXT("<think>\n")));
    assert_true(reply_reasoning_opened(reply_family_find(TEXT("gemma4")), TEXT("<|channel>thought\n")));
}

static void b12_closing_mark_as_text(void **state) {
    (void)state;
    assert_reply("hermes", false, "hello </think> world", (struct wanted){.content = "hello </think> world"});
    assert_reply("hermes", false, "<think>a</think>say </think> twice <think>b</think>",
                 (struct wanted){.reasoning = "a", .content = "say </think> twice <think>b</think>"});
    assert_reply("hermes", false, "The tag <think> opens", (struct wanted){.content = "The tag <think> opens"});
}

static void b13_call_inside_reasoning(void **state) {
    (void)state;
    const char *call = "<tool_call>{\"name\": \"lookup\", \"arguments\": {}}</tool_call>";
    char raw[300], reasoning[300];
    (void)snprintf(raw, sizeof raw, "<think>so %s then</think>ok", call);
    (void)snprintf(reasoning, sizeof reasoning, "so %s then", call);
    assert_reply("hermes", false, raw, (struct wanted){.reasoning = reasoning, .content = "ok"});
}

static void b14_broken_calls(void **state) {
    (void)state;
    static const char *const broken[] = {
        "Hm. <tool_call>{\"name\": \"lookup\", \"arguments\": {\"city\": \"Par",
        "Hm. <tool_call>{\"name\": \"lookup\", \"arguments\": {\"city\": \"Paris\"}</tool_call>",
        "Hm. <tool_call>{\"name\": \"lookup\", \"arguments\": [1]}</tool_call>",
        "Hm. <tool_call>{\"name\": 7, \"arguments\": {}}</tool_call>",
        "Hm. <tool_call>",
        "Hm. <tool_ca",
        "Hm. <tool_call>\n\n</tool_call>",
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_reply("hermes", false, broken[i], (struct wanted){.content = broken[i]});
    assert_reply("hermes", false, "<tool_call>{\"name\": \"lookup\", \"arguments\": {}}",
                 (struct wanted){.name = "lookup", .arguments = "{}"}); /* whole but for the closing mark */
    assert_reply("qwen3_coder", false, "<tool_call>\n<function=lookup>\n<parameter=city>\nPar",
                 (struct wanted){.content = "<tool_call>\n<function=lookup>\n<parameter=city>\nPar"});
    assert_reply("mistral_list", false, "[TOOL_CALLS] [{\"name\": \"lookup\"",
                 (struct wanted){.content = "[TOOL_CALLS] [{\"name\": \"lookup\""});
    assert_reply("glm", false,
                 "<tool_call>lookup\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
                 "<arg_value>2</arg_value>\n</tool_call>",
                 (struct wanted){.name = "lookup", .arguments = "{\"city\": \"Paris\", \"days\": 2}"});
}

/* Text comes as soon as it cannot become a mark; a stop rule can ask whether a call is open. */
static void streams_hold_back_little(void **state) {
    (void)state;
    json_t *tools = json_loads(tools_text, 0, NULL);
    struct reply_parser_options options = {.family = reply_family_find(TEXT("hermes")), .tools = tools};
    struct reply_parser *parser;
    struct reply_output out;
    struct error err;
    reply_output_init(&out);
    ASSERT_OK(reply_parser_create(&options, &parser, &err), err);
    push_all(parser, TEXT("Hello"), 1, &out);
    assert_text(byte_buffer_text(&out.content), TEXT("Hello"), "content", "");
    push_all(parser, TEXT(" wor"), 1, &out);
    assert_text(byte_buffer_text(&out.content), TEXT("Hello wor"), "content", "");
    push_all(parser, TEXT("\n<tool"), 1, &out);
    assert_text(byte_buffer_text(&out.content), TEXT("Hello wor"), "content", "");
    assert_false(reply_parser_in_call(parser));
    push_all(parser, TEXT("kit> is"), 1, &out);
    assert_text(byte_buffer_text(&out.content), TEXT("Hello wor\n<toolkit> is"), "content", "");
    reply_output_clear(&out);
    push_all(parser, TEXT(" <tool_call>{\"name\": \"lookup\", \"arguments\": {\"city\": \"<|user|>\"}}"), 1, &out);
    assert_true(reply_parser_in_call(parser)); /* B18: no stop inside */
    assert_int_equal(out.content.size_bytes, 0);
    push_all(parser, TEXT("</tool_call>"), 1, &out);
    assert_false(reply_parser_in_call(parser));
    assert_int_equal(out.calls.count, 1);
    ASSERT_OK(reply_parser_finish(parser, &out, &err), err);
    assert_int_equal(out.content.size_bytes, 0);
    reply_output_deinit(&out);
    reply_parser_destroy(parser);
    json_decref(tools);
}

static void families_are_detected(void **state) {
    (void)state;
    static const char *const files[][2] = {
        {"GLM-4.6.jinja", "glm"},
        {"Kimi-K2-Thinking.jinja", "kimi"},
        {"Qwen-Qwen3-0.6B.jinja", "hermes"},
        {"Qwen3.5-4B.jinja", "qwen3_coder"},
        {"deepseek-ai-DeepSeek-V3.1.jinja", "deepseek_v3_1"},
        {"google-gemma-2-2b-it.jinja", "plain"},
        {"meetkai-functionary-medium-v3.2.jinja", "functionary_v3_2"},
        {"mistralai-Mistral-Nemo-Instruct-2407.jinja", "mistral_list"},
        {"openai-gpt-oss-120b.jinja", "gpt_oss"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[1024];
        struct text source;
        struct error err;
        ASSERT_OK(file_read(template_path(files[i][0], path), 1 << 20, &source, &err), err);
        assert_string_equal(reply_family_detect(source)->name, files[i][1]);
        memory_free((char *)source.data);
    }
    assert_string_equal(reply_family_detect(TEXT(""))->name, "plain");
    assert_null(reply_family_find(TEXT("")));
    assert_null(reply_family_find(TEXT("herme")));
}

/* Every family: any bytes, and the marks themselves, are text or a call, never a failure. */
static void odd_bytes(void **state) {
    (void)state;
    static const char *const raws[] = {"",  " ", "\n\n", "<",     "\xff\xfe\x00x", "</think>", "<think>", "<think></think>",
                                       "{", "[", "<|",   "\u00fc"};
    for (size_t f = 0; f < reply_family_count; f++)
        for (size_t i = 0; i < sizeof raws / sizeof *raws; i++) {
            struct reply_parser_options options = {.family = &reply_families[f]};
            struct reply_output whole;
            parse(&options, text_of(raws[i]), 100, &whole);
            assert_int_equal(whole.calls.count, 0);
            assert_splits(&options, text_of(raws[i]), &whole);
            reply_output_deinit(&whole);
        }
}

/* A megabyte inside one argument, or of marks that never close, byte by byte. */
static void long_replies(void **state) {
    (void)state;
    json_t *tools = json_loads(tools_text, 0, NULL);
    struct byte_buffer raw;
    struct reply_output out;
    struct reply_parser_options options = {.family = reply_family_find(TEXT("hermes")), .tools = tools};
    byte_buffer_init(&raw, SIZE_MAX / 2);
    assert_int_equal(byte_buffer_append_text(&raw, TEXT("<tool_call>{\"name\": \"lookup\", \"arguments\": {\"city\": \""), NULL),
                     STATUS_OK);
    for (size_t i = 0; i < 100000; i++)
        assert_int_equal(byte_buffer_append_text(&raw, TEXT("{a} <x> }]"), NULL), STATUS_OK);
    assert_int_equal(byte_buffer_append_text(&raw, TEXT("\"}}</tool_call>"), NULL), STATUS_OK);
    parse(&options, byte_buffer_text(&raw), 1, &out);
    assert_int_equal(out.calls.count, 1);
    assert_int_equal(out.content.size_bytes, 0);
    reply_output_deinit(&out);
    byte_buffer_clear(&raw);
    for (size_t i = 0; i < 50000; i++)
        assert_int_equal(byte_buffer_append_text(&raw, TEXT("<tool_call> <tool_"), NULL), STATUS_OK);
    parse(&options, byte_buffer_text(&raw), 1, &out);
    assert_true(text_equal(byte_buffer_text(&out.content), byte_buffer_text(&raw)));
    reply_output_deinit(&out);
    byte_buffer_deinit(&raw);
    json_decref(tools);
}

/* The n-th allocation fails, for every n: an error, and nothing leaks. */
static void memory_runs_out(void **state) {
    (void)state;
    json_t *tools = json_loads(tools_text, 0, NULL);
    static const char *const raws[][2] = {
        {"hermes", "<think>a</think>b<tool_call>{\"name\": \"lookup\", \"arguments\": {\"city\": \"x\"}}</tool_call>"},
        {"glm", "<tool_call>lookup\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"},
        {"gpt_oss", "<|channel|>commentary to=functions.lookup <|constrain|>json<|message|>{\"city\": \"x\"}<|call|>"},
        {"lfm2", "<|tool_call_start|>[lookup(city='x', days=2)]<|tool_call_end|>"},
    };
    for (size_t i = 0; i < sizeof raws / sizeof *raws; i++) {
        struct reply_parser_options options = {.family = reply_family_find(text_of(raws[i][0])), .tools = tools};
        uint64_t heap_bytes = memory_owner_bytes(MEMORY_OTHER);
        uint64_t number = 1;
        for (bool done = false; !done; number++) {
            struct reply_parser *parser;
            struct reply_output out;
            struct error err;
            uint64_t refusals = memory_refusals();
            memory_fail_after(number);
            reply_output_init(&out);
            enum status status = reply_parser_create(&options, &parser, &err);
            if (status == STATUS_OK)
                status = reply_parser_push(parser, text_of(raws[i][1]), &out, &err);
            if (status == STATUS_OK)
                status = reply_parser_finish(parser, &out, &err);
            memory_fail_after(0);
            done = memory_refusals() == refusals;
            if (status != (done ? STATUS_OK : STATUS_NO_MEMORY) || (done && out.calls.count != 1))
                fail_msg("%s, allocation %u: %s, %zu calls", raws[i][0], (unsigned)number, status_name(status), out.calls.count);
            reply_output_deinit(&out);
            reply_parser_destroy(parser);
            assert_int_equal(memory_owner_bytes(MEMORY_OTHER), heap_bytes);
        }
        assert_true(number > 5);
    }
    json_decref(tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_of_all_families),
        cmocka_unit_test(b10_template_opens_reasoning),
        cmocka_unit_test(b12_closing_mark_as_text),
        cmocka_unit_test(b13_call_inside_reasoning),
        cmocka_unit_test(b14_broken_calls),
        cmocka_unit_test(streams_hold_back_little),
        cmocka_unit_test(families_are_detected),
        cmocka_unit_test(odd_bytes),
        cmocka_unit_test(long_replies),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
