/*
 * matmul_legacy: products of the formats of 32-element blocks with one scale each, with AVX2: Q4_0 .. Q8_0, IQ4_NL, MXFP4.
 *
 * Row after row, eight blocks (one per lane of the result) at a time. Codes are unsigned bytes, `offset` above their values, and the sums
 * of activations that quantize left in the row take the offset away again; codes of Q8_0 and IQ4_NL are signed. The blocks at the end of a
 * row that are no full eight are taken (four, if these are enough) with those that begin the next row, or at the end of all rows from a
 * padded buffer; scales of 0 keep the other lanes as they are.
 */
#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/simd.h"

#define TOKENS 4

typedef __m256i codes_of_8[8]; /* one block each, elements in their order */

/* Scales of `count` blocks, and zeros; m, unless NULL, lies behind d. */
ALWAYS_INLINE void scales_of(const uint8_t *blocks, size_t block_bytes, unsigned count, __m256 *d, __m256 *m) {
    *d = load_halves_of(blocks, block_bytes, count);
    if (m)
        *m = load_halves_of(blocks + 2, block_bytes, count);
}

/* 16 code bytes per block, low nibbles first. */
ALWAYS_INLINE void nibbles_of(const uint8_t *codes, size_t block_bytes, unsigned count, __m256i out[8]) {
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; k++) {
        __m256i twice = _mm256_broadcastsi128_si256(load_128(codes + k * block_bytes));
        out[k] = _mm256_and_si256(_mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4)), _mm256_set1_epi8(15));
    }
}

/* Adds the fifth bits, 32 per block in element order. */
ALWAYS_INLINE void add_fifth_bits(const uint8_t *bits, size_t block_bytes, unsigned count, __m256i codes[8]) {
    const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i select = _mm256_set1_epi64x((long long)0x8040201008040201u);
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; k++) {
        __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)load_u32(bits + k * block_bytes)), spread);
        __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, select), select);
        codes[k] = _mm256_or_si256(codes[k], _mm256_and_si256(set, _mm256_set1_epi8(16)));
    }
}

ALWAYS_INLINE void bytes_of(const uint8_t *codes, size_t block_bytes, unsigned count, __m256i out[8]) {
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; k++)
        out[k] = load_256(codes + k * block_bytes);
}

/* Values from a table of 16, moved up by `offset`. */
ALWAYS_INLINE void look_up(const int8_t *table, int offset, unsigned count, __m256i codes[8]) {
    __m256i values = _mm256_broadcastsi128_si256(_mm_add_epi8(load_128(table), _mm_set1_epi8((char)offset)));
#pragma GCC unroll 8
    for (unsigned k = 0; k < count; k++)
        codes[k] = _mm256_shuffle_epi8(values, codes[k]);
}

/* Sums of products by block, of `count` blocks that are there, of those that were unpacked. Signs of signed codes move to the activations.
 */
ALWAYS_INLINE __m256i dot_8(const __m256i codes[8], const int8_t *q, unsigned unpacked, unsigned count, bool is_signed) {
    __m256i dot[8];
#pragma GCC unroll 8
    for (unsigned k = 0; k < 8; k++) {
        if (k >= unpacked) {
            dot[k] = _mm256_setzero_si256();
            continue;
        }
        __m256i x = k < count ? load_256(q + 32 * k) : _mm256_setzero_si256();
        __m256i pairs = is_signed ? dot_pairs(_mm256_abs_epi8(codes[k]), _mm256_sign_epi8(x, codes[k])) : dot_pairs(codes[k], x);
        dot[k] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }
    return sums_of_8(dot);
}

struct group { /* eight blocks of one row, or only the first four of them */
    codes_of_8 codes;
    __m256 d, m; /* by block */
};
/* count: 4 or 8 blocks, known when compiling; scales of those that are left out are 0. */
typedef void unpack_fn(const uint8_t *blocks, unsigned count, struct group *out);

struct legacy_format {
    size_t block_bytes;
    int offset;
    bool has_bias, is_signed;
};

