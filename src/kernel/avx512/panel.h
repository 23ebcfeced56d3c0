/*
 * panel: panels (kernel/panel_format.h) filled with AVX-512; they are those of avx2/panel.h.
 */
#pragma once

#include "kernel/avx2/panel.h"

/* As avx2_panel_fill: sixteen rows at a time for Q4_K, Q5_K and Q6_K, other formats by avx2_panel_fill itself. */
void avx512_panel_fill(const struct matrix *w, const struct panel_format *f, const struct panel_layout *layout, size_t row, size_t count,
                       uint8_t *panel);
