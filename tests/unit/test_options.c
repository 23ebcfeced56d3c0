/* test_options: forms, order of force, ranges, words beside sizes, near misses, help, man page and --print-config. */
#include "test_support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/options.h"

static const struct option_spec prompt = {
    .name = "prompt", .kind = OPTION_TEXT, .short_name = 'p', .value = "TEXT", .help = "The text to go on from."};
static const struct option_spec max_tokens = {.name = "max-tokens",
                                              .kind = OPTION_U64,
                                              .short_name = 'n',
                                              .value = "N",
                                              .initial = "128",
                                              .minimum = 1,
                                              .maximum = 1000,
                                              .help = "Stop after so many."};
static const struct option_spec temp = {
    .name = "temp", .kind = OPTION_F64, .value = "T", .initial = "0.8", .minimum = 0, .maximum = 100, .help = "Temperature."};
static const struct option_spec ram = {
    .name = "ram", .kind = OPTION_SIZE, .value = "SIZE", .initial = "auto", .choices = "auto|all|min", .help = "Bounds the whole process."};
static const struct option_spec reader = {.name = "reader",
                                          .kind = OPTION_CHOICE,
                                          .value = "NAME",
                                          .initial = "uring",
                                          .choices = "uring|threads|sync",
                                          .help = "How files are read."};
static const struct option_spec stop = {
    .name = "stop", .kind = OPTION_TEXT, .repeats = true, .value = "TEXT", .help = "Ends the text; may be repeated."};
static const struct option_spec quiet = {.name = "quiet", .kind = OPTION_FLAG, .short_name = 'q', .help = "Says less."};
static const struct option_spec *const table[] = {&prompt, &max_tokens, &temp, &ram, &reader, &stop, &quiet, NULL};
static const struct command_spec command = {.name = "generate",
                                            .arguments = "MODEL",
                                            .summary = "Continues a prompt.",
                                            .details = ".starts with a dot.\n\nSecond \\ paragraph.",
                                            .options = table,
                                            .arguments_min = 1,
                                            .arguments_max = 1};
static const struct command_spec *const commands[] = {&command, NULL};

static char directory[] = "/tmp/sluice-test-options-XXXXXX";
static char config_path[100];

static int make_config_home(void **state) {
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    setenv("XDG_CONFIG_HOME", directory, 1);
    char sub[80];
    snprintf(sub, sizeof(sub), "%s/sluice", directory);
    snprintf(config_path, sizeof(config_path), "%s/config", sub);
    return mkdir(sub, 0700);
}

static int remove_config_home(void **state) {
    (void)state;
    char sub[80];
    snprintf(sub, sizeof(sub), "%s/sluice", directory);
    return rmdir(sub) || rmdir(directory);
}

static int clean_sources(void **state) {
    (void)state;
    (void)unlink(config_path);
    unsetenv("SLUICE_MAX_TOKENS");
    unsetenv("SLUICE_QUIET");
    unsetenv("SLUICE_STOP");
    unsetenv("SLUICE_HISTORY");
    unsetenv("SLUICE_MAX_TOKENZ");
    return 0;
}

static void write_config(const char *text) {
    struct error err;
    ASSERT_OK(file_write(config_path, text, strlen(text), &err), err);
}

