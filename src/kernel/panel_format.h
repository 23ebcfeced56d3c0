/*
 * panel_format: sixteen rows of a block-quantised matrix unpacked for matrix products: which formats can be, and how a panel lies in
 * memory.
 *
 * Codes are bytes, the codes of the sixteen rows side by side, four (a dword, or a level's own number) neighbours of a row together; scales
 * by run and row. The levels of an architecture fill panels (avx2/panel.c, neon/panel.c) and multiply with them.
 *
 * Model    a run is what has one float term: its integer sum is made of the codes and, in formats with sub-blocks, of their integer
 *          scales. What codes lie above their values is taken off through sums of activations, where filling did not do it.
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
    unsigned least; /* rows of activations from which panels win (AVX-512); 1: AVX2 and AVX-512 have no other vector kernel of the format */
};

struct panel_layout {                 /* bytes of one panel, offsets in it; every line of 16 dwords starts at a multiple of 64 */
    size_t runs, subs, pairs;         /* of a row; sub-blocks and dwords of `extra` of a run */
    size_t d, m, scale, extra, bytes; /* codes are at 0 */
};

/* False: the matrix has no panels (formats without, rows that are no whole number of runs or of 32). */
bool panel_format_of(const struct matrix *w, struct panel_format *out);
struct panel_layout panel_layout_of(const struct panel_format *f, size_t cols);
