/*
 * matmul_panel: products with many rows of activations with AVX-512; see kernel/wide/matmul_panel_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/panel.h"
#include "kernel/avx512/simd.h"

#define PANEL_VECTORS 2 /* one of each panel */
#define PANEL_TOKENS 6
#define VECTOR_ROWS 16
#define STRIP_PANELS 2
#define LEVEL_OFFSET(f) ((f)->offset)

typedef __m512i ints;
typedef __m512 floats;

ALWAYS_INLINE ints ints_set(int32_t x) { return _mm512_set1_epi32(x); }
ALWAYS_INLINE ints ints_times(ints x, int32_t factor) { return factor ? _mm512_mullo_epi32(x, ints_set(factor)) : ints_set(0); }
ALWAYS_INLINE ints add_pairs(ints sum, ints a, ints b) { return _mm512_dpwssd_epi32(sum, a, b); }
ALWAYS_INLINE floats floats_set(float x) { return _mm512_set1_ps(x); }
ALWAYS_INLINE floats floats_of(ints x) { return _mm512_cvtepi32_ps(x); }
ALWAYS_INLINE floats floats_of_bits(ints x) { return _mm512_castsi512_ps(x); }
ALWAYS_INLINE floats floats_add(floats a, floats b) { return _mm512_add_ps(a, b); }
ALWAYS_INLINE floats floats_mul(floats a, floats b) { return _mm512_mul_ps(a, b); }
ALWAYS_INLINE floats floats_fma(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
ALWAYS_INLINE void floats_store(float *y, floats x, unsigned count) { _mm512_mask_storeu_ps(y, first_lanes(count), x); }

struct panel_tile;
ALWAYS_INLINE ints panel_line(const struct panel_tile *p, size_t offset, unsigned v);
ALWAYS_INLINE void add_codes(const struct panel_tile *p, size_t codes, const int8_t *const q[PANEL_TOKENS], size_t steps, size_t scale,
                             unsigned half, unsigned tokens, bool scaled, ints sum[PANEL_TOKENS][PANEL_VECTORS]);

#define LEVEL(name) avx512_##name
#define PANEL(name) avx2_panel_##name
#define PANEL_FILL avx512_panel_fill
#include "kernel/wide/matmul_panel_body.inc"

ALWAYS_INLINE ints panel_line(const struct panel_tile *p, size_t offset, unsigned v) {
    return _mm512_load_si512(p->panel + v * p->l->bytes + offset);
}

/* steps: a constant, so that the loop is unrolled. */
ALWAYS_INLINE void add_steps(const struct panel_tile *p, size_t codes, const int8_t *const q[PANEL_TOKENS], size_t first, unsigned steps,
                             unsigned tokens, ints dot[PANEL_TOKENS][PANEL_VECTORS]) {
#pragma GCC unroll 8
    for (size_t i = first; i < first + steps; i++) {
        ints w[PANEL_VECTORS];
        for (unsigned v = 0; v < PANEL_VECTORS; v++)
            w[v] = panel_line(p, codes + 64 * i, v);
        for (unsigned t = 0; t < tokens; t++) {
            ints x = ints_set((int32_t)load_u32(q[t] + 4 * i));
            for (unsigned v = 0; v < PANEL_VECTORS; v++)
                dot[t][v] = _mm512_dpbusd_epi32(dot[t][v], w[v], x);
        }
    }
}

ALWAYS_INLINE void add_codes(const struct panel_tile *p, size_t codes, const int8_t *const q[PANEL_TOKENS], size_t steps, size_t scale,
                             unsigned half, unsigned tokens, bool scaled, ints sum[PANEL_TOKENS][PANEL_VECTORS]) {
    ints dot[PANEL_TOKENS][PANEL_VECTORS];
    size_t i = 0;
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned v = 0; v < PANEL_VECTORS; v++)
            dot[t][v] = scaled ? ints_set(0) : sum[t][v];
    for (; steps >= 8; steps -= 8, i += 8)
        add_steps(p, codes, q, i, 8, tokens, dot);
    if (steps)
        add_steps(p, codes, q, i, 4, tokens, dot);
    ints factor[PANEL_VECTORS];
    for (unsigned v = 0; v < PANEL_VECTORS && scaled; v++) /* the lower or upper half of each dword */
        factor[v] = _mm512_srai_epi32(half ? panel_line(p, scale, v) : _mm512_slli_epi32(panel_line(p, scale, v), 16), 16);
    for (unsigned v = 0; v < PANEL_VECTORS; v++)
        for (unsigned t = 0; t < tokens; t++)
            sum[t][v] = scaled ? _mm512_add_epi32(sum[t][v], _mm512_mullo_epi32(dot[t][v], factor[v])) : dot[t][v];
}
