/*
 * check_matmul: products of every format: each level against ref/ bit for bit, and ref/ against sums in double precision over the
 * decoded weights and the decoded activations.
 *
 * Weights are random bytes whose scales are then set, so that every code and sub-scale occurs; rows and activations end at a forbidden
 * page, and outputs outside the asked rows must stay as they were.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "kernel/level.h"
#include "tiles_in_c.h"

#define ROWS_MAX 35 /* more than two panels of a matrix product */
#define TOKENS_MAX 35

struct format_case {
    const char *name;
    unsigned format;
    unsigned elements, bytes; /* of a block; companions: codes of `elements` columns take `bytes` */
    int scale_offset[2];      /* f16 scales inside the block, -1: none */
    unsigned bits, group_cols, group_rows, scale_dtype;
};

#define BLOCK(type, elements, bytes, first, second) \
    { #type, DTYPE_##type, elements, bytes, {first, second }, 0, 0, 0, 0 }
static const struct format_case formats[] = {
    BLOCK(F32, 1, 4, -1, -1),
    BLOCK(F16, 1, 2, -1, -1),
    BLOCK(BF16, 1, 2, -1, -1),
    BLOCK(F8_E4M3, 1, 1, -1, -1),
    BLOCK(F8_E5M2, 1, 1, -1, -1),
    BLOCK(Q4_0, 32, 18, 0, -1),
    BLOCK(Q4_1, 32, 20, 0, 2),
    BLOCK(Q5_0, 32, 22, 0, -1),
    BLOCK(Q5_1, 32, 24, 0, 2),
    BLOCK(Q8_0, 32, 34, 0, -1),
    BLOCK(IQ4_NL, 32, 18, 0, -1),
    BLOCK(MXFP4, 32, 17, -1, -1),
    BLOCK(NVFP4, 64, 36, -1, -1),
    BLOCK(Q1_0, 128, 18, 0, -1),
    BLOCK(Q2_0, 64, 18, 0, -1),
    BLOCK(Q2_K, 256, 84, 80, 82),
    BLOCK(Q3_K, 256, 110, 108, -1),
    BLOCK(Q4_K, 256, 144, 0, 2),
    BLOCK(Q5_K, 256, 176, 0, 2),
    BLOCK(Q6_K, 256, 210, 208, -1),
    BLOCK(IQ2_XXS, 256, 66, 0, -1),
    BLOCK(IQ2_XS, 256, 74, 0, -1),
    BLOCK(IQ2_S, 256, 82, 0, -1),
    BLOCK(IQ3_XXS, 256, 98, 0, -1),
    BLOCK(IQ3_S, 256, 110, 0, -1),
    BLOCK(IQ1_S, 256, 50, 0, -1),
    BLOCK(IQ1_M, 256, 56, -1, -1),
    BLOCK(IQ4_XS, 256, 136, 0, -1),
    BLOCK(TQ1_0, 256, 54, 52, -1),
    BLOCK(TQ2_0, 256, 66, 64, -1),
    {"AFFINE 2/32", MATRIX_AFFINE, 32, 8, {-1, -1}, 2, 32, 1, DTYPE_F32},
    {"AFFINE 3/64", MATRIX_AFFINE, 64, 24, {-1, -1}, 3, 64, 1, DTYPE_BF16},
    {"AFFINE 4/64", MATRIX_AFFINE, 64, 32, {-1, -1}, 4, 64, 1, DTYPE_F16},
    {"AFFINE 4/32", MATRIX_AFFINE, 32, 16, {-1, -1}, 4, 32, 1, DTYPE_BF16},
    {"AFFINE 4/128", MATRIX_AFFINE, 128, 64, {-1, -1}, 4, 128, 1, DTYPE_F32},
    {"AFFINE 5/64", MATRIX_AFFINE, 64, 40, {-1, -1}, 5, 64, 1, DTYPE_BF16},
    {"AFFINE 6/64", MATRIX_AFFINE, 64, 48, {-1, -1}, 6, 64, 1, DTYPE_BF16},
    {"AFFINE 7/32", MATRIX_AFFINE, 32, 28, {-1, -1}, 7, 32, 1, DTYPE_BF16},
    {"AFFINE 8/64", MATRIX_AFFINE, 64, 64, {-1, -1}, 8, 64, 1, DTYPE_BF16},
    {"AFFINE 8/32", MATRIX_AFFINE, 32, 32, {-1, -1}, 8, 32, 1, DTYPE_F16},
    {"AFFINE 2/128", MATRIX_AFFINE, 128, 32, {-1, -1}, 2, 128, 1, DTYPE_F16},
    {"AFFINE 4/256", MATRIX_AFFINE, 256, 128, {-1, -1}, 4, 256, 1, DTYPE_BF16},
    {"F8_BLOCK", MATRIX_F8_BLOCK, 1, 1, {-1, -1}, 0, 128, 4, DTYPE_F32},
    {"F8_BLOCK e8m0", MATRIX_F8_BLOCK, 1, 1, {-1, -1}, 0, 100, 128, DTYPE_F8_E8M0},
    {"MXFP4_SPLIT", MATRIX_MXFP4_SPLIT, 32, 16, {-1, -1}, 0, 32, 1, DTYPE_F8_E8M0},
    {"NVFP4_SPLIT", MATRIX_NVFP4_SPLIT, 16, 8, {-1, -1}, 0, 16, 1, DTYPE_F8_E4M3},
    {"MXFP8_SPLIT", MATRIX_MXFP8_SPLIT, 32, 32, {-1, -1}, 0, 32, 1, DTYPE_F8_E8M0},
    {"F8_E5M2_BLOCK", MATRIX_F8_E5M2_BLOCK, 1, 1, {-1, -1}, 0, 128, 4, DTYPE_F32},
    {"INT_GROUPS 4/32", MATRIX_INT_GROUPS, 32, 16, {-1, -1}, 4, 32, 1, DTYPE_BF16},
    {"INT_GROUPS 4/128", MATRIX_INT_GROUPS, 128, 64, {-1, -1}, 4, 128, 1, DTYPE_F16},
    {"INT_GROUPS 8/64", MATRIX_INT_GROUPS, 64, 64, {-1, -1}, 8, 64, 1, DTYPE_F32},
    {"INT8_GROUPS /32", MATRIX_INT8_GROUPS, 32, 32, {-1, -1}, 8, 32, 1, DTYPE_F32},
};
#define FORMAT_COUNT (sizeof formats / sizeof formats[0])

/* ONES, ZEROS: all bits. EXTREME: bytes at the ends of signed and unsigned ranges. WILD: any scale, also infinities and NaN. */
enum weights { WEIGHTS_RANDOM, WEIGHTS_ONES, WEIGHTS_ZEROS, WEIGHTS_EXTREME, WEIGHTS_WILD, WEIGHTS_COUNT };

static uint8_t code_byte(enum weights weights, struct check_random *r) {
    static const uint8_t extreme[] = {0x00, 0xff, 0x80, 0x7f};
    switch (weights) {
    case WEIGHTS_ONES:
        return 0xff;
    case WEIGHTS_ZEROS:
        return 0;
    case WEIGHTS_EXTREME:
        return extreme[check_below(r, 4)];
    default:
        return (uint8_t)check_bits(r);
    }
}

/* A scale of about 2^-6, any sign, sometimes zero or subnormal. */
static uint16_t random_f16(struct check_random *r) {
    if (check_below(r, 16) == 0)
        return (uint16_t)check_below(r, 0x200);
    return (uint16_t)((check_bits(r) & 0x83ffu) | (7 + check_below(r, 4)) << 10);
}

static void fill_scales(uint8_t *scales, size_t bytes, enum dtype dtype, struct check_random *r) {
    for (size_t i = 0; i < bytes; i++) {
        float value = check_uniform(r);
        uint16_t half = dtype == DTYPE_F16 ? random_f16(r) : bf16_from_f32(value);
        if (dtype == DTYPE_F32 && i % 4 == 0)
            memcpy(scales + i, &value, 4);
        if ((dtype == DTYPE_F16 || dtype == DTYPE_BF16) && i % 2 == 0)
            memcpy(scales + i, &half, 2);
        if (dtype == DTYPE_F8_E8M0)
            scales[i] = (uint8_t)(120 + check_below(r, 8));
        if (dtype == DTYPE_F8_E4M3)
            scales[i] = (uint8_t)(check_bits(r) & 0xf7u);
    }
}

static void fill_block(const struct format_case *f, uint8_t *block, enum weights weights, struct check_random *r) {
    for (size_t i = 0; i < f->bytes; i++)
        block[i] = code_byte(weights, r);
    if (weights == WEIGHTS_WILD)
        return;
    uint16_t half = random_f16(r);
    for (int i = 0; i < 2; i++)
        if (f->scale_offset[i] >= 0) {
            half = random_f16(r);
            memcpy(block + f->scale_offset[i], &half, 2);
        }
    float value = check_uniform(r);
    if (f->format == DTYPE_F32)
        memcpy(block, &value, 4);
    if (f->format == DTYPE_F16)
        memcpy(block, &half, 2);
    if (f->format == DTYPE_BF16)
        memcpy(block, (uint16_t[]){bf16_from_f32(value)}, 2);
    if (f->format == DTYPE_F8_E4M3 || f->format == MATRIX_F8_BLOCK || f->format == DTYPE_F8_E5M2 || f->format == MATRIX_F8_E5M2_BLOCK)
        block[0] &= 0xbf;
    if (f->format == MATRIX_MXFP8_SPLIT)
        for (size_t i = 0; i < f->bytes; i++)
            block[i] &= 0xf7;
    if (f->format == DTYPE_MXFP4)
        block[0] = (uint8_t)(120 + check_below(r, 8));
    if (f->format == DTYPE_NVFP4)
        for (size_t i = 0; i < 4; i++)
            block[i] &= 0x77;
    if (f->format == DTYPE_IQ1_M) /* d is spread over four top nibbles: 0x2cxx */
        for (size_t i = 0; i < 4; i++)
            block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (i == 3 ? 0x20 : i == 2 ? 0xc0 : 0x50));
}