ALWAYS_INLINE void unpack_q4_0(const uint8_t *blocks, unsigned count, struct group *out) {
    const size_t bytes = sizeof(struct block_q4_0);
    scales_of(blocks, bytes, count, &out->d, NULL);
    nibbles_of(blocks + offsetof(struct block_q4_0, qs), bytes, count, out->codes);
}
ALWAYS_INLINE void unpack_q4_1(const uint8_t *blocks, unsigned count, struct group *out) {
    const size_t bytes = sizeof(struct block_q4_1);
    scales_of(blocks, bytes, count, &out->d, &out->m);
    nibbles_of(blocks + offsetof(struct block_q4_1, qs), bytes, count, out->codes);
}
ALWAYS_INLINE void unpack_q5_0(const uint8_t *blocks, unsigned count, struct group *out) {
    const size_t bytes = sizeof(struct block_q5_0);
    scales_of(blocks, bytes, count, &out->d, NULL);
    nibbles_of(blocks + offsetof(struct block_q5_0, qs), bytes, count, out->codes);
    add_fifth_bits(blocks + offsetof(struct block_q5_0, qh), bytes, count, out->codes);
}
ALWAYS_INLINE void unpack_q5_1(const uint8_t *blocks, unsigned count, struct group *out) {
    const size_t bytes = sizeof(struct block_q5_1);
    scales_of(blocks, bytes, count, &out->d, &out->m);
    nibbles_of(blocks + offsetof(struct block_q5_1, qs), bytes, count, out->codes);
    add_fifth_bits(blocks + offsetof(struct block_q5_1, qh), bytes, count, out->codes);
}
ALWAYS_INLINE void unpack_q8_0(const uint8_t *blocks, unsigned count, struct group *out) {
    const size_t bytes = sizeof(struct block_q8_0);
    scales_of(blocks, bytes, count, &out->d, NULL);
    bytes_of(blocks + offsetof(struct block_q8_0, qs), bytes, count, out->codes);
}
ALWAYS_INLINE void unpack_iq4_nl(const uint8_t *blocks, unsigned count, struct group *out) {
    unpack_q4_0(blocks, count, out); /* the same layout */
    look_up(iq4_values, 0, count, out->codes);
}

/* 2^(e - 128): half of the e8m0 value, subnormal for 0 and 1, NaN for 255. */
ALWAYS_INLINE __m256 half_e8m0(__m256i e) {
    __m256i bits = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    bits = _mm256_blendv_epi8(bits, _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e), _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e));
    return _mm256_castsi256_ps(_mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fc00000), _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255))));
}
ALWAYS_INLINE void unpack_mxfp4(const uint8_t *blocks, unsigned count, struct group *out) {
    const size_t bytes = sizeof(struct block_mxfp4);
    uint64_t scales = 0;
#pragma GCC unroll 8
    for (unsigned i = 0; i < count; i++)
        scales |= (uint64_t)blocks[i * bytes] << (8 * i);
    out->d = half_e8m0(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)scales)));
    nibbles_of(blocks + offsetof(struct block_mxfp4, qs), bytes, count, out->codes);
    look_up(fp4_doubled_values, 16, count, out->codes);
}

/* Adds a group's terms to the lanes of one token. `count`: blocks that are there, of those that were unpacked. */
ALWAYS_INLINE __m256 add_group(__m256 lanes, const struct group *w, const struct legacy_format *f, const int8_t *q, const float *scales,
                               const int16_t *sums, unsigned unpacked, unsigned count) {
    __m256i sum = dot_8(w->codes, q, unpacked, count, f->is_signed), block_sums = load_256(sums);
    if (f->offset)
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(block_sums, _mm256_set1_epi16((short)-f->offset)));
    __m256 d = _mm256_loadu_ps(scales);
    lanes = _mm256_fmadd_ps(_mm256_mul_ps(w->d, d), _mm256_cvtepi32_ps(sum), lanes);
    if (f->has_bias)
        lanes = _mm256_fmadd_ps(_mm256_mul_ps(w->m, d), _mm256_cvtepi32_ps(_mm256_madd_epi16(block_sums, _mm256_set1_epi16(1))), lanes);
    return lanes;
}

