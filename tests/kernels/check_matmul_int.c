/*
 * check_matmul_int: the same codes, zero points and scales packed in four ways (compressed-tensors, AWQ, GPTQ, GPTQ v2) give the same bits,
 * decode to the values that they stand for, and do so for every row range, also such as begin inside a word of zero points.
 *
 * Packings are written here, away from the readers in ref/int_groups.h.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"

#define OUT 152 /* two tiles of 64 and three words of 8 */
#define TOKENS 7

struct logical { /* [OUT][cols] codes, [OUT][groups] zero points and scales */
    size_t cols, groups;
    unsigned bits;
    uint8_t *codes, *zeros;
    float *scales; /* every one an f16 */
};

struct packed {
    struct check_memory memory;
    struct matrix w;
};

static void make_logical(struct logical *l, struct check_memory *memory, unsigned bits, size_t cols, size_t group, struct check_random *r) {
    *l = (struct logical){.cols = cols, .groups = cols / group, .bits = bits};
    l->codes = check_guarded(memory, OUT * cols);
    l->zeros = check_guarded(memory, OUT * l->groups);
    l->scales = check_guarded(memory, OUT * l->groups * sizeof(float));
    for (size_t i = 0; i < OUT * cols; i++)
        l->codes[i] = (uint8_t)check_below(r, (size_t)1 << bits);
    for (size_t i = 0; i < OUT * l->groups; i++) {
        l->zeros[i] = (uint8_t)(1 + check_below(r, ((size_t)1 << bits) - 1));
        l->scales[i] = f32_from_f16(f16_from_f32(check_uniform(r)));
    }
}

static void put_code(uint8_t *words, size_t word, unsigned shift, unsigned code) {
    uint32_t value;
    memcpy(&value, words + 4 * word, 4);
    value |= code << shift;
    memcpy(words + 4 * word, &value, 4);
}

static uint8_t *zeroed(struct packed *p, size_t bytes) {
    uint8_t *data = check_guarded(&p->memory, bytes);
    memset(data, 0, bytes);
    return data;
}

static void fill_row_major(struct packed *p, const struct logical *l, uint8_t *codes, uint8_t *zeros, uint8_t *scales) {
    unsigned per_word = 32 / l->bits;
    for (size_t o = 0; o < OUT; o++) {
        for (size_t i = 0; i < l->cols; i++)
            put_code(codes, o * (l->cols / per_word) + i / per_word, (unsigned)(i % per_word) * l->bits, l->codes[o * l->cols + i]);
        for (size_t g = 0; g < l->groups; g++) {
            put_code(zeros, o / per_word * l->groups + g, (unsigned)(o % per_word) * l->bits, l->zeros[o * l->groups + g]);
            memcpy(scales + 2 * (o * l->groups + g), (uint16_t[]){f16_from_f32(l->scales[o * l->groups + g])}, 2);
        }
    }
    p->w.row_bytes = l->cols * l->bits / 8;
    p->w.scales_row_bytes = 2 * l->groups;
    p->w.group_rows = per_word;
}

static void fill_columns(struct packed *p, const struct logical *l, uint8_t *codes, uint8_t *zeros, uint8_t *scales) {
    static const unsigned awq[8] = {0, 4, 1, 5, 2, 6, 3, 7}; /* where output j of a word lies */
    unsigned per_word = 32 / l->bits;
    bool by_output = p->w.format == MATRIX_AWQ;
    for (size_t o = 0; o < OUT; o++) {
        unsigned place = by_output ? awq[o % 8] : (unsigned)(o % per_word);
        for (size_t i = 0; i < l->cols; i++) {
            unsigned code = l->codes[o * l->cols + i];
            if (by_output)
                put_code(codes, i * (OUT / 8) + o / 8, place * 4, code);
            else
                put_code(codes, i / per_word * OUT + o, (unsigned)(i % per_word) * l->bits, code);
        }
        for (size_t g = 0; g < l->groups; g++) {
            unsigned zero = l->zeros[o * l->groups + g] - (p->w.format == MATRIX_GPTQ ? 1u : 0u);
            put_code(zeros, g * (OUT / per_word) + o / per_word, place * l->bits, zero);
            memcpy(scales + 2 * (g * OUT + o), (uint16_t[]){f16_from_f32(l->scales[o * l->groups + g])}, 2);
        }
    }
    p->w.row_bytes = l->cols * l->bits / 8;
    p->w.scales_row_bytes = 2 * OUT;
}

static void pack(struct packed *p, const struct logical *l, unsigned format) {
    *p = (struct packed){.w = {.format = format,
                               .rows = OUT,
                               .cols = l->cols,
                               .bits = l->bits,
                               .scale_dtype = DTYPE_F16,
                               .group_cols = (uint32_t)(l->cols / l->groups),
                               .tensor_scale = 1}};
    size_t zero_bytes = OUT * l->groups * l->bits / 8;
    uint8_t *codes = zeroed(p, OUT * l->cols * l->bits / 8), *zeros = zeroed(p, zero_bytes), *scales = zeroed(p, 2 * OUT * l->groups);
    if (format == MATRIX_INT_GROUPS)
        fill_row_major(p, l, codes, zeros, scales);
    else
        fill_columns(p, l, codes, zeros, scales);
    p->w.data = codes;
    p->w.biases = zeros;
    p->w.scales = scales;
}

