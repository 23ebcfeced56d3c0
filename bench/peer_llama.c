/*
 * peer_llama: llama.cpp's speed on a prompt and in decoding, to put beside `sluice generate --metrics`. Built where llama.cpp is installed.
 *
 *   peer_llama MODEL.gguf THREADS PROMPT_TOKENS DECODE_TOKENS     a prompt of that many arbitrary tokens
 *   peer_llama MODEL.gguf THREADS PROMPT.txt DECODE_TOKENS        the text in a file
 *   ... mmap                                                      leaves weights in the mapped file: without it they are copied into
 * another layout, which needs memory for all of them
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "llama.h"

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

static llama_token most_likely(struct llama_context *context, int vocab) {
    const float *logits = llama_get_logits_ith(context, -1);
    llama_token best = 0;
    for (llama_token id = 1; id < vocab; id++)
        if (logits[id] > logits[best])
            best = id;
    return best;
}

/* The ids of a text file, at most most; 0: it cannot be read. */
static int read_prompt(const struct llama_vocab *vocab, const char *path, llama_token *ids, int most) {
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t bytes = file ? fread(text, 1, sizeof text, file) : 0;
    if (file)
        fclose(file);
    int count = bytes > 0 ? llama_tokenize(vocab, text, (int32_t)bytes, ids, most, true, true) : 0;
    return count > 0 ? count : 0;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    if (argc != 5 && !(argc == 6 && strcmp(argv[5], "mmap") == 0))
        return fprintf(stderr, "usage: peer_llama MODEL.gguf THREADS PROMPT_TOKENS|PROMPT.txt DECODE_TOKENS [mmap]\n"), 2;
    char *rest;
    int threads = (int)strtol(argv[2], NULL, 10), prompt = (int)strtol(argv[3], &rest, 10), decode = (int)strtol(argv[4], NULL, 10);
    llama_log_set(log_nothing, NULL);
    llama_backend_init();
    double opened = now_s();
    struct llama_model_params options = llama_model_default_params();
    options.use_extra_bufts = argc == 5;
    struct llama_model *model = llama_model_load_from_file(argv[1], options);
    llama_token *ids = calloc(1 << 20, sizeof *ids);
    double *times = calloc((size_t)decode + 1, sizeof *times);
    if (!model || !ids || !times || decode < 1)
        return fprintf(stderr, "peer_llama: %s cannot be opened\n", argv[1]), 1;
    int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    if (*rest)
        prompt = read_prompt(llama_model_get_vocab(model), argv[3], ids, 1 << 20);
    else
        for (int i = 0; i < prompt && i < 1 << 20; i++)
            ids[i] = (i * 7919 + 1000) % vocab;
    if (prompt < 1 || prompt > 1 << 20)
        return fprintf(stderr, "peer_llama: no prompt in %s\n", argv[3]), 1;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(prompt + decode + 64);
    params.n_batch = (uint32_t)prompt;
    params.n_threads = params.n_threads_batch = threads;
    struct llama_context *context = llama_init_from_model(model, params);
    if (!context)
        return fprintf(stderr, "peer_llama: %s: no context\n", argv[1]), 1;
    double start = now_s();
    int failed = llama_decode(context, llama_batch_get_one(ids, prompt));
    llama_synchronize(context);
    double prompt_s = now_s() - start, first_s = now_s() - opened;
    double decode_start = now_s();
    for (int i = 0; i < decode && !failed; i++) {
        start = now_s();
        llama_token id = most_likely(context, vocab);
        failed = llama_decode(context, llama_batch_get_one(&id, 1));
        llama_synchronize(context);
        times[i] = now_s() - start;
    }
    double decode_s = now_s() - decode_start;
    qsort(times, (size_t)decode, sizeof *times, by_size);
    printf("prompt %.1f tokens/s, decode %.2f tokens/s, first token %.2f s, median token %.1f ms\n", prompt / prompt_s, decode / decode_s,
           first_s, 1e3 * times[decode / 2]);
    return failed;
}
