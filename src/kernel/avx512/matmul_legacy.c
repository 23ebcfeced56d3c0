/*
 * matmul_legacy: products of the formats of 32-element blocks with one scale each, with AVX-512: Q4_0 .. Q8_0, IQ4_NL, MXFP4.
 *
 * Rows go in pairs, one vector of lanes for both, eight blocks of each (one per lane of its result) at a time. Codes are unsigned bytes,
 * `offset` above their values, and the sums of activations that quantize left in the row take the offset away again. Four blocks of 4 or 5
 * bits fill two vectors: the first halves of all, then the second halves, 128 bits for each block, so that little is left to be summed
 * across; activations are put into that order once for all rows at hand. The blocks at the end of a row that are no full eight are taken
 * (four, if these are enough) with those that begin the next row, or at the end of all rows from a padded buffer; scales of 0 keep the
 * other lanes as they are.
 */
#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/simd.h"

#define PAIRS 2  /* of rows that go together for a single token */
#define TOKENS 4 /* that go together for one pair */
#define LANES (PAIRS + TOKENS - 1)

struct group {        /* eight blocks of one row, or only the first four of them */
    __m512i codes[4]; /* first halves of blocks 0 .. 3, second halves, the same of 4 .. 7; of whole blocks: 0 and 1, 2 and 3 .. */
    __m256i scales;   /* 16 bits by block: d, then m; e8m0: in the lower byte, of odd blocks in the upper one */
};
/* count: 4 or 8 blocks, known when compiling; scales of those that are left out are 0. */
typedef void unpack_fn(const uint8_t *blocks, unsigned count, struct group *out);

struct legacy_format {
    size_t block_bytes;
    int offset;
    bool has_bias, whole_blocks, e8m0;
};

/* Where the 16 bits that are `at` bytes into block i lie in the first and the last 64 bytes of four blocks. */
#define PLACE(i, at) (short)(((i)*block_bytes + (at)) / 2 + ((i)*block_bytes + (at) < 64 ? 0 : 64 - 2 * block_bytes))
#define PLACES_OF_4(at) PLACE(3, at), PLACE(2, at), PLACE(1, at), PLACE(0, at) /* as set_epi16 has them, last first */
#define PLACES_OF_CODES(i)                                                                                                           \
    PLACE(i, at + 14), PLACE(i, at + 12), PLACE(i, at + 10), PLACE(i, at + 8), PLACE(i, at + 6), PLACE(i, at + 4), PLACE(i, at + 2), \
        PLACE(i, at)

ALWAYS_INLINE __m512i last_64(const uint8_t *blocks, size_t block_bytes) { return load_512(blocks + 4 * block_bytes - 64); }

ALWAYS_INLINE void split_nibbles(__m512i bytes, __m512i codes[2]) {
    codes[0] = _mm512_and_si512(bytes, _mm512_set1_epi8(15));
    codes[1] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(15));
}
/* Four blocks' 16 bytes of codes, the last of each, as nibbles. */
ALWAYS_INLINE void nibbles_of_4(const uint8_t *blocks, size_t block_bytes, __m512i codes[2]) {
    const size_t at = block_bytes - 16;
    __m512i places = _mm512_set_epi16(PLACES_OF_CODES(3), PLACES_OF_CODES(2), PLACES_OF_CODES(1), PLACES_OF_CODES(0));
    split_nibbles(_mm512_permutex2var_epi16(load_512(blocks), places, last_64(blocks, block_bytes)), codes);
}

