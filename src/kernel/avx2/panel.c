/*
 * panel: unpacking of sixteen rows for matrix products; one function per format reads 32 codes, one reads the scales of a run.
 */
#include "kernel/avx2/panel.h"

#include "base/check.h"
#include "kernel/avx2/codes_iq.h"
#include "kernel/avx2/run_terms.h"
#include "kernel/kernel.h"
#include "kernel/wide/panel_split_body.inc"

/* ---- codes ---- */

/* r[i]: eight dwords of row i -> r[j]: dword j of eight rows. */
ALWAYS_INLINE void transpose_8(__m256i r[8]) {
    __m256i t[8];
    for (unsigned i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (unsigned h = 0; h < 2; h++)
        for (unsigned i = 0; i < 2; i++) {
            r[4 * h + 2 * i] = _mm256_unpacklo_epi64(t[4 * h + i], t[4 * h + 2 + i]);
            r[4 * h + 2 * i + 1] = _mm256_unpackhi_epi64(t[4 * h + i], t[4 * h + 2 + i]);
        }
    for (unsigned i = 0; i < 4; i++) {
        t[i] = _mm256_permute2x128_si256(r[i], r[4 + i], 0x20);
        t[4 + i] = _mm256_permute2x128_si256(r[i], r[4 + i], 0x31);
    }
    for (unsigned i = 0; i < 8; i++)
        r[i] = t[i];
}

/* Blocks of `elements` codes and block_bytes bytes. */
ALWAYS_INLINE void fill_codes(const uint8_t *const rows[PANEL_ROWS], size_t cols, codes_fn *codes, size_t elements, size_t block_bytes,
                              uint8_t *out) {
    for (size_t b = 0; b < cols / elements; b++)
#pragma GCC unroll 8
        for (unsigned k = 0; k < elements / 32; k++, out += 8 * 64)
#pragma GCC unroll 2
            for (unsigned half = 0; half < 2; half++) {
                __m256i v[8];
#pragma GCC unroll 8
                for (unsigned r = 0; r < 8; r++)
                    v[r] = codes(rows[8 * half + r] + b * block_bytes, k);
                transpose_8(v);
#pragma GCC unroll 8
                for (unsigned j = 0; j < 8; j++)
                    _mm256_store_si256((__m256i *)(void *)(out + 64 * j + 32 * half), v[j]);
            }
}

/* ---- codes that share bytes: they are transposed together, and taken apart behind that ---- */

/* 32 bytes of eight rows, as transpose_8 leaves them. */
ALWAYS_INLINE void load_transposed(const uint8_t *const rows[8], size_t offset, __m256i out[8]) {
#pragma GCC unroll 8
    for (unsigned r = 0; r < 8; r++)
        out[r] = load_256(rows[r] + offset);
    transpose_8(out);
}

ALWAYS_INLINE void store_lines(uint8_t *out, unsigned k, unsigned j, __m256i codes) {
    _mm256_store_si256((__m256i *)(void *)(out + 8 * 64 * k + 64 * j), codes);
}

/* Q4_K, and with a fifth bit Q5_K. */
ALWAYS_INLINE void fill_nibbles(const uint8_t *const rows[PANEL_ROWS], size_t cols, size_t block_bytes, size_t qs_offset, size_t qh_offset,
                                uint8_t *out) {
    for (size_t b = 0; b < cols / 256; b++, out += 256 * PANEL_ROWS)
        for (unsigned half = 0; half < 2; half++) {
            __m256i low[8], high[8];
            if (qh_offset)
                load_transposed(rows + 8 * half, b * block_bytes + qh_offset, high);
#pragma GCC unroll 4
            for (unsigned i = 0; i < 4; i++) {
                load_transposed(rows + 8 * half, b * block_bytes + qs_offset + 32 * i, low);
#pragma GCC unroll 16
                for (unsigned n = 0; n < 16; n++) {
                    unsigned k = 2 * i + n / 8, j = n % 8;
                    __m256i codes = masked(shifted(low[j], n / 8 ? -4 : 0), 15);
                    if (qh_offset)
                        codes = _mm256_or_si256(codes, masked(shifted(high[j], 4 - (int)k), 16));
                    store_lines(out + 32 * half, k, j, codes);
                }
            }
        }
}

/* Q6_K: two more bits. */
static void fill_q6_k_codes(const uint8_t *const rows[PANEL_ROWS], size_t cols, uint8_t *out) {
    for (size_t b = 0; b < cols / 128; b++, out += 128 * PANEL_ROWS)
        for (unsigned half = 0; half < 2; half++) {
            const size_t block = b / 2 * sizeof(struct block_q6_k), ql = block + offsetof(struct block_q6_k, ql) + 64 * (b % 2);
            __m256i low[8], high[8];
            load_transposed(rows + 8 * half, block + offsetof(struct block_q6_k, qh) + 32 * (b % 2), high);
#pragma GCC unroll 2
            for (unsigned i = 0; i < 2; i++) {
                load_transposed(rows + 8 * half, ql + 32 * i, low);
#pragma GCC unroll 16
                for (unsigned n = 0; n < 16; n++) {
                    unsigned k = i + 2 * (n / 8), j = n % 8;
                    __m256i codes = masked(shifted(low[j], n / 8 ? -4 : 0), 15);
                    store_lines(out + 32 * half, k, j, _mm256_or_si256(codes, masked(shifted(high[j], 4 - 2 * (int)k), 0x30)));
                }
            }
        }
}

ALWAYS_INLINE __m256i look_up(const int8_t table[16], int8_t offset, __m256i codes) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_add_epi8(load_128(table), _mm_set1_epi8(offset))), codes);
}
ALWAYS_INLINE __m256i with_fifth_bits(__m256i codes, const uint8_t *bits) {
    return _mm256_or_si256(codes, _mm256_and_si256(bytes_of_bits(load_u32(bits)), _mm256_set1_epi8(16)));
}

