/*
 * matmul_panel: products with many rows of activations with NEON; see kernel/wide/matmul_panel_body.inc.
 *
 * A dot product takes the codes of four rows and four columns, and four activations of one token from a vector of sixteen.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/panel_ops.h"

#define LEVEL(name) neon_##name
#define PANEL(name) neon_panel_##name
#define PANEL_FILL neon_panel_fill
#include "kernel/wide/matmul_panel_body.inc"

ALWAYS_INLINE ints panel_line(const struct panel_tile *p, size_t offset, unsigned v) {
    return vld1q_s32((const int32_t *)(const void *)(p->panel + offset + 16 * v));
}

/* Adds the products of one line of codes; lane: which four of the sixteen activations, known when compiling. */
#define ADD_LINE(lane)                                                                   \
    for (unsigned v = 0; v < PANEL_VECTORS; v++) {                                       \
        int8x16_t w = vreinterpretq_s8_s32(panel_line(p, codes + 64 * (i + (lane)), v)); \
        for (unsigned t = 0; t < tokens; t++)                                            \
            dot[t][v] = vdotq_laneq_s32(dot[t][v], w, x[t], lane);                       \
    }

ALWAYS_INLINE void add_codes(const struct panel_tile *p, size_t codes, const int8_t *const q[PANEL_TOKENS], size_t steps, size_t scale,
                             unsigned half, unsigned tokens, bool scaled, ints sum[PANEL_TOKENS][PANEL_VECTORS]) {
    ints dot[PANEL_TOKENS][PANEL_VECTORS];
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned v = 0; v < PANEL_VECTORS; v++)
            dot[t][v] = scaled ? ints_set(0) : sum[t][v];
    for (size_t i = 0; i < steps; i += 4) {
        int8x16_t x[PANEL_TOKENS];
        for (unsigned t = 0; t < tokens; t++)
            x[t] = vld1q_s8(q[t] + 4 * i);
        ADD_LINE(0)
        ADD_LINE(1)
        ADD_LINE(2)
        ADD_LINE(3)
    }
    if (scaled)
        add_scaled_dots(p, scale, half, tokens, dot, sum);
    else
        memcpy(sum, dot, tokens * sizeof *sum);
}
