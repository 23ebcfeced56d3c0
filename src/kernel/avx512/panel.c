/*
 * panel: unpacking of sixteen rows at once: sixteen bytes of each are transposed, and codes that share bytes are taken apart behind that.
 */
#include "kernel/avx512/panel.h"

#include "base/check.h"
#include "dtype/block_layouts.h"
#include "kernel/avx512/simd.h"

/* Sixteen bytes of all rows -> out[j]: dword j of all rows. */
ALWAYS_INLINE void load_transposed(const uint8_t *const rows[PANEL_ROWS], size_t offset, __m512i out[4]) {
    __m512i v[4];
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; i++) { /* a lane each of rows i, 4 + i, 8 + i, 12 + i */
        v[i] = _mm512_castsi128_si512(load_128(rows[i] + offset));
        v[i] = _mm512_inserti32x4(v[i], load_128(rows[4 + i] + offset), 1);
        v[i] = _mm512_inserti32x4(v[i], load_128(rows[8 + i] + offset), 2);
        v[i] = _mm512_inserti32x4(v[i], load_128(rows[12 + i] + offset), 3);
    }
    __m512i low[2] = {_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpacklo_epi32(v[2], v[3])};
    __m512i high[2] = {_mm512_unpackhi_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[2], v[3])};
    out[0] = _mm512_unpacklo_epi64(low[0], low[1]);
    out[1] = _mm512_unpackhi_epi64(low[0], low[1]);
    out[2] = _mm512_unpacklo_epi64(high[0], high[1]);
    out[3] = _mm512_unpackhi_epi64(high[0], high[1]);
}

/* Dwords to the right, to the left when negative; by is a constant. */
ALWAYS_INLINE __m512i shifted(__m512i x, int by) {
    return by >= 0 ? _mm512_srli_epi32(x, (unsigned)by) : _mm512_slli_epi32(x, (unsigned)-by);
}
ALWAYS_INLINE __m512i masked(__m512i x, int mask) { return _mm512_and_si512(x, _mm512_set1_epi8((char)mask)); }
/* x & mask | more */
ALWAYS_INLINE __m512i masked_or(__m512i x, int mask, __m512i more) {
    return _mm512_ternarylogic_epi32(x, _mm512_set1_epi8((char)mask), more, 0xea);
}
ALWAYS_INLINE void store_line(uint8_t *line, __m512i x) { _mm512_store_si512(line, x); }
ALWAYS_INLINE void store_floats(uint8_t *line, __m512 x) { _mm512_store_ps(line, x); }

/* Q4_K, and with a fifth bit Q5_K. */
ALWAYS_INLINE void fill_nibbles(const uint8_t *const rows[PANEL_ROWS], size_t block, size_t qs_offset, size_t qh_offset, uint8_t *out) {
    __m512i low[4], high[8];
    if (qh_offset) {
        load_transposed(rows, block + qh_offset, high);
        load_transposed(rows, block + qh_offset + 16, high + 4);
    }
#pragma GCC unroll 8
    for (unsigned c = 0; c < 8; c++) {
        load_transposed(rows, block + qs_offset + 16 * c, low);
#pragma GCC unroll 8
        for (unsigned n = 0; n < 8; n++) {
            unsigned k = c / 2 * 2 + n / 4, j = 4 * (c % 2) + n % 4; /* codes 32 k + 4 j .. + 3 */
            __m512i codes = shifted(low[n % 4], n < 4 ? 0 : 4);
            codes = qh_offset ? masked_or(codes, 15, masked(shifted(high[j], (int)k - 4), 16)) : masked(codes, 15);
            store_line(out + 512 * k + 64 * j, codes);
        }
    }
}

/* Half a block of Q6_K: 128 codes of a row. */
static void fill_q6_k_codes(const uint8_t *const rows[PANEL_ROWS], size_t ql, size_t qh, uint8_t *out) {
    __m512i low[4], high[8];
    load_transposed(rows, qh, high);
    load_transposed(rows, qh + 16, high + 4);
#pragma GCC unroll 4
    for (unsigned c = 0; c < 4; c++) {
        load_transposed(rows, ql + 16 * c, low);
#pragma GCC unroll 8
        for (unsigned n = 0; n < 8; n++) {
            unsigned k = c / 2 + 2 * (n / 4), j = 4 * (c % 2) + n % 4;
            __m512i two = masked(shifted(high[j], 2 * (int)k - 4), 0x30);
            store_line(out + 512 * k + 64 * j, masked_or(shifted(low[n % 4], n < 4 ? 0 : 4), 15, two));
        }
    }
}

/* Bytes 0, 1 or 2, 3 of each dword as words. */
ALWAYS_INLINE __m512i words_of(__m512i bytes, unsigned pair) {
    const __m512i first = _mm512_broadcast_i32x4(_mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1));
    return _mm512_shuffle_epi8(pair ? _mm512_srli_epi32(bytes, 16) : bytes, first);
}

