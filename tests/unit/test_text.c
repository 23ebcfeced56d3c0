/* test_text: comparing, and parsing of numbers and sizes with everything that must be refused. */
#include "test_support.h"

#include <locale.h>
#include <math.h>

#include "base/text.h"

static void comparing(void **state) {
    (void)state;
    struct text empty = {0};
    assert_true(text_equal(empty, TEXT("")));
    assert_true(text_equal(TEXT("a\0b"), TEXT("a\0b")));
    assert_false(text_equal(TEXT("a\0b"), TEXT("a\0c")));
    assert_true(text_is(TEXT("abc"), "abc"));
    assert_false(text_is(TEXT("abc"), "abcd"));
    assert_true(text_starts_with(TEXT("abc"), TEXT("ab")));
    assert_true(text_starts_with(empty, empty));
    assert_false(text_starts_with(TEXT("ab"), TEXT("abc")));
    assert_true(text_ends_with(TEXT("abc"), TEXT("bc")));
    assert_false(text_ends_with(TEXT("abc"), TEXT("ab")));
    assert_true(text_compare(TEXT("a"), TEXT("b")) < 0);
    assert_true(text_compare(TEXT("b"), TEXT("ab")) > 0);
    assert_true(text_compare(TEXT("a"), TEXT("ab")) < 0);
    assert_true(text_compare(TEXT("\xff"), TEXT("a")) > 0);
    assert_int_equal(text_compare(empty, TEXT("")), 0);
}

/* Published values of XXH3 with seed 0, so that hashes in files stay readable. */
static void hash_is_xxh3(void **state) {
    (void)state;
    assert_true(text_hash((struct text){0}) == 0x2d06800538d394c2ull);
    assert_true(text_hash(TEXT("a")) != text_hash(TEXT("b")));
}

static void unsigned_numbers(void **state) {
    (void)state;
    static const char *const refused[] = {"", " 1", "1 ", "+1", "-1", "0x10", "1e3", "1.0", "18446744073709551616", "99999999999999999999"};
    uint64_t value = 77;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_false(text_parse_u64(text_of(refused[i]), &value));
        assert_int_equal(value, 77);
    }
    assert_true(text_parse_u64(TEXT("18446744073709551615"), &value));
    assert_true(value == UINT64_MAX);
    assert_true(text_parse_u64(TEXT("007"), &value));
    assert_int_equal(value, 7);
}

static void signed_numbers(void **state) {
    (void)state;
    int64_t value = 5;
    assert_true(text_parse_i64(TEXT("-9223372036854775808"), &value));
    assert_true(value == INT64_MIN);
    assert_true(text_parse_i64(TEXT("9223372036854775807"), &value));
    assert_true(value == INT64_MAX);
    assert_false(text_parse_i64(TEXT("9223372036854775808"), &value));
    assert_false(text_parse_i64(TEXT("-9223372036854775809"), &value));
    assert_false(text_parse_i64(TEXT("-"), &value));
    assert_false(text_parse_i64(TEXT("--1"), &value));
    assert_true(value == INT64_MAX);
}

static void fractions(void **state) {
    (void)state;
    static const char *const refused[] = {"",    ".",  "-",  "1.2.3", "nan", "inf",   "infinity", "0x1p3", "1e",
                                          "1e+", "+1", " 1", "1 ",    "1,5", "1e999", "-1e999",   "1f",    "e5"};
    double value = 77;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_false(text_parse_f64(text_of(refused[i]), &value));
        assert_true(value == 77);
    }
    static const struct {
        const char *text;
        double value;
    } accepted[] = {{"0", 0},  {"-0.5", -0.5}, {"1e-5", 1e-5}, {"10000", 10000}, {".5", 0.5},
                    {"5.", 5}, {"1E+2", 100},  {"1e-999", 0},  {"0.1", 0.1},     {"123456789.125", 123456789.125},
                    {"-7", -7}};
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        assert_true(text_parse_f64(text_of(accepted[i].text), &value));
        assert_true(value == accepted[i].value);
    }
    char digits[300];
    memset(digits, '1', sizeof(digits));
    assert_false(text_parse_f64((struct text){digits, sizeof(digits)}, &value));
}