/* Parses the words up to NULL. */
static enum status parse(const char *const *words, struct options **out, struct error *err) {
    int argc = 0;
    while (words[argc])
        argc++;
    return options_parse(&command, argc, (char **)(uintptr_t)words, out, err);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The words must be refused, and the error must hold `part`. */
static void refused(const char *const *words, const char *part) {
    struct error err = {0};
    struct options *options;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    ASSERT_FAILS(parse(words, &options, &err), STATUS_INVALID, err);
    assert_null(options);
    if (!strstr(err.text, part))
        fail_msg("no '%s' in: %s", part, err.text);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
}

static void defaults(void **state) {
    (void)state;
    struct error err;
    struct options *options;
    uint64_t size;
    const char *const *texts;
    ASSERT_OK(parse(WORDS("model.gguf"), &options, &err), err);
    assert_int_equal(options_argument_count(options), 1);
    assert_string_equal(options_argument(options, 0), "model.gguf");
    assert_int_equal(options_u64(options, "max-tokens"), 128);
    assert_true(options_f64(options, "temp") == 0.8);
    assert_false(options_size(options, "ram", &size));
    assert_string_equal(options_text(options, "ram"), "auto");
    assert_string_equal(options_text(options, "reader"), "uring");
    assert_null(options_text(options, "prompt"));
    assert_int_equal(options_texts(options, "stop", &texts), 0);
    assert_false(options_flag(options, "quiet"));
    assert_false(options_is_set(options, "max-tokens"));
    assert_false(options_help_wanted(options));
    options_destroy(options);
    options_destroy(NULL);
}

static void all_forms(void **state) {
    (void)state;
    struct error err;
    struct options *options;
    uint64_t size;
    const char *const *texts;
    ASSERT_OK(
        parse(WORDS("-qp", "-hello", "--max-tokens=7", "--ram", "1.5G", "--stop", "a", "m", "--stop=", "--temp", "0", "--reader=sync"),
              &options, &err),
        err);
    assert_true(options_flag(options, "quiet"));
    assert_string_equal(options_text(options, "prompt"), "-hello");
    assert_int_equal(options_u64(options, "max-tokens"), 7);
    assert_true(options_size(options, "ram", &size) && size == 3ull << 29);
    assert_int_equal(options_texts(options, "stop", &texts), 2);
    assert_string_equal(texts[0], "a");
    assert_string_equal(texts[1], "");
    assert_true(options_f64(options, "temp") == 0);
    assert_true(options_is_set(options, "temp"));
    options_destroy(options);

    ASSERT_OK(parse(WORDS("-n5", "--quiet", "--no-quiet", "-n", "6", "--", "--prompt"), &options, &err), err);
    assert_int_equal(options_u64(options, "max-tokens"), 6);
    assert_false(options_flag(options, "quiet"));
    assert_string_equal(options_argument(options, 0), "--prompt");
    options_destroy(options);

    ASSERT_OK(parse(WORDS("--quiet=yes", "-"), &options, &err), err);
    assert_true(options_flag(options, "quiet"));
    assert_string_equal(options_argument(options, 0), "-");
    options_destroy(options);
}

static void mistakes_are_named(void **state) {
    (void)state;
    refused(WORDS("m", "--max-token", "5"), "did you mean --max-tokens?");
    refused(WORDS("m", "--max-tokens-to-sample", "5"), "did you mean --max-tokens?");
    refused(WORDS("m", "--xyzzy"), "unknown option --xyzzy");
    refused(WORDS("m", "-x"), "unknown option -x");
    refused(WORDS("m", "--no-prompt"), "unknown option --no-prompt");
    refused(WORDS("m", "--max-tokens", "0"), "--max-tokens: '0' is not a whole number from 1 to 1000 (command line)");
    refused(WORDS("m", "--max-tokens=1001"), "from 1 to 1000");
    refused(WORDS("m", "--max-tokens=5x"), "'5x'");
    refused(WORDS("m", "--temp=warm"), "is not a number from 0 to 100");
    refused(WORDS("m", "--temp=-1"), "'-1'");
    refused(WORDS("m", "--ram=much"), "is not a size such as 1536M or 8G, or one of auto|all|min");
    refused(WORDS("m", "--reader=fast"), "is not one of uring|threads|sync");
    refused(WORDS("m", "--quiet=maybe"), "true or false");
    refused(WORDS("m", "--prompt"), "--prompt needs a value: --prompt TEXT");
    refused(WORDS("m", "--prompt", "--temp", "1"), "write --prompt=--temp");
    refused(WORDS("--quiet"), "generate needs MODEL");
    refused(WORDS("m", "two"), "'two' is one too many");
}

static void order_of_force(void **state) {
    (void)state;
    struct error err;
    struct options *options;
    const char *const *texts;
    write_config("# a comment\n\n  max-tokens = 10 \nquiet=true\n stop = from file\nport = 8080\n");
    ASSERT_OK(parse(WORDS("m"), &options, &err), err);
    assert_int_equal(options_u64(options, "max-tokens"), 10);
    assert_true(options_flag(options, "quiet"));
    assert_int_equal(options_texts(options, "stop", &texts), 1);
    assert_string_equal(texts[0], "from file");
    options_destroy(options);

    setenv("SLUICE_MAX_TOKENS", "20", 1);
    setenv("SLUICE_QUIET", "0", 1);
    ASSERT_OK(parse(WORDS("m"), &options, &err), err);
    assert_int_equal(options_u64(options, "max-tokens"), 20);
    assert_false(options_flag(options, "quiet"));
    options_destroy(options);

    ASSERT_OK(parse(WORDS("m", "-n", "30", "--stop", "x", "--stop", "y"), &options, &err), err);
    assert_int_equal(options_u64(options, "max-tokens"), 30);
    assert_int_equal(options_texts(options, "stop", &texts), 2);
    assert_string_equal(texts[0], "x");
    options_destroy(options);
}

static void bad_values_name_their_source(void **state) {
    (void)state;
    setenv("SLUICE_MAX_TOKENS", "many", 1);
    refused(WORDS("m"), "environment, SLUICE_MAX_TOKENS");
    unsetenv("SLUICE_MAX_TOKENS");
    write_config("\nmax-tokens = many\n");
    refused(WORDS("m"), config_path);
    refused(WORDS("m"), "line 2");
    write_config("max-tokens\n");
    refused(WORDS("m"), "is not \"name = value\"");
}

static void wrong_names_are_found(void **state) {
    (void)state;
    struct error err;
    setenv("SLUICE_TEST_ANYTHING", "1", 1);
    write_config("ram = 1G\n");
    ASSERT_OK(options_check_names(commands, &err), err);
    setenv("SLUICE_MAX_TOKENZ", "1", 1);
    ASSERT_FAILS(options_check_names(commands, &err), STATUS_INVALID, err);
    assert_non_null(strstr(err.text, "environment, SLUICE_MAX_TOKENZ"));
    assert_non_null(strstr(err.text, "did you mean 'max-tokens'?"));
    unsetenv("SLUICE_MAX_TOKENZ");
    write_config("# fine\nrsm = 1G\n");
    ASSERT_FAILS(options_check_names(commands, &err), STATUS_INVALID, err);
    assert_non_null(strstr(err.text, "line 2"));
    assert_non_null(strstr(err.text, "did you mean 'ram'?"));
    write_config("nonsense\n");
    ASSERT_FAILS(options_check_names(commands, &err), STATUS_INVALID, err);
}

/* What `print` writes, for the caller to free. */
static char *printed(void (*print)(const void *what, FILE *out), const void *what) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    print(what, out);
    fclose(out);
    return text;
}