ALWAYS_INLINE __m256i q4_0_codes(const uint8_t *block, unsigned k) { return nibbles_by_halves(block + 2 + 16 * k); }
ALWAYS_INLINE __m256i q4_1_codes(const uint8_t *block, unsigned k) { return nibbles_by_halves(block + 4 + 16 * k); }
ALWAYS_INLINE __m256i q5_0_codes(const uint8_t *block, unsigned k) {
    return with_fifth_bits(nibbles_by_halves(block + 6 + 16 * k), block + 2 + 4 * k);
}
ALWAYS_INLINE __m256i q5_1_codes(const uint8_t *block, unsigned k) {
    return with_fifth_bits(nibbles_by_halves(block + 8 + 16 * k), block + 4 + 4 * k);
}
ALWAYS_INLINE __m256i signed_codes(const uint8_t *bytes, unsigned k) { return above_128(load_256(bytes + 32 * k)); }
ALWAYS_INLINE __m256i q8_0_codes(const uint8_t *block, unsigned k) { return signed_codes(block + 2, k); }
ALWAYS_INLINE __m256i iq4_nl_codes(const uint8_t *block, unsigned k) { return look_up(iq4_values, -128, q4_0_codes(block, k)); }
ALWAYS_INLINE __m256i mxfp4_codes(const uint8_t *block, unsigned k) {
    return look_up(fp4_doubled_values, 16, nibbles_by_halves(block + 1 + 16 * k));
}
ALWAYS_INLINE __m256i iq4_xs_codes(const uint8_t *block, unsigned k) {
    return look_up(iq4_values, -128, nibbles_by_halves(block + offsetof(struct block_iq4_xs, qs) + 16 * k));
}
ALWAYS_INLINE __m256i stream_codes(const uint8_t *bytes, unsigned k) { return load_256(bytes + 32 * k); }
/* Neighbours in a byte. */
ALWAYS_INLINE __m256i nibble_stream_codes(const uint8_t *bytes, unsigned k) {
    __m256i words = _mm256_cvtepu8_epi16(load_128(bytes + 16 * k));
    return _mm256_and_si256(_mm256_or_si256(words, _mm256_slli_epi16(words, 4)), _mm256_set1_epi8(15));
}
ALWAYS_INLINE __m256i fp4_stream_codes(const uint8_t *bytes, unsigned k) {
    return look_up(fp4_doubled_values, 16, nibble_stream_codes(bytes, k));
}
ALWAYS_INLINE __m256i bit_stream_codes(const uint8_t *bytes, unsigned k, unsigned bits) {
    uint64_t out[4];
    spread_stream(bytes + 4 * bits * k, bits, out);
    return load_256(out);
}
ALWAYS_INLINE __m256i nvfp4_codes(const uint8_t *block, unsigned k) { return look_up(fp4_doubled_values, 16, nvfp4_nibbles(block, k)); }
ALWAYS_INLINE __m256i bits_2_codes(const uint8_t *bytes, unsigned k) { return bit_stream_codes(bytes, k, 2); }
ALWAYS_INLINE __m256i q2_0_codes(const uint8_t *block, unsigned k) { return bits_2_codes(block + offsetof(struct block_q2_0, qs), k); }
ALWAYS_INLINE __m256i bits_3_codes(const uint8_t *bytes, unsigned k) { return bit_stream_codes(bytes, k, 3); }
ALWAYS_INLINE __m256i bits_5_codes(const uint8_t *bytes, unsigned k) { return bit_stream_codes(bytes, k, 5); }
ALWAYS_INLINE __m256i bits_6_codes(const uint8_t *bytes, unsigned k) { return bit_stream_codes(bytes, k, 6); }

