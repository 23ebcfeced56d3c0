/*
 * panel: unpacking of sixteen rows for matrix products; one function per format reads 32 codes, one reads the scales of a run.
 */
#include "kernel/neon/panel.h"

#include "base/check.h"
#include "kernel/neon/codes_iq.h"
#include "kernel/neon/run_terms.h"
#include "kernel/wide/panel_split_body.inc"

/* ---- codes ---- */

/* r[i]: four dwords of row i -> r[j]: dword j of four rows. */
ALWAYS_INLINE void transpose_4(int32x4_t r[4]) {
    int64x2_t a = vreinterpretq_s64_s32(vtrn1q_s32(r[0], r[1])), b = vreinterpretq_s64_s32(vtrn2q_s32(r[0], r[1]));
    int64x2_t c = vreinterpretq_s64_s32(vtrn1q_s32(r[2], r[3])), d = vreinterpretq_s64_s32(vtrn2q_s32(r[2], r[3]));
    r[0] = vreinterpretq_s32_s64(vtrn1q_s64(a, c));
    r[1] = vreinterpretq_s32_s64(vtrn1q_s64(b, d));
    r[2] = vreinterpretq_s32_s64(vtrn2q_s64(a, c));
    r[3] = vreinterpretq_s32_s64(vtrn2q_s64(b, d));
}
/* r[i]: two times eight bytes of row i -> r[j]: eight bytes of rows 2 (j % 2) and 2 (j % 2) + 1, the second eight from j = 2 on. */
ALWAYS_INLINE void pair_eights(int32x4_t r[4]) {
    int64x2_t a = vreinterpretq_s64_s32(r[0]), b = vreinterpretq_s64_s32(r[1]), c = vreinterpretq_s64_s32(r[2]),
              d = vreinterpretq_s64_s32(r[3]);
    r[0] = vreinterpretq_s32_s64(vzip1q_s64(a, b));
    r[1] = vreinterpretq_s32_s64(vzip1q_s64(c, d));
    r[2] = vreinterpretq_s32_s64(vzip2q_s64(a, b));
    r[3] = vreinterpretq_s32_s64(vzip2q_s64(c, d));
}

/* Sixteen codes of the four rows of a `quarter`; eights: how codes lie side by side. */
ALWAYS_INLINE void store_16_codes(int32x4_t r[4], unsigned quarter, bool eights, uint8_t *out) {
    if (eights)
        pair_eights(r);
    else
        transpose_4(r);
#pragma GCC unroll 4
    for (unsigned j = 0; j < 4; j++)
        vst1q_s32((int32_t *)(void *)(out + (eights ? 128 * (j / 2) + 32 * quarter + 16 * (j % 2) : 64 * j + 16 * quarter)), r[j]);
}

/* Codes 32 k .. of a block in each row. */
ALWAYS_INLINE void fill_32_codes(const uint8_t *const rows[PANEL_ROWS], size_t block_offset, codes_fn *codes, unsigned k, bool eights,
                                 uint8_t *out) {
    for (unsigned quarter = 0; quarter < 4; quarter++) {
        int32x4_t low[4], high[4];
#pragma GCC unroll 4
        for (unsigned r = 0; r < 4; r++) {
            codes_32 x = codes(rows[4 * quarter + r] + block_offset, k);
            low[r] = vreinterpretq_s32_s8(x.val[0]);
            high[r] = vreinterpretq_s32_s8(x.val[1]);
        }
        store_16_codes(low, quarter, eights, out);
        store_16_codes(high, quarter, eights, out + 4 * 64);
    }
}

/* Blocks of `elements` codes and block_bytes bytes. */
ALWAYS_INLINE void fill_codes(const uint8_t *const rows[PANEL_ROWS], size_t cols, codes_fn *codes, size_t elements, size_t block_bytes,
                              bool eights, uint8_t *out) {
    for (size_t b = 0; b < cols / elements; b++)
#pragma GCC unroll 8
        for (unsigned k = 0; k < elements / 32; k++, out += 8 * 64)
            fill_32_codes(rows, b * block_bytes, codes, k, eights, out);
}
/* The same where a copy for each k is not worth its size. */
ALWAYS_INLINE void fill_grid_codes(const uint8_t *const rows[PANEL_ROWS], size_t cols, codes_fn *codes, size_t elements, size_t block_bytes,
                                   bool eights, uint8_t *out) {
    for (size_t b = 0; b < cols / elements; b++)
#pragma GCC unroll 1
        for (unsigned k = 0; k < elements / 32; k++, out += 8 * 64)
            fill_32_codes(rows, b * block_bytes, codes, k, eights, out);
}

