/*
 * bench_attention: how fast is attention alone, next to the f32 multiply-adds that the processor gives?
 *
 * Whole calls of the CPU backend, with a cache of f16: prompts of 512 and 2048 rows, and one row (decoding) behind 16,000 positions, for
 * head sizes and for one and 8 query heads on a key head. In 10^9 operations a second (a multiply-add of a score or of a value is two) with
 * the share of the measured peak of all threads; for one row also in GB/s of keys and values. Best of many passes.
 *
 * Usage: bench_attention [--threads N] [--isa NAME] [--shape N]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/memory.h"
#include "dtype/scalar_convert.h"
#include "kernel/kernel.h"
#include "peaks.h"

#define HEADS 8 /* query heads */
#define POSITIONS_MAX 16384

struct shape {
    size_t rows, positions, kv_heads, head_dim, v_dim;
    bool values_in_keys;
};

static const struct shape shapes[] = {
    {512, 512, 8, 64, 64, false},     {512, 512, 1, 64, 64, false},     {512, 512, 8, 128, 128, false},   {512, 512, 1, 128, 128, false},
    {512, 512, 8, 256, 256, false},   {512, 512, 1, 256, 256, false},   {2048, 2048, 8, 64, 64, false},   {2048, 2048, 1, 64, 64, false},
    {2048, 2048, 8, 128, 128, false}, {2048, 2048, 1, 128, 128, false}, {2048, 2048, 8, 256, 256, false}, {2048, 2048, 1, 256, 256, false},
    {1, 16000, 8, 64, 64, false},     {1, 16000, 1, 64, 64, false},     {1, 16000, 8, 128, 128, false},   {1, 16000, 1, 128, 128, false},
    {1, 16000, 8, 256, 256, false},   {1, 16000, 1, 256, 256, false},   {1, 4000, 1, 576, 512, true},
};

static void stop(const char *why) {
    fprintf(stderr, "bench_attention: %s\n", why);
    exit(1);
}

static void *take(size_t size_bytes) {
    struct memory_region region;
    struct error err;
    if (memory_region_create(&region, size_bytes, MEMORY_OTHER, false, &err))
        stop(err.text);
    return region.data; /* lives as long as the program */
}

static double best_seconds(struct backend *backend, const struct op *op, const struct op_call *call) {
    struct error err;
    double best = 1e9;
    uint64_t begun = clock_now_ns();
    for (unsigned pass = 0; pass < 2 || clock_now_ns() - begun < 1000000000u; pass++) {
        uint64_t started = clock_now_ns();
        if (backend_run(backend, op, call, &err))
            stop(err.text);
        double seconds = (double)(clock_now_ns() - started) * 1e-9;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void bench(const struct shape *s, const struct cpu_backend_options *options, double peak, uint16_t *cache, float *q, float *out) {
    struct op op = {.kind = OP_ATTENTION,
                    .attention = {.heads = HEADS,
                                  .kv_heads = (uint32_t)s->kv_heads,
                                  .head_dim = (uint32_t)s->head_dim,
                                  .v_dim = (uint32_t)s->v_dim,
                                  .scale = 0.1f,
                                  .values_in_keys = s->values_in_keys}};
    uint8_t *k_tiles[POSITIONS_MAX / ATTENTION_TILE], *v_tiles[POSITIONS_MAX / ATTENTION_TILE];
    size_t k_tile = s->kv_heads * ATTENTION_TILE * s->head_dim, v_tile = s->kv_heads * ATTENTION_TILE * s->v_dim;
    for (size_t t = 0; t * ATTENTION_TILE < s->positions; t++) {
        k_tiles[t] = (uint8_t *)(cache + t * (k_tile + v_tile));
        v_tiles[t] = s->values_in_keys ? k_tiles[t] : (uint8_t *)(cache + t * (k_tile + v_tile) + k_tile);
    }
    struct kv_view view = {.k_tiles = k_tiles, .v_tiles = v_tiles, .kv_dtype = DTYPE_F16};
    struct op_row *row = take(s->rows * sizeof *row);
    for (size_t r = 0; r < s->rows; r++)
        row[r].position = (uint32_t)(s->positions - s->rows + r);
    struct op_call call = {.rows = s->rows,
                           .row = row,
                           .in = {q},
                           .out = {out},
                           .in_width = {HEADS * s->head_dim},
                           .out_width = {HEADS * s->v_dim},
                           .kv = &view};
    struct backend *backend;
    struct error err;
    if (cpu_backend_create(options, &backend, &err))
        stop(err.text);
    double seconds = best_seconds(backend, &op, &call), pairs = 0;
    for (size_t r = 0; r < s->rows; r++)
        pairs += row[r].position + 1.0;
    double rate = 2e-9 * pairs * HEADS * (double)(s->head_dim + s->v_dim) / seconds;
    printf("%-7s %4zu rows, %5zu positions, head %3zu, %zu on a key:%8.1f Gop/s", cpu_isa_name(options->isa), s->rows, s->positions,
           s->head_dim, HEADS / s->kv_heads, rate);
    if (peak > 0)
        printf(" (%2.0f %%)", 100 * rate / peak / options->threads);
    if (s->rows == 1)
        printf(" %6.1f GB/s", 2e-9 * (double)(s->positions * s->kv_heads * (s->head_dim + (s->values_in_keys ? 0 : s->v_dim))) / seconds);
    printf("\n");
    fflush(stdout);
    backend_destroy(backend);
}

int main(int argc, char **argv) {
    struct cpu_backend_options options = {.threads = 1,
                                          .limits = {.rows = 2048,
                                                     .attention_heads = HEADS,
                                                     .attention_group = HEADS,
                                                     .attention_head_dim = 576,
                                                     .attention_v_dim = 512,
                                                     .attention_tiles = POSITIONS_MAX / ATTENTION_TILE}};
    const char *only = NULL;
    size_t shape = SIZE_MAX;
    for (int i = 1; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], "--threads"))
            options.threads = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--isa"))
            only = argv[i + 1];
        else if (!strcmp(argv[i], "--shape"))
            shape = (size_t)strtoul(argv[i + 1], NULL, 10);
    size_t elements = (size_t)POSITIONS_MAX * 8 * 2 * 256, floats = (size_t)2048 * HEADS * 576;
    uint16_t *cache = take(elements * sizeof *cache);
    float *q = take(floats * sizeof *q), *out = take(floats * sizeof *out);
    uint32_t state = 1;
    for (size_t i = 0; i < elements; i++) {
        state = state * 1664525u + 1013904223u;
        cache[i] = f16_from_f32((float)(state >> 16) * 0x1p-15f - 1.0f);
    }
    for (size_t i = 0; i < floats; i++)
        q[i] = (float)((i * 2654435761u) % 1000) * 0.002f - 1.0f;
    printf("%s, %u threads\n", cpu_model_name(), options.threads);
    for (unsigned isa = CPU_ISA_REF + 1; isa < CPU_ISA_COUNT; isa++) {
        options.isa = (enum cpu_isa)isa;
        if (!cpu_isa_available(options.isa) || (only && strcmp(only, cpu_isa_name(options.isa)) != 0))
            continue;
        double peak = peak_f32(options.isa);
        printf("%-7s a thread: %.0f Gop/s\n", cpu_isa_name(options.isa), peak);
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            if (shape == SIZE_MAX || shape == i)
                bench(&shapes[i], &options, peak, cache, q, out);
    }
    return 0;
}
