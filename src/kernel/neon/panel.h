/*
 * panel: panels (kernel/panel_format.h) filled with NEON. Codes are signed, what their format takes off already taken off; only affine
 * codes of 8 bits are 128 less than their values.
 */
#pragma once

#include "kernel/panel_format.h"

/* Formats with codes in codes.h. */
bool neon_panel_format(const struct matrix *w, struct panel_format *out);
static inline struct panel_layout neon_panel_layout(const struct panel_format *f, size_t cols) { return panel_layout_of(f, cols); }
/*
 * Fills a panel of layout->bytes, 64-byte aligned, with rows [row, row + count), 0 < count <= 16; the last row fills the places behind.
 * Lines of 64 bytes: codes; d, m [runs] of floats; scale and, in formats with mins, extra [runs][pairs] of two int16, two neighbouring
 * sub-blocks each. Codes of four columns of the sixteen rows make a line (neon), or those of eight columns two (i8mm).
 */
void neon_panel_fill(const struct matrix *w, const struct panel_format *f, const struct panel_layout *layout, size_t row, size_t count,
                     uint8_t *panel);
void i8mm_panel_fill(const struct matrix *w, const struct panel_format *f, const struct panel_layout *layout, size_t row, size_t count,
                     uint8_t *panel);
/* Asks for rows [row, row + count), up to `end`, in the order of memory: unpacking goes through sixteen rows side by side. */
void neon_panel_fetch(const struct matrix *w, size_t row, size_t count, size_t end);
/*
 * What one row of activations brings, from its sums of 16: with sub-blocks [runs][pairs] dwords that meet `extra`; else [runs] sums, for
 * PANEL_OFFSET times -offset.
 */
void neon_panel_sums(const struct panel_format *f, const struct panel_layout *layout, int offset, const int16_t *sums, int32_t *out);
