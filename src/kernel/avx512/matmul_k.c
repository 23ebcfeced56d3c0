/*
 * matmul_k: products of Q2_K .. Q6_K and IQ4_XS with AVX-512; see kernel/avx2/strips.h for the walk.
 */
#include "dtype/codebooks.h"
#include "kernel/avx2/strips.h"
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/simd.h"

/* Sum over the block of codes * activations * scales: codes are unsigned bytes, scales 16-bit numbers in the low half of each 32. */
ALWAYS_INLINE __m512i scaled_dot(const __m512i codes[4], const __m512i scales[4], const __m512i q[4]) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i a = _mm512_dpwssd_epi32(zero, _mm512_dpbusd_epi32(zero, codes[0], q[0]), scales[0]);
    __m512i b = _mm512_dpwssd_epi32(zero, _mm512_dpbusd_epi32(zero, codes[1], q[1]), scales[1]);
    a = _mm512_dpwssd_epi32(a, _mm512_dpbusd_epi32(zero, codes[2], q[2]), scales[2]);
    b = _mm512_dpwssd_epi32(b, _mm512_dpbusd_epi32(zero, codes[3], q[3]), scales[3]);
    return _mm512_add_epi32(a, b);
}

/* The first 16 bytes of each row's block, rows 0 2 4 6 and 1 3 5 7. */
ALWAYS_INLINE void load_heads(const uint8_t *const block[STRIP], size_t offset, __m512i *even, __m512i *odd) {
    __m512i e = _mm512_castsi128_si512(load_128(block[0] + offset)), o = _mm512_castsi128_si512(load_128(block[1] + offset));
    e = _mm512_inserti32x4(e, load_128(block[2] + offset), 1);
    o = _mm512_inserti32x4(o, load_128(block[3] + offset), 1);
    e = _mm512_inserti32x4(e, load_128(block[4] + offset), 2);
    o = _mm512_inserti32x4(o, load_128(block[5] + offset), 2);
    *even = _mm512_inserti32x4(e, load_128(block[6] + offset), 3);
    *odd = _mm512_inserti32x4(o, load_128(block[7] + offset), 3);
}

/* 32-bit number `index` of each row from what load_heads gave, in row order. */
ALWAYS_INLINE __m256i head_words(__m512i even, __m512i odd, int index) {
    __m512i order = _mm512_add_epi32(_mm512_setr_epi32(0, 16, 4, 20, 8, 24, 12, 28, 0, 0, 0, 0, 0, 0, 0, 0), _mm512_set1_epi32(index));
    return _mm512_castsi512_si256(_mm512_permutex2var_epi32(even, order, odd));
}

ALWAYS_INLINE __m256 halves_to_floats(__m256i low_halves) { return _mm256_cvtph_ps(_mm256_cvtepi32_epi16(low_halves)); }

/* ---- Q4_K and Q5_K ---- */

/* A scale number in the low half of eight, of four 32-bit lanes. */
#define EIGHT(a) a, 0, a, 0, a, 0, a, 0, a, 0, a, 0, a, 0, a, 0
#define FOUR(a) a, 0, a, 0, a, 0, a, 0
/* Scales of one of four rows to its code vectors: low nibbles of 64 code bytes are sub-blocks (0 2), high nibbles (1 3). */
#define ROW(a)                                                                                                               \
    {                                                                                                                        \
        {EIGHT(a), EIGHT(a + 2)}, {EIGHT(a + 1), EIGHT(a + 3)}, {EIGHT(a + 4), EIGHT(a + 6)}, { EIGHT(a + 5), EIGHT(a + 7) } \
    }
static const uint16_t k4_scale_order[4][4][32] = {ROW(0), ROW(8), ROW(16), ROW(24)};

/* Scales and mins of eight rows as 8 bytes per row, from bytes 4..15 of the heads. */
ALWAYS_INLINE void unpack_k4_scales(__m512i even, __m512i odd, __m512i *scales, __m512i *mins) {
    /* head bytes: 4..7 scales 0-3, 8..11 mins 0-3 (6 bits each, top 2 bits for 4-7), 12..15 low nibbles of scales and mins 4-7 */
    const __m512i spread = _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m512i tops = _mm512_broadcast_i32x4(_mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
    const __m512i shift = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0, 4));
    const __m512i keep = _mm512_broadcast_i32x4(_mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
    const __m512i top_bits = _mm512_set1_epi8(0x30);
    __m512i unpacked[2], head[2] = {even, odd};
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m512i low = _mm512_and_si512(_mm512_srlv_epi32(_mm512_shuffle_epi8(head[i], spread), shift), keep);
        __m512i high = _mm512_and_si512(_mm512_srli_epi32(_mm512_shuffle_epi8(head[i], tops), 2), top_bits);
        unpacked[i] = _mm512_or_si512(low, high);
    }
    *scales = _mm512_unpacklo_epi64(unpacked[0], unpacked[1]);
    *mins = _mm512_unpackhi_epi64(unpacked[0], unpacked[1]);
}

