/*
 * quantize: a row of activations to int8 with one scale per block.
 */
#include <math.h>

#include "dtype/scalar_convert.h"
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/simd.h"

/* |x * (127 / amax)| is at most 127 (1 + 2^-22), so that rounding needs no clamp. Returns the scale. */
ALWAYS_INLINE float quantize_block(const float *x, size_t count, int8_t *q, int16_t *sums) {
    __m512i largest = _mm512_setzero_si512();
    for (size_t i = 0; i < count; i += 16) {
        __mmask16 mask = count - i >= 16 ? (__mmask16)0xffff : first_lanes(count - i);
        largest = _mm512_max_epi32(largest, _mm512_and_si512(_mm512_maskz_loadu_epi32(mask, x + i), _mm512_set1_epi32(0x7fffffff)));
    }
    float amax = f32_from_bits((uint32_t)_mm512_reduce_max_epi32(largest));
    if (!(amax >= 0x1p-100f && amax < INFINITY)) /* q and sums are zero already */
        return amax < 0x1p-100f ? 0.0f : NAN;
    __m512 inverse = _mm512_set1_ps(127.0f / amax);
    for (size_t i = 0; i < count; i += 16) {
        __mmask16 mask = count - i >= 16 ? (__mmask16)0xffff : first_lanes(count - i);
        __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), inverse)));
        _mm_mask_storeu_epi8(q + i, mask, bytes);
        __m128i shifted = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128()); /* sums of q + 128 */
        sums[i / 16] = (int16_t)(_mm_extract_epi16(shifted, 0) + _mm_extract_epi16(shifted, 4) - 16 * 128);
    }
    return amax / 127.0f;
}

void avx512_quantize(const float *x, size_t cols, unsigned block, uint8_t *row) {
    struct activation_layout layout = activation_layout(block, cols);
    memset(row, 0, layout.row_bytes);
    float *scales = (float *)(void *)(row + layout.scales_offset_bytes);
    int16_t *sums = (int16_t *)(void *)(row + layout.sums_offset_bytes);
    for (size_t begin = 0; begin < cols; begin += block)
        scales[begin / block] =
            quantize_block(x + begin, cols - begin < block ? cols - begin : block, (int8_t *)row + begin, sums + begin / 16);
}
