/*
 * peer_llama: llama.cpp's speed on a prompt and in decoding, to put beside `sluice generate --metrics`. Built where llama.cpp is installed.
 *
 *   peer_llama MODEL.gguf THREADS PROMPT_TOKENS DECODE_TOKENS
 */
#include <stdio.h>
#include <stdlib.h>
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

int main(int argc, char **argv) {
    if (argc != 5)
        return fprintf(stderr, "usage: peer_llama MODEL.gguf THREADS PROMPT_TOKENS DECODE_TOKENS\n"), 2;
    int threads = (int)strtol(argv[2], NULL, 10), prompt = (int)strtol(argv[3], NULL, 10), decode = (int)strtol(argv[4], NULL, 10);
    llama_log_set(log_nothing, NULL);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(prompt + decode + 64);
    params.n_batch = (uint32_t)prompt;
    params.n_threads = params.n_threads_batch = threads;
    struct llama_context *context = model ? llama_init_from_model(model, params) : NULL;
    llama_token *ids = calloc((size_t)prompt, sizeof *ids);
    if (!context || !ids)
        return fprintf(stderr, "peer_llama: %s: no context\n", argv[1]), 1;
    int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (int i = 0; i < prompt; i++)
        ids[i] = (i * 7919 + 1000) % vocab;
    double start = now_s();
    int failed = llama_decode(context, llama_batch_get_one(ids, prompt));
    llama_synchronize(context);
    double prompt_s = now_s() - start;
    start = now_s();
    for (int i = 0; i < decode && !failed; i++) {
        llama_token id = most_likely(context, vocab);
        failed = llama_decode(context, llama_batch_get_one(&id, 1));
    }
    llama_synchronize(context);
    printf("prompt %.1f tokens/s, decode %.2f tokens/s\n", prompt / prompt_s, decode / (now_s() - start));
    return failed;
}
