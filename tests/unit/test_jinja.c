/* test_jinja: the template language against results of jinja2 3.1.6, its limits, its trust marks and its failures. */
#include "template_fixture.h"

#include "base/memory.h"
#include "text/jinja.h"

struct rendered {
    char text[4000];
    struct jinja_span spans[64];
    size_t span_count;
    struct jinja_error problem;
};

/* Renders source with the variables of `context` (JSON object, or NULL) as data. False on failure. */
static bool render_with(const char *source, size_t size_bytes, const json_t *context, const struct jinja_limits *limits,
                        struct rendered *out) {
    struct error err;
    struct jinja_template *template = NULL;
    struct jinja_run *run = NULL;
    struct jinja_output output;
    struct tm clock = {.tm_year = 125, .tm_mon = 2, .tm_mday = 9, .tm_hour = 14, .tm_min = 5, .tm_sec = 7, .tm_yday = 67};
    const char *name;
    json_t *value;
    memset(out, 0, sizeof *out);
    if (jinja_compile((struct text){source, size_bytes}, &template, &out->problem) != STATUS_OK)
        return false;
    ASSERT_OK(jinja_run_create(limits, &run, &err), err);
    jinja_set_clock(run, &clock);
    json_object_foreach((json_t *)context, name, value) jinja_set_json(run, name, value, NULL);
    bool rendered = jinja_render(run, template, &output, &out->problem) == STATUS_OK;
    if (rendered) {
        assert_true(output.text.size_bytes < sizeof out->text && output.span_count <= 64);
        memcpy(out->text, output.text.data, output.text.size_bytes);
        memcpy(out->spans, output.spans, output.span_count * sizeof *out->spans);
        out->span_count = output.span_count;
    }
    jinja_run_destroy(run);
    jinja_template_destroy(template);
    return rendered;
}

static bool render(const char *source, const char *context, struct rendered *out) {
    struct jinja_limits limits = jinja_limits_default();
    json_t *json = context ? json_loads(context, 0, NULL) : NULL;
    assert_true(!context || json);
    bool rendered = render_with(source, strlen(source), json, &limits, out);
    json_decref(json);
    return rendered;
}

static void assert_renders(const char *source, const char *context, const char *expected) {
    struct rendered out;
    if (!render(source, context, &out))
        fail_msg("%s: line %u: %s", source, out.problem.line, out.problem.message);
    assert_string_equal(out.text, expected);
}

static void assert_refused(const char *source, enum jinja_failure failure, uint32_t line, const char *words) {
    struct rendered out;
    assert_false(render(source, NULL, &out));
    if (out.problem.failure != failure || out.problem.line != line || !strstr(out.problem.message, words))
        fail_msg("%s: failure %d, line %u: %s", source, (int)out.problem.failure, out.problem.line, out.problem.message);
}

/* The snippets that jinja2 was asked for: text, or failure with its line; the words only of raise_exception. */
static void snippets_equal_jinja2(void **state) {
    (void)state;
    json_t *cases = template_json("micro.json");
    struct jinja_limits limits = jinja_limits_default();
    size_t i;
    json_t *c;
    json_array_foreach(cases, i, c) {
        struct rendered out;
        const char *source = json_string_value(json_object_get(c, "template")), *error = json_string_value(json_object_get(c, "error"));
        const char *type = json_string_value(json_object_get(c, "error_type"));
        bool rendered = render_with(source, strlen(source), json_object_get(c, "context"), &limits, &out);
        if (rendered != !error)
            fail_msg("%s: %s", source, rendered ? out.text : out.problem.message);
        if (rendered) {
            assert_string_equal(out.text, json_string_value(json_object_get(c, "expected")));
            continue;
        }
        if (json_object_get(c, "line"))
            assert_int_equal(out.problem.line, json_integer_value(json_object_get(c, "line")));
        if (strcmp(type, "TemplateError") == 0)
            assert_string_equal(out.problem.message, error);
        assert_int_equal(out.problem.failure == JINJA_RAISED, strcmp(type, "TemplateError") == 0);
        assert_int_equal(out.problem.failure == JINJA_SECURITY, strcmp(type, "SecurityError") == 0);
    }
    assert_true(json_array_size(cases) > 300);
    json_decref(cases);
}

