/*
 * bench_kernels: how fast are the products, next to what memory and the arithmetic units give in the same run?
 *
 * For each level and format: one row of activations (matrix times vector, weights read from memory, a matrix much larger than the caches)
 * in GB/s of weights, and 8, 64 and 512 rows, or those of --rows (up to 16 of them from memory, too) in 10^9 operations a second (2 per
 * weight and row) with their share of the measured peak of all threads: of f32 multiply-adds for float weights, else of bytes. Best of many
 * passes.
 *
 * Usage: bench_kernels [--cols N] [--threads N] [--mb N] [--isa NAME] [--format NAME] [--rows N,N,..]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "dtype/scalar_convert.h"
#include "kernel/kernel.h"
#include "peaks.h"

struct settings {
    size_t cols, megabytes;
    unsigned threads;
    const char *isa, *format; /* NULL: all */
    size_t rows[8];           /* of activations, up to a 0 */
};

struct bench_format {
    const char *name;
    unsigned format, bits, group_cols, scale_bytes;
    enum dtype scale_dtype;
};

#define WHOLE_ROWS UINT32_MAX /* group_cols: one scale for each row */
#define PLAIN(type) \
    { #type, DTYPE_##type, 0, 0, 0, DTYPE_F32 }
static const struct bench_format formats[] = {
    PLAIN(F32),
    PLAIN(F16),
    PLAIN(BF16),
    PLAIN(F8_E4M3),
    PLAIN(F8_E5M2),
    PLAIN(Q4_0),
    PLAIN(Q4_1),
    PLAIN(Q5_0),
    PLAIN(Q5_1),
    PLAIN(Q8_0),
    PLAIN(IQ4_NL),
    PLAIN(MXFP4),
    PLAIN(NVFP4),
    PLAIN(Q2_K),
    PLAIN(Q3_K),
    PLAIN(Q4_K),
    PLAIN(Q5_K),
    PLAIN(Q6_K),
    PLAIN(IQ2_XXS),
    PLAIN(IQ2_XS),
    PLAIN(IQ2_S),
    PLAIN(IQ3_XXS),
    PLAIN(IQ3_S),
    PLAIN(IQ1_S),
    PLAIN(IQ1_M),
    PLAIN(IQ4_XS),
    PLAIN(TQ1_0),
    PLAIN(TQ2_0),
    {"AFFINE4", MATRIX_AFFINE, 4, 64, 2, DTYPE_BF16},
    {"AFFINE4/32", MATRIX_AFFINE, 4, 32, 2, DTYPE_BF16},
    {"AFFINE4/128", MATRIX_AFFINE, 4, 128, 2, DTYPE_BF16},
    {"AFFINE6", MATRIX_AFFINE, 6, 64, 2, DTYPE_BF16},
    {"AFFINE8", MATRIX_AFFINE, 8, 64, 2, DTYPE_BF16},
    {"F8_BLOCK", MATRIX_F8_BLOCK, 8, 128, 4, DTYPE_F32},
    {"F8_ROWS", MATRIX_F8_BLOCK, 8, WHOLE_ROWS, 4, DTYPE_F32},
    {"MXFP8", MATRIX_MXFP8_SPLIT, 8, 32, 1, DTYPE_F8_E8M0},
    {"MXFP4_SPLIT", MATRIX_MXFP4_SPLIT, 4, 32, 1, DTYPE_F8_E8M0},
    {"NVFP4_SPLIT", MATRIX_NVFP4_SPLIT, 4, 16, 1, DTYPE_F8_E4M3},
    {"INT4", MATRIX_INT_GROUPS, 4, 128, 2, DTYPE_BF16},
    {"INT8", MATRIX_INT8_GROUPS, 8, 128, 2, DTYPE_BF16},
    {"AWQ", MATRIX_AWQ, 4, 128, 2, DTYPE_F16},
    {"GPTQ", MATRIX_GPTQ, 4, 128, 2, DTYPE_F16},
};

static void *take(size_t size_bytes) {
    struct memory_region region;
    struct error err;
    if (memory_region_create(&region, size_bytes, MEMORY_OTHER, false, &err)) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        exit(1);
    }
    return region.data; /* lives as long as the program */
}

/* ---- memory ---- */

struct read_work {
    const uint64_t *words;
    uint64_t sums[256];
};

static void read_body(void *context, size_t begin, size_t end, unsigned worker) {
    struct read_work *work = context;
    uint64_t sum[8] = {0};
    for (size_t block = begin; block < end; block++)
        for (size_t i = 0; i < 512; i += 8)
            for (size_t j = 0; j < 8; j++)
                sum[j] += work->words[block * 512 + i + j];
    for (size_t j = 0; j < 8; j++)
        work->sums[worker % 256] += sum[j];
}