struct activations {
    struct check_memory memory;
    uint8_t *rows;
    size_t row_bytes;
};

static void quantize(struct activations *a, const struct logical *l, unsigned format, struct check_random *r) {
    unsigned block = matrix_activation_block(format, (uint32_t)(l->cols / l->groups));
    *a = (struct activations){.row_bytes = activation_layout(block, l->cols).row_bytes};
    float *x = check_floats(&a->memory, TOKENS * l->cols, r, CHECK_PLAIN);
    a->rows = check_guarded(&a->memory, TOKENS * a->row_bytes);
    for (size_t t = 0; t < TOKENS; t++)
        kernel_table_for(CPU_ISA_REF)->quantize(x + t * l->cols, l->cols, block, a->rows + t * a->row_bytes);
}

static void product(const struct kernel_table *level, const struct matrix *w, const struct activations *a, float *y, size_t y_stride) {
    struct matmul_args args = {
        .w = w, .row_end = w->rows, .x = a->rows, .x_row_bytes = a->row_bytes, .tokens = TOKENS, .y = y, .y_stride = y_stride};
    level->matmul[w->format](&args);
}

static void check_decode(const struct matrix *w, const struct logical *l) {
    float *row = malloc(l->cols * sizeof *row);
    assert_non_null(row);
    for (size_t o = 0; o < OUT; o++) {
        kernel_table_for(CPU_ISA_REF)->decode_row(w, o, row);
        for (size_t i = 0; i < l->cols; i++) {
            size_t g = o * l->groups + i / (l->cols / l->groups);
            float want = (float)(l->codes[o * l->cols + i] - l->zeros[g]) * l->scales[g];
            assert_int_equal(bits_from_f32(want), bits_from_f32(row[i]));
        }
    }
    free(row);
}

/* Rows of the whole product again from matrices that are row ranges; few of long ones. */
static void check_ranges(const struct kernel_table *level, const struct matrix *w, const struct activations *a, const float *whole) {
    for (size_t first = 0; first<OUT; first += w->cols> 4096 ? 101 : 3)
        for (size_t count = 1; first + count <= OUT; count += 37) {
            float part[TOKENS * OUT];
            struct matrix middle = matrix_rows(w, first / 2, OUT - first / 2), rows = matrix_rows(&middle, first - first / 2, count);
            product(level, &rows, a, part, OUT);
            for (size_t t = 0; t < TOKENS; t++)
                check_same(whole + t * OUT + first, part + t * OUT, count, matrix_format_name(w->format), level);
        }
}

static void check_shape(unsigned bits, size_t cols, size_t group, struct check_random *r) {
    static const unsigned formats[] = {MATRIX_INT_GROUPS, MATRIX_AWQ, MATRIX_GPTQ, MATRIX_GPTQ_V2};
    struct check_memory memory = {0};
    struct logical l;
    struct activations a;
    float want[TOKENS * OUT], got[TOKENS * OUT];
    make_logical(&l, &memory, bits, cols, group, r);
    quantize(&a, &l, MATRIX_INT_GROUPS, r);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        struct packed p;
        if (formats[f] == MATRIX_AWQ && bits != 4)
            continue;
        pack(&p, &l, formats[f]);
        check_decode(&p.w, &l);
        product(kernel_table_for(CPU_ISA_REF), &p.w, &a, f ? got : want, OUT);
        if (f)
            check_same(want, got, TOKENS * OUT, matrix_format_name(formats[f]), kernel_table_for(CPU_ISA_REF));
        check_ranges(kernel_table_for(CPU_ISA_REF), &p.w, &a, want);
        const struct kernel_table *level;
        for (unsigned i = 0; (level = check_level(i)) != NULL; i++) {
            product(level, &p.w, &a, got, OUT);
            check_same(want, got, TOKENS * OUT, matrix_format_name(formats[f]), level);
            check_ranges(level, &p.w, &a, want);
        }
        check_release(&p.memory);
    }
    check_release(&a.memory);
    check_release(&memory);
}

static void packings_agree(void **state) {
    (void)state;
    struct check_random r = {7};
    for (unsigned bits = 4; bits <= 8; bits += 4) {
        check_shape(bits, 32, 32, &r);
        check_shape(bits, 96, 32, &r);
        check_shape(bits, 192, 64, &r);
        check_shape(bits, 512, 128, &r);
        check_shape(bits, 512, 256, &r); /* longer than a block of activations */
        check_shape(bits, 352, 352, &r); /* a whole row, no power of two: the last block is short */
        check_shape(bits, 2400, 2400, &r);
        check_shape(bits, 8448, 128, &r); /* more than is put in order at once */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(packings_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