/* Sum over eight sub-blocks of mins (8 bytes per row) times the sums of 32 activations, by row. */
ALWAYS_INLINE __m256i min_sums(__m512i mins, const int16_t *sums) {
    __m256i pairs = _mm256_madd_epi16(load_256(sums), _mm256_set1_epi16(1)); /* -4064 .. 4064 = 128 high + low */
    __m128i low = _mm256_cvtepi32_epi8(_mm256_and_si256(pairs, _mm256_set1_epi32(127))),
            high = _mm256_cvtepi32_epi8(_mm256_srai_epi32(pairs, 7));
    __m512i total = _mm512_dpbusd_epi32(_mm512_setzero_si512(), mins, _mm512_broadcastq_epi64(high));
    total = _mm512_dpbusd_epi32(_mm512_slli_epi32(total, 7), mins, _mm512_broadcastq_epi64(low));
    return _mm512_cvtepi64_epi32(_mm512_add_epi32(total, _mm512_srli_epi64(total, 32)));
}

/* Activations in the order of the code vectors. */
ALWAYS_INLINE void load_k4_activations(const int8_t *q, __m512i out[4]) {
    out[0] = join_256(load_256(q), load_256(q + 64));
    out[1] = join_256(load_256(q + 32), load_256(q + 96));
    out[2] = join_256(load_256(q + 128), load_256(q + 192));
    out[3] = join_256(load_256(q + 160), load_256(q + 224));
}

ALWAYS_INLINE void unpack_q4_k(const uint8_t *block, __m512i codes[4]) {
    const struct block_q4_k *w = (const void *)block;
    const __m512i nibble = _mm512_set1_epi8(15);
    __m512i a = load_512(w->qs), b = load_512(w->qs + 64);
    codes[0] = _mm512_and_si512(a, nibble);
    codes[1] = _mm512_and_si512(_mm512_srli_epi16(a, 4), nibble);
    codes[2] = _mm512_and_si512(b, nibble);
    codes[3] = _mm512_and_si512(_mm512_srli_epi16(b, 4), nibble);
}

/* x | (y & z), bitwise */
ALWAYS_INLINE __m512i or_and(__m512i x, __m512i y, __m512i z) { return _mm512_ternarylogic_epi32(x, y, z, 0xf8); }

ALWAYS_INLINE void unpack_q5_k(const uint8_t *block, __m512i codes[4]) {
    const struct block_q5_k *w = (const void *)block;
    const __m512i nibble = _mm512_set1_epi8(15), fifth = _mm512_set1_epi8(16), high = load_twice_256(w->qh);
#define SHIFTS(a, b) join_256(_mm256_set1_epi16(a), _mm256_set1_epi16(b))
    __m512i a = load_512(w->qs), b = load_512(w->qs + 64);
    codes[0] = or_and(_mm512_and_si512(a, nibble), _mm512_sllv_epi16(high, SHIFTS(4, 2)), fifth);
    codes[1] = or_and(_mm512_and_si512(_mm512_srli_epi16(a, 4), nibble), _mm512_sllv_epi16(high, SHIFTS(3, 1)), fifth);
    codes[2] = or_and(_mm512_and_si512(b, nibble), _mm512_srlv_epi16(high, SHIFTS(0, 2)), fifth);
    codes[3] = or_and(_mm512_and_si512(_mm512_srli_epi16(b, 4), nibble), _mm512_srlv_epi16(high, SHIFTS(1, 3)), fifth);
}

ALWAYS_INLINE void k4_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out,
                            void (*unpack)(const uint8_t *, __m512i *)) {
    __m512i even, odd, scales, mins, q[TOKENS][4], v[TOKENS][STRIP];
    load_heads(block, 0, &even, &odd);
    __m256i head = head_words(even, odd, 0);
    out->d = halves_to_floats(head);
    out->m = halves_to_floats(_mm256_srli_epi32(head, 16));
    unpack_k4_scales(even, odd, &scales, &mins);
    for (unsigned t = 0; t < tokens; t++)
        load_k4_activations(x[t].q, q[t]);
    __m512i words[2] = {_mm512_cvtepu8_epi16(_mm512_castsi512_si256(scales)), _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(scales, 1))};
