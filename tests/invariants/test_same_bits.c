/*
 * test_same_bits: placement decides speed, never a bit. Budget, reader, threads, instruction set, prompt chunk, look-ahead and the number
 * of logit rows change neither the logits of a prompt nor the ids that are drawn, at temperature 0 and above.
 *
 * Model   `base` is what the plainest configuration gives: everything in memory, one thread, reference kernels, one read at a time.
 *         Every other configuration is compared with it by memcmp. One setting at a time is turned first, then all at once by chance from
 *         a fixed seed. What this machine lacks (an instruction set, io_uring) is left out by asking the machine, not the engine.
 */
#include "../unit/engine_fixture.h"

#include <math.h>

#include "engine/engine_internal.h"
#include "io/read_queue.h"
#include "kernel/kernel.h"

enum { PROMPT_MAX = 260, GENERATED = 16, CHANCE_ROUNDS = 10 };

static const struct subject {
    const char *path;
    uint32_t prompt;  /* tokens of the prompt of the first test */
    bool looks_ahead; /* has mixtures, and budgets above that leave room */
} subjects[] = {
    {"models/qwen3_moe", 70, true},
    {"models/gemma3", 70, false},               /* windows */
    {"models/llama-tied-bias.gguf", 70, false}, /* a table that is embedding and head */
    {"gguf/split/qwen3_moe-00001-of-00005.gguf", 70, false},
    {"models/mlx-qwen3_moe-mixed", 70, false}, /* scales apart from weights */
    {"models/gpt_oss-mxfp4", 70, false},       /* sinks */
    {"models/deepseek_v32", 70, false},        /* latent attention, sparse index */
    {"models/qwen3_next", 70, true},           /* recurrence */
    {"models/lfm2_moe", 70, true},             /* short convolution */
    {"../../demo/novels-moe-Q4_K_M.gguf", 32, true},
};

/* ---- settings ---- */

static const double budgets[] = {0, 0.01, 0.25, 0.5, 0.75, 1}; /* from the smallest to all; the ends are --ram min and --ram all */
static const sluice_reader readers[] = {SLUICE_READER_SYNC, SLUICE_READER_THREADS, SLUICE_READER_URING};
static const uint32_t thread_counts[] = {1, 2, 3};
#if defined(__aarch64__)
static const enum cpu_isa isas[] = {CPU_ISA_REF, CPU_ISA_NEON, CPU_ISA_DOTPROD, CPU_ISA_I8MM};
#else
static const enum cpu_isa isas[] = {CPU_ISA_REF, CPU_ISA_AVX2, CPU_ISA_AVX512, CPU_ISA_AMX};
#endif
static const uint32_t chunks[] = {1, 2, 7, 63, 512};
static const uint32_t logit_rows[] = {1, 16};
static const bool lookaheads[] = {false, true};

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct setting { /* indices into the arrays above */
    size_t budget, reader, threads, isa, chunk, logit_rows, lookahead;
};

static const struct setting plainest = {.budget = COUNT(budgets) - 1, .chunk = COUNT(chunks) - 1, .logit_rows = 1};

static bool has_uring(void) {
    struct file_set *files;
    struct read_queue *queue;
    struct error err;
    ASSERT_OK(file_set_create(&files, &err), err);
    bool has = read_queue_create(READ_QUEUE_URING, files, 4, &queue, &err) == STATUS_OK;
    assert_true(has || err.status == STATUS_UNSUPPORTED);
    read_queue_destroy(queue);
    file_set_destroy(files);
    return has;
}

static size_t best_isa(void) {
    size_t best = 0;
    while (best + 1 < COUNT(isas) && kernel_table_for(isas[best + 1]))
        best++;
    return best;
}

static bool machine_has(const struct setting *s) {
    return kernel_table_for(isas[s->isa]) != NULL && (readers[s->reader] != SLUICE_READER_URING || has_uring());
}

static void describe(const struct setting *s, const char *path) {
    print_error("%s: budget %.2f, reader %d, %u threads, %s, chunk %u, %u logit rows, lookahead %d\n", path, budgets[s->budget],
                (int)readers[s->reader], thread_counts[s->threads], cpu_isa_name(isas[s->isa]), chunks[s->chunk], logit_rows[s->logit_rows],
                lookaheads[s->lookahead]);
}

static sluice_model *load(const char *path, const struct setting *s, uint32_t context) {
    sluice_load_options options = {.context = context,
                                   .reader = readers[s->reader],
                                   .threads = thread_counts[s->threads],
                                   .isa = cpu_isa_name(isas[s->isa]),
                                   .chunk = chunks[s->chunk],
                                   .logit_rows = logit_rows[s->logit_rows],
                                   .no_lookahead = !lookaheads[s->lookahead]};
    double share = budgets[s->budget];
    if (share > 0 && share < 1)
        return engine_load_share(path, options, share);
    options.ram = share == 0 ? SLUICE_RAM_MIN : SLUICE_RAM_ALL;
    return engine_load(path, &options);
}