/* The f16 at 0 and 2 of `count` blocks of at most 20 bytes. */
ALWAYS_INLINE __m256i scales_of(const uint8_t *blocks, size_t block_bytes, unsigned count) {
#define HALF(i, at) (short)((i) / 4 * 32 + (i) % 4 * block_bytes / 2 + (at)) /* in the first 64 bytes of blocks 0 .. 3 and 4 .. 7 */
#define HALVES(at) HALF(0, at), HALF(1, at), HALF(2, at), HALF(3, at), HALF(4, at), HALF(5, at), HALF(6, at), HALF(7, at)
    __m512i places = _mm512_castsi256_si512(_mm256_setr_epi16(HALVES(0), HALVES(1)));
    __m512i last = count == 8 ? load_512(blocks + 4 * block_bytes) : _mm512_setzero_si512();
    return _mm512_castsi512_si256(_mm512_permutex2var_epi16(load_512(blocks), places, last));
#undef HALVES
#undef HALF
}

ALWAYS_INLINE void unpack_nibbles(const uint8_t *blocks, size_t block_bytes, unsigned count, struct group *out) {
    out->scales = scales_of(blocks, block_bytes, count);
    for (unsigned k = 0; k < count / 4; k++)
        nibbles_of_4(blocks + 4 * k * block_bytes, block_bytes, out->codes + 2 * k);
}
ALWAYS_INLINE void unpack_q4_0(const uint8_t *blocks, unsigned count, struct group *out) {
    unpack_nibbles(blocks, sizeof(struct block_q4_0), count, out);
}
ALWAYS_INLINE void unpack_q4_1(const uint8_t *blocks, unsigned count, struct group *out) {
    unpack_nibbles(blocks, sizeof(struct block_q4_1), count, out);
}

/* d at 0, m at 2 if there is one, fifth bits, 32 in the order of elements, at `bits`, then nibbles. */
ALWAYS_INLINE void unpack_fives(const uint8_t *blocks, size_t block_bytes, size_t bits, unsigned count, struct group *out) {
    __m256i four[2]; /* of four blocks: d, lower fifth bits, upper ones, m */
    __m512i places = _mm512_castsi256_si512(_mm256_set_epi16(PLACES_OF_4(2), PLACES_OF_4(bits + 2), PLACES_OF_4(bits), PLACES_OF_4(0)));
    for (unsigned k = 0; k < count / 4; k++) {
        const uint8_t *at = blocks + 4 * k * block_bytes;
        four[k] = _mm512_castsi512_si256(_mm512_permutex2var_epi16(load_512(at), places, last_64(at, block_bytes)));
        nibbles_of_4(at, block_bytes, out->codes + 2 * k);
        for (unsigned half = 0; half < 2; half++)
            out->codes[2 * k + half] = _mm512_mask_add_epi8(out->codes[2 * k + half], quarter(four[k], half ? 2 : 1),
                                                            out->codes[2 * k + half], _mm512_set1_epi8(16));
    }
    if (count == 4)
        four[1] = _mm256_setzero_si256();
    out->scales = _mm256_blend_epi32(_mm256_unpacklo_epi64(four[0], four[1]), _mm256_unpackhi_epi64(four[0], four[1]), 0xf0);
}
ALWAYS_INLINE void unpack_q5_0(const uint8_t *blocks, unsigned count, struct group *out) {
    unpack_fives(blocks, sizeof(struct block_q5_0), offsetof(struct block_q5_0, qh), count, out);
}
ALWAYS_INLINE void unpack_q5_1(const uint8_t *blocks, unsigned count, struct group *out) {
    unpack_fives(blocks, sizeof(struct block_q5_1), offsetof(struct block_q5_1, qh), count, out);
}

ALWAYS_INLINE void unpack_q8_0(const uint8_t *blocks, unsigned count, struct group *out) {
    const size_t bytes = sizeof(struct block_q8_0);
    const uint8_t *codes = blocks + offsetof(struct block_q8_0, qs);
    __m128i d = _mm_setzero_si128();
#define INSERT(i) d = (i) < count ? _mm_insert_epi16(d, load_u16(blocks + (i)*bytes), i) : d
    INSERT(0), INSERT(1), INSERT(2), INSERT(3), INSERT(4), INSERT(5), INSERT(6), INSERT(7);
#undef INSERT
    out->scales = _mm256_castsi128_si256(d);
    for (unsigned k = 0; k < count / 2; k++)
        out->codes[k] = _mm512_xor_si512(join_256(load_256(codes + 2 * k * bytes), load_256(codes + (2 * k + 1) * bytes)),
                                         _mm512_set1_epi8(-128)); /* 128 more, unsigned */
}

