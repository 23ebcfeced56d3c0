/*
 * matmul_split: products of formats with scales in tensors of their own, and of NVFP4, with AVX-512; see kernel/avx2/matmul_split_body.inc.
 *
 * Two rows share a vector of lanes. Their codes stay in registers while they meet all tokens.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/simd.h"

#define SPLIT_PAIR 2
#define SPLIT_VECTOR 64
#define SPLIT_LESS 0
#include "kernel/avx2/matmul_split_body.inc"

struct shape { /* known when compiling */
    enum split_layout layout;
    unsigned run;
};

/* Vectors of 64 codes that are added before they are reduced: both nibbles of 64 bytes, or the halves of a long run. */
ALWAYS_INLINE unsigned parts_of(struct shape shape) { return shape.layout == SPLIT_BYTES && shape.run < 128 ? 1 : 2; }
/* Sums of an octet before they are reduced, in vectors: 1, 2, 4 or 8. */
ALWAYS_INLINE unsigned vectors_of(struct shape shape) { return shape.run / (parts_of(shape) == 2 ? 16 : 8); }

/* Codes that end in vector k of sums, unsigned. */
ALWAYS_INLINE void unpack(const uint8_t *row, unsigned k, struct shape shape, size_t ahead, __m512i flip, __m512i codes[2]) {
    const __m512i nibble = _mm512_set1_epi8(15);
    __builtin_prefetch(row + 64 * k * (shape.layout == SPLIT_BYTES ? parts_of(shape) : 1) + ahead);
    if (shape.layout == SPLIT_BYTES) {
        const uint8_t *bytes = row + (size_t)64 * k * parts_of(shape);
        if (parts_of(shape) == 2)
            __builtin_prefetch(bytes + 64 + ahead);
        codes[0] = _mm512_xor_si512(load_512(bytes), flip);
        codes[1] = parts_of(shape) == 2 ? _mm512_xor_si512(load_512(bytes + 64), flip) : codes[0];
        return;
    }
    __m512i bytes = shape.layout == SPLIT_BLOCKS ? join_256(load_256(row + 4), load_256(row + sizeof(struct block_nvfp4) + 4))
                                                 : load_512(row + (size_t)64 * k);
    codes[0] = _mm512_and_si512(bytes, nibble);
    codes[1] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), nibble);
    if (shape.layout != SPLIT_NIBBLES) { /* doubled, 16 above */
        __m512i values = _mm512_broadcast_i32x4(_mm_add_epi8(load_128(fp4_doubled_values), _mm_set1_epi8(16)));
        codes[0] = _mm512_shuffle_epi8(values, codes[0]);
        codes[1] = _mm512_shuffle_epi8(values, codes[1]);
    }
}

ALWAYS_INLINE __m512i dot(const __m512i codes[2], const int8_t *q, unsigned parts) {
    __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes[0], load_512(q));
    return parts == 2 ? _mm512_dpbusd_epi32(sum, codes[1], load_512(q + 64)) : sum;
}

