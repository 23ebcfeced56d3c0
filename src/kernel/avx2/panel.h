/*
 * panel: panels (kernel/panel_format.h) filled with AVX2; all levels of x86-64 multiply with the same. Codes are unsigned; what they lie
 * above their values is taken off through sums of activations.
 */
#pragma once

#include "kernel/panel_format.h"

/* All formats with panels. */
static inline bool avx2_panel_format(const struct matrix *w, struct panel_format *out) { return panel_format_of(w, out); }
static inline struct panel_layout avx2_panel_layout(const struct panel_format *f, size_t cols) { return panel_layout_of(f, cols); }
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