/* ---- one setting against the base ---- */

struct answer {
    struct engine_logits logits;
    struct engine_ids greedy, drawn;
};

static void ask(sluice_model *model, const uint32_t *prompt, uint32_t count, struct answer *answer) {
    sluice_error error;
    engine_logits_init(&answer->logits, model, count);
    ENGINE_OK(engine_logits(model, prompt, count, &answer->logits, &error), error);
    ENGINE_OK(engine_generate(model, prompt, count, GENERATED, 0, &answer->greedy, &error), error);
    const uint32_t bias_ids[] = {prompt[0], 5};
    const float biases[] = {2.5f, -100};
    const sluice_request drawn = {.prompt = prompt,
                                  .prompt_count = count,
                                  .max_tokens = GENERATED,
                                  .temperature = 0.9f,
                                  .frequency_penalty = 0.5f,
                                  .presence_penalty = -0.25f,
                                  .repetition_penalty = 1.1f,
                                  .bias_ids = bias_ids,
                                  .biases = biases,
                                  .bias_count = COUNT(biases),
                                  .seed = 42,
                                  .ignore_end = true,
                                  .on_piece = engine_take_piece,
                                  .context_pointer = &answer->drawn};
    answer->drawn.count = 0;
    ENGINE_OK(sluice_generate(model, &drawn, NULL, &error), error);
    assert_true(answer->greedy.count == GENERATED && answer->drawn.count == GENERATED);
}

struct comparison {
    const char *path;
    const uint32_t *prompt;
    uint32_t count;
    struct answer base;
    unsigned compared, left_out, different;
    uint64_t expected_bytes; /* what looking ahead read */
};

static void compare(struct comparison *c, const struct setting *s) {
    struct answer answer;
    if (!machine_has(s)) {
        c->left_out++;
        return;
    }
    sluice_model *model = load(c->path, s, c->count + GENERATED);
    ask(model, c->prompt, c->count, &answer);
    struct store_stats stats;
    store_stats_read(model->store, &stats);
    c->expected_bytes += stats.expected_bytes;
    sluice_close(model);
    c->compared++;
    bool logits = engine_same_logits(&answer.logits, &c->base.logits), greedy = engine_same_ids(&answer.greedy, &c->base.greedy),
         drawn = engine_same_ids(&answer.drawn, &c->base.drawn);
    free(answer.logits.rows);
    if (logits && greedy && drawn)
        return;
    c->different++;
    describe(s, c->path);
    print_error("  other%s%s%s\n", logits ? "" : " logits", greedy ? "" : " greedy ids", drawn ? "" : " drawn ids");
}

static void compare_one_by_one(struct comparison *c, struct setting s) {
    struct setting turned = s;
    for (turned.budget = 0; turned.budget < COUNT(budgets); turned.budget++)
        compare(c, &turned);
    turned = s;
    for (turned.reader = 0; turned.reader < COUNT(readers); turned.reader++)
        compare(c, &turned);
    turned = s;
    for (turned.threads = 0; turned.threads < COUNT(thread_counts); turned.threads++)
        compare(c, &turned);
    turned = s;
    for (turned.isa = 0; turned.isa < COUNT(isas); turned.isa++)
        compare(c, &turned);
    turned = s;
    for (turned.chunk = 0; turned.chunk < COUNT(chunks); turned.chunk++)
        compare(c, &turned);
    turned = s;
    for (turned.logit_rows = 0; turned.logit_rows < COUNT(logit_rows); turned.logit_rows++)
        compare(c, &turned);
    turned = s;
    for (turned.budget = 1; turned.budget < COUNT(budgets); turned.budget++)
        for (turned.lookahead = 0; turned.lookahead < COUNT(lookaheads); turned.lookahead++) {
            turned.chunk = COUNT(chunks) - 1; /* it is of use for passes of many rows */
            compare(c, &turned);
        }
}

static size_t chance(uint64_t *state, size_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(*state >> 33) % below;
}

static void compare_by_chance(struct comparison *c) {
    uint64_t state = 20240229;
    for (int i = 0; i < CHANCE_ROUNDS; i++) {
        struct setting s = {.budget = chance(&state, COUNT(budgets)),
                            .reader = chance(&state, COUNT(readers)),
                            .threads = chance(&state, COUNT(thread_counts)),
                            .isa = chance(&state, COUNT(isas)),
                            .chunk = chance(&state, COUNT(chunks)),
                            .logit_rows = chance(&state, COUNT(logit_rows)),
                            .lookahead = chance(&state, COUNT(lookaheads))};
        compare(c, &s);
    }
}

