/*
 * peer_llama: the speed of llama.cpp, or of ik_llama.cpp, on a prompt, in decoding and with several sequences, to put beside
 * bench_sequences.c and `sluice generate --metrics`. Built where llama.cpp is installed; for another copy, or ik_llama.cpp:
 *
 *     cc -O2 -I DIR/include -I DIR/ggml/include bench/peer_llama.c -o peer_llama -L BUILD/bin -lllama -lggml -Wl,-rpath,BUILD/bin
 *
 *     peer_llama MODEL.gguf THREADS PROMPT_TOKENS|PROMPT.txt DECODE_TOKENS [SEQUENCES [OPTION..]]
 *
 *     mmap      leaves weights in the mapped file: without it they are copied into another layout, which needs memory for all of them
 *     noflash   without flash attention, which is on unless the model rules it out
 *
 * Does what words on standard input ask for, as bench_sequences does: prompt, decode, together. Each gives a line of JSON.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "llama.h"

#define TOKENS_MAX (1 << 20)
#define SEQUENCES_MAX 64

#ifdef LLAMA_SERVER_MAGIC /* ik_llama.cpp, whose interface has another history */
#define llama_tokenize llama_vocab_tokenize
static void forget(struct llama_context *context, int sequence, int from) { llama_kv_cache_seq_rm(context, sequence, from, -1); }
static void choose_layout(struct llama_model_params *params, bool mapped) { params->repack_tensors = !mapped; }
static void choose_attention(struct llama_context_params *params, bool flash) { params->flash_attn = flash; }
#else
static void forget(struct llama_context *context, int sequence, int from) {
    llama_memory_seq_rm(llama_get_memory(context), sequence, from, -1);
}
static void choose_layout(struct llama_model_params *params, bool mapped) { params->use_extra_bufts = !mapped; }
static void choose_attention(struct llama_context_params *params, bool flash) {
    params->flash_attn_type = flash ? LLAMA_FLASH_ATTN_TYPE_AUTO : LLAMA_FLASH_ATTN_TYPE_DISABLED;
}
#endif