struct matmul_case {
    struct check_memory memory;
    struct matrix w;
    float *x;      /* [TOKENS_MAX][cols] */
    uint8_t *rows; /* activations in the layout of the format */
    size_t row_bytes;
};

static void make_case(struct matmul_case *c, const struct format_case *f, size_t cols, enum weights weights, enum check_values values,
                      struct check_random *r) {
    size_t data_bytes = cols / f->elements * f->bytes;
    memset(c, 0, sizeof *c);
    c->w = (struct matrix){.format = f->format,
                           .rows = ROWS_MAX,
                           .cols = cols,
                           .row_bytes = data_bytes,
                           .bits = f->bits,
                           .group_cols = f->group_cols,
                           .group_rows = f->group_rows,
                           .group_row_offset = f->group_rows > 1 ? 1 : 0,
                           .scale_dtype = (enum dtype)f->scale_dtype,
                           .tensor_scale = check_below(r, 2) ? 1.0f : 0.37f};
    uint8_t *data = check_guarded(&c->memory, ROWS_MAX * data_bytes);
    for (size_t i = 0; i < ROWS_MAX * data_bytes; i += f->bytes)
        fill_block(f, data + i, weights, r);
    c->w.data = data;
    if (f->group_cols > 0) {
        uint64_t scale_bytes = 0;
        assert_true(dtype_size(c->w.scale_dtype, 1, &scale_bytes));
        c->w.scales_row_bytes = (cols + f->group_cols - 1) / f->group_cols * scale_bytes;
        size_t bytes = c->w.scales_row_bytes * ((ROWS_MAX + f->group_rows) / f->group_rows);
        uint8_t *scales = check_guarded(&c->memory, bytes), *biases = check_guarded(&c->memory, bytes);
        fill_scales(scales, bytes, c->w.scale_dtype, r);
        fill_scales(biases, bytes, c->w.scale_dtype, r);
        c->w.scales = scales;
        c->w.biases = f->format == MATRIX_AFFINE ? biases : NULL;
    }
    c->x = check_floats(&c->memory, TOKENS_MAX * cols, r, values);
    unsigned block = matrix_activation_block(f->format, f->group_cols);
    struct activation_layout layout = activation_layout(block, cols);
    c->row_bytes = block ? layout.row_bytes : cols * sizeof(float);
    c->rows = block ? check_guarded(&c->memory, TOKENS_MAX * layout.row_bytes) : (uint8_t *)c->x;
    for (size_t t = 0; block && t < TOKENS_MAX; t++)
        kernel_table_for(CPU_ISA_REF)->quantize(c->x + t * cols, cols, block, c->rows + t * layout.row_bytes);
}

