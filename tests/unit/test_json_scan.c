/* test_json_scan: values in order, strings over window borders, going back, and what is no JSON. */
#include "test_support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "text/json_scan.h"

static void values_come_in_order(void **state) {
    (void)state;
    struct json_scan scan;
    struct error err;
    struct text text;
    struct byte_buffer raw;
    uint32_t number;
    bool more, flag;
    byte_buffer_init(&raw, 1000);
    json_scan_memory(
        &scan, TEXT(" {\"a\" : 7, \"b\":[\"x\\u00e9\\ud83d\\ude0a\\n\", -1.5e3],\"c\":{\"d\":[1,{}]}, \"e\":true,\"f\":null } "), "test");
    ASSERT_OK(json_scan_enter(&scan, JSON_KIND_OBJECT, &err), err);
    ASSERT_OK(json_scan_next_key(&scan, &more, &text, &err), err);
    assert_true(more && text_is(text, "a"));
    ASSERT_OK(json_scan_u32(&scan, &number, &err), err);
    assert_int_equal(number, 7);
    ASSERT_OK(json_scan_next_key(&scan, &more, &text, &err), err);
    uint64_t list = json_scan_offset(&scan);
    for (int round = 0; round < 2; round++) { /* and again, from the same place */
        ASSERT_OK(json_scan_enter(&scan, JSON_KIND_ARRAY, &err), err);
        ASSERT_OK(json_scan_next_item(&scan, &more, &err), err);
        ASSERT_OK(json_scan_string(&scan, &text, &err), err);
        assert_true(text_is(text, "x\xC3\xA9\xF0\x9F\x98\x8A\n"));
        ASSERT_OK(json_scan_next_item(&scan, &more, &err), err);
        ASSERT_OK(json_scan_number(&scan, &text, &err), err);
        assert_true(text_is(text, "-1.5e3"));
        ASSERT_OK(json_scan_next_item(&scan, &more, &err), err);
        assert_false(more);
        if (round == 0)
            ASSERT_OK(json_scan_seek(&scan, list, &err), err);
    }
    ASSERT_OK(json_scan_next_key(&scan, &more, &text, &err), err);
    ASSERT_OK(json_scan_raw(&scan, &raw, &err), err);
    assert_true(text_is(byte_buffer_text(&raw), "{\"d\":[1,{}]}"));
    ASSERT_OK(json_scan_next_key(&scan, &more, &text, &err), err);
    ASSERT_OK(json_scan_bool(&scan, &flag, &err), err);
    assert_true(flag);
    ASSERT_OK(json_scan_next_key(&scan, &more, &text, &err), err);
    ASSERT_OK(json_scan_skip(&scan, &err), err);
    ASSERT_OK(json_scan_next_key(&scan, &more, &text, &err), err);
    assert_false(more);
    ASSERT_OK(json_scan_end(&scan, &err), err);
    json_scan_close(&scan);
    byte_buffer_deinit(&raw);
}

/* A file of many windows: strings, escapes and characters lie across every border. */
static void strings_cross_windows(void **state) {
    (void)state;
    char path[] = "/tmp/sluice-test-json-scan-XXXXXX";
    struct byte_buffer file;
    struct json_scan scan;
    struct error err;
    struct text text;
    bool more;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    byte_buffer_init(&file, 8u << 20);
    ASSERT_OK(byte_buffer_append(&file, "[", 1, &err), err);
    for (int i = 0; i < 30000; i++)
        ASSERT_OK(byte_buffer_printf(&file, &err, "%s\"%d\\u4e2d\xE4\xB8\xAD\\\\\"", i ? ",\n" : "", i), err);
    ASSERT_OK(byte_buffer_append(&file, "]", 1, &err), err);
    ASSERT_OK(file_write(path, file.data, file.size_bytes, &err), err);
    ASSERT_OK(json_scan_open(&scan, path, &err), err);
    uint64_t start = json_scan_offset(&scan);
    ASSERT_OK(json_scan_skip(&scan, &err), err);
    assert_int_equal(json_scan_offset(&scan), file.size_bytes);
    ASSERT_OK(json_scan_seek(&scan, start, &err), err);
    ASSERT_OK(json_scan_enter(&scan, JSON_KIND_ARRAY, &err), err);
    for (int i = 0; i < 30000; i++) {
        char wanted[40];
        (void)snprintf(wanted, sizeof(wanted), "%d\xE4\xB8\xAD\xE4\xB8\xAD\\", i);
        ASSERT_OK(json_scan_next_item(&scan, &more, &err), err);
        ASSERT_OK(json_scan_string(&scan, &text, &err), err);
        if (!text_is(text, wanted))
            fail_msg("item %d is \"%.*s\"", i, TEXT_ARGUMENTS(text));
    }
    json_scan_close(&scan);
    byte_buffer_deinit(&file);
    assert_int_equal(unlink(path), 0);
    ASSERT_FAILS(json_scan_open(&scan, path, &err), STATUS_NOT_FOUND, err);
}

/* Reads any document whole by walking it. */
static enum status walk(struct json_scan *scan, unsigned depth, struct error *err) {
    enum json_kind kind = JSON_KIND_WORD;
    bool more = true;
    struct text text;
    TRY(json_scan_kind(scan, &kind, err));
    if (kind == JSON_KIND_STRING)
        return json_scan_string(scan, &text, err);
    if ((kind != JSON_KIND_OBJECT && kind != JSON_KIND_ARRAY) || depth > 5)
        return json_scan_skip(scan, err);
    TRY(json_scan_enter(scan, kind, err));
    for (;;) {
        TRY(kind == JSON_KIND_OBJECT ? json_scan_next_key(scan, &more, &text, err) : json_scan_next_item(scan, &more, err));
        if (!more)
            return STATUS_OK;
        TRY(walk(scan, depth + 1, err));
    }
}

static void damage_is_named_with_its_place(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",           "{",       "{\"a\"",      "{\"a\":",          "{\"a\":1",    "[1,",      "[1,]",  "{,}",       "[1 2]",
        "{\"a\" 1}",  "\"\\x\"", "\"\\ud83d\"", "\"\\udc00\"",      "\"\\u12g4\"", "\"a\nb\"", "\"abc", "\"\xC3(\"", "[}",
        "{\"a\":[}}", "x",       "{1:2}",       "[[[[[[[[}]]]]]]]]"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct json_scan scan;
        struct error err;
        json_scan_memory(&scan, text_of(bad[i]), "file.json");
        ASSERT_FAILS(walk(&scan, 0, &err), STATUS_CORRUPT, err);
        assert_non_null(strstr(err.text, "file.json: byte "));
        json_scan_close(&scan);
    }
    char deep[200];
    struct json_scan scan;
    struct error err;
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    json_scan_memory(&scan, (struct text){deep, sizeof(deep)}, "file.json");
    ASSERT_FAILS(json_scan_skip(&scan, &err), STATUS_CORRUPT, err);
    json_scan_close(&scan);
    uint32_t number;
    static const char *const numbers[] = {"-1", "4294967296", "1.5", "1e2", "\"1\"", "true"};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        json_scan_memory(&scan, text_of(numbers[i]), "file.json");
        ASSERT_FAILS(json_scan_u32(&scan, &number, &err), STATUS_CORRUPT, err);
        json_scan_close(&scan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_in_order),
        cmocka_unit_test(strings_cross_windows),
        cmocka_unit_test(damage_is_named_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