static void fill_stream(const struct matrix *w, const uint8_t *const rows[PANEL_ROWS], uint8_t *out) {
    switch (w->bits) {
    case 2:
        fill_codes(rows, w->cols, bits_2_codes, 32, 8, out);
        break;
    case 3:
        fill_codes(rows, w->cols, bits_3_codes, 32, 12, out);
        break;
    case 4:
        fill_codes(rows, w->cols, nibble_stream_codes, 32, 16, out);
        break;
    case 5:
        fill_codes(rows, w->cols, bits_5_codes, 32, 20, out);
        break;
    case 6:
        fill_codes(rows, w->cols, bits_6_codes, 32, 24, out);
        break;
    default:
        fill_codes(rows, w->cols, stream_codes, 32, 32, out);
    }
}

static void fill_all_codes(const struct matrix *w, const uint8_t *const rows[PANEL_ROWS], uint8_t *out) {
    switch (w->format) {
    case DTYPE_Q4_0:
        fill_codes(rows, w->cols, q4_0_codes, 32, sizeof(struct block_q4_0), out);
        break;
    case DTYPE_Q4_1:
        fill_codes(rows, w->cols, q4_1_codes, 32, sizeof(struct block_q4_1), out);
        break;
    case DTYPE_Q5_0:
        fill_codes(rows, w->cols, q5_0_codes, 32, sizeof(struct block_q5_0), out);
        break;
    case DTYPE_Q5_1:
        fill_codes(rows, w->cols, q5_1_codes, 32, sizeof(struct block_q5_1), out);
        break;
    case DTYPE_Q8_0:
        fill_codes(rows, w->cols, q8_0_codes, 32, sizeof(struct block_q8_0), out);
        break;
    case DTYPE_IQ4_NL:
        fill_codes(rows, w->cols, iq4_nl_codes, 32, sizeof(struct block_iq4_nl), out);
        break;
    case DTYPE_MXFP4:
        fill_codes(rows, w->cols, mxfp4_codes, 32, sizeof(struct block_mxfp4), out);
        break;
    case DTYPE_Q2_K:
        fill_codes(rows, w->cols, q2_k_codes, 256, sizeof(struct block_q2_k), out);
        break;
    case DTYPE_Q3_K:
        fill_codes(rows, w->cols, q3_k_codes, 256, sizeof(struct block_q3_k), out);
        break;
    case DTYPE_Q4_K:
        fill_nibbles(rows, w->cols, sizeof(struct block_q4_k), offsetof(struct block_q4_k, qs), 0, out);
        break;
    case DTYPE_Q5_K:
        fill_nibbles(rows, w->cols, sizeof(struct block_q5_k), offsetof(struct block_q5_k, qs), offsetof(struct block_q5_k, qh), out);
        break;
    case DTYPE_Q6_K:
        fill_q6_k_codes(rows, w->cols, out);
        break;
    case DTYPE_IQ4_XS:
        fill_codes(rows, w->cols, iq4_xs_codes, 256, sizeof(struct block_iq4_xs), out);
        break;
    case DTYPE_IQ2_XXS:
        fill_codes(rows, w->cols, iq2_xxs_codes, 256, sizeof(struct block_iq2_xxs), out);
        break;
    case DTYPE_IQ2_XS:
        fill_codes(rows, w->cols, iq2_xs_codes, 256, sizeof(struct block_iq2_xs), out);
        break;
    case DTYPE_IQ2_S:
        fill_codes(rows, w->cols, iq2_s_codes, 256, sizeof(struct block_iq2_s), out);
        break;
    case DTYPE_IQ3_XXS:
        fill_codes(rows, w->cols, iq3_xxs_codes, 256, sizeof(struct block_iq3_xxs), out);
        break;
    case DTYPE_IQ3_S:
        fill_codes(rows, w->cols, iq3_s_codes, 256, sizeof(struct block_iq3_s), out);
        break;
    case DTYPE_IQ1_S:
        fill_codes(rows, w->cols, iq1_s_codes, 256, sizeof(struct block_iq1_s), out);
        break;
    case DTYPE_IQ1_M:
        fill_codes(rows, w->cols, iq1_m_codes, 256, sizeof(struct block_iq1_m), out);
        break;
    case DTYPE_TQ1_0:
        fill_codes(rows, w->cols, tq1_0_codes, 256, sizeof(struct block_tq1_0), out);
        break;
    case DTYPE_TQ2_0:
        fill_codes(rows, w->cols, tq2_0_codes, 256, sizeof(struct block_tq2_0), out);
        break;
    case DTYPE_Q1_0:
        fill_codes(rows, w->cols, q1_0_codes, 128, sizeof(struct block_q1_0), out);
        break;
    case DTYPE_Q2_0:
        fill_codes(rows, w->cols, q2_0_codes, 64, sizeof(struct block_q2_0), out);
        break;
    case DTYPE_NVFP4:
        fill_codes(rows, w->cols, nvfp4_codes, 64, sizeof(struct block_nvfp4), out);
        break;
    case MATRIX_MXFP4_SPLIT:
    case MATRIX_NVFP4_SPLIT:
        fill_codes(rows, w->cols, fp4_stream_codes, 32, 16, out);
        break;
    case MATRIX_INT8_GROUPS:
        fill_codes(rows, w->cols, signed_codes, 32, 32, out);
        break;
    default:
        fill_stream(w, rows, out);
    }
}