/* The halves in the low words of dwords. */
ALWAYS_INLINE __m512 floats_of_halves(__m512i x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }

/* Q4_K and Q5_K: d, dmin and twelve bytes, as in unpack_k4_scales. */
static void fill_k4_scales(const struct panel_layout *l, const uint8_t *const rows[PANEL_ROWS], size_t block, size_t run, uint8_t *panel) {
    __m512i v[4];
    load_transposed(rows, block, v);
    store_floats(panel + l->d + 64 * run, floats_of_halves(v[0]));
    store_floats(panel + l->m + 64 * run,
                 _mm512_xor_ps(floats_of_halves(_mm512_srli_epi32(v[0], 16)), _mm512_set1_ps(-0.0f))); /* mins are taken off */
    const __m512i scales[2] = {masked(v[1], 0x3f), masked_or(v[3], 15, masked(shifted(v[1], 2), 0x30))};
    const __m512i mins[2] = {masked(v[2], 0x3f), masked_or(shifted(v[3], 4), 15, masked(shifted(v[2], 2), 0x30))};
    for (unsigned i = 0; i < 4; i++) {
        store_line(panel + l->scale + 64 * (run * 4 + i), words_of(scales[i / 2], i % 2));
        store_line(panel + l->extra + 64 * (run * 4 + i), words_of(mins[i / 2], i % 2));
    }
}

/* Sixteen signed bytes; d is behind them. */
static void fill_q6_k_scales(const struct panel_layout *l, const uint8_t *const rows[PANEL_ROWS], size_t block, size_t run,
                             uint8_t *panel) {
    const size_t scales_offset = block + offsetof(struct block_q6_k, scales), d_offset = block + offsetof(struct block_q6_k, d);
    const __m512i minus_32 = _mm512_set1_epi16(-32);
    uint16_t halves[PANEL_ROWS];
    __m512i v[4];
    for (unsigned r = 0; r < PANEL_ROWS; r++)
        halves[r] = load_u16(rows[r] + d_offset);
    load_transposed(rows, scales_offset, v);
    for (unsigned i = 0; i < 8; i++) {
        __m512i words = words_of(v[i / 2], i % 2);
        words = _mm512_srai_epi16(_mm512_slli_epi16(words, 8), 8);
        store_line(panel + l->scale + 64 * (run * 8 + i), words);
        store_line(panel + l->extra + 64 * (run * 8 + i), _mm512_mullo_epi16(words, minus_32));
    }
    store_floats(panel + l->d + 64 * run, _mm512_cvtph_ps(load_256(halves)));
}

static void fill_run(const struct matrix *w, const struct panel_layout *l, const uint8_t *const rows[PANEL_ROWS], size_t run,
                     uint8_t *panel) {
    uint8_t *out = panel + run * 256 * PANEL_ROWS;
    if (w->format == DTYPE_Q4_K) {
        const size_t block = run * sizeof(struct block_q4_k);
        fill_k4_scales(l, rows, block, run, panel);
        fill_nibbles(rows, block, offsetof(struct block_q4_k, qs), 0, out);
    } else if (w->format == DTYPE_Q5_K) {
        const size_t block = run * sizeof(struct block_q5_k);
        fill_k4_scales(l, rows, block, run, panel);
        fill_nibbles(rows, block, offsetof(struct block_q5_k, qs), offsetof(struct block_q5_k, qh), out);
    } else {
        const size_t block = run * sizeof(struct block_q6_k);
        const size_t ql = block + offsetof(struct block_q6_k, ql), qh = block + offsetof(struct block_q6_k, qh);
        fill_q6_k_scales(l, rows, block, run, panel);
        fill_q6_k_codes(rows, ql, qh, out);
        fill_q6_k_codes(rows, ql + 64, qh + 32, out + 128 * PANEL_ROWS);
    }
}

void avx512_panel_fill(const struct matrix *w, const struct panel_format *f, const struct panel_layout *layout, size_t row, size_t count,
                       uint8_t *panel) {
    if (w->format != DTYPE_Q4_K && w->format != DTYPE_Q5_K && w->format != DTYPE_Q6_K) {
        avx2_panel_fill(w, f, layout, row, count, panel);
        return;
    }
    const uint8_t *rows[PANEL_ROWS];
    CHECK(count > 0 && row + count <= w->rows && (uintptr_t)panel % 64 == 0);
    for (size_t r = 0; r < PANEL_ROWS; r++)
        rows[r] = w->data + (row + (r < count ? r : count - 1)) * w->row_bytes;
    for (size_t run = 0; run < layout->runs; run++)
        fill_run(w, layout, rows, run, panel);
}
