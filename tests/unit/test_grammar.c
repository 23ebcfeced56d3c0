/* test_grammar: GBNF, regular expressions and JSON schemas: what they match, what they do not, and what is refused with which words. */
#include "grammar_fixture.h"

#include "base/byte_buffer.h"

struct matching {
    char kind;
    const char *form, *whole[8], *bad[8]; /* bad: neither whole nor the start of anything, or not whole ("text..") */
};

static const struct matching matchings[] = {
    {'G', "root ::= \"a\" | \"b\"", {"a", "b"}, {"c", "ab", ""}},
    {'G', "root ::= item+ # more\nitem ::= [a-c]\n  | \"-\" num\nnum ::= [0-9]{2,3}", {"a", "abc", "-12", "-123a"}, {"-1", "-1234", "d"}},
    {'G', "root ::= \"(\" root? \")\"", {"()", "((()))"}, {"(", "(()", "())", ")"}},
    {'G',
     "root ::= [^\"\\n] [\\x41-\\u0043] \"\\u00e4\\U0001F60A\"",
     {"xA\xc3\xa4\xf0\x9f\x98\x8a", "\xe2\x82\xac"
                                    "B\xc3\xa4\xf0\x9f\x98\x8a"},
     {"\"A", "xD"}},
    {'G', "root ::= (\"a\" | (\"b\" | \"c\")* \"d\") .", {"ax", "d\xc3\xa9", "bcbd!"}, {"bc", "a", "axx"}},
    {'G', "a-1 ::= \"x\"{0,2}\nroot ::=\n  a-1 \"y\"\n", {"y", "xy", "xxy"}, {"xxxy", "x"}},
    {'G', "root ::= a b\na ::= \"x\"?\nb ::= \"y\"*", {"", "x", "xyy", "y"}, {"yx"}},
    {'G', "root ::= x{3} y{2,}\nx ::= \"ab\"\ny ::= \"c\"", {"abababcc", "abababccccc"}, {"ababcc", "abababc"}},
    {'G', "s ::= \"a\" s \"b\" | \"a\" s \"c\" | \"\"\nroot ::= s", {"", "ab", "ac", "aabc", "aaaaaacbcbcb"}, {"abc", "b"}},
    {'R', "(yes|no)!?", {"yes", "no!", "yes!"}, {"maybe", "yes!!", "ye"}},
    {'R', "^[A-Z][a-z]{2,4}\\d\\.\\w+$", {"Abc1._", "Zabcd0.X9"}, {"abc1.x", "Ab1.x", "Abcdef"}},
    {'R', "a{2}|b{1,}|c{0,1}d|\\x41\\u0042\\u{43}", {"aa", "b", "bbb", "d", "cd", "ABC"}, {"a", "c", "ABCD"}},
    {'R',
     "[^a-z\\d]-?[\\]-a]",
     {"A-]", "\xc3\xa4"
             "a"},
     {"a]", "1]"}},
    {'R', "(?:x(?<name>y))*z+?", {"z", "xyz", "xyxyzz"}, {"xz", "xy"}},
    {'R', "(a*)*b", {"b", "aaab"}, {"a", "ba"}},
    {'R', "a{", {"a{"}, {"a"}},
    {'S', "{}", {"null", "1", "\"x\"", "[1,\"a\",{}]", "{\"a\":[true,false]}", "-0.5e+3"}, {"nul", "{a:1}", "[1,]", "01", "1."}},
    {'S', "{\"type\":\"object\"}", {"{}", "{\"a\": 1, \"b\":\n  []}"}, {"[]", "{\"a\"}", "{,}"}},
    {'S', "{\"type\":\"string\"}", {"\"\"", "\"\\n\\u00e4\\ud83d\\ude0a\xc3\xa4\""}, {"\"\\ud83d\"", "\"\\x\"", "\"\n\"", "\"\\ude0a"}},
    {'S', "{\"type\":[\"integer\",\"null\"]}", {"null", "0", "-12", "123456789012345"}, {"1.5", "-", "00", "1234567890123456"}},
    {'S',
     "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"const\":true},\"c\":{\"type\":\"null\"}},\"required\":["
     "\"b\"]}",
     {"{\"b\":true}", "{\"a\":1,\"b\":true}", "{\"a\": 1, \"b\": true, \"c\": null}", "{\"b\":true,\"c\":null}"},
     {"{\"a\":1}", "{}", "{\"b\":true,\"a\":1}", "{\"b\":true,}", "{\"b\":true,\"d\":1}"}},
    {'S',
     "{\"properties\":{\"ab\":{\"type\":\"integer\"}},\"additionalProperties\":{\"type\":\"boolean\"}}",
     {"{}", "{\"ab\":1}", "{\"a\":true}", "{\"abc\":true,\"\":false}", "{\"ab\":2,\"x\":true}"},
     {"{\"ab\":true}", "{\"x\":1}", "{\"x\":true,\"ab\":1}", "{\"\\u0061b\":true}"}},
    {'S',
     "{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"minItems\":1,\"maxItems\":2}",
     {"[null]", "[null, null]"},
     {"[]", "[null,null,null]"}},
    {'S', "{\"type\":\"array\",\"maxItems\":0}", {"[]"}, {"[1]"}},
    {'S',
     "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false,\"minItems\":1}",
     {"[1]", "[1,\"a\"]"},
     {"[]", "[\"a\"]", "[1,\"a\",2]"}},
    {'S', "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", {"\"ab\"", "\"\xc3\xa4\\n\xe2\x82\xac\""}, {"\"a\"", "\"abcd\""}},
    {'S', "{\"type\":\"string\",\"pattern\":\"^hello\\\\!$\"}", {"\"hello!\""}, {"\"hello\"", "\"xhello!\""}},
    {'S', "{\"type\":\"string\",\"pattern\":\"b\\\"\"}", {"\"b\\\"\"", "\"abb\\\"c\""}, {"\"b\"", "\"ab"}},
    {'S', "{\"enum\":[1,\"a\",null,{\"x\":[1,2]}]}", {"1", "\"a\"", "null", "{\"x\":[1, 2]}"}, {"2", "{}"}},
    {'S', "{\"const\":\"\xc3\xa4\\n\"}", {"\"\xc3\xa4\\n\""}, {"\"a\""}},
    {'S',
     "{\"anyOf\":[{\"type\":\"integer\",\"maximum\":5,\"minimum\":1},{\"type\":\"null\"}]}",
     {"1", "5", "null"},
     {"0", "6", "-1", "10"}},
    {'S', "{\"oneOf\":[{\"type\":\"string\",\"maxLength\":1},{\"type\":\"integer\"}]}", {"\"a\"", "7"}, {"\"ab\""}},
    {'S', "{\"allOf\":[{\"type\":\"integer\",\"minimum\":3},{\"type\":\"number\",\"maximum\":12}]}", {"3", "9", "12"}, {"2", "13", "3.5"}},
    {'S',
     "{\"$ref\":\"#/$defs/node\",\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
     "node\"},{\"type\":"
     "\"null\"}]}},\"required\":[\"next\"],\"additionalProperties\":false}}}",
     {"{\"next\":null}", "{\"next\":{\"next\":{\"next\":null}}}"},
     {"{}", "{\"next\":{}}"}},
    {'S', "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", {"[]", "[[],[[]]]"}, {"[1]"}},
    {'S',
     "{\"type\":\"integer\",\"minimum\":-15,\"maximum\":107}",
     {"-15", "-9", "0", "99", "100", "107"},
     {"-16", "108", "110", "200", "1000"}},
    {'S', "{\"type\":\"integer\",\"exclusiveMinimum\":9,\"exclusiveMaximum\":12}", {"10", "11"}, {"9", "12", "1", "100"}},
    {'S', "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":10}", {"14", "21", "700", "1001"}, {"7", "15", "10"}},
    {'S', "{\"type\":\"integer\",\"maximum\":9223372036854775807}", {"-5", "123456789012345"}, {"1.5"}},
    {'S',
     "{\"type\":\"number\",\"minimum\":0.5,\"maximum\":2.25}",
     {
         "0.5",
         "0.50",
         "0.7",
         "1",
         "1.999",
         "2",
         "2.2",
         "2.25",
     },
     {"0.4", "0.49", "2.26", "2.251", "3", "0"}},
    {'S',
     "{\"type\":\"number\",\"exclusiveMinimum\":-1.5,\"exclusiveMaximum\":0}",
     {"-1.4", "-1", "-0.001", "-1.49"},
     {"-1.5", "0", "-2", "-1.50", "1"}},
    {'S', "{\"type\":\"number\",\"multipleOf\":0.01}", {"1", "1.2", "-1.25"}, {"1.255"}},
    {'S', "{\"type\":\"string\",\"format\":\"date\"}", {"\"2024-12-31\"", "\"2023-02-28\""}, {"\"2023-02-30\"", "\"2023-13", "\"23-"}},
    {'S', "{\"type\":\"string\",\"format\":\"ipv4\"}", {"\"1.2.3.255\""}, {"\"1.2.3\"", "\"256"}},
    {'S', "{\"type\":\"string\",\"maxLength\":1e300}", {"\"\""}, {"1"}},
    {'M', "{\"$ref\":\"#/$defs/a\",\"minLength\":2,\"$defs\":{\"a\":{\"type\":\"string\"}}}", {"ab", "a\"\n"}, {"a", "a<b"}},
    {'M',
     "{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"enum\":[\"x\",\"<y>\"]}}}",
     {"x", "<y>"},
     {"y", "xx"}},
    {'S', "{\"type\":\"string\",\"nullable\":true,\"title\":\"x\",\"description\":\"a \\\"]\\n\"}", {"null", "\"\""}, {"1"}},
};

