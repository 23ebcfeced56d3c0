/*
 * panel: sixteen rows of a block-quantised matrix unpacked for matrix products: codes as bytes, four neighbours of a row in a dword, the
 * dwords of the sixteen rows side by side; scales by run and row. All levels of x86-64 multiply with the same panels.
 *
 * Model    a run is what has one float term: its integer sum is made of the codes and, in formats with sub-blocks, of their integer
 *          scales. Codes are unsigned; what they lie above their values is taken off through sums of activations.
 * Threads  pure. Memory: the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype/matrix.h"

#define PANEL_ROWS 16

enum panel_kind {
    PANEL_OFFSET,     /* no sub-blocks: sum = codes . q - offset * (sum of q) */
    PANEL_BIAS,       /* the same, and m times the sum of q */
    PANEL_SUB_BIAS,   /* sub-blocks with scales and mins: `extra` . (sums of q) goes with m */
    PANEL_SUB_OFFSET, /* sub-blocks with scales: `extra` . (sums of q) takes the offset off */
};

struct panel_format {
    unsigned format; /* enum matrix_format */
    enum panel_kind kind;
    unsigned run, sub;         /* elements of a float term, of an integer scale (0: none) */
    unsigned activation_block; /* elements of an activation scale */
    int offset;
    bool wide;               /* codes of 8 bits */
    unsigned pairs_that_fit; /* this many products of pairs can be added in 16 bits */
    bool alone;              /* has no vector kernel of its own: panels also for one row of activations */
};

struct panel_layout {                 /* bytes of one panel, offsets in it; every line of 16 dwords starts at a multiple of 64 */
    size_t runs, subs, pairs;         /* of a row; sub-blocks and dwords of `extra` of a run */
    size_t d, m, scale, extra, bytes; /* codes are at 0 */
};

/* False: the matrix has no panels (formats without, rows that are no whole number of runs or of 32). */
bool avx2_panel_format(const struct matrix *w, struct panel_format *out);
struct panel_layout avx2_panel_layout(const struct panel_format *f, size_t cols);
/*
 * Fills a panel of layout->bytes, 64-byte aligned, with rows [row, row + count), 0 < count <= 16; the last row fills the places behind.
 * Lines: codes [cols / 4]; d, m [runs] of floats; scale, extra [runs][pairs] of two int16, two
 * neighbouring sub-blocks each.
 */
void avx2_panel_fill(const struct matrix *w, const struct panel_format *f, const struct panel_layout *layout, size_t row, size_t count,
                     uint8_t *panel);
/* Asks for rows [row, row + count), up to `end`, in the order of memory: unpacking goes through sixteen rows side by side. */
void avx2_panel_fetch(const struct matrix *w, size_t row, size_t count, size_t end);
/*
 * What one row of activations brings, from its sums of 16: with sub-blocks [runs][pairs] dwords that meet `extra`; else [runs] sums, for
 * PANEL_OFFSET times -offset (an argument, since a level may read codes as others).
 */
void avx2_panel_sums(const struct panel_format *f, const struct panel_layout *layout, int offset, const int16_t *sums, int32_t *out);
