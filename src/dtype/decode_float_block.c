/*
 * decode_float_block: blocks of 4-bit floats (e2m1) with a small float as scale.
 *
 * A scale byte of 255 in mxfp4 is NaN, as the OCP specification has it, and makes the whole block NaN, so that damage is seen.
 */
#include "base/check.h"
#include "dtype/block_layouts.h"
#include "dtype/codebooks.h"
#include "dtype/decode.h"
#include "dtype/scalar_convert.h"

/* dst[i], dst[i + half] = scale * low, high nibble of codes[i]. */
static void decode_nibbles(const uint8_t *codes, unsigned half, float scale, float *dst) {
    float half_scale = scale * 0.5f; /* exact, also where it is subnormal */
    for (unsigned i = 0; i < half; i++) {
        dst[i] = half_scale * (float)fp4_doubled_values[codes[i] & 15];
        dst[i + half] = half_scale * (float)fp4_doubled_values[codes[i] >> 4];
    }
}

void decode_mxfp4(const void *src, float *dst, size_t count) {
    ASSERT(count % 32 == 0);
    const struct block_mxfp4 *block = src;
    for (size_t b = 0; b < count / 32; b++, block++, dst += 32)
        decode_nibbles(block->qs, 16, f32_from_f8_e8m0(block->e), dst);
}

void decode_nvfp4(const void *src, float *dst, size_t count) {
    ASSERT(count % 64 == 0);
    const struct block_nvfp4 *block = src;
    for (size_t b = 0; b < count / 64; b++, block++)
        for (unsigned j = 0; j < 4; j++, dst += 16)
            decode_nibbles(block->qs + 8 * j, 8, f32_from_ue4m3(block->d[j]), dst);
}