/* Codes of a bit stream. */
ALWAYS_INLINE codes_32 bytes_less_128(const uint8_t *bytes, unsigned k) { return less(load_32(bytes + 32 * k), -128); }
ALWAYS_INLINE codes_32 signed_bytes(const uint8_t *bytes, unsigned k) { return load_32(bytes + 32 * k); }
ALWAYS_INLINE codes_32 nibbles(const uint8_t *bytes, unsigned k) { return nibbles_by_turns(bytes + 16 * k); }
ALWAYS_INLINE codes_32 nibbles_less_8(const uint8_t *bytes, unsigned k) { return less(nibbles_by_turns(bytes + 16 * k), 8); }
ALWAYS_INLINE codes_32 fp4_stream_codes(const uint8_t *bytes, unsigned k) {
    return look_up(fp4_doubled_values, nibbles_by_turns(bytes + 16 * k));
}
ALWAYS_INLINE codes_32 nvfp4_codes(const uint8_t *block, unsigned k) {
    return look_up(fp4_doubled_values, nibbles_by_quarters(block + offsetof(struct block_nvfp4, qs) + 16 * k));
}
ALWAYS_INLINE codes_32 bit_stream_codes(const uint8_t *bytes, unsigned k, unsigned bits) {
    uint64_t out[4];
    spread_stream(bytes + 4 * bits * k, bits, out);
    return load_32(out);
}
ALWAYS_INLINE codes_32 bits_2_codes(const uint8_t *bytes, unsigned k) { return bit_stream_codes(bytes, k, 2); }
ALWAYS_INLINE codes_32 bits_3_codes(const uint8_t *bytes, unsigned k) { return bit_stream_codes(bytes, k, 3); }
ALWAYS_INLINE codes_32 bits_5_codes(const uint8_t *bytes, unsigned k) { return bit_stream_codes(bytes, k, 5); }
ALWAYS_INLINE codes_32 bits_6_codes(const uint8_t *bytes, unsigned k) { return bit_stream_codes(bytes, k, 6); }

/* offset: codes are of signed numbers. */
ALWAYS_INLINE void fill_stream(const struct matrix *w, bool offset, const uint8_t *const rows[PANEL_ROWS], bool eights, uint8_t *out) {
    switch (w->bits) {
    case 2:
        fill_codes(rows, w->cols, bits_2_codes, 32, 8, eights, out);
        break;
    case 3:
        fill_codes(rows, w->cols, bits_3_codes, 32, 12, eights, out);
        break;
    case 4:
        fill_codes(rows, w->cols, offset ? nibbles_less_8 : nibbles, 32, 16, eights, out);
        break;
    case 5:
        fill_codes(rows, w->cols, bits_5_codes, 32, 20, eights, out);
        break;
    case 6:
        fill_codes(rows, w->cols, bits_6_codes, 32, 24, eights, out);
        break;
    default:
        fill_codes(rows, w->cols, bytes_less_128, 32, 32, eights, out);
    }
}