/* The group of blocks from b on, for the rows of activations at x; `count`: blocks that are there. */
ALWAYS_INLINE void add_to_tokens(const struct matmul_args *args, const struct activation_layout *layout, const struct group *group,
                                 const struct legacy_format *f, const uint8_t *x, size_t b, unsigned tokens, unsigned unpacked,
                                 unsigned count, __m256 lanes[TOKENS]) {
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++, x += args->x_row_bytes) {
        const float *scales = (const float *)(const void *)(x + layout->scales_offset_bytes) + b;
        const int16_t *sums = (const int16_t *)(const void *)(x + layout->sums_offset_bytes) + 2 * b;
        lanes[t] = add_group(lanes[t], group, f, (const int8_t *)x + 32 * b, scales, sums, unpacked, count);
    }
}

/* The first `count` of x, and zeros. */
ALWAYS_INLINE __m256 first_of_8(__m256 x, size_t count) {
    __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), place)));
}

/* The blocks of a row from b on, `unpacked` at most. */
ALWAYS_INLINE void end_row(const struct matmul_args *args, const struct activation_layout *layout, unpack_fn *unpack,
                           const struct legacy_format *f, const uint8_t *blocks, const uint8_t *x, size_t b, unsigned tokens,
                           unsigned unpacked, __m256 lanes[TOKENS]) {
    const struct matrix *w = args->w;
    const uint8_t *end = w->data + w->rows * w->row_bytes, *tail = blocks + b * f->block_bytes;
    uint8_t padded[8 * 34];
    size_t count = w->cols / 32 - b;
    struct group group;
    if ((size_t)(end - tail) < unpacked * f->block_bytes)
        tail = memcpy(padded, tail, count * f->block_bytes);
    unpack(tail, unpacked, &group);
    group.d = first_of_8(group.d, count);
    if (f->has_bias)
        group.m = first_of_8(group.m, count);
    add_to_tokens(args, layout, &group, f, x, b, tokens, unpacked, (unsigned)count, lanes);
}

ALWAYS_INLINE void walk_row(const struct matmul_args *args, const struct activation_layout *layout, unpack_fn *unpack,
                            const struct legacy_format *f, size_t row, size_t token, unsigned tokens) {
    const struct matrix *w = args->w;
    const uint8_t *blocks = w->data + row * w->row_bytes, *x = args->x + token * args->x_row_bytes;
    size_t count = w->cols / 32, b = 0;
    __m256 lanes[TOKENS];
    struct group group;
    for (unsigned t = 0; t < tokens; t++)
        lanes[t] = _mm256_setzero_ps();
    for (; count - b >= 8; b += 8) {
        fetch_ahead(blocks + b * f->block_bytes, 8 * f->block_bytes, w->data + args->row_end * w->row_bytes);
        unpack(blocks + b * f->block_bytes, 8, &group);
        add_to_tokens(args, layout, &group, f, x, b, tokens, 8, 8, lanes);
    }
    if (count - b > 4)
        end_row(args, layout, unpack, f, blocks, x, b, tokens, 8, lanes);
    else if (count > b)
        end_row(args, layout, unpack, f, blocks, x, b, tokens, 4, lanes);
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

#define PRODUCT(name, offset, has_bias, is_signed)                                                                          \
    void avx2_matmul_##name(const struct matmul_args *args) {                                                               \
        walk_matrix(args, unpack_##name, (struct legacy_format){sizeof(struct block_##name), offset, has_bias, is_signed}); \
    }
PRODUCT(q4_0, 8, false, false)
PRODUCT(q4_1, 0, true, false)
PRODUCT(q5_0, 16, false, false)
PRODUCT(q5_1, 0, true, false)
PRODUCT(q8_0, 0, false, true)
PRODUCT(iq4_nl, 0, false, true)
PRODUCT(mxfp4, 16, false, false)
