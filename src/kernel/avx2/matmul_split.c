/*
 * matmul_split: products of formats with scales in tensors of their own, and of NVFP4, with AVX2; see kernel/avx2/matmul_split_body.inc.
 *
 * Codes of 8 bits are read as signed ones, 128 less; their signs move to the activations, since a pair of products with unsigned ones
 * exceeds 16 bits.
 */
#include "kernel/avx2/avx2.h"

#define SPLIT_PAIR 1
#define SPLIT_VECTOR 32
#define SPLIT_LESS 128
#include "kernel/avx2/matmul_split_body.inc"

struct shape { /* known when compiling */
    enum split_layout layout;
    unsigned run;
};

/* Vectors of sums of an octet before they are reduced: 2, 4 or 8. */
ALWAYS_INLINE unsigned vectors_of(struct shape shape) {
    unsigned vectors = shape.run / (shape.layout == SPLIT_BYTES ? 4 : 8);
    return vectors < 8 ? vectors : 8;
}
/* Vectors of codes that end in one of sums; nibbles count once. */
ALWAYS_INLINE unsigned parts_of(struct shape shape) {
    return shape.run / (shape.layout == SPLIT_BYTES ? 32 : shape.run < 128 ? shape.run : 64);
}

ALWAYS_INLINE void unpack_nibbles(const uint8_t *row, unsigned i, struct shape shape, __m256i codes[2]) {
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i bytes = load_256(row + (shape.layout == SPLIT_BLOCKS ? i * sizeof(struct block_nvfp4) + 4 : (size_t)32 * i));
    codes[0] = _mm256_and_si256(bytes, nibble);
    codes[1] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);
    if (shape.layout != SPLIT_NIBBLES) { /* doubled, 16 above */
        __m256i values = _mm256_broadcastsi128_si256(_mm_add_epi8(load_128(fp4_doubled_values), _mm_set1_epi8(16)));
        codes[0] = _mm256_shuffle_epi8(values, codes[0]);
        codes[1] = _mm256_shuffle_epi8(values, codes[1]);
    }
}

/* Sums have 16 bits until they are added across; for two vectors of codes that costs more than it gains. */
ALWAYS_INLINE bool has_words(struct shape shape) { return shape.layout != SPLIT_BYTES && shape.run < 128; }

/* The codes that end in vector k of sums, for all tokens: eight sums each, or sixteen in 16 bits, up to 2^14. */
ALWAYS_INLINE void vector_sums(const uint8_t *row, unsigned k, const int8_t *const q[SPLIT_TOKENS], struct shape shape, unsigned tokens,
                               __m256i flip, __m256i sums[SPLIT_TOKENS]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const unsigned parts = parts_of(shape);
#pragma GCC unroll 4
    for (unsigned i = k * parts; i < (k + 1) * parts; i++) {
        __m256i codes[2];
        if (shape.layout == SPLIT_BYTES) {
            codes[0] = _mm256_xor_si256(load_256(row + (size_t)32 * i), flip);
            codes[1] = _mm256_abs_epi8(codes[0]);
        } else {
            unpack_nibbles(row, i, shape, codes);
        }
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++) {
            __m256i pairs, before = i == k * parts ? _mm256_setzero_si256() : sums[t];
            if (shape.layout == SPLIT_BYTES) {
                pairs = dot_pairs(codes[1], _mm256_sign_epi8(load_256(q[t] + 32 * i), codes[0]));
                sums[t] = _mm256_add_epi32(before, _mm256_madd_epi16(pairs, ones));
            } else { /* four codes of 28 at most, or eight of 15, times 127 */
                pairs = _mm256_add_epi16(dot_pairs(codes[0], load_256(q[t] + 64 * i)), dot_pairs(codes[1], load_256(q[t] + 64 * i + 32)));
                pairs = _mm256_add_epi16(before, pairs);
                sums[t] = has_words(shape) || i == k * parts ? pairs : _mm256_madd_epi16(pairs, ones);
            }
        }
    }
}