/* ---- scales ---- */

/* Integer scales of a block and what goes into `extra`, 16 bits each: 16 of both, or (sub-blocks of 32) 8 and 8 in *scale. */
typedef void subs_fn(const uint8_t *block, __m256i *scale, __m256i *extra);

ALWAYS_INLINE __m256i negative_times(__m256i scales, short offset) { return _mm256_mullo_epi16(scales, _mm256_set1_epi16((short)-offset)); }

ALWAYS_INLINE void q2_k_subs(const uint8_t *block, __m256i *scale, __m256i *extra) {
    __m256i packed = _mm256_cvtepu8_epi16(load_128(block));
    *scale = _mm256_and_si256(packed, _mm256_set1_epi16(15));
    *extra = _mm256_srli_epi16(packed, 4);
}
ALWAYS_INLINE void q3_k_subs(const uint8_t *block, __m256i *scale, __m256i *extra) {
    *scale = unpack_k3_scales((const void *)block);
    *extra = negative_times(*scale, 4);
}
ALWAYS_INLINE void q6_k_subs(const uint8_t *block, __m256i *scale, __m256i *extra) {
    *scale = _mm256_cvtepi8_epi16(load_128(block + offsetof(struct block_q6_k, scales)));
    *extra = negative_times(*scale, 32);
}

