/*
 * bench_fits: what a model that fits loses by living in mapped pages of its files, against anonymous memory filled by direct reads.
 *
 *     bench_fits MODEL [TOKENS [PAIRS]]
 *
 * Both copies are open in one process, which needs memory for both, and decode the same tokens in turn. Prints one line per pair, then the
 * median of the ratios of the tokens' median times, with their quartiles: above 1 the mapped copy is faster.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "engine/engine_internal.h"

#define TOKENS_MAX 4096
#define PAIRS_MAX 100

/* A queue that is wrapped keeps the model from being mapped. */
static enum status wrap_nothing(void *context, struct read_queue *inner, struct read_queue **out, struct error *err) {
    (void)context;
    (void)err;
    *out = inner;
    return STATUS_OK;
}

static struct sluice_model *open_copy(const char *path, uint32_t tokens, bool mapped) {
    sluice_model *model;
    sluice_error error;
    const sluice_load_options options = {.ram = SLUICE_RAM_ALL, .context = tokens + 2};
    sluice_status status = sluice_open(path, &model, &error);
    if (status == SLUICE_OK && !mapped)
        engine_set_queue_wrapper(model, (struct queue_wrapper){.wrap = wrap_nothing});
    if (status == SLUICE_OK)
        status = sluice_load(model, &options, &error);
    if (status != SLUICE_OK) {
        (void)fprintf(stderr, "bench_fits: %s\n", error.text);
        exit(1);
    }
    return model;
}

struct times {
    uint64_t last_ns;
    double ms[TOKENS_MAX];
    uint32_t count;
};

static bool on_piece(void *context, const sluice_piece *piece) {
    (void)piece;
    struct times *t = context;
    uint64_t now = clock_now_ns();
    if (t->last_ns > 0)
        t->ms[t->count++] = (double)(now - t->last_ns) / 1e6;
    t->last_ns = now;
    return true;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_ms(sluice_model *model, uint32_t tokens) {
    static struct times times;
    const uint32_t prompt = 1;
    sluice_error error;
    times.count = 0;
    times.last_ns = 0;
    const sluice_request request = {
        .prompt = &prompt, .prompt_count = 1, .max_tokens = tokens, .ignore_end = true, .on_piece = on_piece, .context_pointer = &times};
    CHECK(sluice_generate(model, &request, NULL, &error) == SLUICE_OK && times.count > 0);
    qsort(times.ms, times.count, sizeof *times.ms, by_size);
    return times.ms[times.count / 2];
}

int main(int argc, char **argv) {
    long tokens = argc > 2 ? strtol(argv[2], NULL, 10) : 32, pairs = argc > 3 ? strtol(argv[3], NULL, 10) : 20;
    if (argc < 2 || argc > 4 || tokens < 2 || tokens > TOKENS_MAX || pairs < 1 || pairs > PAIRS_MAX)
        return fprintf(stderr, "usage: bench_fits MODEL [TOKENS (2 to %d) [PAIRS (1 to %d)]]\n", TOKENS_MAX, PAIRS_MAX), 2;
    sluice_model *mapped = open_copy(argv[1], (uint32_t)tokens, true), *resident = open_copy(argv[1], (uint32_t)tokens, false);
    double ratio[PAIRS_MAX];
    (void)median_ms(mapped, (uint32_t)tokens); /* touches what is not in memory yet */
    (void)median_ms(resident, (uint32_t)tokens);
    for (long p = 0; p < pairs; p++) {
        bool mapped_first = p % 2 == 0;
        double first = median_ms(mapped_first ? mapped : resident, (uint32_t)tokens);
        double second = median_ms(mapped_first ? resident : mapped, (uint32_t)tokens);
        double m = mapped_first ? first : second, r = mapped_first ? second : first;
        ratio[p] = r / m;
        (void)printf("mapped %.3f ms a token, resident %.3f\n", m, r);
    }
    qsort(ratio, (size_t)pairs, sizeof *ratio, by_size);
    (void)printf("resident / mapped: median %.3f, quartiles %.3f to %.3f, of %ld pairs\n", ratio[pairs / 2], ratio[pairs / 4],
                 ratio[3 * pairs / 4], pairs);
    sluice_close(mapped);
    sluice_close(resident);
    return 0;
}