static double read_rate(struct thread_pool *pool, const void *data, size_t size_bytes) {
    struct read_work work = {.words = data};
    double best = 0;
    for (unsigned pass = 0; pass < 4; pass++) {
        uint64_t started = clock_now_ns();
        thread_pool_run(pool, size_bytes / 4096, 64, read_body, &work);
        double rate = (double)(size_bytes / 4096 * 4096) / (double)(clock_now_ns() - started);
        best = rate > best ? rate : best;
    }
    return best;
}

/* ---- products ---- */

#define THREADS_MAX 256
static uint8_t *scratch[THREADS_MAX]; /* of matmul_many */

static void matmul_body(void *context, size_t begin, size_t end, unsigned worker) {
    const struct matmul_args *whole = ((void **)context)[0];
    const struct kernel_table *table = ((void **)context)[1];
    struct matmul_args args = *whole;
    args.row_begin = begin;
    args.row_end = end;
    if (!table->matmul_many || !table->matmul_many(&args, scratch[worker]))
        table->matmul[args.w->format](&args);
}

/* The shortest of passes over about half a second. */
static double matmul_seconds(struct thread_pool *pool, const struct kernel_table *table, const struct matmul_args *args) {
    void *context[2] = {(void *)args, (void *)table};
    double best = 1e9;
    uint64_t begun = clock_now_ns();
    for (unsigned pass = 0; pass < 2 || clock_now_ns() - begun < 500000000u; pass++) {
        uint64_t started = clock_now_ns();
        thread_pool_run(pool, args->w->rows, 64, matmul_body, context);
        double seconds = (double)(clock_now_ns() - started) * 1e-9;
        best = seconds < best ? seconds : best;
    }
    return best;
}

#define TOKENS_MAX 512

static void bench_matrix(const struct bench_format *f, const struct kernel_table *table, struct thread_pool *pool, const struct settings *s,
                         uint8_t *data, uint8_t *scales, float *y, double peak) {
    const bool packed = matrix_is_packed_by_columns(f->format);
    uint64_t row_bytes = s->cols * f->bits / 8;
    if (f->bits == 0 && !dtype_size((enum dtype)f->format, s->cols, &row_bytes))
        return;
    unsigned group_cols = f->group_cols == WHOLE_ROWS ? (unsigned)s->cols : f->group_cols;
    struct matrix w = {.format = f->format,
                       .cols = s->cols,
                       .data = data,
                       .row_bytes = row_bytes,
                       .bits = f->bits,
                       .group_cols = group_cols,
                       .group_rows = f->format == MATRIX_F8_BLOCK && f->group_cols != WHOLE_ROWS ? 128 : 1,
                       .scale_dtype = f->scale_dtype,
                       .tensor_scale = 1,
                       .scales = f->bits ? scales : NULL,
                       .biases = f->format == MATRIX_AFFINE || packed ? scales : NULL,
                       .scales_row_bytes = group_cols ? (s->cols + group_cols - 1) / group_cols * f->scale_bytes : 0};
    size_t megabytes = table->isa == CPU_ISA_REF ? (s->megabytes + 15) / 16 : s->megabytes;
    w.rows = megabytes * 1000000 / row_bytes / 64 * 64;
    if (packed)
        w.scales_row_bytes = w.rows * f->scale_bytes;
    struct activation_layout layout = activation_layout(matrix_activation_block(f->format, f->group_cols), s->cols);
    uint8_t *x = take(layout.row_bytes * TOKENS_MAX);
    float *row = take(s->cols * sizeof(float));
    for (size_t t = 0; t < TOKENS_MAX; t++) {
        for (size_t i = 0; i < s->cols; i++)
            row[i] = (float)((i * 2654435761u + t * 40503u) % 1000) * 0.002f - 1.0f;
        if (layout.block)
            table->quantize(row, s->cols, layout.block, x + t * layout.row_bytes);
        else
            memcpy(x + t * layout.row_bytes, row, s->cols * sizeof(float));
    }
    struct matmul_args args = {
        .w = &w, .row_end = w.rows, .x = x, .x_row_bytes = layout.row_bytes, .tokens = 1, .y = y, .y_stride = w.rows};
    double one = matmul_seconds(pool, table, &args);
    size_t scale_bytes = f->group_cols ? s->cols / f->group_cols * f->scale_bytes : 0; /* of a row */
    double bytes = (double)w.rows * (double)(row_bytes + scale_bytes * (f->format == MATRIX_AFFINE ? 2 : 1));
    printf("%-8s %-12s %7.1f GB/s", cpu_isa_name(table->isa), f->name, bytes / one * 1e-9);
    size_t all_rows = w.rows;
    for (const size_t *of = s->rows; *of && table->isa != CPU_ISA_REF; of++) {
        size_t tokens = *of;
        size_t least =
            s->threads > 1 ? 1024 * s->threads : 64; /* threads share some milliseconds; one: a millisecond, which may be left alone */
        w.rows = 130000000 / (s->cols * tokens * 2) / 64 * 64;
        w.rows = w.rows < least ? least : w.rows;
        w.rows = w.rows > all_rows || packed || tokens <= 16 ? all_rows : w.rows; /* few rows: from memory, as one */
        args.row_end = args.y_stride = w.rows;
        args.tokens = tokens;
        double rate = 2e-9 * (double)w.rows * (double)s->cols * (double)tokens / matmul_seconds(pool, table, &args);
        printf("   %zu: %7.1f (%2.0f %%)", tokens, rate, peak > 0 ? 100 * rate / peak / s->threads : 0.0);
    }
    printf("\n");
}