static void b1_break_and_continue(void **state) {
    (void)state;
    const char *messages = "{\"messages\": [{\"content\": \"a\"}, {\"content\": \"b\"}, {\"content\": \"c\"}]}";
    assert_renders("{% for m in messages %}{% if loop.index>1 %}{% break %}{% endif %}{{ m.content }}{% endfor %}", messages, "a");
    assert_renders("{% for m in messages %}{% if loop.index == 2 %}{% continue %}{% endif %}{{ m.content }}{% endfor %}", messages, "ac");
    assert_refused("{% if true %}\n{% break %}{% endif %}", JINJA_SYNTAX, 2, "outside loop");
    assert_refused("a\n{{ 'x' | nosuchfilter }}", JINJA_SYNTAX, 2, "No filter named 'nosuchfilter'");
    assert_refused("a\n\n{% frobnicate %}", JINJA_SYNTAX, 3, "unknown tag 'frobnicate'");
    assert_refused("{{ 'x' | urlize }}", JINJA_SYNTAX, 1, "urlize");
    assert_renders("{% if false %}{{ 'x' | nosuchfilter }}{% endif %}ok", NULL, "ok");
}

static void b2_python_expressions(void **state) {
    (void)state;
    assert_renders("{% for m in l[::-1] %}{{ m }}{% endfor %}", "{\"l\": [1, 2, 3]}", "321");
    assert_renders("{{ s.split('</think>')[-1].lstrip('\\n') }}", "{\"s\": \"<think>\\nx\\n</think>\\n\\nanswer\\n\"}", "answer\n");
    assert_renders("{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", NULL, "4");
    assert_renders("{{ '%02d' % 7 }}{{ x is defined }}{{ 7 // -2 }}{{ -7 % 3 }}{{ 2 ** 3 ** 2 }}{{ -2 ** 2 }}", NULL, "07False-42644");
    assert_renders("{% macro f(a, b='B') -%}  {{ a }}{{ b }}  {%- endmacro %}[{{ f(1) }}{{ f(b=2, a=3) }}]", NULL, "[1B32]");
    assert_renders("{{ {'a': 'b', 'c': none, 'd': [true, 1.0, \"it's\"]} }}", NULL, "{'a': 'b', 'c': None, 'd': [True, 1.0, \"it's\"]}");
    assert_renders("{% for x in l %}{{ loop.previtem if loop.previtem is defined else '-' }}{{ x }}{% endfor %}", "{\"l\": [1, 2]}",
                   "-112");
    assert_renders("{{ 99999999999999999999 * 99999999999999999999 // 7 }}", NULL, "1428571428571428571400000000000000000000");
    assert_renders("{% for x in l %}{% continue %}{% else %}none finished{% endfor %}", "{\"l\": [1]}", "none finished");
}

static void b3_clock(void **state) {
    (void)state;
    struct error err;
    struct rendered out;
    assert_renders("{{ strftime_now(\"%Y-%m-%d\") }} {{ strftime_now('%H:%M %f%z|') }}", NULL, "2025-03-09 14:05 000000|");
    assert_renders("{{ strftime_now('') }}", NULL, "");
    assert_false(render("{{ strftime_now(1) }}", NULL, &out));
    struct jinja_limits limits = jinja_limits_default(); /* without a fixed clock: the local time */
    struct jinja_run *run;
    struct jinja_template *template;
    struct jinja_output output;
    ASSERT_OK(jinja_compile(TEXT("{{ strftime_now('%Y') }}"), &template, &out.problem), err);
    ASSERT_OK(jinja_run_create(&limits, &run, &err), err);
    assert_int_equal(jinja_render(run, template, &output, &out.problem), STATUS_OK);
    assert_true(output.text.size_bytes == 4 && memcmp(output.text.data, "20", 2) == 0);
    jinja_run_destroy(run);
    jinja_template_destroy(template);
}

static void b17_foreign_template(void **state) {
    (void)state;
    assert_refused("{{- if .System }}{{ .System }}{{ end }}", JINJA_SYNTAX, 1, "unexpected");
    assert_refused("line\n{{ $x := .Messages }}x", JINJA_SYNTAX, 2, "");
    assert_refused("{{ \xff }}", JINJA_SYNTAX, 0, "UTF-8");
}

static void failures_have_places(void **state) {
    (void)state;
    assert_refused("a\n{{ b.c }}", JINJA_UNDEFINED_USE, 2, "'b' is undefined");
    assert_refused("{{ raise_exception('one\ntwo') }}", JINJA_RAISED, 1, "one\ntwo");
    assert_refused("{% macro f() %}\n{{ 1 + 'a' }}{% endmacro %}\n{{ f() }}", JINJA_TYPE, 2, "unsupported operand");
    assert_refused("{{ ''.__class__.__mro__ }}", JINJA_SECURITY, 1, "__class__");
    assert_refused("{% set x = [] %}{{ x.append(1) }}", JINJA_SECURITY, 1, "append");
    assert_refused("{{ namespace(_x=1) }}", JINJA_SECURITY, 1, "underscore");
    assert_refused("{% include 'x' %}", JINJA_TYPE, 1, "no loader");
    assert_refused("{{ 'a", JINJA_SYNTAX, 1, "unexpected");
    struct rendered out;
    assert_false(render("{{ 1 }}\n   {{ x.y }}", NULL, &out));
    assert_int_equal(out.problem.column, 8);
}