static void print_help(const void *what, FILE *out) {
    options_print_help(what, out);
}
static void print_config(const void *what, FILE *out) {
    options_print_config(what, out);
}

static void help_comes_from_the_table(void **state) {
    (void)state;
    struct error err;
    struct options *options;
    ASSERT_OK(parse(WORDS("--help"), &options, &err), err); /* no MODEL is needed for that */
    assert_true(options_help_wanted(options));
    options_destroy(options);
    ASSERT_OK(parse(WORDS("-h", "--max-tokens", "3"), &options, &err), err);
    assert_true(options_help_wanted(options));
    options_destroy(options);
    char *help = printed(print_help, &command);
    assert_non_null(strstr(help, "Usage: sluice generate [options] MODEL\n"));
    assert_non_null(strstr(help, "  -n, --max-tokens N        Stop after so many. (1 to 1000; default 128)\n"));
    assert_non_null(strstr(help, "      --ram SIZE            Bounds the whole process. (or auto|all|min; default auto)\n"));
    for (const char *line = help; *line;) {
        size_t length = strcspn(line, "\n");
        assert_true(length <= 100);
        line += length + 1;
    }
    free(help);
}

static void config_is_printed_with_sources(void **state) {
    (void)state;
    struct error err;
    struct options *options;
    setenv("SLUICE_STOP", "env", 1);
    ASSERT_OK(parse(WORDS("m", "-n", "3"), &options, &err), err);
    char *text = printed(print_config, options);
    assert_non_null(strstr(text, "max-tokens = 3 (command line)\n"));
    assert_non_null(strstr(text, "stop = env (environment, SLUICE_STOP)\n"));
    assert_non_null(strstr(text, "quiet = false (default)\n"));
    assert_non_null(strstr(text, "prompt =  (default)\n"));
    free(text);
    options_destroy(options);
}

static void man_page_is_roff(void **state) {
    (void)state;
    struct error err;
    struct byte_buffer page;
    byte_buffer_init(&page, 100000);
    ASSERT_OK(options_man_page(commands, &page, &err), err);
    assert_int_equal(strncmp(page.data, ".TH SLUICE 1\n", 13), 0);
    assert_non_null(strstr(page.data, "\\fB\\-n, \\-\\-max\\-tokens\\fR \\fIN\\fR\n"));
    assert_non_null(strstr(page.data, "\n\\&.starts with a dot."));
    assert_non_null(strstr(page.data, "Second \\e paragraph."));
    byte_buffer_deinit(&page);
    byte_buffer_init(&page, 100);
    ASSERT_FAILS(options_man_page(commands, &page, &err), STATUS_OVER_BUDGET, err);
    byte_buffer_deinit(&page);
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    struct error err;
    struct options *options;
    write_config("stop = x\n");
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    unsigned failures = 0;
    for (uint64_t n = 1; n < 50; n++) {
        memory_fail_after(n);
        enum status status = parse(WORDS("m", "--stop", "a"), &options, &err);
        memory_fail_after(0);
        if (status == STATUS_OK) {
            options_destroy(options);
            break;
        }
        failures++;
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
    }
    assert_in_range(failures, 4, 20);
}

#define OPTION_TEST(function) cmocka_unit_test_setup_teardown(function, clean_sources, clean_sources)

int main(void) {
    const struct CMUnitTest tests[] = {
        OPTION_TEST(defaults),
        OPTION_TEST(all_forms),
        OPTION_TEST(mistakes_are_named),
        OPTION_TEST(order_of_force),
        OPTION_TEST(bad_values_name_their_source),
        OPTION_TEST(wrong_names_are_found),
        OPTION_TEST(help_comes_from_the_table),
        OPTION_TEST(config_is_printed_with_sources),
        OPTION_TEST(man_page_is_roff),
        OPTION_TEST(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_config_home, remove_config_home);
}