#pragma GCC unroll 8
    for (unsigned r = 0; r < STRIP; r++) {
        __m512i codes[4], scale[4];
        unpack(block[r], codes);
#pragma GCC unroll 4
        for (unsigned k = 0; k < 4; k++)
            scale[k] = _mm512_maskz_permutexvar_epi16(0x55555555u, load_512(k4_scale_order[r % 4][k]), words[r / 4]);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++)
            v[t][r] = scaled_dot(codes, scale, q[t]);
    }
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++) {
        out->sum[t] = sums_of_8_wide(v[t]);
        out->bias[t] = min_sums(mins, x[t].sums);
    }
}

ALWAYS_INLINE void q4_k_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    k4_strip(block, x, tokens, out, unpack_q4_k);
}
ALWAYS_INLINE void q5_k_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    k4_strip(block, x, tokens, out, unpack_q5_k);
}

/* ---- formats with a scale per 16 ---- */

/* Scales of 16 sub-blocks, 16-bit numbers, to the code vectors: four sub-blocks each. */
ALWAYS_INLINE void spread_scales_16(__m256i scales, __m512i out[4]) {
#define QUARTERS(a) \
    { FOUR(a), FOUR(a + 1), FOUR(a + 2), FOUR(a + 3) }
    static const uint16_t order[4][32] = {QUARTERS(0), QUARTERS(4), QUARTERS(8), QUARTERS(12)};
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        out[k] = _mm512_maskz_permutexvar_epi16(0x55555555u, load_512(order[k]), _mm512_castsi256_si512(scales));
}

ALWAYS_INLINE void load_activations(const struct activation *x, unsigned tokens, __m512i q[TOKENS][4]) {
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned k = 0; k < 4; k++)
            q[t][k] = load_512(x[t].q + 64 * k);
}

/* Codes of 2 bits in 64 bytes (q2_k, q3_k), before masking: two bits of interest at the bottom of each byte. */
ALWAYS_INLINE void unpack_2_bits(const uint8_t *qs, __m512i codes[4]) {
    __m512i a = load_twice_256(qs), b = load_twice_256(qs + 32);
    codes[0] = _mm512_srlv_epi16(a, SHIFTS(0, 2));
    codes[1] = _mm512_srlv_epi16(a, SHIFTS(4, 6));
    codes[2] = _mm512_srlv_epi16(b, SHIFTS(0, 2));
    codes[3] = _mm512_srlv_epi16(b, SHIFTS(4, 6));
}

ALWAYS_INLINE void q2_k_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    __m512i q[TOKENS][4], v[TOKENS][STRIP];
    __m256i bias[TOKENS][STRIP];
    out->d = load_halves(block, offsetof(struct block_q2_k, d));
    out->m = load_halves(block, offsetof(struct block_q2_k, dmin));
    load_activations(x, tokens, q);
#pragma GCC unroll 8
    for (unsigned r = 0; r < STRIP; r++) {
        const struct block_q2_k *w = (const void *)block[r];
        __m512i codes[4], scale[4];
        __m256i packed = _mm256_cvtepu8_epi16(load_128(w->scales)), mins = _mm256_srli_epi16(packed, 4);
        spread_scales_16(_mm256_and_si256(packed, _mm256_set1_epi16(15)), scale);
        unpack_2_bits(w->qs, codes);
        for (unsigned k = 0; k < 4; k++)
            codes[k] = _mm512_and_si512(codes[k], _mm512_set1_epi8(3));
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++) {
            v[t][r] = scaled_dot(codes, scale, q[t]);
            bias[t][r] = _mm256_madd_epi16(mins, load_256(x[t].sums));
        }
    }
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++) {
        out->sum[t] = sums_of_8_wide(v[t]);
        out->bias[t] = sums_of_8(bias[t]);
    }
}

/* v - 2^shift * (scales . sums): codes are unsigned, 2^shift above their values. */
ALWAYS_INLINE __m512i take_offset(__m512i v, __m256i scales, const int16_t *sums, int shift) {
    __m256i offset = _mm256_slli_epi32(_mm256_madd_epi16(scales, load_256(sums)), shift);
    return _mm512_sub_epi32(v, _mm512_zextsi256_si512(offset));
}

