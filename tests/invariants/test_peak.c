/*
 * test_peak: the budget is true, the process taken as a whole: its peak is at most 2 % or 4 MiB above --ram, whichever is more; the
 * smallest budget works and reads from disk; a smaller one is refused and told which would work; the answer never depends on it.
 *
 * The program runs as a child, since a test's own memory is not a user's. With a sanitizer, whose memory nobody plans, peaks are not
 * compared.
 */
#include "../unit/program_fixture.h"

#include <inttypes.h>

#define SLACK_BYTES ((double)(4u << 20))
#define SLACK_SHARE 0.02
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PLANNED = 0 };
#else
enum { PLANNED = 1 };
#endif

static struct program_folder folder;

static int begin(void **state) {
    (void)state;
    program_begin(&folder);
    return 0;
}

static int end(void **state) {
    static const char *const names[] = {"metrics.json"};
    (void)state;
    program_end(&folder, names, 1);
    return 0;
}

/* What changes how the memory is split. */
struct request {
    const char *model, *threads, *context, *chunk, *tokens;
};
#define DEMO "../../demo/novels-moe-Q4_K_M.gguf"
static const struct request requests[] = {
    {DEMO, "1", "0", "0", "24"},
    {DEMO, "4", "2048", "0", "24"},
    {DEMO, "2", "512", "512", "400"}, /* keys and values are nearly all in use */
    {DEMO, "2", "512", "7", "24"},
    {"models/qwen3_moe", "2", "0", "0", "24"},
    {"models/llama-tied-bias.gguf", "3", "256", "0", "200"},
};
enum { REQUESTS = sizeof requests / sizeof *requests };

struct numbers {
    double budget_bytes, minimum_bytes, planned_bytes, peak_bytes, read_bytes;
    char *ids;
};

static void generate(const struct request *r, const char *ram, struct numbers *numbers) {
    struct program_run run;
    char model[4096], ids[4096];
    (void)snprintf(model, sizeof model, "%s", program_data(r->model));
    (void)snprintf(ids, sizeof ids, "%s", program_data("models/qwen3_moe/expected.safetensors"));
    char metrics[PROGRAM_PATH_BYTES];
    (void)program_path(&folder, "metrics.json", metrics);
    const char *const arguments[] = {"generate",     model,         "--ids",     ids,        "--ram",        ram,
                                     "--threads",    r->threads,    "--ctx",     r->context, "--chunk",      r->chunk,
                                     "--temp",       "0.7",         "--seed",    "11",       "--max-tokens", r->tokens,
                                     "--ignore-eos", "--print-ids", "--metrics", metrics,    "--quiet",      NULL};
    program_run(&folder, arguments, &run);
    program_expect(&run, 0);
    json_t *root = program_metrics(metrics);
    const json_t *budget = json_object_get(json_object_get(root, "plan"), "budget_bytes");
    *numbers = (struct numbers){.minimum_bytes = program_number(root, "plan", "minimum_bytes"),
                                .planned_bytes = program_number(root, "plan", "planned_bytes"),
                                .peak_bytes = program_number(root, "memory", "peak_bytes"),
                                .read_bytes = program_number(root, "reads", "read_bytes"),
                                .ids = run.out};
    numbers->budget_bytes = json_is_number(budget) ? json_number_value(budget) : numbers->planned_bytes;
    json_decref(root);
    run.out = NULL;
    program_free(&run);
}

static void check_peak(const struct request *r, const char *ram, const struct numbers *n) {
    double slack = n->budget_bytes * SLACK_SHARE > SLACK_BYTES ? n->budget_bytes * SLACK_SHARE : SLACK_BYTES;
    print_message("%s, %s threads, context %s, chunk %s, --ram %s: budget %.1f MiB, planned %.1f, peak %.1f\n", strrchr(r->model, '/') + 1,
                  r->threads, r->context, r->chunk, ram, n->budget_bytes / 0x1p20, n->planned_bytes / 0x1p20, n->peak_bytes / 0x1p20);
    assert_true(n->planned_bytes <= n->budget_bytes);
    if (PLANNED && n->peak_bytes > n->budget_bytes + slack)
        fail_msg("the peak is %.0f bytes above the budget", n->peak_bytes - n->budget_bytes);
}