/* Values from a table of 16, moved up by `offset`. */
ALWAYS_INLINE void look_up(const int8_t *table, int offset, unsigned count, __m512i codes[4]) {
    __m512i values = _mm512_broadcast_i32x4(_mm_add_epi8(load_128(table), _mm_set1_epi8((char)offset)));
    for (unsigned k = 0; k < count / 2; k++)
        codes[k] = _mm512_shuffle_epi8(values, codes[k]);
}
ALWAYS_INLINE void unpack_iq4_nl(const uint8_t *blocks, unsigned count, struct group *out) {
    unpack_nibbles(blocks, sizeof(struct block_iq4_nl), count, out);
    look_up(iq4_values, 128, count, out->codes);
}

/* Blocks of 17 bytes: codes of blocks 0 and 2 are at even places behind the first byte, those of blocks 1 and 3 from an even one on. */
ALWAYS_INLINE void unpack_mxfp4(const uint8_t *blocks, unsigned count, struct group *out) {
#define RUN(at) (at) + 7, (at) + 6, (at) + 5, (at) + 4, (at) + 3, (at) + 2, (at) + 1, (at)
    const size_t bytes = sizeof(struct block_mxfp4);
    __m512i places = _mm512_set_epi16(RUN(32 + 24), RUN(17), RUN(32 + 7), RUN(0));
    for (unsigned k = 0; k < count / 4; k++) {
        const uint8_t *at = blocks + 4 * k * bytes;
        split_nibbles(_mm512_permutex2var_epi16(load_512(at + 1), places, load_512(at + 4)), out->codes + 2 * k);
    }
#undef RUN
    look_up(fp4_doubled_values, 16, count, out->codes);
    /* the 16 bits that hold a scale: it is the lower byte of every other one */
    __m512i halves = _mm512_castsi256_si512(_mm256_setr_epi16(0, 8, 17, 25, 32, 40, 49, 57, 0, 0, 0, 0, 0, 0, 0, 0));
    __m512i last = count == 8 ? load_512(blocks + 4 * bytes) : _mm512_setzero_si512();
    out->scales = _mm512_castsi512_si256(_mm512_permutex2var_epi16(load_512(blocks), halves, last));
}

/* ---- one pair of rows ---- */

/* Scales as unpack_mxfp4 leaves them: 2^(e - 128), half of the e8m0 value, subnormal for 0 and 1, NaN for 255. */
ALWAYS_INLINE __m512 half_e8m0(__m256i halves) {
    __m256i bytes = _mm256_and_si256(_mm256_srlv_epi16(halves, _mm256_set1_epi32(8 << 16)), _mm256_set1_epi16(255));
    __m512i e = _mm512_cvtepu16_epi32(bytes);
    __m512i bits = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    bits = _mm512_mask_sllv_epi32(bits, _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2)), _mm512_set1_epi32(0x00200000), e);
    return _mm512_castsi512_ps(
        _mm512_mask_mov_epi32(bits, _mm512_cmpeq_epi32_mask(e, _mm512_set1_epi32(255)), _mm512_set1_epi32(0x7fc00000)));
}

struct pair { /* eight blocks of two rows: codes, and scales with those of the first row first */
    struct group row[2];
    __m512 d, m;
};