static struct matmul_args args_of(const struct matmul_case *c, size_t tokens, size_t begin, size_t end, float *y) {
    return (struct matmul_args){.w = &c->w,
                                .row_begin = begin,
                                .row_end = end,
                                .x = c->rows,
                                .x_row_bytes = c->row_bytes,
                                .tokens = tokens,
                                .y = y,
                                .y_stride = ROWS_MAX + 1};
}

typedef bool matmul_many_fn(const struct matmul_args *args, uint8_t *scratch);

/* A matrix product of a level, where it has one. isa: whose scratch it has. */
static void compare_many(const struct kernel_table *level, enum cpu_isa isa, matmul_many_fn *many, struct matmul_args args,
                         struct matmul_case *c, const float *want, const char *what) {
    size_t count = TOKENS_MAX * (ROWS_MAX + 1);
    float *got = check_guarded(&c->memory, count * sizeof(float));
    uint8_t *scratch = check_guarded(&c->memory, matmul_many_bytes(isa, c->w.cols));
    args.y = got;
    if (many && many(&args, scratch)) {
        check_same(want, got, count, what, level);
        check_untouched_before(got);
        check_untouched_before(scratch);
    }
}

/* The products with tiles of bytes, whose instructions are elsewhere checked by the level that has them. */
static matmul_many_fn *many_of_tiles(const struct kernel_table *level) {
#if defined(__x86_64__)
    if (level->isa == CPU_ISA_AVX512)
        return tiles_in_c_matmul_many;
#endif
    (void)level;
    return NULL;
}