/* Scales of eight rows (16 bytes each, -32 .. 31) from the 16 bytes that end each block: 2 of hmask or qs, 12 of scales, d. */
ALWAYS_INLINE void unpack_k3_scales(__m512i even, __m512i odd, int8_t out[STRIP][16]) {
    const __m512i lows = _mm512_broadcast_i32x4(_mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9));
    const __m512i tops = _mm512_broadcast_i32x4(_mm_setr_epi8(10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13));
    const __m512i low_shift = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 4, 4)),
                  top_shift = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 2, 4, 6));
    __m512i head[2] = {even, odd};
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m512i low = _mm512_and_si512(_mm512_srlv_epi32(_mm512_shuffle_epi8(head[i], lows), low_shift), _mm512_set1_epi8(15));
        __m512i top = _mm512_and_si512(_mm512_srlv_epi32(_mm512_shuffle_epi8(head[i], tops), top_shift), _mm512_set1_epi8(3));
        head[i] = _mm512_sub_epi8(_mm512_or_si512(low, _mm512_slli_epi16(top, 4)), _mm512_set1_epi8(32));
    }
    for (int r = 0; r < 4; r++) { /* rows 0 2 4 6, then 1 3 5 7 */
        _mm_storeu_si128((__m128i *)out[2 * r], ((__m128i *)&head[0])[r]);
        _mm_storeu_si128((__m128i *)out[2 * r + 1], ((__m128i *)&head[1])[r]);
    }
}

ALWAYS_INLINE void unpack_q3_k(const struct block_q3_k *w, __m512i codes[4]) {
    const __m512i two = _mm512_set1_epi8(3), third = _mm512_set1_epi8(4), high = load_twice_256(w->hmask);
    unpack_2_bits(w->qs, codes);
    codes[0] = or_and(_mm512_and_si512(codes[0], two), _mm512_sllv_epi16(high, SHIFTS(2, 1)), third);
    codes[1] = or_and(_mm512_and_si512(codes[1], two), _mm512_srlv_epi16(high, SHIFTS(0, 1)), third);
    codes[2] = or_and(_mm512_and_si512(codes[2], two), _mm512_srlv_epi16(high, SHIFTS(2, 3)), third);
    codes[3] = or_and(_mm512_and_si512(codes[3], two), _mm512_srlv_epi16(high, SHIFTS(4, 5)), third);
}

ALWAYS_INLINE void q3_k_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    __m512i q[TOKENS][4], v[TOKENS][STRIP], even, odd;
    int8_t scale_bytes[STRIP][16];
    load_heads(block, sizeof(struct block_q3_k) - 16, &even, &odd);
    out->d = halves_to_floats(_mm256_srli_epi32(head_words(even, odd, 3), 16));
    unpack_k3_scales(even, odd, scale_bytes);
    load_activations(x, tokens, q);
#pragma GCC unroll 8
    for (unsigned r = 0; r < STRIP; r++) {
        __m512i codes[4], scale[4];
        __m256i words = _mm256_cvtepi8_epi16(load_128(scale_bytes[r]));
        spread_scales_16(words, scale);
        unpack_q3_k((const void *)block[r], codes);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++)
            v[t][r] = take_offset(scaled_dot(codes, scale, q[t]), words, x[t].sums, 2);
    }
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++)
        out->sum[t] = sums_of_8_wide(v[t]);
}

ALWAYS_INLINE void unpack_q6_k(const struct block_q6_k *w, __m512i codes[4]) {
    const __m512i nibble = _mm512_set1_epi8(15), top = _mm512_set1_epi8(0x30);
#pragma GCC unroll 2
    for (unsigned i = 0; i < 2; i++) {
        __m512i low = load_512(w->ql + 64 * i), high = load_twice_256(w->qh + 32 * i);
        codes[2 * i] = or_and(_mm512_and_si512(low, nibble), _mm512_sllv_epi16(high, SHIFTS(4, 2)), top);
        codes[2 * i + 1] = or_and(_mm512_and_si512(_mm512_srli_epi16(low, 4), nibble), _mm512_srlv_epi16(high, SHIFTS(0, 2)), top);
    }
}

ALWAYS_INLINE void q6_k_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    __m512i q[TOKENS][4], v[TOKENS][STRIP];
    out->d = load_halves(block, offsetof(struct block_q6_k, d));
    load_activations(x, tokens, q);