/* `rows`: where the blocks of both are; `lanes`: those of blocks that are there. */
ALWAYS_INLINE void unpack_pair(const uint8_t *const rows[2], unpack_fn *unpack, const struct legacy_format *f, unsigned count,
                               __mmask16 lanes, struct pair *out) {
    unpack(rows[0], count, &out->row[0]);
    unpack(rows[1], count, &out->row[1]);
    __m256i first = out->row[0].scales, second = out->row[1].scales, d = _mm256_permute2x128_si256(first, second, 0x20);
    if (f->e8m0)
        out->d = half_e8m0(d);
    else
        out->d = _mm512_cvtph_ps(d);
    out->d = lanes == 0xffff ? out->d : _mm512_maskz_mov_ps(lanes, out->d);
    if (!f->has_bias)
        return;
    out->m = _mm512_cvtph_ps(_mm256_permute2x128_si256(first, second, 0x31));
    out->m = lanes == 0xffff ? out->m : _mm512_maskz_mov_ps(lanes, out->m);
}

ALWAYS_INLINE __m512i dot(__m512i sum, __m512i codes, __m512i q) { return _mm512_dpbusd_epi32(sum, codes, q); }

/* Sums of products by block: those of the first row, then those of the second. */
ALWAYS_INLINE __m512i sums_of_pair(const struct group row[2], const __m512i q[4], bool whole_blocks, unsigned unpacked) {
    const __m512i zero = _mm512_setzero_si512();
    if (whole_blocks) {
        __m512i t[2];
        for (unsigned r = 0; r < 2; r++) {
            __m512i a = interleave_add_32_wide(dot(zero, row[r].codes[0], q[0]), dot(zero, row[r].codes[1], q[1]));
            __m512i b = unpacked == 4 ? zero : interleave_add_32_wide(dot(zero, row[r].codes[2], q[2]), dot(zero, row[r].codes[3], q[3]));
            t[r] = interleave_add_64_wide(a, b);
        }
        __m512i sums = _mm512_add_epi32(_mm512_shuffle_i32x4(t[0], t[1], 0x88), _mm512_shuffle_i32x4(t[0], t[1], 0xdd));
        return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), sums);
    }
    __m512i low = interleave_add_32_wide(dot(dot(zero, row[0].codes[0], q[0]), row[0].codes[1], q[1]),
                                         dot(dot(zero, row[1].codes[0], q[0]), row[1].codes[1], q[1]));
    __m512i high = unpacked == 4 ? zero
                                 : interleave_add_32_wide(dot(dot(zero, row[0].codes[2], q[2]), row[0].codes[3], q[3]),
                                                          dot(dot(zero, row[1].codes[2], q[2]), row[1].codes[3], q[3]));
    /* 128 bits for each of four blocks: first row, second row, the same of the four blocks after these */
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15),
                                    interleave_add_64_wide(low, high));
}

/* Activations of eight blocks of one token, for both rows of a pair. */
struct activations {
    __m512i q[4], correction; /* in the order of codes; what takes `offset` away */
    __m512 scales, sums;
};

/* `count`: blocks that are there; whole vectors of q without such a block are 0. */
ALWAYS_INLINE void load_activations(const uint8_t *x, const struct activation_layout *layout, const struct legacy_format *f, size_t b,
                                    unsigned count, struct activations *out) {
    const int8_t *q = (const int8_t *)x + 32 * b;
    __m256i sums = load_256(x + layout->sums_offset_bytes + 4 * b); /* of 16 each */
    out->scales = _mm512_broadcast_f32x8(_mm256_loadu_ps((const float *)(const void *)(x + layout->scales_offset_bytes) + b));
    out->correction = _mm512_broadcast_i64x4(_mm256_madd_epi16(sums, _mm256_set1_epi16((short)-f->offset)));
    out->sums = _mm512_broadcast_f32x8(_mm256_cvtepi32_ps(_mm256_madd_epi16(sums, _mm256_set1_epi16(1))));
    for (unsigned k = 0; k < 4; k++)
        out->q[k] = 2 * k < count ? load_512(q + 64 * k) : _mm512_setzero_si512();
    for (unsigned k = 0; k < 4 && !f->whole_blocks; k += 2) {
        __m512i first = _mm512_shuffle_i64x2(out->q[k], out->q[k + 1], 0x88);
        out->q[k + 1] = _mm512_shuffle_i64x2(out->q[k], out->q[k + 1], 0xdd);
        out->q[k] = first;
    }
}

