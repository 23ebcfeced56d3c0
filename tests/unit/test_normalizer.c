/* test_normalizer: each step by its result, the order of marks, and time on runs of marks. */
#include "test_support.h"

#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/memory.h"
#include "text/normalizer.h"
#include "text/unicode_forms.h"

/* The normalised text; memory_free. *front_removed may be NULL. */
static char *normalize(const char *config, struct text text, bool *front_removed) {
    json_t *json;
    struct normalizer *normalizer;
    struct normalizer_work work;
    struct pattern_matcher *matcher;
    struct text out;
    struct error err;
    ASSERT_OK(json_parse(text_of(config), "config", 1u << 20, &json, &err), err);
    ASSERT_OK(normalizer_create(json, &normalizer, &err), err);
    ASSERT_OK(pattern_matcher_create(&matcher, &err), err);
    normalizer_work_init(&work);
    ASSERT_OK(normalizer_run(normalizer, &work, matcher, text, &out, &err), err);
    char *copy = memory_copy_text(out.data, out.size_bytes);
    if (front_removed)
        *front_removed = work.front_removed;
    normalizer_work_deinit(&work);
    pattern_matcher_destroy(matcher);
    normalizer_destroy(normalizer);
    json_decref(json);
    assert_non_null(copy);
    return copy;
}

static void check(const char *config, const char *text, const char *wanted) {
    char *got = normalize(config, text_of(text), NULL);
    assert_string_equal(got, wanted);
    memory_free(got);
}

static void A1_forms(void **state) {
    (void)state;
    check("{\"type\": \"NFC\"}", "Fu\xCC\x88hrer e\xCC\x81", "F\xC3\xBChrer \xC3\xA9");
    check("{\"type\": \"NFD\"}", "F\xC3\xBChrer", "Fu\xCC\x88hrer");
    check("{\"type\": \"NFKC\"}", "\xEF\xAC\x81 \xE2\x91\xA0 \xEF\xBD\xB6\xEF\xBE\x9E", "fi 1 \xE3\x82\xAC");
    check("{\"type\": \"NFKD\"}", "\xC2\xBD",
          "1\xE2\x81\x84"
          "2");
    check("{\"type\": \"NFC\"}", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"); /* Hangul */
    check("{\"type\": \"NFD\"}", "\xEA\xB0\x81", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8");
    check("{\"type\": \"NFD\"}", "a\xCC\x81\xCC\x96", "a\xCC\x96\xCC\x81"); /* class 220 before 230 */
    check("{\"type\": \"NFC\"}", "a\xCC\x96\xCC\x81", "\xC3\xA1\xCC\x96");
    check("{\"type\": \"NFC\"}", "\xE0\xBD\xB3", "\xE0\xBD\xB1\xE0\xBD\xB2"); /* decomposes, and never composes again */
    check("{\"type\": \"NFC\"}", "plain", "plain");
    check("{\"type\": \"NFKC\"}", "\xE3\x8B\xBF", "\xE3\x8B\xBF"); /* U+32FF is newer than the library's tables */
    check("{\"type\": \"NFD\"}", "", "");
}

static void simple_steps(void **state) {
    (void)state;
    check("{\"type\": \"Lowercase\"}", "A\xC4\xB0\xCE\xA3\xC7\x85", "ai\xCC\x87\xCF\x83\xC7\x86");
    check("{\"type\": \"StripAccents\"}", "e\xCC\x81x", "ex");
    check("{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": true}", "\xE3\x80\x80 a b\n", "a b");
    check("{\"type\": \"Strip\", \"strip_left\": false, \"strip_right\": true}", " a ", " a");
    check("{\"type\": \"Prepend\", \"prepend\": \"_\"}", "a", "_a");
    check("{\"type\": \"Prepend\", \"prepend\": \"_\"}", "", "");
    check("{\"type\": \"Replace\", \"pattern\": {\"String\": \"ab\"}, \"content\": \"x\"}", "abcab", "xcx");
    check("{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, \"content\": \" \"}", "a   b c", "a b c");
    check("{\"type\": \"Nmt\"}",
          "a\x01\xE2\x80\x8B"
          "b\t",
          "a b ");
    check("{\"type\": \"ByteLevel\"}", "a \xC3\xA9", "a\xC4\xA0\xC3\x83\xC2\xA9");
    check("{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFD\"}, {\"type\": \"StripAccents\"}, {\"type\": \"Sequence\", "
          "\"normalizers\": "
          "[{\"type\": \"Lowercase\"}]}]}",
          "\xC3\x89T", "et");
}

static void a_front_that_goes_is_noticed(void **state) {
    (void)state;
    static const struct {
        const char *config, *text;
        bool removed;
    } rows[] = {
        {"{\"type\": \"Strip\"}", " a", true},
        {"{\"type\": \"Strip\"}", "a ", false},
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"ab\"}, \"content\": \"x\"}", "abc", true}, /* x counts to b */
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"x\"}", "abc", false},
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"\"}", "abc", true},
        {"{\"type\": \"Prepend\", \"prepend\": \"_\"}", "a", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool removed;
        memory_free(normalize(rows[i].config, text_of(rows[i].text), &removed));
        assert_int_equal(removed, rows[i].removed);
    }
}

/* A run of 200,000 marks in the worst order: exchanging neighbours would take minutes. */
static void A7_runs_of_marks_take_linear_time(void **state) {
    (void)state;
    size_t pairs = 100000, size_bytes = 4 * pairs;
    char *text = memory_alloc(size_bytes);
    struct timespec begin, end;
    for (size_t i = 0; i < pairs; i++)
        memcpy(text + 4 * i, "\xCC\x81\xCC\x96", 4);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    char *got = normalize("{\"type\": \"NFC\"}", (struct text){text, size_bytes}, NULL);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    assert_true(end.tv_sec - begin.tv_sec < 5);
    assert_int_equal(strlen(got), size_bytes);
    assert_memory_equal(got, "\xCC\x96\xCC\x96", 4);
    assert_memory_equal(got + size_bytes - 4, "\xCC\x81\xCC\x81", 4);
    memory_free(got);
    memory_free(text);
}

static void damaged_maps_are_errors(void **state) {
    (void)state;
    static const char *const maps[] = {"", "AA==", "/////w==", "BAAAAA==", "!!!!", "AwAAAAAAAA=="};
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        char config[200];
        json_t *json;
        struct normalizer *normalizer;
        struct error err;
        (void)snprintf(config, sizeof(config), "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"%s\"}", maps[i]);
        ASSERT_OK(json_parse(text_of(config), "config", 1000, &json, &err), err);
        ASSERT_FAILS(normalizer_create(json, &normalizer, &err), STATUS_CORRUPT, err);
        assert_null(normalizer);
        json_decref(json);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(A1_forms),
        cmocka_unit_test(A7_runs_of_marks_take_linear_time),
        cmocka_unit_test(simple_steps),
        cmocka_unit_test(a_front_that_goes_is_noticed),
        cmocka_unit_test(damaged_maps_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
