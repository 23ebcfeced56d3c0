/* test_pretokenize: each kind of pre-tokenizer by its pieces, and the expressions that PCRE2 reads otherwise than Oniguruma. */
#include "test_support.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "text/gguf_pretokenizers.h"
#include "text/pretokenize.h"
#include "text/split.h"

#define MARK "\xE2\x96\x81"

static enum status collect(void *context, struct text piece, struct error *err) {
    struct byte_buffer *out = context;
    TRY(byte_buffer_append(out, "[", 1, err));
    TRY(byte_buffer_append_text(out, piece, err));
    return byte_buffer_append(out, "]", 1, err);
}

/* The pieces of text, each in brackets; memory_free. */
static char *pieces(const char *config, const char *text, bool at_start) {
    json_t *json;
    struct pretokenizer *pretokenizer;
    struct pretokenize_work work;
    struct pattern_matcher *matcher;
    struct cancel_poll cancel = {0};
    struct byte_buffer out;
    struct error err;
    ASSERT_OK(json_parse(text_of(config), "config", 1u << 20, &json, &err), err);
    ASSERT_OK(pretokenizer_create(json, &pretokenizer, &err), err);
    ASSERT_OK(pattern_matcher_create(&matcher, &err), err);
    byte_buffer_init(&out, 1u << 20);
    ASSERT_OK(byte_buffer_append(&out, "", 0, &err), err);
    pretokenize_work_init(&work);
    struct pretokenize_run run = {.work = &work, .matcher = matcher, .cancel = &cancel, .sink = collect, .context = &out};
    ASSERT_OK(pretokenizer_run(pretokenizer, &run, text_of(text), at_start, &err), err);
    pretokenize_work_deinit(&work);
    pattern_matcher_destroy(matcher);
    pretokenizer_destroy(pretokenizer);
    json_decref(json);
    char *result = byte_buffer_take(&out);
    assert_non_null(result);
    return result;
}

static void check(const char *config, const char *text, const char *wanted) {
    char *got = pieces(config, text, true);
    assert_string_equal(got, wanted);
    memory_free(got);
}

static void simple_kinds(void **state) {
    (void)state;
    check("{\"type\": \"WhitespaceSplit\"}",
          " a  b\tc\xC2\xA0"
          "d ",
          "[a][b][c][d]");
    check("{\"type\": \"Whitespace\"}", "ab, c!? d_1", "[ab][,][c][!?][d_1]");
    check("{\"type\": \"Digits\", \"individual_digits\": true}", "a12b\xC2\xB2", "[a][1][2][b][\xC2\xB2]");
    check("{\"type\": \"Digits\", \"individual_digits\": false}", "a12b3", "[a][12][b][3]");
    check("{\"type\": \"Punctuation\"}", "a,.b", "[a][,][.][b]");
    check("{\"type\": \"Punctuation\", \"behavior\": \"Contiguous\"}", "a,.b", "[a][,.][b]");
    check("{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"-\"}", "a-b--c", "[a][b][c]");
    check("{\"type\": \"BertPreTokenizer\"}", "it's ok", "[it]['][s][ok]");
    check("{\"type\": \"Sequence\", \"pretokenizers\": []}", "a b", "[a b]");
    check("{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"WhitespaceSplit\"}, {\"type\": \"Digits\"}]}", "a1 2b",
          "[a][1][2][b]");
    check("{\"type\": \"WhitespaceSplit\"}", "", "");
}

static void byte_level(void **state) {
    (void)state;
    check("{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}", "a \n\xC3\xA9",
          "[a\xC4\xA0\xC4\x8A\xC3\x83\xC2\xA9]");
    check("{\"type\": \"ByteLevel\", \"add_prefix_space\": true}", "a b",
          "[\xC4\xA0"
          "a][\xC4\xA0"
          "b]");
    check("{\"type\": \"ByteLevel\", \"add_prefix_space\": true}", " a",
          "[\xC4\xA0"
          "a]");
    check("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}", "we'll  go", "[we]['ll][\xC4\xA0][\xC4\xA0go]");
}