static void compare_levels(const struct format_case *f, struct matmul_case *c, size_t tokens, size_t begin, size_t end) {
    size_t count = TOKENS_MAX * (ROWS_MAX + 1);
    float *want = check_guarded(&c->memory, count * sizeof(float));
    struct matmul_args args = args_of(c, tokens, begin, end, want);
    kernel_table_for(CPU_ISA_REF)->matmul[f->format](&args);
    char what[64];
    (void)snprintf(what, sizeof what, "%s cols %zu tokens %zu rows %zu..%zu", f->name, c->w.cols, tokens, begin, end);
    const struct kernel_table *level;
    for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
        float *got = check_guarded(&c->memory, count * sizeof(float));
        args.y = got;
        level->matmul[f->format](&args);
        check_same(want, got, count, what, level);
        check_untouched_before(got);
        compare_many(level, level->isa, level->matmul_many, args, c, want, what);
        compare_many(level, CPU_ISA_AMX, many_of_tiles(level), args, c, want, what);
    }
    check_untouched_before(want);
    while (c->memory.count > 8) { /* keep the inputs */
        c->memory.count--;
        munmap(c->memory.block[c->memory.count].base, c->memory.block[c->memory.count].size_bytes);
    }
}

static size_t case_cols(const struct format_case *f, unsigned i) {
    static const size_t plain[] = {1, 2, 15, 16, 17, 31, 100, 128, 257, 300};
    if (f->elements == 1)
        return plain[i];
    return (i < 9 ? i + 1 : 17) * f->elements;
}
#define COLS_COUNT 10

