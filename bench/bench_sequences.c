/*
 * bench_sequences: speed of a prompt, of decoding behind it, and of several sequences that decode together, to put beside peer_llama.c.
 *
 *     bench_sequences MODEL THREADS PROMPT_TOKENS DECODE_TOKENS [SEQUENCES [ISA]]
 *
 * Loads the model into memory, then does what words on standard input ask for, so that a script can take turns with other engines that
 * are open too. Each gives a line of JSON:
 *     prompt      one prompt of arbitrary tokens, none of which is known from before
 *     decode      decodes behind it, greedily: sluice_generate, as `sluice generate` calls it
 *     together    SEQUENCES sequences, each behind a prompt of its own, one row each in every pass
 *     ops         milliseconds of each kind of op since this word came last
 * The ids of sequences that go together are those that each of them gives alone, or the program ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "engine/engine_internal.h"

#define SEQUENCES_MAX 64
#define THREADS_LIMIT 256
#define TOKENS_LIMIT (1L << 20)

struct bench {
    sluice_model *model;
    uint32_t prompt, decode, sequences;
    uint32_t round;                          /* of prompts: no two begin alike */
    uint32_t *ids;                           /* [prompt] */
    double *pass_ms;                         /* [decode] */
    uint64_t last_ns;                        /* when the last token came */
    struct session *sessions[SEQUENCES_MAX]; /* those that go together; each has read its prompt */
    uint32_t first[SEQUENCES_MAX];           /* what follows the prompt */
    uint32_t *alone, *said;                  /* [sequences][1 + decode] what each says alone; [1 + decode] what is said now */
    uint32_t said_count;
    uint64_t step_ns[OP_KIND_COUNT]; /* when `ops` came last */
};

static void need(enum status status, const struct error *err) {
    if (status == STATUS_OK)
        return;
    (void)fprintf(stderr, "bench_sequences: %s\n", err->text);
    exit(1);
}

static void need_public(sluice_status status, const sluice_error *error) {
    if (status == SLUICE_OK)
        return;
    (void)fprintf(stderr, "bench_sequences: %s\n", error->text);
    exit(1);
}

/* The prompt of a sequence: the same arbitrary ids as peer_llama's, another first one in each round. */
static const uint32_t *prompt_of(struct bench *b, uint32_t sequence) {
    uint32_t vocab = b->model->model->plan.vocab;
    for (uint32_t i = 0; i < b->prompt; i++)
        b->ids[i] = (i * 7919 + sequence * 104729 + 1000) % vocab;
    b->ids[0] = (b->ids[0] + b->round) % vocab;
    return b->ids;
}

/* ---- one sequence, by the library's interface ---- */

static bool on_piece(void *context, const sluice_piece *piece) {
    struct bench *b = context;
    uint64_t now = clock_now_ns();
    if (piece->token == SLUICE_NO_TOKEN)
        return true;
    if (b->said_count > 0)
        b->pass_ms[b->said_count - 1] = (double)(now - b->last_ns) / 1e6;
    b->said[b->said_count++] = piece->token;
    b->last_ns = now;
    return true;
}