ALWAYS_INLINE void subs_of_8(__m256i twice, __m256i *scale, __m256i *extra) {
    *scale = *extra = _mm256_blend_epi32(twice, negative_times(twice, 128), 0xf0);
}
ALWAYS_INLINE void subs_of_16(__m256i scales, __m256i *scale, __m256i *extra) {
    *scale = scales;
    *extra = negative_times(scales, 128);
}
ALWAYS_INLINE void iq4_xs_subs(const uint8_t *block, __m256i *scale, __m256i *extra) {
    subs_of_8(iq4_xs_scales((const void *)block), scale, extra);
}
ALWAYS_INLINE void iq2_xxs_subs(const uint8_t *block, __m256i *scale, __m256i *extra) { subs_of_8(iq2_xxs_scales(block), scale, extra); }
ALWAYS_INLINE void iq3_xxs_subs(const uint8_t *block, __m256i *scale, __m256i *extra) { subs_of_8(iq3_xxs_scales(block), scale, extra); }
ALWAYS_INLINE void iq3_s_subs(const uint8_t *block, __m256i *scale, __m256i *extra) { subs_of_8(iq3_s_scales(block), scale, extra); }
ALWAYS_INLINE void iq1_s_subs(const uint8_t *block, __m256i *scale, __m256i *extra) { subs_of_8(iq1_s_scales(block), scale, extra); }
ALWAYS_INLINE void iq1_m_subs(const uint8_t *block, __m256i *scale, __m256i *extra) { subs_of_16(iq1_m_scales(block), scale, extra); }
ALWAYS_INLINE void iq2_xs_subs(const uint8_t *block, __m256i *scale, __m256i *extra) {
    subs_of_16(nibble_scales(block + offsetof(struct block_iq2_xs, scales)), scale, extra);
}
ALWAYS_INLINE void iq2_s_subs(const uint8_t *block, __m256i *scale, __m256i *extra) {
    subs_of_16(nibble_scales(block + offsetof(struct block_iq2_s, scales)), scale, extra);
}

/* The f16 at `offset` of eight blocks. */
ALWAYS_INLINE __m256 load_halves(const uint8_t *const block[8], size_t offset) {
    uint16_t bits[8];
    for (unsigned r = 0; r < 8; r++)
        bits[r] = load_d(block[r], offset);
    return _mm256_cvtph_ps(load_128(bits));
}

/* Blocks of block_bytes with an f16 scale at d_offset, which is multiplied by factor, and a factor of the bias at m_offset. */
ALWAYS_INLINE void fill_scales(const struct panel_format *f, const struct panel_layout *l, const uint8_t *const rows[PANEL_ROWS],
                               size_t block_bytes, size_t d_offset, size_t m_offset, float factor, subs_fn *subs, uint8_t *panel) {
    for (size_t run = 0; run < l->runs; run++)
#pragma GCC unroll 2
        for (size_t half = 0; half < 2; half++) {
            const uint8_t *block[8];
            uint8_t *line = panel + 32 * half;
            for (unsigned r = 0; r < 8; r++)
                block[r] = rows[8 * half + r] + run * block_bytes;
            _mm256_store_ps((float *)(void *)(line + l->d + 64 * run), _mm256_mul_ps(load_halves(block, d_offset), _mm256_set1_ps(factor)));
            if (f->kind == PANEL_BIAS || f->kind == PANEL_SUB_BIAS) { /* mins are taken off */
                __m256 m = load_halves(block, m_offset), sign = _mm256_set1_ps(f->kind == PANEL_SUB_BIAS ? -0.0f : 0.0f);
                _mm256_store_ps((float *)(void *)(line + l->m + 64 * run), _mm256_xor_ps(m, sign));
            }
            if (!subs)
                continue;
            __m256i scale[8], extra[8];
            for (unsigned r = 0; r < 8; r++)
                subs(block[r], &scale[r], &extra[r]);
            transpose_8(scale);
            if (f->sub == 16)
                transpose_8(extra);
            for (size_t i = 0; i < l->pairs; i++) {
                _mm256_store_si256((__m256i *)(void *)(line + l->scale + 64 * (run * l->pairs + i)), scale[i]);
                _mm256_store_si256((__m256i *)(void *)(line + l->extra + 64 * (run * l->pairs + i)),
                                   f->sub == 16 ? extra[i] : scale[4 + i]);
            }
        }
}

