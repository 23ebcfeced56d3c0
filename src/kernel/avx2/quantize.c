/*
 * quantize: a row of activations to int8 with one scale per block.
 */
#include <math.h>

#include "dtype/scalar_convert.h"
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/wide.h"

ALWAYS_INLINE __m256i rounded(__m256 x, __m256 inverse) { return _mm256_cvtps_epi32(_mm256_mul_ps(x, inverse)); }

/* |x * (127 / amax)| is at most 127 (1 + 2^-22), so that rounding needs no clamp. Returns the scale. */
ALWAYS_INLINE float quantize_block(const float *x, size_t count, int8_t *q, int16_t *sums) {
    __m256i largest = _mm256_setzero_si256();
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    for (size_t i = 0; i < count; i += 16) {
        wide v = wide_load_first(x + i, count - i >= 16 ? 16 : (unsigned)(count - i));
        largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(v.low), magnitude));
        largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(v.high), magnitude));
    }
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    float amax = f32_from_bits((uint32_t)_mm_cvtsi128_si32(m));
    if (!(amax >= 0x1p-100f && amax < INFINITY)) /* q and sums are zero already */
        return amax < 0x1p-100f ? 0.0f : NAN;
    __m256 inverse = _mm256_set1_ps(127.0f / amax);
    for (size_t i = 0; i < count; i += 16) {
        unsigned n = count - i >= 16 ? 16 : (unsigned)(count - i);
        wide v = wide_load_first(x + i, n);
        __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(rounded(v.low, inverse), rounded(v.high, inverse)), 0xd8);
        __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        int8_t whole[16];
        _mm_storeu_si128((__m128i *)whole, bytes);
        memcpy(q + i, whole, n);
        __m128i shifted = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128()); /* sums of q + 128 */
        sums[i / 16] = (int16_t)(_mm_extract_epi16(shifted, 0) + _mm_extract_epi16(shifted, 4) - 16 * 128);
    }
    return amax / 127.0f;
}

void avx2_quantize(const float *x, size_t cols, unsigned block, uint8_t *row) {
    struct activation_layout layout = activation_layout(block, cols);
    memset(row, 0, layout.row_bytes);
    float *scales = (float *)(void *)(row + layout.scales_offset_bytes);
    int16_t *sums = (int16_t *)(void *)(row + layout.sums_offset_bytes);
    for (size_t begin = 0; begin < cols; begin += block)
        scales[begin / block] =
            quantize_block(x + begin, cols - begin < block ? cols - begin : block, (int8_t *)row + begin, sums + begin / 16);
}
