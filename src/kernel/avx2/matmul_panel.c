/*
 * matmul_panel: products with many rows of activations with AVX2; see kernel/wide/matmul_panel_body.inc.
 *
 * Products of pairs are added in 16 bits as long as they fit, then pairs are added with the integer scale as a factor. Codes of 8 bits are
 * read as signed ones, 128 less; their signs move to the activations, since a pair of products with unsigned ones exceeds 16 bits.
 */
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/panel.h"
#include "kernel/avx2/wide.h"

#define PANEL_VECTORS 2 /* both halves of a panel */
#define PANEL_TOKENS 4
#define VECTOR_ROWS 8
#define STRIP_PANELS 1
#define LEVEL_OFFSET(f) ((f)->offset - ((f)->wide ? 128 : 0))

typedef __m256i ints;
typedef __m256 floats;

ALWAYS_INLINE ints ints_set(int32_t x) { return _mm256_set1_epi32(x); }
ALWAYS_INLINE ints ints_times(ints x, int32_t factor) { return factor ? _mm256_mullo_epi32(x, ints_set(factor)) : ints_set(0); }
ALWAYS_INLINE ints add_pairs(ints sum, ints a, ints b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
ALWAYS_INLINE floats floats_set(float x) { return _mm256_set1_ps(x); }
ALWAYS_INLINE floats floats_of(ints x) { return _mm256_cvtepi32_ps(x); }
ALWAYS_INLINE floats floats_of_bits(ints x) { return _mm256_castsi256_ps(x); }
ALWAYS_INLINE floats floats_add(floats a, floats b) { return _mm256_add_ps(a, b); }
ALWAYS_INLINE floats floats_mul(floats a, floats b) { return _mm256_mul_ps(a, b); }
ALWAYS_INLINE floats floats_fma(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
ALWAYS_INLINE void floats_store(float *y, floats x, unsigned count) {
    if (count == 8)
        _mm256_storeu_ps(y, x);
    else
        _mm256_maskstore_ps(y, mask_of_first(count, 0), x);
}

struct panel_tile;
ALWAYS_INLINE ints panel_line(const struct panel_tile *p, size_t offset, unsigned v);
ALWAYS_INLINE void add_codes(const struct panel_tile *p, size_t codes, const int8_t *const q[PANEL_TOKENS], size_t steps, size_t scale,
                             unsigned half, unsigned tokens, bool scaled, ints sum[PANEL_TOKENS][PANEL_VECTORS]);

#define LEVEL(name) avx2_##name
#define PANEL(name) avx2_panel_##name
#define PANEL_FILL avx2_panel_fill
#include "kernel/wide/matmul_panel_body.inc"

ALWAYS_INLINE ints panel_line(const struct panel_tile *p, size_t offset, unsigned v) { return load_256(p->panel + offset + 32 * v); }

/* steps is at most f->pairs_that_fit. */
ALWAYS_INLINE void add_narrow(const struct panel_tile *p, size_t codes, const int8_t *const q[PANEL_TOKENS], size_t step, size_t steps,
                              const ints scale[PANEL_VECTORS], unsigned tokens, ints sum[PANEL_TOKENS][PANEL_VECTORS]) {
    ints dot[PANEL_TOKENS][PANEL_VECTORS];
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned v = 0; v < PANEL_VECTORS; v++)
            dot[t][v] = ints_set(0);
    for (size_t i = step; i < step + steps; i++)
        for (unsigned t = 0; t < tokens; t++) {
            ints x = ints_set((int32_t)load_u32(q[t] + 4 * i));
            for (unsigned v = 0; v < PANEL_VECTORS; v++)
                dot[t][v] = _mm256_add_epi16(dot[t][v], dot_pairs(panel_line(p, codes + 64 * i, v), x));
        }
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned v = 0; v < PANEL_VECTORS; v++)
            sum[t][v] = add_pairs(sum[t][v], dot[t][v], scale[v]);
}

ALWAYS_INLINE void add_wide(const struct panel_tile *p, size_t codes, const int8_t *const q[PANEL_TOKENS], size_t step,
                            const ints scale[PANEL_VECTORS], unsigned tokens, ints sum[PANEL_TOKENS][PANEL_VECTORS]) {
    ints w[PANEL_VECTORS], magnitude[PANEL_VECTORS];
    for (unsigned v = 0; v < PANEL_VECTORS; v++) {
        w[v] = _mm256_xor_si256(panel_line(p, codes + 64 * step, v), _mm256_set1_epi8(-128));
        magnitude[v] = _mm256_abs_epi8(w[v]);
    }
    for (unsigned t = 0; t < tokens; t++) {
        ints x = ints_set((int32_t)load_u32(q[t] + 4 * step));
        for (unsigned v = 0; v < PANEL_VECTORS; v++)
            sum[t][v] = add_pairs(sum[t][v], dot_pairs(magnitude[v], _mm256_sign_epi8(x, w[v])), scale[v]);
    }
}

ALWAYS_INLINE void add_codes(const struct panel_tile *p, size_t codes, const int8_t *const q[PANEL_TOKENS], size_t steps, size_t scale,
                             unsigned half, unsigned tokens, bool scaled, ints sum[PANEL_TOKENS][PANEL_VECTORS]) {
    const ints lower = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13));
    const ints upper = _mm256_or_si256(lower, _mm256_set1_epi8(2));
    ints factor[PANEL_VECTORS];
    for (unsigned v = 0; v < PANEL_VECTORS; v++) {
        factor[v] = _mm256_set1_epi16(1);
        if (scaled) /* the lower or upper half of each dword, twice */
            factor[v] = _mm256_shuffle_epi8(panel_line(p, scale, v), half ? upper : lower);
    }
    size_t group = p->f->pairs_that_fit < steps ? p->f->pairs_that_fit : steps;
    for (size_t i = 0; p->f->wide && i < steps; i++)
        add_wide(p, codes, q, i, factor, tokens, sum);
    for (size_t i = 0; !p->f->wide && i < steps; i += group)
        add_narrow(p, codes, q, i, group, factor, tokens, sum);
}