/* Every level gives the bits of ref/ for all formats, widths, numbers of tokens and row ranges. */
static void levels_equal_ref(void **state) {
    (void)state;
    struct check_random r = {1};
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        for (unsigned k = 0; k < COLS_COUNT; k++)
            for (unsigned m = 0; m < WEIGHTS_COUNT; m++) {
                struct matmul_case c;
                make_case(&c, &formats[i], case_cols(&formats[i], k), (enum weights)m,
                          (enum check_values)check_below(&r, CHECK_VALUES_COUNT), &r);
                compare_levels(&formats[i], &c, 1, 0, ROWS_MAX);
                compare_levels(&formats[i], &c, 1 + check_below(&r, TOKENS_MAX), 0, ROWS_MAX);
                size_t begin = check_below(&r, ROWS_MAX), end = begin + check_below(&r, ROWS_MAX - begin + 1);
                compare_levels(&formats[i], &c, 1 + check_below(&r, TOKENS_MAX), begin, end);
                check_release(&c.memory);
            }
}

/* More rows than are unpacked together, more tokens than are multiplied together, and outputs that are far more than the caches' share. */
static void large_products_equal_ref(void **state) {
    (void)state;
    enum { ROWS = 135, TOKENS = 70, STRIDE = 4096 };
    struct check_random r = {5};
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        const struct format_case *f = &formats[i];
        if (f->elements == 1 || f->group_cols > 0)
            continue;
        struct matmul_case c;
        make_case(&c, f, 10 * f->elements, WEIGHTS_RANDOM, CHECK_PLAIN, &r);
        uint8_t *data = check_guarded(&c.memory, ROWS * c.w.row_bytes), *rows = check_guarded(&c.memory, TOKENS * c.row_bytes);
        for (size_t at = 0; at < ROWS * c.w.row_bytes; at += f->bytes)
            fill_block(f, data + at, WEIGHTS_RANDOM, &r);
        for (size_t t = 0; t < TOKENS; t++)
            memcpy(rows + t * c.row_bytes, c.rows + check_below(&r, TOKENS_MAX) * c.row_bytes, c.row_bytes);
        c.w.data = data;
        c.w.rows = ROWS;
        float *want = check_guarded(&c.memory, TOKENS * STRIDE * sizeof(float)), *got;
        struct matmul_args args = args_of(&c, TOKENS, 0, ROWS, want);
        args.x = rows;
        args.y_stride = STRIDE;
        kernel_table_for(CPU_ISA_REF)->matmul[f->format](&args);
        const struct kernel_table *level;
        for (unsigned l = 0; (level = check_level(l)) != NULL; l++)
            for (unsigned tiles = 0; tiles < 2; tiles++) {
                matmul_many_fn *many = tiles ? many_of_tiles(level) : level->matmul_many;
                args.y = got = check_guarded(&c.memory, TOKENS * STRIDE * sizeof(float));
                if (many && many(&args, check_guarded(&c.memory, matmul_many_bytes(tiles ? CPU_ISA_AMX : level->isa, c.w.cols))))
                    check_same(want, got, (size_t)TOKENS * STRIDE, f->name, level);
            }
        check_release(&c.memory);
    }
}

