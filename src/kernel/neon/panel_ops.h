/*
 * panel_ops: what matmul_panel_body.inc needs of NEON, apart from the products of codes: vectors of four rows, all four of a panel at a
 * time.
 */
#pragma once

#include "kernel/neon/panel.h"
#include "kernel/neon/simd.h"

#define PANEL_VECTORS 4
#define PANEL_TOKENS 4
#define VECTOR_ROWS 4
#define STRIP_PANELS 1
#define LEVEL_OFFSET(f) ((f)->kind == PANEL_BIAS && (f)->wide ? -128 : 0)

typedef int32x4_t ints;
typedef float32x4_t floats;

ALWAYS_INLINE ints ints_set(int32_t x) { return vdupq_n_s32(x); }
ALWAYS_INLINE ints ints_times(ints x, int32_t factor) { return vmulq_n_s32(x, factor); }
/* Products of two neighbouring numbers of 16 bits each, added. */
ALWAYS_INLINE ints add_pairs(ints sum, ints a, ints b) {
    int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    return vaddq_s32(sum, vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
}
ALWAYS_INLINE floats floats_set(float x) { return vdupq_n_f32(x); }
ALWAYS_INLINE floats floats_of(ints x) { return vcvtq_f32_s32(x); }
ALWAYS_INLINE floats floats_of_bits(ints x) { return vreinterpretq_f32_s32(x); }
ALWAYS_INLINE floats floats_add(floats a, floats b) { return vaddq_f32(a, b); }
ALWAYS_INLINE floats floats_mul(floats a, floats b) { return vmulq_f32(a, b); }
ALWAYS_INLINE floats floats_fma(floats a, floats b, floats c) { return vfmaq_f32(c, a, b); }
ALWAYS_INLINE void floats_store(float *y, floats x, unsigned count) {
    float four[VECTOR_ROWS];
    vst1q_f32(four, x);
    memcpy(y, four, count * sizeof *y);
}

struct panel_tile;
/* What a level defines behind the body. */
ALWAYS_INLINE ints panel_line(const struct panel_tile *p, size_t offset, unsigned v);
ALWAYS_INLINE void add_codes(const struct panel_tile *p, size_t codes, const int8_t *const q[PANEL_TOKENS], size_t steps, size_t scale,
                             unsigned half, unsigned tokens, bool scaled, ints sum[PANEL_TOKENS][PANEL_VECTORS]);

/* Adds products times the scales in the lower or upper half of each dword of a line. */
ALWAYS_INLINE void add_scaled_dots(const struct panel_tile *p, size_t scale, unsigned half, unsigned tokens,
                                   ints dot[PANEL_TOKENS][PANEL_VECTORS], ints sum[PANEL_TOKENS][PANEL_VECTORS]) {
#pragma GCC unroll 4
    for (unsigned v = 0; v < PANEL_VECTORS; v++) {
        ints line = panel_line(p, scale, v), factor = vshrq_n_s32(half ? line : vshlq_n_s32(line, 16), 16);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++)
            sum[t][v] = vmlaq_s32(sum[t][v], dot[t][v], factor);
    }
}