/* Bytes 0, 1 or 2, 3 of each dword as words. */
ALWAYS_INLINE __m256i words_of(__m256i bytes, unsigned pair) {
    const __m256i first = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1));
    return _mm256_shuffle_epi8(pair ? _mm256_srli_epi32(bytes, 16) : bytes, first);
}

/* Q4_K and Q5_K: 16 bytes of a row, as in unpack_k4_scales, are transposed and taken apart for eight rows together. */
static void fill_k4_scales(const struct panel_layout *l, const uint8_t *const rows[PANEL_ROWS], size_t block_bytes, uint8_t *panel) {
    const __m256i six = _mm256_set1_epi8(0x3f), four = _mm256_set1_epi8(15), top = _mm256_set1_epi8(0x30);
    for (size_t run = 0; run < l->runs; run++)
        for (size_t half = 0; half < 2; half++) {
            __m256i v[4];
            for (size_t r = 0; r < 4; r++)
                v[r] = _mm256_setr_m128i(load_128(rows[8 * half + r] + run * block_bytes),
                                         load_128(rows[8 * half + 4 + r] + run * block_bytes));
            __m256i t[4] = {_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpacklo_epi32(v[2], v[3]), _mm256_unpackhi_epi32(v[0], v[1]),
                            _mm256_unpackhi_epi32(v[2], v[3])};
            __m256i halves = _mm256_unpacklo_epi64(t[0], t[1]), first = _mm256_unpackhi_epi64(t[0], t[1]);
            __m256i second = _mm256_unpacklo_epi64(t[2], t[3]), third = _mm256_unpackhi_epi64(t[2], t[3]);
            halves = _mm256_packus_epi32(_mm256_and_si256(halves, _mm256_set1_epi32(0xffff)), _mm256_srli_epi32(halves, 16));
            halves = _mm256_permute4x64_epi64(halves, 0xd8);
            uint8_t *line = panel + 32 * half;
            __m256 d = _mm256_cvtph_ps(_mm256_castsi256_si128(halves)), m = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
            _mm256_store_ps((float *)(void *)(line + l->d + 64 * run), d);
            _mm256_store_ps((float *)(void *)(line + l->m + 64 * run), _mm256_xor_ps(m, _mm256_set1_ps(-0.0f)));
            __m256i scales[2] = {_mm256_and_si256(first, six),
                                 _mm256_or_si256(_mm256_and_si256(third, four), _mm256_and_si256(_mm256_srli_epi32(first, 2), top))};
            __m256i mins[2] = {_mm256_and_si256(second, six), _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(third, 4), four),
                                                                              _mm256_and_si256(_mm256_srli_epi32(second, 2), top))};
            for (unsigned i = 0; i < 4; i++) {
                size_t at = 64 * (run * 4 + i);
                _mm256_store_si256((__m256i *)(void *)(line + l->scale + at), words_of(scales[i / 2], i % 2));
                _mm256_store_si256((__m256i *)(void *)(line + l->extra + at), words_of(mins[i / 2], i % 2));
            }
        }
}

static void fill_mxfp4_scales(const struct panel_layout *l, const uint8_t *const rows[PANEL_ROWS], uint8_t *panel) {
    for (size_t run = 0; run < l->runs; run++)
        for (size_t half = 0; half < 2; half++) {
            uint8_t codes[8];
            for (unsigned r = 0; r < 8; r++)
                codes[r] = rows[8 * half + r][run * sizeof(struct block_mxfp4)];
            __m256 d = floats_of_e8m0(_mm_loadl_epi64((const __m128i *)(const void *)codes));
            _mm256_store_ps((float *)(void *)(panel + l->d + 64 * run + 32 * half), _mm256_mul_ps(d, _mm256_set1_ps(0.5f)));
        }
}

/* Unsigned; the code of NaN means 0. */
static void fill_nvfp4_scales(const struct panel_layout *l, const uint8_t *const rows[PANEL_ROWS], uint8_t *panel) {
    for (size_t run = 0; run < l->runs; run++)
        for (size_t half = 0; half < 2; half++) {
            uint8_t codes[8];
            for (unsigned r = 0; r < 8; r++) {
                codes[r] = rows[8 * half + r][run / 4 * sizeof(struct block_nvfp4) + run % 4] & 0x7f;
                codes[r] = codes[r] == 0x7f ? 0 : codes[r];
            }
            __m256 d = floats_of_e4m3(_mm_loadl_epi64((const __m128i *)(const void *)codes));
            _mm256_store_ps((float *)(void *)(panel + l->d + 64 * run + 32 * half), _mm256_mul_ps(d, _mm256_set1_ps(0.5f)));
        }
}