/* The quarters of a, then those of b, two and two added. */
ALWAYS_INLINE __m512i add_quarters(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/* Integer sums of an octet of two rows and all tokens, those of the first row first. What is added across goes before the next vectors. */
ALWAYS_INLINE void octet_sums(const uint8_t *const rows[2], const int8_t *const q[SPLIT_TOKENS], struct shape shape, unsigned tokens,
                              const size_t ahead[2], __m512i flip, __m512i sums[SPLIT_TOKENS]) {
    const unsigned vectors = vectors_of(shape), parts = parts_of(shape);
    __m512i v[2][2][SPLIT_TOKENS], pairs[2][2][SPLIT_TOKENS], fours[2][2][SPLIT_TOKENS];
#pragma GCC unroll 8
    for (unsigned k = 0; k < vectors; k++) {
        __m512i codes[2][2];
        unpack(rows[0], k, shape, ahead[0], flip, codes[0]);
        unpack(rows[1], k, shape, ahead[1], flip, codes[1]);
#pragma GCC unroll 4
        for (unsigned t = 0; t < tokens; t++)
#pragma GCC unroll 2
            for (unsigned r = 0; r < 2; r++) {
                v[r][k % 2][t] = dot(codes[r], q[t] + 64 * parts * k, parts);
                if (k % 2 == 1)
                    pairs[r][k / 2 % 2][t] = interleave_add_32_wide(v[r][0][t], v[r][1][t]);
                if (k % 4 == 3)
                    fours[r][k / 4][t] = interleave_add_64_wide(pairs[r][0][t], pairs[r][1][t]);
            }
    }
#pragma GCC unroll 4
    for (unsigned t = 0; t < tokens; t++)
        if (vectors == 1) {
            __m512 a = _mm512_castsi512_ps(v[0][0][t]), b = _mm512_castsi512_ps(v[1][0][t]);
            __m512i even = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)), odd = _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd));
            const __m512i order = _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
            sums[t] = _mm512_permutexvar_epi32(order, _mm512_add_epi32(even, odd));
        } else if (vectors == 2) {
            const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            sums[t] = _mm512_permutexvar_epi32(order, interleave_add_64_wide(pairs[0][0][t], pairs[1][0][t]));
        } else if (vectors == 4) { /* runs 0 2 4 6, 1 3 5 7 of each row */
            const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
            sums[t] = _mm512_permutexvar_epi32(order, add_quarters(fours[0][0][t], fours[1][0][t]));
        } else {
            sums[t] = add_quarters(add_quarters(fours[0][0][t], fours[0][1][t]), add_quarters(fours[1][0][t], fours[1][1][t]));
        }
}

ALWAYS_INLINE __m512 twice(const float *x) { return _mm512_broadcast_f32x8(_mm256_loadu_ps(x)); }

ALWAYS_INLINE void add_octets(const struct split_strip *s, struct shape shape, unsigned tokens) {
    const size_t bytes =
        shape.layout == SPLIT_BLOCKS ? 2 * sizeof(struct block_nvfp4) : (size_t)shape.run * (shape.layout == SPLIT_BYTES ? 8 : 4);
    const __m512i flip = _mm512_set1_epi8((char)s->flip);
    __m512 lanes[SPLIT_ROWS / 2][SPLIT_TOKENS];
    for (unsigned p = 0; p < SPLIT_ROWS / 2; p++)
        for (unsigned t = 0; t < tokens; t++)
            lanes[p][t] = _mm512_loadu_ps(s->lanes + 16 * (p * tokens + t));
    for (size_t o = 0; o < s->octets; o++) {
        const int8_t *q[SPLIT_TOKENS];
        for (unsigned t = 0; t < tokens; t++)
            q[t] = s->q[t] + o * 8 * shape.run;
#pragma GCC unroll 2
        for (unsigned p = 0; p < SPLIT_ROWS / 2; p++) {
            const uint8_t *rows[2] = {s->codes[2 * p] + o * bytes, s->codes[2 * p + 1] + o * bytes};
            __m512i sums[SPLIT_TOKENS], zeros = load_512(s->w[o].zeros + 16 * p);
            __m512 d = _mm512_loadu_ps(s->w[o].d + 16 * p);
            const size_t ahead[2] = {bytes_ahead(rows[0], s->fetched), bytes_ahead(rows[1], s->fetched)};
            octet_sums(rows, q, shape, tokens, ahead, flip, sums);
#pragma GCC unroll 4
            for (unsigned t = 0; t < tokens; t++) {
                const struct octet_activations *x = &s->x[o][t];
                __m512i sum = _mm512_dpwssd_epi32(sums[t], zeros, load_twice_256(x->less));
                lanes[p][t] = _mm512_fmadd_ps(_mm512_mul_ps(d, twice(x->scale)), _mm512_cvtepi32_ps(sum), lanes[p][t]);
                if (s->has_bias)
                    lanes[p][t] =
                        _mm512_fmadd_ps(_mm512_mul_ps(_mm512_loadu_ps(s->w[o].m + 16 * p), twice(x->scale)), twice(x->sum), lanes[p][t]);
            }
        }
    }
    for (unsigned p = 0; p < SPLIT_ROWS / 2; p++)
        for (unsigned t = 0; t < tokens; t++)
            _mm512_storeu_ps(s->lanes + 16 * (p * tokens + t), lanes[p][t]);
}

SPLIT_KERNELS
SPLIT_PRODUCTS(avx512)