#pragma GCC unroll 8
    for (unsigned r = 0; r < STRIP; r++) {
        const struct block_q6_k *w = (const void *)block[r];
        __m512i codes[4], scale[4];
        __m256i words = _mm256_cvtepi8_epi16(load_128(w->scales));
        spread_scales_16(words, scale);
        unpack_q6_k(w, codes);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++)
            v[t][r] = take_offset(scaled_dot(codes, scale, q[t]), words, x[t].sums, 5);
    }
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++)
        out->sum[t] = sums_of_8_wide(v[t]);
}

/* ---- IQ4_XS ---- */

/* Scales of eight sub-blocks, -32 .. 31. */
ALWAYS_INLINE __m256i iq4_xs_scales(const struct block_iq4_xs *w) {
    __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32((int)load_u32(w->scales_l)), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    __m256i high = _mm256_srlv_epi32(_mm256_set1_epi32(w->scales_h), _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    low = _mm256_and_si256(low, _mm256_set1_epi32(15));
    high = _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4);
    return _mm256_sub_epi32(_mm256_or_si256(low, high), _mm256_set1_epi32(32));
}

/* Codes 64 k .. 64 k + 63 as values, 128 above. */
ALWAYS_INLINE __m512i unpack_iq4_xs(const struct block_iq4_xs *w, unsigned k) {
    const __m512i table = _mm512_xor_si512(_mm512_broadcast_i32x4(load_128(iq4_values)), _mm512_set1_epi8(-128));
    const uint8_t *codes = w->qs + 32 * k;
    __m512i twice = _mm512_mask_broadcast_i64x2(_mm512_broadcast_i64x2(load_128(codes)), 0xf0, load_128(codes + 16));
    twice = _mm512_and_si512(_mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)), _mm512_set1_epi8(15));
    return _mm512_shuffle_epi8(table, twice);
}

/* Sums of four products exceed 16 bits here, so that scales multiply 32-bit numbers. */
ALWAYS_INLINE void iq4_xs_strip(const uint8_t *const block[STRIP], const struct activation *x, unsigned tokens, struct strip_block *out) {
    __m512i q[TOKENS][4], v[TOKENS][STRIP];
    __m256i q_sums[TOKENS];
    out->d = load_halves(block, offsetof(struct block_iq4_xs, d));
    load_activations(x, tokens, q);
    for (unsigned t = 0; t < tokens; t++)
        q_sums[t] = _mm256_slli_epi32(_mm256_madd_epi16(load_256(x[t].sums), _mm256_set1_epi16(1)), 7);
#pragma GCC unroll 8
    for (unsigned r = 0; r < STRIP; r++) {
        const struct block_iq4_xs *w = (const void *)block[r];
        __m256i scales = iq4_xs_scales(w);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++) /* the offset of 128 */
            v[t][r] = _mm512_zextsi256_si512(_mm256_mullo_epi32(scales, _mm256_sub_epi32(_mm256_setzero_si256(), q_sums[t])));
#pragma GCC unroll 4
        for (unsigned k = 0; k < 4; k++) {
            const __m512i place = join_256(_mm256_set1_epi32((int)(2 * k)), _mm256_set1_epi32((int)(2 * k + 1)));
            __m512i codes = unpack_iq4_xs(w, k), scale = _mm512_permutexvar_epi32(place, _mm512_castsi256_si512(scales));
#pragma GCC unroll 4
            for (unsigned t = 0; t < tokens; t++) {
                __m512i dot = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, q[t][k]);
                v[t][r] = _mm512_add_epi32(v[t][r], _mm512_mullo_epi32(dot, scale));
            }
        }
    }
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++)
        out->sum[t] = sums_of_8_wide(v[t]);
}

void avx512_matmul_q2_k(const struct matmul_args *args) { walk_matrix(args, q2_k_strip, sizeof(struct block_q2_k), true); }
void avx512_matmul_q3_k(const struct matmul_args *args) { walk_matrix(args, q3_k_strip, sizeof(struct block_q3_k), false); }
void avx512_matmul_q4_k(const struct matmul_args *args) { walk_matrix(args, q4_k_strip, sizeof(struct block_q4_k), true); }
void avx512_matmul_q5_k(const struct matmul_args *args) { walk_matrix(args, q5_k_strip, sizeof(struct block_q5_k), true); }
void avx512_matmul_q6_k(const struct matmul_args *args) { walk_matrix(args, q6_k_strip, sizeof(struct block_q6_k), false); }
void avx512_matmul_iq4_xs(const struct matmul_args *args) { walk_matrix(args, iq4_xs_strip, sizeof(struct block_iq4_xs), false); }
