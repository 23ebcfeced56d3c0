/*
 * matmul_panel: products with many rows of activations with matrix products of bytes; see kernel/wide/matmul_panel_body.inc.
 *
 * An instruction takes the codes of two rows and eight columns, and eight activations of two tokens, and adds to the four outputs. An odd
 * token goes twice.
 */
#include "kernel/i8mm/i8mm.h"
#include "kernel/neon/panel_ops.h"

#define LEVEL(name) i8mm_##name
#define PANEL(name) i8mm_panel_##name
#define PANEL_FILL i8mm_panel_fill
#define i8mm_panel_format neon_panel_format
#define i8mm_panel_layout neon_panel_layout
#define i8mm_panel_fetch neon_panel_fetch
#define i8mm_panel_sums neon_panel_sums
#include "kernel/wide/matmul_panel_body.inc"

ALWAYS_INLINE ints panel_line(const struct panel_tile *p, size_t offset, unsigned v) {
    return vld1q_s32((const int32_t *)(const void *)(p->panel + offset + 16 * v));
}

#define TOKEN_PAIRS (PANEL_TOKENS / 2)
#define ROW_PAIRS (PANEL_ROWS / 2)

ALWAYS_INLINE void add_codes(const struct panel_tile *p, size_t codes, const int8_t *const q[PANEL_TOKENS], size_t steps, size_t scale,
                             unsigned half, unsigned tokens, bool scaled, ints sum[PANEL_TOKENS][PANEL_VECTORS]) {
    ints four[TOKEN_PAIRS][ROW_PAIRS], dot[PANEL_TOKENS][PANEL_VECTORS];
    unsigned pairs = (tokens + 1) / 2;
    for (unsigned t = 0; t < pairs; t++)
        for (unsigned r = 0; r < ROW_PAIRS; r++)
            four[t][r] = ints_set(0);
    for (size_t i = 0; i < steps; i += 2) {
        int8x16_t x[TOKEN_PAIRS];
        for (unsigned t = 0; t < pairs; t++)
            x[t] = vcombine_s8(vld1_s8(q[2 * t] + 4 * i), vld1_s8(q[2 * t + 1 < tokens ? 2 * t + 1 : 2 * t] + 4 * i));
        for (unsigned r = 0; r < ROW_PAIRS; r++) {
            int8x16_t w = vreinterpretq_s8_s32(panel_line(p, codes + 64 * i, r));
            for (unsigned t = 0; t < pairs; t++)
                four[t][r] = vmmlaq_s32(four[t][r], w, x[t]);
        }
    }
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned v = 0; v < PANEL_VECTORS; v++) {
            ints low = four[t / 2][2 * v], high = four[t / 2][2 * v + 1];
            dot[t][v] = t % 2 ? vuzp2q_s32(low, high) : vuzp1q_s32(low, high);
        }
    if (scaled)
        add_scaled_dots(p, scale, half, tokens, dot, sum);
    else
        for (unsigned t = 0; t < tokens; t++)
            for (unsigned v = 0; v < PANEL_VECTORS; v++)
                sum[t][v] = vaddq_s32(sum[t][v], dot[t][v]);
}