/* One template at its limits; each must fail as JINJA_LIMIT, and soon. */
static void sandbox_has_limits(void **state) {
    (void)state;
    static const char *const sources[] = {
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% for i in range(1000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{{ 'x' * 1000000000000 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ 9 ** 99999 }}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ [1] * 100000000 }}",
    };
    struct jinja_limits limits = {.steps = 1000000, .output_bytes = 100000, .memory_bytes = 8 << 20, .depth = 100};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct rendered out;
        if (render_with(sources[i], strlen(sources[i]), NULL, &limits, &out))
            fail_msg("%s: rendered", sources[i]);
        if (out.problem.failure != JINJA_LIMIT)
            fail_msg("%s: %s", sources[i], out.problem.message);
    }
    char deep[5000];
    memset(deep, '(', sizeof deep);
    memcpy(deep, "{{ ", 3);
    struct rendered out;
    assert_false(render_with(deep, sizeof deep, NULL, &limits, &out)); /* unclosed and too deep: an error of syntax, no crash */
    assert_int_equal(out.problem.failure, JINJA_SYNTAX);
}

static void mutation_when_allowed(void **state) {
    (void)state;
    struct rendered out;
    struct jinja_limits limits = jinja_limits_default();
    limits.allow_mutation = true;
    static const char source[] =
        "{% set x = [1] %}{% set _ = x.append(2) %}{% set _ = x.insert(0, 0) %}{{ x.pop() }}{{ x }}{% set d = {} %}"
        "{% set _ = d.update({'a': 1}) %}{{ d.pop('a') }}{{ d }}{{ [1, 2] | map('string') | tojson }}"
        "{{ '{\"a\": [1]}' | from_json if true }}";
    assert_true(render_with(source, strlen(source), NULL, &limits, &out));
    assert_string_equal(out.text, "2[0, 1]1{}[\"1\", \"2\"]{'a': [1]}");
    static const char cycle[] = "{% set x = [] %}{% set _ = x.append(x) %}{{ x }}";
    assert_false(render_with(cycle, strlen(cycle), NULL, &limits, &out));
    assert_int_equal(out.problem.failure, JINJA_LIMIT);
}

/* A8: every byte of the output knows whether the template wrote it. `marks`: one letter a byte, t or d. */
static void assert_marks(const char *source, const char *context, const char *text, const char *marks) {
    struct rendered out;
    if (!render(source, context, &out))
        fail_msg("%s: %s", source, out.problem.message);
    assert_string_equal(out.text, text);
    assert_int_equal(strlen(text), strlen(marks));
    size_t at = 0;
    for (size_t i = 0; i < out.span_count; i++)
        for (assert_int_equal(out.spans[i].begin, at); at < out.spans[i].end; at++)
            assert_int_equal(marks[at], out.spans[i].trusted ? 't' : 'd');
    assert_int_equal(at, strlen(text));
}

static void a8_marks_of_trust(void **state) {
    (void)state;
    const char *context = "{\"s\": \"<|x|> Yz\", \"l\": [\"a\", \"b\"]}";
    assert_marks("<{{ s }}>", context, "<<|x|> Yz>", "tddddddddt");
    assert_marks("{{ ('<|' + s | upper | trim + '|>').replace('Y', '--') }}", context, "<|<|X|> --Z|>", "ttddddddttdtt");
    assert_marks("{{ s.split(' ')[-1] ~ s[0] ~ 'q' }}", context, "Yz<q", "dddt");
    assert_marks("{{ '%s/%s' % (s[6:], 'k') }}{{ '{}.'.format(l[0]) }}", context, "Yz/ka.", "ddttdt");
    assert_marks("{{ l | join('+') }}{{ l | tojson }}", context, "a+b[\"a\", \"b\"]", "dtdttdttttdtt");
    assert_marks("{% set t %}<{{ s[0] }}{% endset %}{{ t | title }}{{ t[::-1] }}", context, "<<<<", "tddt");
    assert_marks("{% macro f(x) %}({{ x }}){% endmacro %}{{ f(l[1]) | upper }}{{ s | tojson }}", context, "(B)\"<|x|> Yz\"",
                 "tdttddddddddt");
    assert_marks("{{ {'role': 'k', s[6:]: 1} }}", context, "{'role': 'k', 'Yz': 1}", "tttttttttttttttddttttt");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets_equal_jinja2), cmocka_unit_test(b1_break_and_continue),
        cmocka_unit_test(b2_python_expressions), cmocka_unit_test(b3_clock),
        cmocka_unit_test(b17_foreign_template),  cmocka_unit_test(failures_have_places),
        cmocka_unit_test(sandbox_has_limits),    cmocka_unit_test(mutation_when_allowed),
        cmocka_unit_test(a8_marks_of_trust),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