struct peer {
    struct llama_context *context;
    struct llama_batch batch;
    int vocab, prompt, decode, sequences;
    llama_token *ids;                 /* [prompt], or of a text */
    bool text;                        /* the prompt is one */
    llama_token first[SEQUENCES_MAX]; /* what follows the prompt of each; -1: it has not been read */
    double *pass_ms;                  /* [decode] */
    double opened_s, first_token_s;   /* when opening began; from there to the first token, once known */
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void log_nothing(enum ggml_log_level level, const char *text, void *context) {
    (void)level;
    (void)text;
    (void)context;
}

static void fail(const char *what) {
    (void)fprintf(stderr, "peer_llama: %s\n", what);
    exit(1);
}

static llama_token most_likely(const struct peer *p, int index) {
    const float *logits = llama_get_logits_ith(p->context, index);
    llama_token best = 0;
    for (llama_token id = 1; id < p->vocab; id++)
        if (logits[id] > logits[best])
            best = id;
    return best;
}

static void add_row(struct peer *p, llama_token token, int position, int sequence, bool logits) {
    int i = p->batch.n_tokens++;
    p->batch.token[i] = token;
    p->batch.pos[i] = position;
    p->batch.n_seq_id[i] = 1;
    p->batch.seq_id[i][0] = sequence;
    p->batch.logits[i] = logits;
}

static void run_batch(struct peer *p) {
    if (llama_decode(p->context, p->batch))
        fail("a batch failed");
    llama_synchronize(p->context);
}

/* Reads a sequence's prompt; returns the seconds that took. */
static double read_prompt(struct peer *p, int sequence) {
    forget(p->context, sequence, 0);
    p->batch.n_tokens = 0;
    for (int i = 0; i < p->prompt; i++) {
        llama_token id =
            p->text ? p->ids[i] : (llama_token)(((unsigned)i * 7919u + (unsigned)sequence * 104729u + 1000u) % (unsigned)p->vocab);
        add_row(p, id, i, sequence, i == p->prompt - 1);
    }
    double start = now_s();
    run_batch(p);
    double seconds = now_s() - start;
    p->first[sequence] = most_likely(p, p->prompt - 1);
    return seconds;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void run_prompt(struct peer *p) {
    double seconds = read_prompt(p, 0);
    if (p->first_token_s == 0)
        p->first_token_s = now_s() - p->opened_s;
    printf("{\"prompt_tokens_per_s\": %.3f, \"first_token_s\": %.3f}\n", p->prompt / seconds, p->first_token_s);
}

/* Greedily, one row of each of the first `sequences` in every batch. */
static void run_decode(struct peer *p, const char *what, int sequences) {
    llama_token ids[SEQUENCES_MAX];
    for (int q = 0; q < sequences; q++) {
        if (p->first[q] < 0)
            read_prompt(p, q);
        forget(p->context, q, p->prompt);
        ids[q] = p->first[q];
    }
    double start = now_s();
    for (int i = 0; i < p->decode; i++) {
        double begin = now_s();
        p->batch.n_tokens = 0;
        for (int q = 0; q < sequences; q++)
            add_row(p, ids[q], p->prompt + i, q, true);
        run_batch(p);
        for (int q = 0; q < sequences; q++)
            ids[q] = most_likely(p, q);
        p->pass_ms[i] = 1e3 * (now_s() - begin);
    }
    double seconds = now_s() - start;
    qsort(p->pass_ms, (size_t)p->decode, sizeof *p->pass_ms, by_size);
    printf("{\"%s_tokens_per_s\": %.3f, \"median_ms\": %.3f}\n", what, p->decode * sequences / seconds, p->pass_ms[p->decode / 2]);
}

/* The ids of a text file; 0: it cannot be read. */
static int read_text(const struct llama_vocab *vocab, const char *path, llama_token *ids) {
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t bytes = file ? fread(text, 1, sizeof text, file) : 0;
    if (file)
        fclose(file);
    int count = bytes > 0 ? llama_tokenize(vocab, text, (int32_t)bytes, ids, TOKENS_MAX, true, true) : 0;
    return count > 0 ? count : 0;
}

static void open_peer(struct peer *p, char **argv, bool mapped, bool flash) {
    char *rest;
    p->opened_s = now_s();
    struct llama_model_params options = llama_model_default_params();
    choose_layout(&options, mapped);
    struct llama_model *model = llama_model_load_from_file(argv[1], options);
    p->ids = calloc(TOKENS_MAX, sizeof *p->ids);
    p->pass_ms = calloc((size_t)p->decode, sizeof *p->pass_ms);
    if (!model || !p->ids || !p->pass_ms)
        fail("the model cannot be opened");
    p->vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    p->prompt = (int)strtol(argv[3], &rest, 10);
    p->text = *rest != 0;
    if (p->text)
        p->prompt = read_text(llama_model_get_vocab(model), argv[3], p->ids);
    if (p->prompt < 1 || p->prompt > TOKENS_MAX)
        fail("there is no prompt");
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(p->sequences * (p->prompt + p->decode + 64));
    params.n_seq_max = (uint32_t)p->sequences;
    params.n_batch = (uint32_t)(p->prompt > p->sequences ? p->prompt : p->sequences);
    params.n_threads = params.n_threads_batch = (int)strtol(argv[2], NULL, 10);
    choose_attention(&params, flash);
    p->context = llama_init_from_model(model, params);
    p->batch = llama_batch_init((int32_t)params.n_batch, 0, 1);
    if (!p->context)
        fail("there is no context");
    for (int q = 0; q < p->sequences; q++)
        p->first[q] = -1;
}

int main(int argc, char **argv) {
    bool mapped = false, flash = true, known = argc >= 5;
    struct peer peer = {.decode = known ? (int)strtol(argv[4], NULL, 10) : 0, .sequences = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 1};
    for (int i = 6; i < argc; i++) {
        mapped = mapped || strcmp(argv[i], "mmap") == 0;
        flash = flash && strcmp(argv[i], "noflash") != 0;
        known = known && (strcmp(argv[i], "mmap") == 0 || strcmp(argv[i], "noflash") == 0);
    }
    if (!known || peer.decode < 1 || peer.sequences < 1 || peer.sequences > SEQUENCES_MAX)
        return fprintf(stderr,
                       "usage: peer_llama MODEL.gguf THREADS PROMPT_TOKENS|PROMPT.txt DECODE_TOKENS [SEQUENCES [mmap] [noflash]]\n"),
               2;
    llama_log_set(log_nothing, NULL);
    llama_backend_init();
    open_peer(&peer, argv, mapped, flash);
    char word[16];
    while (scanf("%15s", word) == 1) {
        if (strcmp(word, "prompt") == 0)
            run_prompt(&peer);
        else if (strcmp(word, "decode") == 0)
            run_decode(&peer, "decode", 1);
        else if (strcmp(word, "together") == 0)
            run_decode(&peer, "together", peer.sequences);
        else
            return fprintf(stderr, "peer_llama: '%s' is none of prompt, decode, together\n", word), 2;
        fflush(stdout);
    }
    return 0;
}
