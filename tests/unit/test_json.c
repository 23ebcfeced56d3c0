/* test_json: limits, places in errors, what Python writes, and the counted heap behind jansson. */
#include "test_support.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

static char path[] = "/tmp/sluice-test-json-XXXXXX";

static int make_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static void errors_name_the_place(void **state) {
    (void)state;
    struct error err;
    json_t *root;
    ASSERT_FAILS(json_parse(TEXT("{\n  \"a\": 1,\n  oops\n}"), "request", 1000, &root, &err), STATUS_CORRUPT, err);
    assert_null(root);
    assert_non_null(strstr(err.text, "request: line 3"));
    ASSERT_FAILS(json_parse(TEXT("[1, 2, 3]"), "request", 8, &root, &err), STATUS_INVALID, err);
    ASSERT_FAILS(json_parse((struct text){0}, "request", 8, &root, &err), STATUS_CORRUPT, err);
    ASSERT_FAILS(json_parse(TEXT("[\"\xc3\x28\"]"), "request", 100, &root, &err), STATUS_CORRUPT, err); /* not UTF-8 */
    ASSERT_FAILS(json_parse(TEXT("[1] x"), "request", 100, &root, &err), STATUS_CORRUPT, err);
    ASSERT_FAILS(json_read_file("/nonexistent/config.json", 100, &root, &err), STATUS_NOT_FOUND, err);
}

static void depth_is_limited(void **state) {
    (void)state;
    struct error err;
    json_t *root;
    char *deep = memory_alloc(1 << 20);
    memset(deep, '[', 1 << 20);
    ASSERT_FAILS(json_parse((struct text){deep, 1 << 20}, "request", 1 << 20, &root, &err), STATUS_UNSUPPORTED, err);
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    ASSERT_OK(json_parse((struct text){deep, 200}, "request", 1000, &root, &err), err);
    json_decref(root);
    static const char element[] = "[\"\\\"[\"],"; /* many side by side are not deep, brackets in strings do not count */
    size_t length = sizeof(element) - 1;
    for (size_t i = 0; i < 1000; i++)
        memcpy(deep + 1 + length * i, element, length);
    deep[0] = '[';
    deep[length * 1000] = ']';
    ASSERT_OK(json_parse((struct text){deep, length * 1000 + 1}, "request", 10000, &root, &err), err);
    assert_int_equal(json_array_size(root), 1000);
    json_decref(root);
    memory_free(deep);
}

static json_t *read_text(const char *text) {
    struct error err;
    json_t *root = NULL;
    ASSERT_OK(file_write(path, text, strlen(text), &err), err);
    ASSERT_OK(json_read_file(path, 10000, &root, &err), err);
    return root;
}

static void files_may_hold_what_python_writes(void **state) {
    (void)state;
    struct error err;
    json_t *root =
        read_text("\xef\xbb\xbf{\"model_max_length\": 1000000000000000019884624838656, \"limit\": [0.0, Infinity, -Infinity, NaN],\n"
                  " \"name\": \"Infinity NaN 1000000000000000019884624838656 \\\" NaN\", \"small\": -9223372036854775808,\n"
                  " \"long\": 12345678901234567890.5, \"nul\": \"a\\u0000b\"}");
    assert_true(json_real_value(json_object_get(root, "model_max_length")) == 1e30);
    json_t *limit = json_object_get(root, "limit");
    assert_true(json_real_value(json_array_get(limit, 0)) == 0);
    assert_true(json_real_value(json_array_get(limit, 1)) == DBL_MAX);
    assert_true(json_real_value(json_array_get(limit, 2)) == -DBL_MAX);
    assert_true(json_is_null(json_array_get(limit, 3)));
    assert_string_equal(json_string_value(json_object_get(root, "name")), "Infinity NaN 1000000000000000019884624838656 \" NaN");
    assert_true(json_real_value(json_object_get(root, "long")) == 12345678901234567890.5);
    assert_int_equal(json_string_length(json_object_get(root, "nul")), 3);
    json_decref(root);
    json_t *none;
    ASSERT_FAILS(json_parse(TEXT("[NaN]"), "request", 100, &none, &err), STATUS_CORRUPT, err);
    ASSERT_FAILS(json_parse(TEXT("[100000000000000000000]"), "request", 100, &none, &err), STATUS_CORRUPT, err);
}

/* What fits 64 bits stays an integer, exactly, also beside numbers that do not. */
static void integers_stay_exact(void **state) {
    (void)state;
    json_t *root = read_text("[999999999999999999, -999999999999999999, 0]");
    assert_true(json_integer_value(json_array_get(root, 0)) == 999999999999999999ll);
    assert_true(json_integer_value(json_array_get(root, 1)) == -999999999999999999ll);
    assert_true(json_is_integer(json_array_get(root, 2)));
    json_decref(root);
    root = read_text("[9223372036854775807, -9223372036854775808, 9223372036854775808]");
    assert_true(json_integer_value(json_array_get(root, 0)) == INT64_MAX);
    assert_true(json_integer_value(json_array_get(root, 1)) == INT64_MIN);
    assert_true(json_real_value(json_array_get(root, 2)) == 9223372036854775808.0);
    json_decref(root);
}

static void heap_is_counted(void **state) {
    (void)state;
    struct error err;
    json_t *root;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    ASSERT_OK(json_parse(TEXT("{\"a\": [1, 2, 3, \"text\"]}"), "request", 1000, &root, &err), err);
    assert_true(memory_owner_bytes(MEMORY_OTHER) > before + 100);
    char *text = json_dumps(root, JSON_COMPACT);
    assert_string_equal(text, "{\"a\":[1,2,3,\"text\"]}");
    memory_free(text);
    json_decref(root);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
}

/* Each allocation fails once: an error with a text, nothing leaked, and then it works. */
static void any_allocation_may_fail(void **state) {
    (void)state;
    struct error err;
    json_t *root = NULL;
    const char text[] = "{\"a\": [1, 2, {\"b\": \"a string longer than the first sixteen bytes of jansson's buffer, and longer than its "
                        "second one of 32 bytes, so that it has to grow in its middle\"}], \"c\": 100000000000000000000, \"d\": null}";
    ASSERT_OK(file_write(path, text, strlen(text), &err), err);
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    unsigned failures = 0;
    for (uint64_t n = 1; n < 200; n++) {
        memory_fail_after(n);
        enum status status = json_read_file(path, 10000, &root, &err);
        memory_fail_after(0);
        if (status == STATUS_OK) {
            json_decref(root);
            break;
        }
        failures++;
        assert_null(root);
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_true(err.text[0] != 0);
        assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
    }
    assert_in_range(failures, 10, 150);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_the_place), cmocka_unit_test(depth_is_limited), cmocka_unit_test(files_may_hold_what_python_writes),
        cmocka_unit_test(integers_stay_exact),   cmocka_unit_test(heap_is_counted),  cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
