/*
 * matmul_legacy: products of the formats of 32-element blocks with one scale each: Q4_0 .. Q8_0, IQ4_NL, MXFP4.
 *
 * Row after row, eight blocks (one per lane of the result) at a time. Codes become unsigned bytes, `offset` above their values; the sums of
 * activations that quantize left in the row take the offset away again. The blocks at the end of a row that are no full eight are copied to
 * a padded buffer first, where scales of 0 keep the other lanes as they are.
 */
#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/simd.h"

#define TOKENS 4

struct group {        /* eight blocks of one row */
    __m512i codes[4]; /* blocks 2 i and 2 i + 1, elements in their order */
    __m256 d, m;      /* by block */
};
typedef void unpack_fn(const uint8_t *blocks, struct group *out);

struct legacy_format {
    size_t block_bytes;
    int offset;
    bool has_bias;
};

/* The f16 at `offset` of eight blocks. */
ALWAYS_INLINE __m256 load_halves(const uint8_t *blocks, size_t block_bytes) {
    __m128i h = _mm_cvtsi32_si128(load_u16(blocks));
    h = _mm_insert_epi16(h, load_u16(blocks + block_bytes), 1);
    h = _mm_insert_epi16(h, load_u16(blocks + 2 * block_bytes), 2);
    h = _mm_insert_epi16(h, load_u16(blocks + 3 * block_bytes), 3);
    h = _mm_insert_epi16(h, load_u16(blocks + 4 * block_bytes), 4);
    h = _mm_insert_epi16(h, load_u16(blocks + 5 * block_bytes), 5);
    h = _mm_insert_epi16(h, load_u16(blocks + 6 * block_bytes), 6);
    h = _mm_insert_epi16(h, load_u16(blocks + 7 * block_bytes), 7);
    return _mm256_cvtph_ps(h);
}

/* Nibbles of two blocks: 16 code bytes each, low nibbles first. */
ALWAYS_INLINE __m512i two_blocks_of_nibbles(const uint8_t *first, const uint8_t *second) {
    __m512i twice = _mm512_mask_broadcast_i64x2(_mm512_broadcast_i64x2(load_128(first)), 0xf0, load_128(second));
    return _mm512_and_si512(_mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)), _mm512_set1_epi8(15));
}

ALWAYS_INLINE void unpack_nibbles(const uint8_t *codes, size_t block_bytes, __m512i out[4]) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        out[k] = two_blocks_of_nibbles(codes + 2 * k * block_bytes, codes + (2 * k + 1) * block_bytes);
}

/* Adds the fifth bits, 32 per block in element order. */
ALWAYS_INLINE void add_fifth_bits(const uint8_t *bits, size_t block_bytes, __m512i codes[4]) {
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++) {
        uint64_t mask = load_u32(bits + 2 * k * block_bytes) | (uint64_t)load_u32(bits + (2 * k + 1) * block_bytes) << 32;
        codes[k] = _mm512_mask_add_epi8(codes[k], mask, codes[k], _mm512_set1_epi8(16));
    }
}