/* N,N,..: up to seven, each 1 .. TOKENS_MAX. */
static void read_rows(size_t rows[8], const char *text) {
    size_t count = 0;
    for (char *end; count < 7 && *text; text = *end ? end + 1 : end) {
        rows[count] = (size_t)strtoul(text, &end, 10);
        if (end == text || rows[count] == 0 || rows[count] > TOKENS_MAX) {
            fprintf(stderr, "bench_kernels: --rows wants numbers from 1 to %d with commas between, not '%s'\n", TOKENS_MAX, text);
            exit(1);
        }
        count++;
    }
    rows[count] = 0;
}

static void read_settings(struct settings *s, int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        size_t number = (size_t)strtoul(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--cols"))
            s->cols = number;
        else if (!strcmp(argv[i], "--threads"))
            s->threads = (unsigned)number;
        else if (!strcmp(argv[i], "--mb"))
            s->megabytes = number;
        else if (!strcmp(argv[i], "--isa"))
            s->isa = argv[i + 1];
        else if (!strcmp(argv[i], "--format"))
            s->format = argv[i + 1];
        else if (!strcmp(argv[i], "--rows"))
            read_rows(s->rows, argv[i + 1]);
    }
}

int main(int argc, char **argv) {
    struct settings s = {.cols = 2048, .megabytes = 400, .threads = 1, .rows = {8, 64, 512}};
    read_settings(&s, argc, argv);
    struct thread_pool *pool;
    struct error err;
    if (thread_pool_create(s.threads, &pool, &err)) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        return 1;
    }
    for (unsigned t = 0; t < s.threads && t < THREADS_MAX; t++)
        scratch[t] = take(matmul_many_bytes(cpu_isa_best(), s.cols));
    size_t size_bytes = s.megabytes * 1000000;
    uint8_t *data = take(size_bytes + 65536), *scales = take(size_bytes / 4 + 65536);
    float *y = take(size_bytes / s.cols * 8 * sizeof(float) + (64u << 20));
    uint32_t state = 1;
    for (size_t i = 0; i < size_bytes; i += 2) { /* no infinities as f16, few subnormals */
        state = state * 1664525u + 1013904223u;
        data[i] = (uint8_t)(state >> 24);
        data[i + 1] = (uint8_t)((state >> 16 & 0x83u) | 0x2cu);
    }
    for (size_t i = 0; i < size_bytes; i += 17) /* and scales of MXFP4 that are a little below 1; f16 with such a byte are finite */
        data[i] = (uint8_t)(0x70 | (data[i] & 7));
    for (size_t i = 0; i < size_bytes; i++) /* no NaNs as e4m3 */
        data[i] ^= (data[i] & 0x7f) == 0x7f;
    for (size_t i = 0; i < size_bytes / 4; i++)
        scales[i] = (uint8_t)(i & 1 ? 0x3c : 0x38 | (i >> 1 & 7));
    printf("%s, %u threads, %zu columns; memory reads %.1f GB/s\n", cpu_model_name(), s.threads, s.cols, read_rate(pool, data, size_bytes));
    for (unsigned isa = 0; isa < CPU_ISA_COUNT; isa++) {
        if (!cpu_isa_available((enum cpu_isa)isa) || (s.isa && strcmp(s.isa, cpu_isa_name((enum cpu_isa)isa)) != 0))
            continue;
        double f32 = peak_f32((enum cpu_isa)isa), int8 = peak_int8((enum cpu_isa)isa);
        printf("%-8s a thread: f32 %.0f, bytes %.0f Gop/s\n", cpu_isa_name((enum cpu_isa)isa), f32, int8);
        for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
            if (!s.format || !strcmp(s.format, formats[i].name))
                bench_matrix(&formats[i], kernel_table_for((enum cpu_isa)isa), pool, &s, data, scales, y,
                             matrix_activation_block(formats[i].format, formats[i].group_cols) ? int8 : f32);
    }
    thread_pool_destroy(pool);
    return 0;
}
