/*
 * panel_format: the table of formats with panels, and the offsets of a panel's parts.
 */
#include "kernel/panel_format.h"

#include "kernel/kernel.h"

/* Codes of a bit stream with scales of their own. */
static struct panel_format stream_format(const struct matrix *w, enum panel_kind kind, int offset) {
    static const uint8_t fit[9] = {0, 8, 8, 8, 8, 4, 2, 1, 1};
    unsigned run = matrix_activation_block(w->format, w->group_cols);
    unsigned least = w->bits == 8 || run == 128 ? MATMUL_MANY : 9;
    return (struct panel_format){w->format, kind, run, 0, run, offset, w->bits == 8, fit[w->bits], least};
}

bool panel_format_of(const struct matrix *w, struct panel_format *out) {
    static const struct panel_format blocks[] = {
        {DTYPE_Q4_0, PANEL_OFFSET, 32, 0, 32, 8, false, 8, MATMUL_MANY},
        {DTYPE_Q4_1, PANEL_BIAS, 32, 0, 32, 0, false, 8, MATMUL_MANY},
        {DTYPE_Q5_0, PANEL_OFFSET, 32, 0, 32, 16, false, 4, MATMUL_MANY},
        {DTYPE_Q5_1, PANEL_BIAS, 32, 0, 32, 0, false, 4, MATMUL_MANY},
        {DTYPE_Q8_0, PANEL_OFFSET, 32, 0, 32, 128, true, 1, 8},
        {DTYPE_IQ4_NL, PANEL_OFFSET, 32, 0, 32, 128, true, 1, MATMUL_MANY},
        {DTYPE_MXFP4, PANEL_OFFSET, 32, 0, 32, 16, false, 4, MATMUL_MANY},
        {MATRIX_MXFP4_SPLIT, PANEL_OFFSET, 32, 0, 32, 16, false, 4, 9},
        {MATRIX_NVFP4_SPLIT, PANEL_OFFSET, 16, 0, 64, 16, false, 4, 12},
        {DTYPE_Q2_K, PANEL_SUB_BIAS, 256, 16, 256, 0, false, 8, MATMUL_MANY},
        {DTYPE_Q3_K, PANEL_SUB_OFFSET, 256, 16, 256, 4, false, 8, MATMUL_MANY},
        {DTYPE_Q4_K, PANEL_SUB_BIAS, 256, 32, 256, 0, false, 8, MATMUL_MANY},
        {DTYPE_Q5_K, PANEL_SUB_BIAS, 256, 32, 256, 0, false, 4, MATMUL_MANY},
        {DTYPE_Q6_K, PANEL_SUB_OFFSET, 256, 16, 256, 32, false, 2, MATMUL_MANY},
        {DTYPE_IQ4_XS, PANEL_SUB_OFFSET, 256, 32, 256, 128, true, 1, MATMUL_MANY},
        {DTYPE_IQ2_XXS, PANEL_SUB_OFFSET, 256, 32, 256, 128, true, 1, 12},
        {DTYPE_IQ2_XS, PANEL_SUB_OFFSET, 256, 16, 256, 128, true, 1, 16},
        {DTYPE_IQ2_S, PANEL_SUB_OFFSET, 256, 16, 256, 128, true, 1, 8},
        {DTYPE_IQ3_XXS, PANEL_SUB_OFFSET, 256, 32, 256, 128, true, 1, 16},
        {DTYPE_IQ3_S, PANEL_SUB_OFFSET, 256, 32, 256, 128, true, 1, 16},
        {DTYPE_IQ1_S, PANEL_SUB_OFFSET, 256, 32, 256, 128, true, 1, MATMUL_MANY},
        {DTYPE_IQ1_M, PANEL_SUB_OFFSET, 256, 16, 256, 128, true, 1, 12},
        {DTYPE_TQ1_0, PANEL_OFFSET, 256, 0, 256, 1, false, 8, 8},
        {DTYPE_TQ2_0, PANEL_OFFSET, 256, 0, 256, 1, false, 8, MATMUL_MANY},
        {DTYPE_Q1_0, PANEL_OFFSET, 128, 0, 128, 1, false, 8, 1},
        {DTYPE_Q2_0, PANEL_OFFSET, 64, 0, 64, 1, false, 8, 1},
        {DTYPE_NVFP4, PANEL_OFFSET, 16, 0, 64, 16, false, 4, 12},
    };
    out->run = 0;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (blocks[i].format == w->format)
            *out = blocks[i];
    if (w->format == MATRIX_AFFINE && w->bits >= 2 && w->bits != 7)
        *out = stream_format(w, PANEL_BIAS, 0);
    if (w->format == MATRIX_INT_GROUPS && !w->biases)
        *out = stream_format(w, PANEL_OFFSET, w->bits == 4 ? 8 : 128);
    if (w->format == MATRIX_INT8_GROUPS)
        *out = stream_format(w, PANEL_OFFSET, 128);
    return out->run && !w->col_bytes && w->cols % out->run == 0 && w->cols % 32 == 0 && w->cols > 0;
}

struct panel_layout panel_layout_of(const struct panel_format *f, size_t cols) {
    struct panel_layout l = {.runs = cols / f->run};
    size_t line = PANEL_ROWS * 4;
    l.subs = f->sub ? f->run / f->sub : 0;
    l.pairs = f->sub ? (l.subs + 1) / 2 : 0;
    l.d = cols * PANEL_ROWS;
    l.m = l.d + l.runs * line;
    l.scale = l.m + (f->kind == PANEL_BIAS || f->kind == PANEL_SUB_BIAS ? l.runs * line : 0);
    l.extra = l.scale + l.runs * l.pairs * line;
    l.bytes = l.extra + l.runs * l.pairs * line;
    return l;
}