ALWAYS_INLINE void unpack_q4_0(const uint8_t *blocks, struct group *out) {
    const size_t bytes = sizeof(struct block_q4_0);
    out->d = load_halves(blocks, bytes);
    unpack_nibbles(blocks + offsetof(struct block_q4_0, qs), bytes, out->codes);
}
ALWAYS_INLINE void unpack_q4_1(const uint8_t *blocks, struct group *out) {
    const size_t bytes = sizeof(struct block_q4_1);
    out->d = load_halves(blocks, bytes);
    out->m = load_halves(blocks + offsetof(struct block_q4_1, m), bytes);
    unpack_nibbles(blocks + offsetof(struct block_q4_1, qs), bytes, out->codes);
}
ALWAYS_INLINE void unpack_q5_0(const uint8_t *blocks, struct group *out) {
    const size_t bytes = sizeof(struct block_q5_0);
    out->d = load_halves(blocks, bytes);
    unpack_nibbles(blocks + offsetof(struct block_q5_0, qs), bytes, out->codes);
    add_fifth_bits(blocks + offsetof(struct block_q5_0, qh), bytes, out->codes);
}
ALWAYS_INLINE void unpack_q5_1(const uint8_t *blocks, struct group *out) {
    const size_t bytes = sizeof(struct block_q5_1);
    out->d = load_halves(blocks, bytes);
    out->m = load_halves(blocks + offsetof(struct block_q5_1, m), bytes);
    unpack_nibbles(blocks + offsetof(struct block_q5_1, qs), bytes, out->codes);
    add_fifth_bits(blocks + offsetof(struct block_q5_1, qh), bytes, out->codes);
}
ALWAYS_INLINE void unpack_q8_0(const uint8_t *blocks, struct group *out) {
    const size_t bytes = sizeof(struct block_q8_0);
    const uint8_t *codes = blocks + offsetof(struct block_q8_0, qs);
    out->d = load_halves(blocks, bytes);
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        out->codes[k] =
            _mm512_xor_si512(join_256(load_256(codes + 2 * k * bytes), load_256(codes + (2 * k + 1) * bytes)), _mm512_set1_epi8(-128));
}

/* Values from a table of 16, moved up by 128. */
ALWAYS_INLINE void look_up(const int8_t *table, __m512i codes[4]) {
    __m512i values = _mm512_xor_si512(_mm512_broadcast_i32x4(load_128(table)), _mm512_set1_epi8(-128));
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        codes[k] = _mm512_shuffle_epi8(values, codes[k]);
}
ALWAYS_INLINE void unpack_iq4_nl(const uint8_t *blocks, struct group *out) {
    unpack_q4_0(blocks, out); /* the same layout */
    look_up(iq4_values, out->codes);
}

/* 2^(e - 128): half of the e8m0 value, subnormal for 0 and 1, NaN for 255. */
ALWAYS_INLINE __m256 half_e8m0(__m256i e) {
    __m256i bits = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    bits = _mm256_mask_sllv_epi32(bits, _mm256_cmplt_epi32_mask(e, _mm256_set1_epi32(2)), _mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(
        _mm256_mask_mov_epi32(bits, _mm256_cmpeq_epi32_mask(e, _mm256_set1_epi32(255)), _mm256_set1_epi32(0x7fc00000)));
}
ALWAYS_INLINE void unpack_mxfp4(const uint8_t *blocks, struct group *out) {
    const size_t bytes = sizeof(struct block_mxfp4);
    uint64_t scales = 0;
#pragma GCC unroll 8
    for (unsigned i = 0; i < 8; i++)
        scales |= (uint64_t)blocks[i * bytes] << (8 * i);
    out->d = half_e8m0(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)scales)));
    unpack_nibbles(blocks + offsetof(struct block_mxfp4, qs), bytes, out->codes);
    look_up(fp4_doubled_values, out->codes);
}

/* Adds a group's terms to the lanes of one token. `pairs`: pairs of blocks that are there. */
ALWAYS_INLINE __m256 add_group(__m256 lanes, const struct group *w, const struct legacy_format *f, const int8_t *q, const float *scales,
                               const int16_t *sums, unsigned pairs) {
    __m512i dot[4];
#pragma GCC unroll 4
    for (unsigned k = 0; k < 4; k++)
        dot[k] = k < pairs ? _mm512_dpbusd_epi32(_mm512_setzero_si512(), w->codes[k], load_512(q + 64 * k)) : _mm512_setzero_si512();
    __m256i sum = sums_of_4_halves(dot), block_sums = load_256(sums);
    if (f->offset)
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(block_sums, _mm256_set1_epi16((short)-f->offset)));
    __m256 d = _mm256_loadu_ps(scales);
    lanes = _mm256_fmadd_ps(_mm256_mul_ps(w->d, d), _mm256_cvtepi32_ps(sum), lanes);
    if (f->has_bias)
        lanes = _mm256_fmadd_ps(_mm256_mul_ps(w->m, d), _mm256_cvtepi32_ps(_mm256_madd_epi16(block_sums, _mm256_set1_epi16(1))), lanes);
    return lanes;
}