static void behaviors(void **state) {
    (void)state;
    static const struct {
        const char *options, *wanted;
    } rows[] = {
        {"\"Removed\"", "[a][b][c]"},
        {"\"Isolated\"", "[a][-][-][b][-][c][-]"},
        {"\"MergedWithPrevious\"", "[a-][-][b-][c-]"},
        {"\"MergedWithNext\"", "[a][-][-b][-c][-]"},
        {"\"Contiguous\"", "[a][--][b][-][c][-]"},
        {"\"Removed\", \"invert\": true", "[-][-][-][-]"},
        {"\"MergedWithPrevious\", \"invert\": true", "[a][-][-b][-c][-]"},
        {"\"MergedWithNext\", \"invert\": true", "[a-][-][b-][c-]"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char config[200];
        (void)snprintf(config, sizeof(config), "{\"type\": \"Split\", \"pattern\": {\"String\": \"-\"}, \"behavior\": %s}",
                       rows[i].options);
        check(config, "a--b-c-", rows[i].wanted);
        (void)snprintf(config, sizeof(config), "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"-\"}, \"behavior\": %s}", rows[i].options);
        check(config, "a--b-c-", rows[i].wanted);
    }
    check("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"x*\"}, \"behavior\": \"Isolated\"}", "axxb", "[a][xx][b]");
    check("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?=b)\"}, \"behavior\": \"Isolated\"}", "abab", "[a][ba][b]");
}

static void metaspace(void **state) {
    (void)state;
    check("{\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\"}", "a b", "[" MARK "a][" MARK "b]");
    check("{\"type\": \"Metaspace\", \"prepend_scheme\": \"always\", \"split\": false}", " a  b", "[" MARK "a" MARK MARK "b]");
    check("{\"type\": \"Metaspace\", \"prepend_scheme\": \"never\"}", "a b", "[a][" MARK "b]");
    check("{\"type\": \"Metaspace\", \"add_prefix_space\": false}", "a b", "[a][" MARK "b]");
    static const char first[] = "{\"type\": \"Metaspace\", \"prepend_scheme\": \"first\"}";
    char *start = pieces(first, "a", true), *later = pieces(first, "a", false);
    assert_string_equal(start, "[" MARK "a]");
    assert_string_equal(later, "[a]");
    memory_free(start);
    memory_free(later);
}

/* Matches of an expression in brackets, what lies between them bare. */
static void check_expression(const char *expression, const char *text, const char *wanted) {
    struct pattern *pattern;
    struct pattern_matcher *matcher;
    struct pattern_cursor cursor = {0};
    struct pattern_match match;
    struct byte_buffer out;
    struct error err;
    size_t done = 0;
    ASSERT_OK(pattern_compile(text_of(expression), &pattern, &err), err);
    ASSERT_OK(pattern_matcher_create(&matcher, &err), err);
    byte_buffer_init(&out, 1u << 16);
    for (;;) {
        ASSERT_OK(pattern_next(pattern, matcher, text_of(text), &cursor, &match, &err), err);
        size_t end = match.found ? match.begin : strlen(text);
        ASSERT_OK(byte_buffer_append(&out, text + done, end - done, &err), err);
        if (!match.found)
            break;
        ASSERT_OK(byte_buffer_append(&out, "[", 1, &err), err);
        ASSERT_OK(byte_buffer_append(&out, text + match.begin, match.end - match.begin, &err), err);
        ASSERT_OK(byte_buffer_append(&out, "]", 1, &err), err);
        done = match.end;
    }
    if (!text_is(byte_buffer_text(&out), wanted))
        fail_msg("%s in \"%s\": \"%.*s\", wanted \"%s\"", expression, text, TEXT_ARGUMENTS(byte_buffer_text(&out)), wanted);
    byte_buffer_deinit(&out);
    pattern_matcher_destroy(matcher);
    pattern_destroy(pattern);
}

static void expressions_mean_what_oniguruma_means(void **state) {
    (void)state;
    check_expression("\\d{1,2}+", "12345 6", "[12345] [6]"); /* an interval is not possessive */
    check_expression("a{2}?", "aaa", "[aa]a[]");             /* an exact one is not lazy */
    check_expression("a{,2}b", "aaab", "a[aab]");
    check_expression("a?+a", "a", "a");               /* these are possessive */
    check_expression("\\h+", "xBeef09", "x[Beef09]"); /* hexadecimal digits */
    check_expression("[a-z&&[^aeiou]]+", "banana", "[b]a[n]a[n]a");
    check_expression("[[a-c]x[^\\s\\S]]+", "abxd", "[abx]d");
    check_expression("[^[^a]]", "ba", "b[a]");
    check_expression("[]a]+", "a]b", "[a]]b");
    check_expression("[a\\-z]+", "a-z", "[a-z]");
    check_expression("(?m:a.c)", "a\nc", "[a\nc]"); /* m: the dot matches a newline */
    check_expression("a.c", "a\nc", "a\nc");
    check_expression("^b$", "a\nb\nc", "a\n[b]\nc"); /* line anchors always */
    check_expression("\\s",
                     "a\xE1\xA0\x8E"
                     "b\xC2\x85",
                     "a\xE1\xA0\x8E"
                     "b[\xC2\x85]");                                                         /* U+180E is no space */
    check_expression("\\p{Han}+", "\xE3\x80\x81\xE4\xB8\xAD", "\xE3\x80\x81[\xE4\xB8\xAD]"); /* scripts without their extensions */
    check_expression("[\\p{Lu}\\p{Lo}&&[^\\p{Han}]]+", "Ab\xE4\xB8\xAD\xE3\x81\x82", "[A]b\xE4\xB8\xAD[\xE3\x81\x82]");
    check_expression("[^\\p{L}\\s]+", "a1! b", "a[1!] b");
    check_expression("\\p{^L}", "a1", "a[1]");
    check_expression("\\P{Uppercase_Letter}", "Aa", "A[a]");
    check_expression("[[:punct:]]+", "a$!\xC2\xA3", "a[$!\xC2\xA3]");
    check_expression("[[:^alpha:]]", "a1", "a[1]");
    check_expression("\\w+", "a_\xC2\xB2-", "[a_\xC2\xB2]-"); /* outside of brackets, superscripts are word characters */
    check_expression("[\\w]+", "a_\xC2\xB2-", "[a_]\xC2\xB2-");
    check_expression("\\u4e2d|\\x{e9}|\\x41",
                     "\xE4\xB8\xAD\xC3\xA9"
                     "A",
                     "[\xE4\xB8\xAD][\xC3\xA9][A]");
    check_expression("(?i:'S|K)", "'\xC5\xBF\xE2\x84\xAA", "['\xC5\xBF][\xE2\x84\xAA]");
    check_expression("\\p{S}", "\xF0\x9F\xAB\xA8", "[\xF0\x9F\xAB\xA8]"); /* a symbol of Unicode 15 */
    check_expression("(?<n>a)\\k<n>(?#comment)", "aab", "[aa]b");
}

static void expressions_that_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"(",   ")",    "[a",     "[z-a]", "\\", "\\p{Nonsense}", "\\pL", "(?~a)", "[[:nonsense:]]",
                                      "\\q", "[a&&", "(?s:a)", "+"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct pattern *pattern;
        struct error err;
        ASSERT_FAILS(pattern_compile(text_of(bad[i]), &pattern, &err), STATUS_UNSUPPORTED, err);
        assert_null(pattern);
    }
}