#define CODES(type, fill, name, elements)                                                      \
    case DTYPE_##type:                                                                         \
        fill(rows, w->cols, name##_codes, elements, sizeof(struct block_##name), eights, out); \
        break
ALWAYS_INLINE void fill_all_codes(const struct matrix *w, const uint8_t *const rows[PANEL_ROWS], bool eights, uint8_t *out) {
    switch (w->format) {
        CODES(Q4_0, fill_codes, q4_0, 32);
        CODES(Q4_1, fill_codes, q4_1, 32);
        CODES(Q5_0, fill_codes, q5_0, 32);
        CODES(Q5_1, fill_codes, q5_1, 32);
        CODES(Q8_0, fill_codes, q8_0, 32);
        CODES(IQ4_NL, fill_codes, iq4_nl, 32);
        CODES(MXFP4, fill_codes, mxfp4, 32);
        CODES(NVFP4, fill_codes, nvfp4, 64);
        CODES(Q2_K, fill_codes, q2_k, 256);
        CODES(Q3_K, fill_codes, q3_k, 256);
        CODES(Q4_K, fill_codes, q4_k, 256);
        CODES(Q5_K, fill_codes, q5_k, 256);
        CODES(Q6_K, fill_codes, q6_k, 256);
        CODES(IQ4_XS, fill_codes, iq4_xs, 256);
        CODES(IQ2_XXS, fill_grid_codes, iq2_xxs, 256);
        CODES(IQ2_XS, fill_grid_codes, iq2_xs, 256);
        CODES(IQ2_S, fill_grid_codes, iq2_s, 256);
        CODES(IQ3_XXS, fill_grid_codes, iq3_xxs, 256);
        CODES(IQ3_S, fill_grid_codes, iq3_s, 256);
        CODES(IQ1_S, fill_grid_codes, iq1_s, 256);
        CODES(IQ1_M, fill_grid_codes, iq1_m, 256);
        CODES(TQ1_0, fill_grid_codes, tq1_0, 256);
        CODES(TQ2_0, fill_codes, tq2_0, 256);
        CODES(Q1_0, fill_codes, q1_0, 128);
        CODES(Q2_0, fill_codes, q2_0, 64);
    case MATRIX_MXFP4_SPLIT:
    case MATRIX_NVFP4_SPLIT:
        fill_codes(rows, w->cols, fp4_stream_codes, 32, 16, eights, out);
        break;
    case MATRIX_INT8_GROUPS:
        fill_codes(rows, w->cols, signed_bytes, 32, 32, eights, out);
        break;
    case MATRIX_INT_GROUPS:
        fill_stream(w, true, rows, eights, out);
        break;
    default:
        fill_stream(w, false, rows, eights, out);
    }
}
#undef CODES

/* ---- scales ---- */

#define NOTHING SIZE_MAX /* an offset */

/* Integer scales of a block. */
typedef struct sub_scales subs_fn(const uint8_t *block);
ALWAYS_INLINE struct sub_scales k4_mins(const uint8_t *block) { return (struct sub_scales){k4_scales_mins(block).high, vdupq_n_s16(0)}; }

/* Scales of the four rows of a `quarter`: `pairs` lines (4 or 8) of dwords. */
ALWAYS_INLINE void store_subs(const uint8_t *const block[4], subs_fn *subs, size_t pairs, unsigned quarter, uint8_t *out) {
    int32x4_t low[4], high[4];
    for (unsigned r = 0; r < 4; r++) {
        struct sub_scales x = subs(block[r]);
        low[r] = vreinterpretq_s32_s16(x.low);
        high[r] = vreinterpretq_s32_s16(x.high);
    }
    store_16_codes(low, quarter, false, out);
    if (pairs == 8)
        store_16_codes(high, quarter, false, out + 4 * 64);
}

/* Blocks of block_bytes with an f16 scale at d_offset, which is multiplied by `factor`, and a factor of the bias at m_offset. */
ALWAYS_INLINE void fill_scales(const struct panel_format *f, const struct panel_layout *l, const uint8_t *const rows[PANEL_ROWS],
                               size_t block_bytes, size_t d_offset, size_t m_offset, float factor, subs_fn *scales, subs_fn *mins,
                               uint8_t *panel) {
    for (size_t run = 0; run < l->runs; run++)
        for (unsigned quarter = 0; quarter < 4; quarter++) {
            const uint8_t *block[4];
            uint16_t d[4], m[4];
            for (unsigned r = 0; r < 4; r++) {
                block[r] = rows[4 * quarter + r] + run * block_bytes;
                d[r] = load_d(block[r], d_offset);
                m[r] = m_offset == NOTHING ? 0 : load_u16(block[r] + m_offset);
            }
            vst1q_f32((float *)(void *)(panel + l->d + 64 * run + 16 * quarter), vmulq_n_f32(floats_of_f16(vld1_u16(d)), factor));
            if (m_offset != NOTHING) { /* mins are taken off */
                float32x4_t of_bias = floats_of_f16(vld1_u16(m));
                vst1q_f32((float *)(void *)(panel + l->m + 64 * run + 16 * quarter),
                          f->kind == PANEL_SUB_BIAS ? vnegq_f32(of_bias) : of_bias);
            }
            if (scales)
                store_subs(block, scales, l->pairs, quarter, panel + l->scale + 64 * run * l->pairs);
            if (mins)
                store_subs(block, mins, l->pairs, quarter, panel + l->extra + 64 * run * l->pairs);
        }
}

/* Scales of one byte each. */
static void fill_fp4_scales(const struct matrix *w, const struct panel_layout *l, const uint8_t *const rows[PANEL_ROWS], uint8_t *panel) {
    float *d = (float *)(void *)(panel + l->d);
    for (size_t run = 0; run < l->runs; run++)
        for (size_t r = 0; r < PANEL_ROWS; r++) {
            const uint8_t *row = rows[r];
            if (w->format == DTYPE_MXFP4) {
                d[run * PANEL_ROWS + r] = 0.5f * scale_read(DTYPE_F8_E8M0, row + run * sizeof(struct block_mxfp4), 0);
            } else { /* unsigned; the code of NaN means 0 */
                uint8_t code = row[run / 4 * sizeof(struct block_nvfp4) + run % 4] & 0x7f;
                d[run * PANEL_ROWS + r] = code == 0x7f ? 0.0f : 0.5f * scale_read(DTYPE_F8_E4M3, &code, 0);
            }
        }
}

#define SCALES(type, name, d_offset, m_offset, factor, scales, mins)                                           \
    case DTYPE_##type:                                                                                         \
        fill_scales(f, l, rows, sizeof(struct block_##name), d_offset, m_offset, factor, scales, mins, panel); \
        break
#define D(name) offsetof(struct block_##name, d)
static void fill_all_scales(const struct matrix *w, const struct panel_format *f, const struct panel_layout *l,
                            const uint8_t *const rows[PANEL_ROWS], const size_t row[PANEL_ROWS], uint8_t *panel) {
    switch (w->format) {
        SCALES(Q4_0, q4_0, D(q4_0), NOTHING, 1, NULL, NULL);
        SCALES(Q4_1, q4_1, D(q4_1), offsetof(struct block_q4_1, m), 1, NULL, NULL);
        SCALES(Q5_0, q5_0, D(q5_0), NOTHING, 1, NULL, NULL);
        SCALES(Q5_1, q5_1, D(q5_1), offsetof(struct block_q5_1, m), 1, NULL, NULL);
        SCALES(Q8_0, q8_0, D(q8_0), NOTHING, 1, NULL, NULL);
        SCALES(IQ4_NL, iq4_nl, D(iq4_nl), NOTHING, 1, NULL, NULL);
        SCALES(Q2_K, q2_k, D(q2_k), offsetof(struct block_q2_k, dmin), 1, q2_k_scales, q2_k_mins);
        SCALES(Q3_K, q3_k, D(q3_k), NOTHING, 1, q3_k_scales, NULL);
        SCALES(Q4_K, q4_k, D(q4_k), offsetof(struct block_q4_k, dmin), 1, k4_scales_mins, k4_mins);
        SCALES(Q5_K, q5_k, D(q5_k), offsetof(struct block_q5_k, dmin), 1, k4_scales_mins, k4_mins);
        SCALES(Q6_K, q6_k, D(q6_k), NOTHING, 1, q6_k_scales, NULL);
        SCALES(IQ4_XS, iq4_xs, D(iq4_xs), NOTHING, 1, iq4_xs_scales, NULL);
        SCALES(IQ2_XXS, iq2_xxs, D(iq2_xxs), NOTHING, 0.125f, iq2_xxs_scales, NULL);
        SCALES(IQ2_XS, iq2_xs, D(iq2_xs), NOTHING, 0.125f, iq2_xs_scales, NULL);
        SCALES(IQ2_S, iq2_s, D(iq2_s), NOTHING, 0.125f, iq2_s_scales, NULL);
        SCALES(IQ3_XXS, iq3_xxs, D(iq3_xxs), NOTHING, 0.25f, iq3_xxs_scales, NULL);
        SCALES(IQ3_S, iq3_s, D(iq3_s), NOTHING, 1, iq3_s_scales, NULL);
        SCALES(IQ1_S, iq1_s, D(iq1_s), NOTHING, 0.125f, iq1_s_scales, NULL);
        SCALES(IQ1_M, iq1_m, IQ1_M_D, NOTHING, 0.125f, iq1_m_scales, NULL);
        SCALES(TQ1_0, tq1_0, D(tq1_0), NOTHING, 1, NULL, NULL);
        SCALES(TQ2_0, tq2_0, D(tq2_0), NOTHING, 1, NULL, NULL);
        SCALES(Q1_0, q1_0, D(q1_0), NOTHING, 1, NULL, NULL);
        SCALES(Q2_0, q2_0, D(q2_0), NOTHING, 1, NULL, NULL);
    case DTYPE_NVFP4:
    case DTYPE_MXFP4:
        fill_fp4_scales(w, l, rows, panel);
        break;
    default:
        for (size_t r = 0; r < PANEL_ROWS; r++)
            fill_split_scales(w, f, l, row[r], panel + r * sizeof(float));
    }
}
#undef SCALES
#undef D

/* ---- the panel ---- */

void neon_panel_fetch(const struct matrix *w, size_t row, size_t count, size_t end) {
    const uint8_t *rows = w->data + row * w->row_bytes;
    count = row + count <= end ? count : row < end ? end - row : 0;
    for (size_t i = 0; i < count * w->row_bytes; i += 64)
        __builtin_prefetch(rows + i, 0, 2);
}

ALWAYS_INLINE void fill(const struct matrix *w, const struct panel_format *f, const struct panel_layout *layout, size_t row, size_t count,
                        bool eights, uint8_t *panel) {
    const uint8_t *rows[PANEL_ROWS];
    size_t sources[PANEL_ROWS];
    CHECK(count > 0 && row + count <= w->rows && (uintptr_t)panel % 64 == 0);
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        sources[r] = row + (r < count ? r : count - 1);
        rows[r] = w->data + sources[r] * w->row_bytes;
    }
    fill_all_scales(w, f, layout, rows, sources, panel);
    fill_all_codes(w, rows, eights, panel);
}
void neon_panel_fill(const struct matrix *w, const struct panel_format *f, const struct panel_layout *layout, size_t row, size_t count,
                     uint8_t *panel) {
    fill(w, f, layout, row, count, false, panel);
}
void i8mm_panel_fill(const struct matrix *w, const struct panel_format *f, const struct panel_layout *layout, size_t row, size_t count,
                     uint8_t *panel) {
    fill(w, f, layout, row, count, true, panel);
}

bool neon_panel_format(const struct matrix *w, struct panel_format *out) {
    bool found = panel_format_of(w, out);
    if (w->format != DTYPE_Q8_0)
        out->least = MATMUL_MANY; /* other thresholds are those of x86-64 */
    return found;
}

void neon_panel_sums(const struct panel_format *f, const struct panel_layout *l, int offset, const int16_t *sums, int32_t *out) {
    if (f->sub == 16) {
        memcpy(out, sums, l->runs * l->pairs * sizeof *out);
    } else if (f->sub == 32) {
        for (size_t run = 0; run < l->runs; run++)
            vst1q_s16((int16_t *)(void *)(out + 4 * run), vpaddq_s16(vld1q_s16(sums + 16 * run), vld1q_s16(sums + 16 * run + 8)));
    } else {
        int factor = f->kind == PANEL_BIAS ? 1 : -offset;
        size_t step = f->run / 16, run = 0;
        for (; f->run <= 128 && run + 4 <= l->runs; run += 4)
            vst1q_s32(out + run, vmulq_n_s32(sums_of_4_runs(sums + run * step, f->run), factor));
        for (; run < l->runs; run++) {
            out[run] = 0;
            for (size_t i = 0; i < step; i++)
                out[run] += factor * sums[run * step + i];
        }
    }
}