ALWAYS_INLINE void walk_row(const struct matmul_args *args, const struct activation_layout *layout, unpack_fn *unpack,
                            const struct legacy_format *f, size_t row, size_t token, unsigned tokens) {
    const struct matrix *w = args->w;
    const uint8_t *blocks = w->data + row * w->row_bytes, *x = args->x + token * args->x_row_bytes;
    size_t count = w->cols / 32;
    __m256 lanes[TOKENS];
    for (unsigned t = 0; t < tokens; t++)
        lanes[t] = _mm256_setzero_ps();
    for (size_t b = 0; b < count; b += 8) {
        struct group group;
        uint8_t padded[8 * 34];
        bool whole = count - b >= 8;
        if (whole) {
            unpack(blocks + b * f->block_bytes, &group);
        } else {
            memset(padded, 0, sizeof padded);
            memcpy(padded, blocks + b * f->block_bytes, (count - b) * f->block_bytes);
            unpack(padded, &group);
        }
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++) {
            const uint8_t *x_row = x + t * args->x_row_bytes;
            const float *scales = (const float *)(const void *)(x_row + layout->scales_offset_bytes) + b;
            const int16_t *sums = (const int16_t *)(const void *)(x_row + layout->sums_offset_bytes) + 2 * b;
            unsigned pairs = (unsigned)(count - b + 1) / 2;
            lanes[t] = add_group(lanes[t], &group, f, (const int8_t *)x_row + 32 * b, scales, sums, whole ? 4 : pairs);
        }
    }
    for (unsigned t = 0; t < tokens; t++)
        args->y[(token + t) * args->y_stride + row] = tree8(lanes[t]) * w->tensor_scale;
}

ALWAYS_INLINE void walk_matrix(const struct matmul_args *args, unpack_fn *unpack, const struct legacy_format f) {
    struct activation_layout layout = activation_layout(32, args->w->cols);
    for (size_t row = args->row_begin; row < args->row_end; row++)
        for (size_t token = 0; token < args->tokens; token += TOKENS)
            switch (args->tokens - token) {
            case 1:
                walk_row(args, &layout, unpack, &f, row, token, 1);
                break;
            case 2:
                walk_row(args, &layout, unpack, &f, row, token, 2);
                break;
            case 3:
                walk_row(args, &layout, unpack, &f, row, token, 3);
                break;
            default:
                walk_row(args, &layout, unpack, &f, row, token, 4);
            }
}

void avx512_matmul_q4_0(const struct matmul_args *args) { walk_matrix(args, unpack_q4_0, (struct legacy_format){18, 8, false}); }
void avx512_matmul_q4_1(const struct matmul_args *args) { walk_matrix(args, unpack_q4_1, (struct legacy_format){20, 0, true}); }
void avx512_matmul_q5_0(const struct matmul_args *args) { walk_matrix(args, unpack_q5_0, (struct legacy_format){22, 16, false}); }
void avx512_matmul_q5_1(const struct matmul_args *args) { walk_matrix(args, unpack_q5_1, (struct legacy_format){24, 0, true}); }
void avx512_matmul_q8_0(const struct matmul_args *args) { walk_matrix(args, unpack_q8_0, (struct legacy_format){34, 128, false}); }
void avx512_matmul_iq4_nl(const struct matmul_args *args) { walk_matrix(args, unpack_iq4_nl, (struct legacy_format){18, 128, false}); }
void avx512_matmul_mxfp4(const struct matmul_args *args) { walk_matrix(args, unpack_mxfp4, (struct legacy_format){17, 128, false}); }