/* The lanes with the terms of eight blocks. */
ALWAYS_INLINE __m512 add_terms(__m512 lanes, const struct pair *w, const struct activations *x, const struct legacy_format *f,
                               unsigned unpacked) {
    __m512i sums = sums_of_pair(w->row, x->q, f->whole_blocks, unpacked);
    if (f->offset)
        sums = _mm512_add_epi32(sums, x->correction);
    lanes = _mm512_fmadd_ps(_mm512_mul_ps(w->d, x->scales), _mm512_cvtepi32_ps(sums), lanes);
    return f->has_bias ? _mm512_fmadd_ps(_mm512_mul_ps(w->m, x->scales), x->sums, lanes) : lanes;
}

struct walk { /* rows that go together, for some tokens: several of either, not of both */
    const struct matmul_args *args;
    struct activation_layout layout;
    unpack_fn *unpack;
    const struct legacy_format *f;
    const uint8_t *row[2 * PAIRS], *x; /* first blocks of rows; first token */
    unsigned pairs, tokens;
};

/* Adds what the blocks from b on give, of which `count` are there and so many, or more, are unpacked. */
ALWAYS_INLINE void add_blocks(const struct walk *walk, size_t b, unsigned unpacked, unsigned count, __m512 lanes[LANES]) {
    const struct matrix *w = walk->args->w;
    const uint8_t *end = w->data + w->rows * w->row_bytes, *fetched = w->data + walk->args->row_end * w->row_bytes;
    const size_t bytes = unpacked * walk->f->block_bytes;
    const __mmask16 there = (__mmask16)(((1u << count) - 1) * 0x101);
    uint8_t padded[2][8 * sizeof(struct block_q8_0)];
    struct activations x;
    if (walk->tokens == 1)
        load_activations(walk->x, &walk->layout, walk->f, b, count, &x);
#pragma GCC unroll 4
    for (unsigned p = 0; p < walk->pairs; p++) {
        const uint8_t *blocks[2];
        struct pair pair;
        for (unsigned r = 0; r < 2; r++) {
            blocks[r] = walk->row[2 * p + r] + b * walk->f->block_bytes;
            fetch_ahead(blocks[r], bytes, fetched);
            if (count < unpacked && (size_t)(end - blocks[r]) < bytes)
                blocks[r] = memcpy(padded[r], blocks[r], count * walk->f->block_bytes);
        }
        unpack_pair(blocks, walk->unpack, walk->f, unpacked, there, &pair);
#pragma GCC unroll 4
        for (unsigned t = 0; t < walk->tokens; t++) {
            if (walk->tokens > 1)
                load_activations(walk->x + t * walk->args->x_row_bytes, &walk->layout, walk->f, b, count, &x);
            lanes[p + t] = add_terms(lanes[p + t], &pair, &x, walk->f, unpacked);
        }
    }
}

/* The 8-lane tree of both halves: j + (j + 4), + 2, + 1. */
ALWAYS_INLINE void trees(__m512 lanes, float *first, float *second) {
    __m512 b = _mm512_add_ps(lanes, _mm512_shuffle_f32x4(lanes, lanes, 0xb1));
    b = _mm512_add_ps(b, _mm512_permute_ps(b, 0x4e));
    b = _mm512_add_ps(b, _mm512_permute_ps(b, 0xb1));
    *first = _mm512_cvtss_f32(b);
    *second = _mm_cvtss_f32(_mm512_extractf32x4_ps(b, 2));
}

/*
 * Row `row` and others behind it, each `apart` from the one before, for `tokens` from `token` on. `pairs`: known when compiling; the last
 * one may be a single row, which stands for both.
 */