/* Rows longer than what is put in order at once, and more rows than go together, of formats with scales of their own and of NVFP4. */
static void long_split_products_equal_ref(void **state) {
    (void)state;
    enum { MANY_ROWS = 150, LONG_COLS = 33 * 1024 + 128, TOKENS = 7 };
    struct check_random r = {8};
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        for (unsigned is_long = 0; is_long < 2; is_long++) {
            const struct format_case *f = &formats[i];
            if (f->elements == 1 || f->format == MATRIX_MXFP8_SPLIT || (f->group_cols == 0 && f->format != DTYPE_NVFP4))
                continue;
            struct matmul_case c;
            make_case(&c, f, is_long ? LONG_COLS / f->elements * f->elements : 3 * (f->elements > 1 ? f->elements : 32), WEIGHTS_RANDOM,
                      CHECK_PLAIN, &r);
            size_t rows = is_long ? 6 : MANY_ROWS;
            if (!is_long) {
                uint8_t *data = check_guarded(&c.memory, rows * c.w.row_bytes);
                for (size_t at = 0; at < rows * c.w.row_bytes; at += f->bytes)
                    fill_block(f, data + at, WEIGHTS_RANDOM, &r);
                c.w.data = data;
                size_t scale_bytes = rows * c.w.scales_row_bytes;
                uint8_t *scales = check_guarded(&c.memory, scale_bytes + 1), *biases = check_guarded(&c.memory, scale_bytes + 1);
                fill_scales(scales, scale_bytes, c.w.scale_dtype, &r);
                fill_scales(biases, scale_bytes, c.w.scale_dtype, &r);
                c.w.scales = c.w.scales ? scales : NULL;
                c.w.biases = c.w.biases ? biases : NULL;
            }
            c.w.rows = rows;
            float *want = check_guarded(&c.memory, TOKENS * rows * sizeof(float)), *got;
            for (size_t tokens = TOKENS; tokens > 0; tokens /= 2) { /* 7, 3, 1 */
                struct matmul_args args = args_of(&c, tokens, 0, rows, want);
                args.y_stride = rows;
                kernel_table_for(CPU_ISA_REF)->matmul[f->format](&args);
                const struct kernel_table *level;
                for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
                    args.y = got = check_guarded(&c.memory, TOKENS * rows * sizeof(float));
                    level->matmul[f->format](&args);
                    check_same(want, got, tokens * rows, f->name, level);
                }
            }
            check_release(&c.memory);
        }
}

/* Largest integer sums: all codes and sub-scales at their ends against activations of +-127. */
static void integer_sums_do_not_overflow(void **state) {
    (void)state;
    struct check_random r = {2};
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        for (unsigned k = 0; k < 9; k++) {
            const struct format_case *f = &formats[i];
            unsigned block = matrix_activation_block(f->format, f->group_cols);
            if (block == 0)
                continue;
            struct matmul_case c;
            size_t cols = f->elements < block ? block : f->elements;
            make_case(&c, f, cols, k == 8 ? WEIGHTS_EXTREME : k & 1 ? WEIGHTS_ONES : WEIGHTS_ZEROS, CHECK_PLAIN, &r);
            for (size_t j = 0; j < TOKENS_MAX * cols; j++)
                c.x[j] = k & 2 ? -3.0f : k & 4 ? (j & 1 ? 3.0f : -3.0f) : 3.0f;
            for (size_t t = 0; t < TOKENS_MAX; t++)
                kernel_table_for(CPU_ISA_REF)->quantize(c.x + t * cols, cols, block, c.rows + t * c.row_bytes);
            compare_levels(f, &c, 4, 0, ROWS_MAX);
            check_release(&c.memory);
        }
}

/* ref/ is within rounding of the same sum in double precision. */
static void ref_equals_double(void **state) {
    (void)state;
    struct check_random r = {3};
    const struct kernel_table *ref = kernel_table_for(CPU_ISA_REF);
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        const struct format_case *f = &formats[i];
        struct matmul_case c;
        size_t cols = f->elements == 1 ? 1000 : 5 * f->elements < 512 ? 512 : 5 * f->elements;
        make_case(&c, f, cols, WEIGHTS_RANDOM, CHECK_PLAIN, &r);
        float y[TOKENS_MAX * (ROWS_MAX + 1)], w[256 * 17], x[256 * 17];
        struct matmul_args args = args_of(&c, TOKENS_MAX, 0, ROWS_MAX, y);
        ref->matmul[f->format](&args);
        unsigned block = matrix_activation_block(f->format, f->group_cols);
        struct activation_layout layout = activation_layout(block, cols);
        for (size_t t = 0; t < TOKENS_MAX; t++) {
            const uint8_t *row = c.rows + t * c.row_bytes;
            for (size_t j = 0; j < cols; j++) {
                float d = 0;
                if (block)
                    memcpy(&d, row + layout.scales_offset_bytes + j / block * 4, 4);
                x[j] = block ? d * (float)(int8_t)row[j] : c.x[t * cols + j];
                if (block) /* half a step, and the roundings of 127 / amax and of d */
                    assert_true(fabsf(x[j] - c.x[t * cols + j]) <= 0.50002f * d);
            }
            for (size_t n = 0; n < ROWS_MAX; n++) {
                ref->decode_row(&c.w, n, w);
                double sum = 0, size = 0;
                for (size_t j = 0; j < cols; j++) {
                    sum += (double)w[j] * (double)x[j];
                    size += fabs((double)w[j] * (double)x[j]);
                }
                assert_true(size < 1e30);
                double error = fabs(sum - (double)y[t * (ROWS_MAX + 1) + n]);
                if (!(error <= 2e-6 * size))
                    fail_msg("%s row %zu token %zu: %g, in double %g", f->name, n, t, (double)y[t * (ROWS_MAX + 1) + n], sum);
            }
        }
        check_release(&c.memory);
    }
}

