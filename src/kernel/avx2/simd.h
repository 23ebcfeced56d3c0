/*
 * simd: what the AVX2 kernels share: lane trees, sums of integers across vectors, unaligned loads.
 *
 * Everything is static inline, so that no code compiled with these flags can be taken by the linker for other files.
 */
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The 8-lane tree: j + (j + 4), + 2, + 1. */
ALWAYS_INLINE float tree8(__m256 lanes) {
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* The trees of four. */
ALWAYS_INLINE __m128 trees8_of_4(__m256 a, __m256 b, __m256 c, __m256 d) {
    __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
    __m256 t = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee)); /* a a c c, b b d d */
    t = _mm256_add_ps(t, _mm256_movehdup_ps(t));
    __m128 acbd = _mm_shuffle_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1), 0x88);
    return _mm_permute_ps(acbd, 0xd8);
}

ALWAYS_INLINE __m256i interleave_add_32(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
ALWAYS_INLINE __m256i interleave_add_64(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/* Element i is the sum of the 8 numbers of v[i]. */
ALWAYS_INLINE __m256i sums_of_8(const __m256i v[8]) {
    __m256i a = interleave_add_64(interleave_add_32(v[0], v[1]), interleave_add_32(v[2], v[3]));
    __m256i b = interleave_add_64(interleave_add_32(v[4], v[5]), interleave_add_32(v[6], v[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* Sums of pairs of products of unsigned and signed bytes, 16 bits each; the caller knows that they fit. */
ALWAYS_INLINE __m256i dot_pairs(__m256i unsigned_bytes, __m256i signed_bytes) { return _mm256_maddubs_epi16(unsigned_bytes, signed_bytes); }

ALWAYS_INLINE __m256i load_256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
ALWAYS_INLINE __m128i load_128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
ALWAYS_INLINE uint16_t load_u16(const void *p) {
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return value;
}
ALWAYS_INLINE uint32_t load_u32(const void *p) {
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}
#define FETCH_BYTES 3072 /* ahead: chunks and rows are short, and the processor's own fetching begins anew with each */
/* Asks for what comes FETCH_BYTES behind these bytes, before `end`. */
ALWAYS_INLINE void fetch_ahead(const uint8_t *bytes, size_t count, const uint8_t *end) {
    if ((uintptr_t)end > (uintptr_t)bytes + FETCH_BYTES)
        for (size_t i = 0; i < count; i += 64)
            __builtin_prefetch(bytes + FETCH_BYTES + i);
}
ALWAYS_INLINE size_t bytes_ahead(const uint8_t *bytes, const uint8_t *end) {
    return (uintptr_t)end > (uintptr_t)bytes + FETCH_BYTES ? FETCH_BYTES : 0;
}
/* A byte of ones for every bit that is set. */
ALWAYS_INLINE __m256i bytes_of_bits(uint32_t bits) {
    const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i select = _mm256_set1_epi64x((long long)0x8040201008040201u);
    __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), spread);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, select), select);
}
ALWAYS_INLINE float fused_multiply_add(float a, float b, float c) {
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}

/*
 * Sixteen e4m3 codes as f16 of 2^-8 the value. They have their bits in common but for NaNs: codes that one more would give another sign,
 * and bits that all are set. So the code and the sign of one more, as signed bytes, are added and shifted: -1, a NaN, where it was one.
 */
ALWAYS_INLINE __m256i halves_of_e4m3(__m128i codes) {
    __m128i signs = _mm_and_si128(_mm_add_epi8(codes, _mm_set1_epi8(1)), _mm_set1_epi8((char)0x80));
    return _mm256_slli_epi16(_mm256_add_epi16(_mm256_cvtepi8_epi16(codes), _mm256_cvtepi8_epi16(signs)), 7);
}

/* Eight e8m0 codes as floats; 2^-127 is a subnormal. */
ALWAYS_INLINE __m256 floats_of_e8m0(__m128i codes) {
    __m256i bits = _mm256_slli_epi32(_mm256_cvtepu8_epi32(codes), 23);
    __m256i is_nan = _mm256_cmpeq_epi32(bits, _mm256_set1_epi32(0x7f800000));
    return _mm256_castsi256_ps(_mm256_or_si256(_mm256_max_epi32(bits, _mm256_set1_epi32(0x00400000)), is_nan));
}

/* Four floats. */
typedef __m128 quad;
ALWAYS_INLINE quad quad_of(float a, float b, float c, float d) { return _mm_setr_ps(a, b, c, d); }
ALWAYS_INLINE quad quad_load(const float x[4]) { return _mm_loadu_ps(x); }
ALWAYS_INLINE void quad_store(float y[4], quad x) { _mm_storeu_ps(y, x); }
ALWAYS_INLINE quad quad_mul(quad a, quad b) { return _mm_mul_ps(a, b); }
ALWAYS_INLINE quad quad_fma(quad a, quad b, quad c) { return _mm_fmadd_ps(a, b, c); }

/* The f16 at `blocks` of the first `count` of eight blocks, 4 or 8, and zeros. */
ALWAYS_INLINE __m256 load_halves_of(const uint8_t *blocks, size_t block_bytes, unsigned count) {
    __m128i h = _mm_cvtsi32_si128(load_u16(blocks));
    h = _mm_insert_epi16(h, load_u16(blocks + block_bytes), 1);
    h = _mm_insert_epi16(h, load_u16(blocks + 2 * block_bytes), 2);
    h = _mm_insert_epi16(h, load_u16(blocks + 3 * block_bytes), 3);
    if (count == 8) {
        h = _mm_insert_epi16(h, load_u16(blocks + 4 * block_bytes), 4);
        h = _mm_insert_epi16(h, load_u16(blocks + 5 * block_bytes), 5);
        h = _mm_insert_epi16(h, load_u16(blocks + 6 * block_bytes), 6);
        h = _mm_insert_epi16(h, load_u16(blocks + 7 * block_bytes), 7);
    }
    return _mm256_cvtph_ps(h);
}