static void same_bits_for_every_setting(void **state) {
    const struct subject *subject = *state;
    uint32_t prompt[PROMPT_MAX];
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", engine_path(subject->path));
    struct comparison c = {.path = path, .prompt = prompt, .count = subject->prompt};
    sluice_model *model = load(path, &plainest, c.count + GENERATED);
    sluice_info info;
    sluice_get_info(model, &info);
    engine_prompt(prompt, c.count, info.vocab, 7);
    ask(model, prompt, c.count, &c.base);
    sluice_close(model);
    compare_one_by_one(&c, (struct setting){.budget = 2, .reader = 1, .threads = 1, .isa = best_isa(), .chunk = 2, .logit_rows = 1});
    compare_by_chance(&c);
    print_message("%u settings compared, %u left out: this machine lacks them; %llu KiB read by looking ahead\n", c.compared, c.left_out,
                  (unsigned long long)c.expected_bytes >> 10);
    free(c.base.logits.rows);
    assert_int_equal(c.different, 0);
    assert_true(c.expected_bytes > 0 || !subject->looks_ahead);
}

/* ---- case F14: every length of prompt, cut into chunks that do not divide it ---- */

/* Fewer of them when every token is a pass. */
static void next_length(uint32_t *length, uint32_t chunk) {
    static const uint32_t edges[] = {63, 64, 65, 127, 128, 129, 255, 256, 257, PROMPT_MAX};
    uint32_t next = *length + (chunk < 7 ? 41 : 11);
    for (size_t i = 0; i < COUNT(edges); i++)
        if (edges[i] > *length && edges[i] < next)
            next = edges[i];
    *length = next;
}

/* The row of a position is the same in every prompt that begins alike. */
static unsigned check_lengths(sluice_model *model, uint32_t chunk, const uint32_t *prompt, const struct engine_logits *whole) {
    struct engine_logits logits;
    sluice_error error;
    unsigned different = 0;
    engine_logits_init(&logits, model, PROMPT_MAX);
    for (uint32_t length = 1; length <= PROMPT_MAX; next_length(&length, chunk)) {
        ENGINE_OK(engine_logits(model, prompt, length, &logits, &error), error);
        if (memcmp(logits.rows, whole->rows, (size_t)length * whole->vocab * sizeof *whole->rows) != 0) {
            print_error("a prompt of %u tokens gives other logits\n", length);
            different++;
        }
    }
    free(logits.rows);
    return different;
}

static void f14_every_prompt_length(void **state) {
    const struct subject *subject = *state;
    uint32_t prompt[PROMPT_MAX];
    struct engine_logits whole;
    sluice_error error;
    sluice_info info;
    unsigned different = 0;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", engine_path(subject->path));
    sluice_model *model = load(path, &plainest, PROMPT_MAX);
    sluice_get_info(model, &info);
    engine_prompt(prompt, PROMPT_MAX, info.vocab, 14);
    engine_logits_init(&whole, model, PROMPT_MAX);
    ENGINE_OK(engine_logits(model, prompt, PROMPT_MAX, &whole, &error), error);
    for (size_t i = 0; i < (size_t)whole.count * whole.vocab; i++)
        assert_true(isfinite(whole.rows[i]));
    sluice_close(model);
    for (size_t chunk = 0; chunk < COUNT(chunks); chunk++) {
        struct setting s = {
            .budget = chunk % 2 ? 2 : COUNT(budgets) - 1, .reader = 1, .threads = 1, .isa = best_isa(), .chunk = chunk, .logit_rows = 1};
        model = load(path, &s, PROMPT_MAX);
        unsigned more = check_lengths(model, chunks[chunk], prompt, &whole);
        sluice_close(model);
        if (more > 0)
            describe(&s, path);
        different += more;
    }
    free(whole.rows);
    assert_int_equal(different, 0);
}

/* ---- the list of tests ---- */

int main(void) {
    static char names[2 * COUNT(subjects)][160];
    static struct CMUnitTest tests[2 * COUNT(subjects)];
    size_t count = 0;
    for (size_t i = 0; i < COUNT(subjects); i++) {
        void *subject = (void *)(uintptr_t)&subjects[i];
        (void)snprintf(names[count], sizeof names[count], "same bits for every setting: %s", subjects[i].path);
        tests[count] = (struct CMUnitTest)cmocka_unit_test_prestate(same_bits_for_every_setting, subject);
        tests[count].name = names[count];
        count++;
        if (i + 1 == COUNT(subjects))
            break; /* the demo model would take a minute */
        (void)snprintf(names[count], sizeof names[count], "F14 every prompt length: %s", subjects[i].path);
        tests[count] = (struct CMUnitTest)cmocka_unit_test_prestate(f14_every_prompt_length, subject);
        tests[count].name = names[count];
        count++;
    }
    return _cmocka_run_group_tests("the same bits", tests, count, NULL, NULL);
}