static void fill_all_scales(const struct matrix *w, const struct panel_format *f, const struct panel_layout *l,
                            const uint8_t *const rows[PANEL_ROWS], const size_t row[PANEL_ROWS], uint8_t *panel) {
    switch (w->format) {
    case DTYPE_Q4_0:
        fill_scales(f, l, rows, sizeof(struct block_q4_0), offsetof(struct block_q4_0, d), 0, 1.0f, NULL, panel);
        break;
    case DTYPE_IQ4_NL:
        fill_scales(f, l, rows, sizeof(struct block_iq4_nl), offsetof(struct block_iq4_nl, d), 0, 1.0f, NULL, panel);
        break;
    case DTYPE_Q4_1:
        fill_scales(f, l, rows, sizeof(struct block_q4_1), offsetof(struct block_q4_1, d), offsetof(struct block_q4_1, m), 1.0f, NULL,
                    panel);
        break;
    case DTYPE_Q5_0:
        fill_scales(f, l, rows, sizeof(struct block_q5_0), offsetof(struct block_q5_0, d), 0, 1.0f, NULL, panel);
        break;
    case DTYPE_Q5_1:
        fill_scales(f, l, rows, sizeof(struct block_q5_1), offsetof(struct block_q5_1, d), offsetof(struct block_q5_1, m), 1.0f, NULL,
                    panel);
        break;
    case DTYPE_Q8_0:
        fill_scales(f, l, rows, sizeof(struct block_q8_0), offsetof(struct block_q8_0, d), 0, 1.0f, NULL, panel);
        break;
    case DTYPE_Q2_K:
        fill_scales(f, l, rows, sizeof(struct block_q2_k), offsetof(struct block_q2_k, d), offsetof(struct block_q2_k, dmin), 1.0f,
                    q2_k_subs, panel);
        break;
    case DTYPE_Q3_K:
        fill_scales(f, l, rows, sizeof(struct block_q3_k), offsetof(struct block_q3_k, d), 0, 1.0f, q3_k_subs, panel);
        break;
    case DTYPE_Q4_K:
        fill_k4_scales(l, rows, sizeof(struct block_q4_k), panel);
        break;
    case DTYPE_Q5_K:
        fill_k4_scales(l, rows, sizeof(struct block_q5_k), panel);
        break;
    case DTYPE_Q6_K:
        fill_scales(f, l, rows, sizeof(struct block_q6_k), offsetof(struct block_q6_k, d), 0, 1.0f, q6_k_subs, panel);
        break;
    case DTYPE_IQ4_XS:
        fill_scales(f, l, rows, sizeof(struct block_iq4_xs), offsetof(struct block_iq4_xs, d), 0, 1.0f, iq4_xs_subs, panel);
        break;
    case DTYPE_IQ2_XXS:
        fill_scales(f, l, rows, sizeof(struct block_iq2_xxs), offsetof(struct block_iq2_xxs, d), 0, 0.125f, iq2_xxs_subs, panel);
        break;
    case DTYPE_IQ2_XS:
        fill_scales(f, l, rows, sizeof(struct block_iq2_xs), offsetof(struct block_iq2_xs, d), 0, 0.125f, iq2_xs_subs, panel);
        break;
    case DTYPE_IQ2_S:
        fill_scales(f, l, rows, sizeof(struct block_iq2_s), offsetof(struct block_iq2_s, d), 0, 0.125f, iq2_s_subs, panel);
        break;
    case DTYPE_IQ3_XXS:
        fill_scales(f, l, rows, sizeof(struct block_iq3_xxs), offsetof(struct block_iq3_xxs, d), 0, 0.25f, iq3_xxs_subs, panel);
        break;
    case DTYPE_IQ3_S:
        fill_scales(f, l, rows, sizeof(struct block_iq3_s), offsetof(struct block_iq3_s, d), 0, 1.0f, iq3_s_subs, panel);
        break;
    case DTYPE_IQ1_S:
        fill_scales(f, l, rows, sizeof(struct block_iq1_s), offsetof(struct block_iq1_s, d), 0, 0.125f, iq1_s_subs, panel);
        break;
    case DTYPE_IQ1_M:
        fill_scales(f, l, rows, sizeof(struct block_iq1_m), IQ1_M_D, 0, 0.125f, iq1_m_subs, panel);
        break;
    case DTYPE_TQ1_0:
        fill_scales(f, l, rows, sizeof(struct block_tq1_0), offsetof(struct block_tq1_0, d), 0, 1.0f, NULL, panel);
        break;
    case DTYPE_TQ2_0:
        fill_scales(f, l, rows, sizeof(struct block_tq2_0), offsetof(struct block_tq2_0, d), 0, 1.0f, NULL, panel);
        break;
    case DTYPE_Q1_0:
        fill_scales(f, l, rows, sizeof(struct block_q1_0), offsetof(struct block_q1_0, d), 0, 1.0f, NULL, panel);
        break;
    case DTYPE_Q2_0:
        fill_scales(f, l, rows, sizeof(struct block_q2_0), offsetof(struct block_q2_0, d), 0, 1.0f, NULL, panel);
        break;
    case DTYPE_NVFP4:
        fill_nvfp4_scales(l, rows, panel);
        break;
    case DTYPE_MXFP4:
        fill_mxfp4_scales(l, rows, panel);
        break;
    default:
        for (size_t r = 0; r < PANEL_ROWS; r++)
            fill_split_scales(w, f, l, row[r], panel + r * sizeof(float));
    }
}