static void peak_stays_in_the_budget(void **state) {
    const struct request *r = *state;
    struct numbers smallest, all;
    generate(r, "min", &smallest);
    check_peak(r, "min", &smallest);
    assert_true(smallest.read_bytes > 0);
    generate(r, "all", &all);
    check_peak(r, "all", &all);
    assert_true(all.read_bytes == 0);
    assert_string_equal(all.ids, smallest.ids);
    /* above the smallest by what a process differs from run to run: which pages of libraries come along */
    const double budgets[] = {smallest.minimum_bytes + 0x1.8p19, smallest.minimum_bytes + 0x1.8p20,
                              (smallest.minimum_bytes + all.planned_bytes) / 2, all.planned_bytes + 0x1p20};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        struct numbers n;
        char ram[32];
        (void)snprintf(ram, sizeof ram, "%" PRIu64, (uint64_t)budgets[i]);
        generate(r, ram, &n);
        check_peak(r, ram, &n);
        assert_string_equal(n.ids, all.ids);
        memory_free(n.ids);
    }
    memory_free(smallest.ids);
    memory_free(all.ids);
}

static void run_with(const char *model, const char *context, const char *ram, struct program_run *run) {
    char path[4096], ids[4096];
    (void)snprintf(path, sizeof path, "%s", program_data(model));
    (void)snprintf(ids, sizeof ids, "%s", program_data("models/qwen3_moe/expected.safetensors"));
    const char *const arguments[] = {"generate", path,           "--ids", ids,           "--ram",   ram, "--ctx",
                                     context,    "--max-tokens", "4",     "--print-ids", "--quiet", NULL};
    program_run(&folder, arguments, run);
}

/* "... The smallest that works is 7.3 MiB ..." -> "7.3M". */
static void smallest_named(const char *text, char *ram, size_t ram_bytes) {
    const char *at = strstr(text, "smallest that works is ");
    double mebibytes;
    if (!at || sscanf(at + strlen("smallest that works is "), "%lf MiB", &mebibytes) != 1)
        fail_msg("no smallest budget is named: %s", text);
    (void)snprintf(ram, ram_bytes, "%.*s", (int)strcspn(at + strlen("smallest that works is "), " "),
                   at + strlen("smallest that works is "));
    (void)snprintf(ram + strlen(ram), ram_bytes - strlen(ram), "M");
}

/* Refused with exit code 3, naming a budget; the named one works, as it is written: contexts of many sizes, so that rounding shows. */
static void too_small_is_refused(void **state) {
    static const char *const contexts[] = {"64", "150", "300", "700", "1100", "1500"};
    const char *model = *state;
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        const struct request r = {model, "0", contexts[i], "0", "4"};
        struct program_run run;
        struct numbers smallest;
        char ram[32];
        generate(&r, "min", &smallest);
        memory_free(smallest.ids);
        (void)snprintf(ram, sizeof ram, "%" PRIu64, (uint64_t)smallest.minimum_bytes - (1u << 20));
        run_with(model, contexts[i], ram, &run);
        program_expect(&run, 3);
        assert_int_equal(run.out_bytes, 0);
        smallest_named(run.err, ram, sizeof ram);
        program_free(&run);
        run_with(model, contexts[i], ram, &run);
        program_expect(&run, 0);
        program_free(&run);
    }
}

int main(void) {
    static char names[REQUESTS][128];
    struct CMUnitTest tests[REQUESTS + 2];
    for (size_t i = 0; i < REQUESTS; i++) {
        tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(peak_stays_in_the_budget, (void *)(uintptr_t)&requests[i]);
        (void)snprintf(names[i], sizeof names[i], "peak_stays_in_the_budget: %s, %s threads, context %s, chunk %s", requests[i].model,
                       requests[i].threads, requests[i].context, requests[i].chunk);
        tests[i].name = names[i];
    }
    tests[REQUESTS] = (struct CMUnitTest)cmocka_unit_test_prestate(too_small_is_refused, (void *)(uintptr_t)DEMO);
    tests[REQUESTS + 1] = (struct CMUnitTest)cmocka_unit_test_prestate(too_small_is_refused, (void *)(uintptr_t) "models/qwen3_moe");
    return cmocka_run_group_tests(tests, begin, end);
}