/* Both vectors' sums by turns, half of them added to the other half, in 32 bits. */
ALWAYS_INLINE __m256i interleave_sums(__m256i a, __m256i b, struct shape shape) {
    if (!has_words(shape))
        return interleave_add_32(a, b);
    return _mm256_madd_epi16(_mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)), _mm256_set1_epi16(1));
}

/* Integer sums of an octet of a row and all tokens. What is added across goes before the next vectors: there are few registers. */
ALWAYS_INLINE void octet_sums(const uint8_t *row, const int8_t *const q[SPLIT_TOKENS], struct shape shape, unsigned tokens, __m256i flip,
                              __m256i sums[SPLIT_TOKENS]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const unsigned vectors = vectors_of(shape);
    __m256i v[2][SPLIT_TOKENS], pairs[2][SPLIT_TOKENS], fours[2][SPLIT_TOKENS];
#pragma GCC unroll 8
    for (unsigned k = 0; k < vectors; k++) {
        vector_sums(row, k, q, shape, tokens, flip, v[k % 2]);
        if (k % 2 == 0)
            continue;
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++) {
            if (vectors == 2)
                sums[t] =
                    _mm256_permute4x64_epi64(_mm256_hadd_epi32(_mm256_madd_epi16(v[0][t], ones), _mm256_madd_epi16(v[1][t], ones)), 0xd8);
            else
                pairs[k / 2 % 2][t] = interleave_sums(v[0][t], v[1][t], shape);
            if (k % 4 == 3)
                fours[k / 4][t] = interleave_add_64(pairs[0][t], pairs[1][t]);
        }
    }
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++)
        if (vectors == 8)
            sums[t] = _mm256_add_epi32(_mm256_permute2x128_si256(fours[0][t], fours[1][t], 0x20),
                                       _mm256_permute2x128_si256(fours[0][t], fours[1][t], 0x31));
        else if (vectors == 4) /* runs 0 2 4 6, 1 3 5 7 */
            sums[t] = _mm256_permutevar8x32_epi32(fours[0][t], _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

ALWAYS_INLINE void add_octets(const struct split_strip *s, struct shape shape, unsigned tokens) {
    const size_t bytes =
        shape.layout == SPLIT_BLOCKS ? 2 * sizeof(struct block_nvfp4) : (size_t)shape.run * (shape.layout == SPLIT_BYTES ? 8 : 4);
    const __m256i flip = _mm256_set1_epi8((char)s->flip);
    for (size_t o = 0; o < s->octets; o++) {
        const int8_t *q[SPLIT_TOKENS];
        for (unsigned t = 0; t < tokens; t++)
            q[t] = s->q[t] + o * 8 * shape.run;
        for (unsigned r = 0; r < SPLIT_ROWS; r++) {
            const uint8_t *row = s->codes[r] + o * bytes;
            const struct octet_scales *w = &s->w[o];
            __m256i sums[SPLIT_TOKENS];
            fetch_ahead(row, bytes, s->fetched);
            octet_sums(row, q, shape, tokens, flip, sums);
#pragma GCC unroll 4
            for (unsigned t = 0; t < tokens; t++) {
                const struct octet_activations *x = &s->x[o][t];
                float *lanes = s->lanes + SPLIT_RUNS * (r * tokens + t);
                __m256 total = _mm256_loadu_ps(lanes), scale = _mm256_loadu_ps(x->scale);
                __m256i sum = _mm256_add_epi32(sums[t], _mm256_madd_epi16(load_256(w->zeros + SPLIT_RUNS * r), load_256(x->less)));
                total = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_loadu_ps(w->d + SPLIT_RUNS * r), scale), _mm256_cvtepi32_ps(sum), total);
                if (s->has_bias)
                    total = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_loadu_ps(w->m + SPLIT_RUNS * r), scale), _mm256_loadu_ps(x->sum), total);
                _mm256_storeu_ps(lanes, total);
            }
        }
    }
}

SPLIT_KERNELS
SPLIT_PRODUCTS(avx2)