static void matches(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof matchings / sizeof *matchings; i++) {
        const struct matching *c = &matchings[i];
        struct grammar g;
        struct matcher *m;
        struct error err;
        if (build_grammar(&g, c->kind, c->form, &err) != STATUS_OK)
            fail_msg("%s: %s", c->form, err.text);
        ASSERT_OK(matcher_create(&g, 4u << 20, false, &m, &err), err);
        for (size_t k = 0; k < 8 && c->whole[k]; k++)
            if (run_matcher(m, text_of(c->whole[k]), &err) != 2)
                fail_msg("%s: does not match %s", c->form, c->whole[k]);
        for (size_t k = 0; k < 8 && c->bad[k]; k++)
            if (run_matcher(m, text_of(c->bad[k]), &err) == 2)
                fail_msg("%s: matches %s", c->form, c->bad[k]);
        matcher_destroy(m);
        grammar_deinit(&g);
    }
}

static const struct {
    char kind;
    const char *form, *words;
} refusals[] = {
    {'G', "", "root"},
    {'G', "rot ::= \"a\"", "root"},
    {'G', "root ::= x", "not defined"},
    {'G', "root ::= \"a", "ends inside"},
    {'G', "root ::= [a-", "ends inside"},
    {'G', "root ::= (\"a\"", "not closed"},
    {'G', "root ::= \"a\" )", "line 1, column 14"},
    {'G', "root ::= \"a\"\nroot ::= \"b\"", "defined twice"},
    {'G', "root ::= \"a\"{3,2}", "{m,n}"},
    {'G', "root ::= \"a\"{}", "{m,n}"},
    {'G', "root ::= \"a\"{x}", "{m,n}"},
    {'G', "root ::= [b-a]", "backwards"},
    {'G', "root ::= \"\\q\"", "escape"},
    {'G', "root ::= \"\\uD800\"", "no character"},
    {'G', "root ::= root \"a\" | \"b\"", "begins with itself"},
    {'G', "root ::= x\nx ::= y? x \"a\" | \"b\"\ny ::= \"c\"", "begins with itself"},
    {'G', "root ::= \"a\" root", "no text has this form"},
    {'G', "root ::= [^\\x00-\\U0010FFFF]", "no text has this form"},
    {'G', "root ::= \"a\"{9999999}", "1000000"},
    {'G', "root ::= \xff", "a rule is expected"},
    {'R', "a(", "not closed"},
    {'R', "a)", "not opened"},
    {'R', "*a", "nothing to repeat"},
    {'R', "a{3,1}", "wrong way"},
    {'R', "[a", "not closed"},
    {'R', "(?=a)", "look-around"},
    {'R', "(?<!a)b", "look-around"},
    {'R', "(a)\\1", "escape"},
    {'R', "\\bword", "escape"},
    {'R', "a^b", "at the ends"},
    {'R', "[z-a]", "backwards"},
    {'S', "{\"type\":\"wat\"}", "schema: type must be one of"},
    {'S', "{\"properties\":{\"a\":{\"not\":{}}}}", "schema.properties.a: keyword 'not'"},
    {'S', "{\"items\":{\"uniqueItems\":true}}", "schema.items: uniqueItems"},
    {'S', "{\"$ref\":\"#/nowhere\"}", "points to nothing"},
    {'S', "{\"$ref\":\"http://x/y\"}", "does not point into"},
    {'S', "{\"$ref\":\"#\"}", "begins with itself"},
    {'S', "{\"allOf\":[{\"$ref\":\"#\"}]}", "without end"},
    {'S', "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "no text has this form"},
    {'S', "{\"type\":\"string\",\"pattern\":\"(?=x)\"}", "schema: pattern '(?=x)'"},
    {'S', "{\"type\":\"string\",\"format\":\"color\"}", "format 'color'"},
    {'S', "{\"type\":\"string\",\"minLength\":5,\"maxLength\":4}", "minLength is above"},
    {'S', "{\"type\":\"string\",\"minLength\":-1}", "whole number"},
    {'S', "{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", "minItems is above"},
    {'S', "{\"items\":false,\"minItems\":1}", "minItems is above"},
    {'S', "{\"type\":\"string\",\"minLength\":1e300}", "minLength is more than"},
    {'S', "{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no text has this form"},
    {'S', "{\"type\":\"integer\",\"multipleOf\":0}", "multipleOf"},
    {'S', "{\"enum\":[]}", "enum must be"},
    {'S', "{\"type\":\"string\",\"enum\":[1]}", "no value of enum"},
    {'S', "{\"required\":[\"a\"],\"additionalProperties\":false}", "additionalProperties: false forbids"},
    {'S', "{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"string\"}]}", "use anyOf"},
    {'S', "{\"patternProperties\":{}}", "patternProperties"},
    {'S', "[]", "a schema must be an object"},
    {'S', "{\"anyOf\":[]}", "anyOf must be"},
    {'S', "{\"properties\":{\"a\":false}}", "false allows no value"},
};

static void refuses(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct grammar g;
        struct error err = {0};
        if (build_grammar(&g, refusals[i].kind, refusals[i].form, &err) == STATUS_OK)
            fail_msg("%s: was taken", refusals[i].form);
        if (!strstr(err.text, refusals[i].words))
            fail_msg("%s: the error is: %s", refusals[i].form, err.text);
        grammar_deinit(&g);
    }
}