/* A locale with a decimal comma must not change what "1.5" means. Skipped where no such locale is installed. */
static void fractions_in_another_locale(void **state) {
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
        skip();
    double value;
    assert_true(text_parse_f64(TEXT("1.5"), &value));
    assert_true(value == 1.5);
    assert_false(text_parse_f64(TEXT("1,5"), &value));
    setlocale(LC_ALL, "C");
}

static void sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t size_bytes;
    } accepted[] = {{"100", 100},        {"100B", 100},
                    {"512k", 512 << 10}, {"1536M", 1536ull << 20},
                    {"8G", 8ull << 30},  {"1.5GiB", 3ull << 29},
                    {"2tb", 2ull << 40}, {"0.25MiB", 256 << 10},
                    {"1K", 1024},        {"0", 0},
                    {"3kib", 3 << 10},   {"16777215T", 16777215ull << 40}};
    static const char *const refused[] = {"",   "G",    "1.5", "1.5B", "-1G",       "1 G",        "1GG",  "1iB",
                                          "1i", "1Gi2", "1.G", ".5G",  "16777216T", "1.1234567G", "1GBs", "18446744073709551616"};
    uint64_t value = 77;
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        if (!text_parse_size(text_of(accepted[i].text), &value) || value != accepted[i].size_bytes)
            fail_msg("%s gave %llu", accepted[i].text, (unsigned long long)value);
    }
    value = 77;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (text_parse_size(text_of(refused[i]), &value))
            fail_msg("'%s' was accepted", refused[i]);
        assert_int_equal(value, 77);
    }
}

static void sizes_for_people(void **state) {
    (void)state;
    static const struct {
        uint64_t size_bytes;
        const char *text;
    } cases[] = {{0, "0 B"},         {12, "12 B"},          {1023, "1023 B"},       {640 << 10, "640 KiB"},        {3ull << 29, "1.5 GiB"},
                 {1 << 20, "1 MiB"}, {1048575, "1024 KiB"}, {UINT64_MAX, "16 EiB"}, {(1 << 20) + 60000, "1.1 MiB"}};
    char buffer[32];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(text_format_size(cases[i].size_bytes, buffer, sizeof(buffer)), cases[i].text);
}

static void distances(void **state) {
    (void)state;
    assert_int_equal(text_distance(TEXT("max-token"), TEXT("max-tokens")), 1);
    assert_int_equal(text_distance(TEXT("kitten"), TEXT("sitting")), 3);
    assert_int_equal(text_distance(TEXT(""), TEXT("abc")), 3);
    assert_int_equal(text_distance(TEXT("abc"), TEXT("abc")), 0);
    char a[100], b[100];
    memset(a, 'a', sizeof(a));
    memset(b, 'b', sizeof(b));
    assert_int_equal(text_distance((struct text){a, sizeof(a)}, (struct text){b, sizeof(b)}), 64);
}

static void errors_are_one_printable_line(void **state) {
    (void)state;
    struct error err = {0};
    assert_int_equal(error_set(&err, STATUS_IO, "file '%s' is bad", "a\nb\x1b[31m"), STATUS_IO);
    assert_string_equal(err.text, "file 'a?b?[31m' is bad");
    assert_int_equal(error_prefix(&err, "layer %d", 12), STATUS_IO);
    assert_string_equal(err.text, "layer 12: file 'a?b?[31m' is bad");
    assert_int_equal(error_set(&err, STATUS_CORRUPT, "again: %s", err.text), STATUS_CORRUPT);
    assert_string_equal(err.text, "again: layer 12: file 'a?b?[31m' is bad");
    char text[2000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    assert_int_equal(error_set(&err, STATUS_IO, "%.990s", text), STATUS_IO);
    (void)error_prefix(&err, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    (void)error_prefix(&err, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_int_equal(error_set(NULL, STATUS_IO, "nobody listens"), STATUS_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparing),
        cmocka_unit_test(hash_is_xxh3),
        cmocka_unit_test(unsigned_numbers),
        cmocka_unit_test(signed_numbers),
        cmocka_unit_test(fractions),
        cmocka_unit_test(fractions_in_another_locale),
        cmocka_unit_test(sizes),
        cmocka_unit_test(sizes_for_people),
        cmocka_unit_test(distances),
        cmocka_unit_test(errors_are_one_printable_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