static sluice_result generate_behind(struct bench *b, uint32_t sequence, uint32_t tokens) {
    sluice_error error;
    sluice_result result;
    b->said_count = 0;
    const sluice_request request = {.prompt = prompt_of(b, sequence),
                                    .prompt_count = b->prompt,
                                    .max_tokens = tokens,
                                    .ignore_end = true,
                                    .on_piece = on_piece,
                                    .context_pointer = b};
    need_public(sluice_generate(b->model, &request, &result, &error), &error);
    CHECK(b->said_count == tokens);
    return result;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_decode(struct bench *b, const char *what, double seconds, uint32_t sequences) {
    qsort(b->pass_ms, b->decode, sizeof *b->pass_ms, by_size);
    (void)printf("{\"%s_tokens_per_s\": %.3f, \"median_ms\": %.3f}\n", what, b->decode * sequences / seconds, b->pass_ms[b->decode / 2]);
}

static void run_prompt(struct bench *b) {
    b->round++;
    sluice_result result = generate_behind(b, 0, 1);
    CHECK(result.reused == 0);
    (void)printf("{\"prompt_tokens_per_s\": %.3f}\n", b->prompt / result.prompt_seconds);
}

static void run_decode(struct bench *b) {
    sluice_result result = generate_behind(b, 0, 1 + b->decode);
    print_decode(b, "decode", result.decode_seconds, 1);
}

/* ---- several, by rows ---- */

static uint32_t likeliest(const struct bench *b, const float *logits, uint32_t position) {
    static const struct sampler_params greedy = {.top_p = 1};
    struct error err;
    uint32_t id;
    need(sampler_choose(b->model->sampler, &greedy, logits, position, &id, &err), &err);
    return id;
}

struct first_token {
    const struct bench *bench;
    uint32_t id;
};

static enum status take_first(void *context, uint32_t position, float *logits, struct error *err) {
    struct first_token *first = context;
    (void)err;
    first->id = likeliest(first->bench, logits, position + 1);
    return STATUS_OK;
}

/* What each says alone, and its prompt in a session of its own. Sequence 0 of the executor is the model's own session's. */
static void prepare_together(struct bench *b) {
    const struct memory_plan *plan = &b->model->memory;
    struct error err;
    for (uint32_t q = 0; q < b->sequences; q++) {
        (void)generate_behind(b, q, 1 + b->decode);
        memcpy(b->alone + q * (1 + b->decode), b->said, (1 + b->decode) * sizeof *b->said);
        need(session_create(b->model->executor, 1 + q, plan->plan.context, plan->max_rows, 1, &b->sessions[q], &err), &err);
        struct first_token first = {.bench = b};
        const struct session_extend extend = {
            .tokens = prompt_of(b, q), .count = b->prompt, .logits_from = b->prompt - 1, .logits = take_first, .context = &first};
        need(session_extend(b->sessions[q], &extend, &err), &err);
        b->first[q] = first.id;
        CHECK(first.id == b->said[0]);
    }
}

static void run_together(struct bench *b) {
    struct row rows[SEQUENCES_MAX];
    struct error err;
    if (!b->sessions[0])
        prepare_together(b);
    for (uint32_t q = 0; q < b->sequences; q++) {
        need(executor_rewind(b->model->executor, 1 + q, b->prompt, &err), &err); /* passes of rows are not in the session */
        rows[q] = (struct row){.token = b->first[q], .sequence = 1 + q, .parent = ROW_NO_PARENT, .wants_logits = true};
    }
    uint64_t start = clock_now_ns();
    for (uint32_t i = 0; i < b->decode; i++) {
        uint64_t begin = clock_now_ns();
        for (uint32_t q = 0; q < b->sequences; q++)
            rows[q].position = b->prompt + i;
        need(executor_run(b->model->executor, rows, b->sequences, &err), &err);
        for (uint32_t q = 0; q < b->sequences; q++) {
            rows[q].token = likeliest(b, executor_logits(b->model->executor, q), b->prompt + i + 1);
            CHECK(rows[q].token == b->alone[q * (1 + b->decode) + 1 + i]);
        }
        b->pass_ms[i] = (double)(clock_now_ns() - begin) / 1e6;
    }
    print_decode(b, "together", (double)(clock_now_ns() - start) / 1e9, b->sequences);
}

static void print_ops(struct bench *b) {
    struct executor_stats stats;
    executor_stats_read(b->model->executor, &stats);
    char separator = '{';
    for (enum op_kind k = 0; k < OP_KIND_COUNT; k++) {
        if (stats.step_ns[k] != b->step_ns[k]) {
            printf("%c\"%s\": %.2f", separator, op_kind_name(k), (double)(stats.step_ns[k] - b->step_ns[k]) / 1e6);
            separator = ',';
        }
        b->step_ns[k] = stats.step_ns[k];
    }
    printf("%s}\n", separator == '{' ? "{" : "");
}

/* ---- program ---- */

static void open_model(struct bench *b, const char *path, uint32_t threads, const char *isa) {
    sluice_error error;
    const sluice_load_options options = {
        .ram = SLUICE_RAM_ALL, .threads = threads, .isa = isa, .context = b->prompt + b->decode + 1, .logit_rows = b->sequences};
    need_public(sluice_open(path, &b->model, &error), &error);
    if (b->sequences > 1)
        engine_set_sequences(b->model, 1 + b->sequences);
    need_public(sluice_load(b->model, &options, &error), &error);
    b->ids = memory_alloc_array(b->prompt, sizeof *b->ids);
    b->pass_ms = memory_alloc_array(b->decode, sizeof *b->pass_ms);
    b->said = memory_alloc_array(1 + b->decode, sizeof *b->said);
    b->alone = memory_alloc_array(b->sequences * (1 + b->decode), sizeof *b->alone);
    CHECK(b->ids && b->pass_ms && b->said && b->alone && b->sequences <= b->model->memory.max_rows);
}

static void close_model(struct bench *b) {
    for (uint32_t q = 0; q < b->sequences; q++)
        session_destroy(b->sessions[q]);
    memory_free(b->ids);
    memory_free(b->pass_ms);
    memory_free(b->said);
    memory_free(b->alone);
    sluice_close(b->model);
}

static long number(const char *text, long most) {
    char *rest;
    long value = strtol(text, &rest, 10);
    return *rest || value < 1 || value > most ? 0 : value;
}

int main(int argc, char **argv) {
    bool counted = argc >= 5 && argc <= 7;
    long threads = counted ? number(argv[2], THREADS_LIMIT) : 0, prompt = counted ? number(argv[3], TOKENS_LIMIT) : 0,
         decode = counted ? number(argv[4], TOKENS_LIMIT) : 0, sequences = argc > 5 ? number(argv[5], SEQUENCES_MAX) : 1;
    if (!threads || !prompt || !decode || !sequences)
        return fprintf(stderr, "usage: bench_sequences MODEL THREADS PROMPT_TOKENS DECODE_TOKENS [SEQUENCES (1 to %d) [ISA]]\n",
                       SEQUENCES_MAX),
               2;
    struct bench bench = {.prompt = (uint32_t)prompt, .decode = (uint32_t)decode, .sequences = (uint32_t)sequences};
    open_model(&bench, argv[1], (uint32_t)threads, argc > 6 ? argv[6] : NULL);
    char word[16];
    while (scanf("%15s", word) == 1) {
        if (strcmp(word, "prompt") == 0)
            run_prompt(&bench);
        else if (strcmp(word, "decode") == 0)
            run_decode(&bench);
        else if (strcmp(word, "together") == 0 && sequences > 1)
            run_together(&bench);
        else if (strcmp(word, "ops") == 0)
            print_ops(&bench);
        else
            return fprintf(stderr, "bench_sequences: '%s' is none of prompt, decode, ops, and, of several sequences, together\n", word), 2;
        (void)fflush(stdout);
    }
    close_model(&bench);
    return 0;
}