/* What people fear of grammars: counts, nesting, size. Bounded in memory and time. */
static void large_forms(void **state) {
    (void)state;
    static const char *const forms[] = {
        "{\"type\":\"string\",\"minLength\":3,\"maxLength\":100000}",
        "{\"maxItems\":10000,\"items\":{\"maxItems\":10000,\"items\":{\"type\":\"string\",\"maxLength\":2000}}}",
        "{\"type\":\"string\",\"pattern\":\"^((a{1,1000}b){1,1000}c){1,1000}$\"}",
    };
    struct error err;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct grammar g;
        struct matcher *m;
        ASSERT_OK(build_grammar(&g, 'S', forms[i], &err), err);
        assert_true(g.node_count < 5000);
        ASSERT_OK(matcher_create(&g, 1u << 20, false, &m, &err), err);
        assert_int_equal(run_matcher(m, TEXT("x"), &err), 0);
        matcher_destroy(m);
        grammar_deinit(&g);
    }
    struct byte_buffer many;
    byte_buffer_init(&many, 1u << 20);
    ASSERT_OK(byte_buffer_printf(&many, &err, "{\"required\":["), err);
    for (int i = 0; i < 80000; i++)
        ASSERT_OK(byte_buffer_printf(&many, &err, "%s\"n%d\"", i ? "," : "", i), err);
    ASSERT_OK(byte_buffer_printf(&many, &err, "]}"), err);
    struct grammar names;
    assert_int_equal(build_grammar(&names, 'S', many.data, &err), STATUS_OVER_BUDGET);
    grammar_deinit(&names);
    byte_buffer_deinit(&many);
    char deep[4000];
    for (int d = 0; d < 1000; d++)
        memcpy(deep + 4 * d, d < 500 ? "(a|(" : "b))c", 4);
    deep[3999] = 0;
    struct grammar g;
    assert_int_not_equal(build_grammar(&g, 'R', deep, &err), STATUS_OK);
    assert_non_null(strstr(err.text, "too deep"));
    grammar_deinit(&g);
}

static void memory_runs_out(void **state) {
    (void)state;
    struct error err;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    for (size_t i = 0; i < sizeof matchings / sizeof *matchings; i += 3) {
        bool done = false;
        for (uint64_t n = 1; !done; n++) {
            struct grammar g;
            struct matcher *m = NULL;
            memory_fail_after(n);
            enum status status = build_grammar(&g, matchings[i].kind, matchings[i].form, &err);
            if (status == STATUS_OK)
                status = matcher_create(&g, 1u << 20, false, &m, &err);
            memory_fail_after(0);
            done = status == STATUS_OK;
            if (!done && status != STATUS_NO_MEMORY)
                fail_msg("%s, allocation %u: %s", matchings[i].form, (unsigned)n, err.text);
            matcher_destroy(m);
            grammar_deinit(&g);
            if (memory_owner_bytes(MEMORY_OTHER) != before)
                fail_msg("%s, allocation %u: memory is lost", matchings[i].form, (unsigned)n);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches), cmocka_unit_test(refuses), cmocka_unit_test(large_forms),
                                       cmocka_unit_test(memory_runs_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