void avx2_panel_fetch(const struct matrix *w, size_t row, size_t count, size_t end) {
    const char *rows = (const char *)w->data + row * w->row_bytes;
    count = row + count <= end ? count : row < end ? end - row : 0;
    for (size_t i = 0; i < count * w->row_bytes; i += 64)
        _mm_prefetch(rows + i, _MM_HINT_T1);
}

void avx2_panel_fill(const struct matrix *w, const struct panel_format *f, const struct panel_layout *layout, size_t row, size_t count,
                     uint8_t *panel) {
    const uint8_t *rows[PANEL_ROWS];
    size_t sources[PANEL_ROWS];
    CHECK(count > 0 && row + count <= w->rows && (uintptr_t)panel % 64 == 0);
    for (size_t r = 0; r < PANEL_ROWS; r++) {
        sources[r] = row + (r < count ? r : count - 1);
        rows[r] = w->data + sources[r] * w->row_bytes;
    }
    fill_all_scales(w, f, layout, rows, sources, panel);
    fill_all_codes(w, rows, panel);
}

/* ---- sums of activations ---- */

void avx2_panel_sums(const struct panel_format *f, const struct panel_layout *l, int offset, const int16_t *sums, int32_t *out) {
    if (f->sub == 16) {
        memcpy(out, sums, l->runs * l->pairs * sizeof *out);
    } else if (f->sub == 32) {
        for (size_t run = 0; run < l->runs; run++) {
            __m256i s = _mm256_madd_epi16(load_256(sums + 16 * run), _mm256_set1_epi16(1));
            _mm_storeu_si128((__m128i *)(void *)(out + 4 * run),
                             _mm_packs_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)));
        }
    } else {
        int factor = f->kind == PANEL_BIAS ? 1 : -offset;
        size_t step = f->run / 16, run = 0;
        for (; run < l->runs && (f->run <= 64 || (f->run == 128 && run + 8 <= l->runs)); run += 8) { /* rows end with whole 64 bytes */
            __m256i s = sums_of_runs(sums + run * step, f->run);
            _mm256_storeu_si256((__m256i *)(void *)(out + run), _mm256_mullo_epi32(s, _mm256_set1_epi32(factor)));
        }
        for (; run < l->runs; run++) {
            out[run] = 0;
            for (size_t i = 0; i < step; i++)
                out[run] += factor * sums[run * step + i];
        }
    }
}