ALWAYS_INLINE void walk_rows(const struct matmul_args *args, unpack_fn *unpack, const struct legacy_format *f, size_t row, unsigned rows,
                             size_t apart, unsigned pairs, size_t token, unsigned tokens) {
    const struct matrix *w = args->w;
    struct walk walk = {args, activation_layout(32, w->cols), unpack, f, {NULL}, args->x + token * args->x_row_bytes, pairs, tokens};
    size_t count = w->cols / 32, b = 0;
    __m512 lanes[LANES];
    for (unsigned r = 0; r < 2 * pairs; r++)
        walk.row[r] = w->data + (row + (r < rows ? r : rows - 1) * apart) * w->row_bytes;
    for (unsigned i = 0; i < LANES; i++)
        lanes[i] = _mm512_setzero_ps();
    for (; count - b >= 8; b += 8)
        add_blocks(&walk, b, 8, 8, lanes);
    if (count - b > 4)
        add_blocks(&walk, b, 8, (unsigned)(count - b), lanes);
    else if (count > b)
        add_blocks(&walk, b, 4, (unsigned)(count - b), lanes);
    for (unsigned t = 0; t < tokens; t++)
        for (unsigned p = 0; p < pairs; p++) {
            float both[2], *y = args->y + (token + t) * args->y_stride + row + 2 * p * apart;
            trees(lanes[p + t], &both[0], &both[1]);
            for (unsigned r = 0; r < 2 && 2 * p + r < rows; r++)
                y[r * apart] = both[r] * w->tensor_scale;
        }
}

/* Rows that go together are a part of all rows apart: memory is read at several places at once, for which the processor fetches more. */
ALWAYS_INLINE void walk_one_token(const struct matmul_args *args, unpack_fn *unpack, const struct legacy_format *f) {
    const size_t apart = (args->row_end - args->row_begin) / (2 * PAIRS);
    size_t row = args->row_begin;
    for (; row < args->row_begin + apart; row++)
        walk_rows(args, unpack, f, row, 2 * PAIRS, apart, PAIRS, 0, 1);
    for (row += (2 * PAIRS - 1) * apart; row < args->row_end; row++)
        walk_rows(args, unpack, f, row, 1, 0, 1, 0, 1);
}

ALWAYS_INLINE void walk_matrix(const struct matmul_args *args, unpack_fn *unpack, const struct legacy_format f) {
    const size_t count = args->row_end - args->row_begin, apart = count / 2;
    if (args->tokens == 1) {
        walk_one_token(args, unpack, &f);
        return;
    }
    for (size_t i = 0; i < count - apart; i++) {
        size_t row = args->row_begin + (i < apart ? i : 2 * apart);
        unsigned rows = i < apart ? 2 : 1;
        size_t token = 0;
        for (; args->tokens - token >= TOKENS; token += TOKENS)
            walk_rows(args, unpack, &f, row, rows, apart, 1, token, TOKENS);
        if (args->tokens - token >= 2) {
            walk_rows(args, unpack, &f, row, rows, apart, 1, token, 2);
            token += 2;
        }
        if (token < args->tokens)
            walk_rows(args, unpack, &f, row, rows, apart, 1, token, 1);
    }
}

#define PRODUCT(name, offset, has_bias, whole_blocks, e8m0)                                                                          \
    void avx512_matmul_##name(const struct matmul_args *args) {                                                                      \
        walk_matrix(args, unpack_##name, (struct legacy_format){sizeof(struct block_##name), offset, has_bias, whole_blocks, e8m0}); \
    }
PRODUCT(q4_0, 8, false, false, false)
PRODUCT(q4_1, 0, true, false, false)
PRODUCT(q5_0, 16, false, false, false)
PRODUCT(q5_1, 0, true, false, false)
PRODUCT(q8_0, 128, false, true, false)
PRODUCT(iq4_nl, 128, false, false, false)
PRODUCT(mxfp4, 16, false, false, true)