static void an_endless_search_is_an_error(void **state) {
    (void)state;
    struct pattern *pattern;
    struct pattern_matcher *matcher;
    struct pattern_cursor cursor = {0};
    struct pattern_match match;
    struct error err;
    ASSERT_OK(pattern_compile(TEXT("(a+)+$|b"), &pattern, &err), err);
    ASSERT_OK(pattern_matcher_create(&matcher, &err), err);
    ASSERT_FAILS(pattern_next(pattern, matcher, TEXT("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"), &cursor,
                              &match, &err),
                 STATUS_UNSUPPORTED, err);
    pattern_matcher_destroy(matcher);
    pattern_destroy(pattern);
}

/* Every name that GGUF files are known to have, and what their expressions say compiles and cuts. */
static void every_gguf_name_has_a_pretokenizer(void **state) {
    (void)state;
    static const char *const names[] = {
        "llama3",       "llama-v3",   "llama-bpe",      "falcon3",      "falcon-h1",   "pixtral",
        "midm-2.0",     "lfm2",       "dbrx",           "smaug-bpe",    "glm4",        "chatglm-bpe",
        "qwen2",        "megrez",     "qwen35",         "stablelm2",    "hunyuan",     "solar-open",
        "grok-2",       "minicpm5",   "laguna",         "ufakzeka",     "seed-coder",  "jais-2",
        "exaone-moe",   "bailingmoe", "llada-moe",      "gpt-4o",       "llama4",      "minimax-m2",
        "tekken",       "tiny_aya",   "youtu",          "kimi-k2",      "deepseek-v3", "hunyuan-dense",
        "spark2_5",     "afmoe",      "deepseek-coder", "deepseek-llm", "falcon",      "starcoder",
        "refact",       "smollm",     "codeshell",      "minerva-7b",   "mellum2",     "command-r",
        "exaone",       "gpt-2",      "phi-2",          "jais",         "trillion",    "granite-docling",
        "mpt",          "olmo",       "modern-bert",    "exaone4",      "bloom",       "poro-chat",
        "gpt3-finnish", "viking",     "superbpe",       "chameleon",    "gemma4",      "sarvam-moe",
        "default",      "",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct gguf_pretokenizer *row = gguf_pretokenizer_find(text_of(names[i]));
        if (!row)
            fail_msg("%s is not known", names[i]);
        json_t *parts = gguf_pretokenizer_json(row);
        json_t *stages = json_object_get(parts, "pre_tokenizer");
        char *config = stages ? json_dumps(stages, JSON_COMPACT) : NULL;
        char *got =
            pieces(config ? config : "{\"type\": \"Sequence\", \"pretokenizers\": []}", "It's 12345 x\xE4\xB8\xAD\n\n  A1b ...", true);
        if (strlen(got) < strlen("[It's 12345 x\xE4\xB8\xAD\n\n  A1b ...]"))
            fail_msg("%s gives %s", names[i], got);
        memory_free(got);
        memory_free(config);
        json_decref(parts);
    }
    assert_null(gguf_pretokenizer_find(TEXT("nobody")));
    assert_null(gguf_pretokenizer_find(TEXT("qwen")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simple_kinds),
        cmocka_unit_test(byte_level),
        cmocka_unit_test(behaviors),
        cmocka_unit_test(metaspace),
        cmocka_unit_test(expressions_mean_what_oniguruma_means),
        cmocka_unit_test(expressions_that_are_refused),
        cmocka_unit_test(every_gguf_name_has_a_pretokenizer),
        cmocka_unit_test(an_endless_search_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