/* The oracle's product and decoded rows, all levels. */
static void decoded_product_equals_ref(void **state) {
    (void)state;
    struct check_random r = {4};
    const struct kernel_table *ref = kernel_table_for(CPU_ISA_REF);
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        for (unsigned k = 0; k < COLS_COUNT; k++) {
            struct matmul_case c;
            make_case(&c, &formats[i], case_cols(&formats[i], k), WEIGHTS_RANDOM, CHECK_AWKWARD, &r);
            size_t cols = c.w.cols, count = TOKENS_MAX * (ROWS_MAX + 1);
            float *want = check_guarded(&c.memory, count * 4), *got = check_guarded(&c.memory, count * 4);
            float *a = check_guarded(&c.memory, cols * 4), *b = check_guarded(&c.memory, cols * 4);
            struct matmul_args args = args_of(&c, TOKENS_MAX, 0, ROWS_MAX, want);
            args.x = (const uint8_t *)c.x;
            args.x_row_bytes = cols * sizeof(float);
            ref->matmul_f32(&args, a);
            const struct kernel_table *level;
            for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
                args.y = got;
                level->matmul_f32(&args, b);
                check_same(want, got, count, formats[i].name, level);
                ref->decode_row(&c.w, ROWS_MAX - 1, a);
                level->decode_row(&c.w, ROWS_MAX - 1, b);
                check_same(a, b, cols, formats[i].name, level);
            }
            check_release(&c.memory);
        }
}

/* Activations near both ends of f32, alone among others, and scales that are 0, subnormal, or NaN. */
static void activations_at_the_ends_equal_ref(void **state) {
    (void)state;
    struct check_random r = {9};
    static const float ends[] = {3e38f, -0x1p120f, 0x1p90f, 0x1.fffffep89f, 1e-45f, -0x1p-70f, 0x1.fffffep-71f, 0x1p-126f, -1e-38f};
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        for (unsigned end = 0; matrix_activation_block(formats[i].format, formats[i].group_cols) == 0 && end < 27; end++) {
            struct matmul_case c;
            make_case(&c, &formats[i], case_cols(&formats[i], 7 + end % 3), WEIGHTS_RANDOM, CHECK_PLAIN, &r);
            size_t cols = c.w.cols, whole = end / 9 == 1 ? 0 : check_below(&r, TOKENS_MAX) * cols;
            for (size_t k = 0; k < (end / 9 ? cols : 1); k++) /* one activation, or all of the first or of another token */
                c.x[whole + (end / 9 ? k : check_below(&r, cols))] = ends[end % 9] * (k % 2 ? 1.0f : -1.0f);
            for (size_t k = 0; c.w.scales && c.w.scale_dtype == DTYPE_F8_E8M0 && k < 3; k++)
                ((uint8_t *)(uintptr_t)c.w.scales)[check_below(&r, c.w.scales_row_bytes)] = (uint8_t[]){0, 1, 255}[k];
            compare_levels(&formats[i], &c, 1, 0, ROWS_MAX);
            compare_levels(&formats[i], &c, TOKENS_MAX, 0, ROWS_MAX);
            check_release(&c.memory);
        }
}

/* The same row of activations gives the same bits alone and in company. */
static void rows_do_not_depend_on_company(void **state) {
    (void)state;
    struct check_random r = {5};
    for (int l = -1; l < 0 || check_level((unsigned)l); l++) {
        const struct kernel_table *level = l < 0 ? kernel_table_for(CPU_ISA_REF) : check_level((unsigned)l);
        for (size_t i = 0; i < FORMAT_COUNT; i++) {
            struct matmul_case c;
            make_case(&c, &formats[i], case_cols(&formats[i], 8), WEIGHTS_RANDOM, CHECK_AWKWARD, &r);
            float all[TOKENS_MAX * (ROWS_MAX + 1)], one[ROWS_MAX + 1];
            struct matmul_args args = args_of(&c, TOKENS_MAX, 0, ROWS_MAX, all);
            level->matmul[formats[i].format](&args);
            for (size_t t = 0; t < TOKENS_MAX; t++) {
                args.tokens = 1;
                args.x = c.rows + t * c.row_bytes;
                args.y = one;
                level->matmul[formats[i].format](&args);
                check_same(all + t * (ROWS_MAX + 1), one, ROWS_MAX, formats[i].name, level);
            }
            check_release(&c.memory);
        }
    }
}

/* One row of activations meets code of the level: its product, or panels that win for every number of rows. */
static bool has_own_product(const struct kernel_table *level, unsigned format) {
    if (level->matmul[format] != kernel_table_for(CPU_ISA_REF)->matmul[format])
        return true;
    for (size_t i = 0; i < FORMAT_COUNT && level->matmul_many; i++)
        if (formats[i].format == format) {
            struct check_random r = {6};
            struct matmul_case c;
            float y[ROWS_MAX + 1];
            make_case(&c, &formats[i], case_cols(&formats[i], 8), WEIGHTS_RANDOM, CHECK_PLAIN, &r);
            struct matmul_args args = args_of(&c, 1, 0, ROWS_MAX, y);
            bool done = level->matmul_many(&args, check_guarded(&c.memory, matmul_many_bytes(level->isa, c.w.cols)));
            check_release(&c.memory);
            return done;
        }
    return false;
}

/* No level is without code of its own for a format or for a function that others have. */
static void nothing_is_left_to_ref(void **state) {
    (void)state;
    const struct kernel_table *level, *ref = kernel_table_for(CPU_ISA_REF);
    for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
        for (unsigned f = 0; f < MATRIX_FORMAT_COUNT; f++)
            if (ref->matmul[f] && !has_own_product(level, f))
                fail_msg("level %s has plain C for %s", cpu_isa_name(level->isa), matrix_format_name(f));
#define OWN(name_of_level, result, name, parameters) \
    if (level->name == ref->name)                    \
        fail_msg("level %s has plain C for %s", cpu_isa_name(level->isa), #name_of_level #name);
        LEVEL_FUNCTIONS(OWN, )
#undef OWN
    }
}

/* The question that is asked before tiles are used has the right answer for right ones; and the level is there where it was found. */
static void tiles_are_tried(void **state) {
    (void)state;
#if defined(__x86_64__)
    if (cpu_isa_available(CPU_ISA_AVX512))
        assert_true(tiles_in_c_tiles_work());
#endif
    assert_true(!cpu_isa_available(CPU_ISA_AMX) || kernel_table_for(CPU_ISA_AMX) != NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_equals_double),
        cmocka_unit_test(levels_equal_ref),
        cmocka_unit_test(large_products_equal_ref),
        cmocka_unit_test(integer_sums_do_not_overflow),
        cmocka_unit_test(decoded_product_equals_ref),
        cmocka_unit_test(rows_do_not_depend_on_company),
        cmocka_unit_test(activations_at_the_ends_equal_ref),
        cmocka_unit_test(nothing_is_left_to_ref),
        cmocka_unit_test(tiles_are_tried),
        cmocka_unit_test(long_split_products_equal_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
