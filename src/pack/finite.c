/* finite: exponents of all ones, found without decoding; only formats with odd scales are decoded. */
#include "pack/finite.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "dtype/block_layouts.h"
#include "dtype/scalar_convert.h"

#define BLOCK_MAX 256

/* Where the f16 scales of a block are. Formats that are not listed are decoded. */
struct scale_places {
    uint16_t at[2];
};
#define ONE(layout) \
    { offsetof(struct block_##layout, d) + 1, 0 }
#define TWO(layout, second) \
    { offsetof(struct block_##layout, d) + 1, offsetof(struct block_##layout, second) + 1 }

static const struct scale_places places[DTYPE_COUNT] = {
    /* one more than the offset; 0: none */
    [DTYPE_Q4_0] = {ONE(q4_0)},       [DTYPE_Q4_1] = {TWO(q4_1, m)},    [DTYPE_Q5_0] = {ONE(q5_0)},       [DTYPE_Q5_1] = {TWO(q5_1, m)},
    [DTYPE_Q8_0] = {ONE(q8_0)},       [DTYPE_Q8_1] = {ONE(q8_1)},       [DTYPE_Q2_K] = {TWO(q2_k, dmin)}, [DTYPE_Q3_K] = {ONE(q3_k)},
    [DTYPE_Q4_K] = {TWO(q4_k, dmin)}, [DTYPE_Q5_K] = {TWO(q5_k, dmin)}, [DTYPE_Q6_K] = {ONE(q6_k)},       [DTYPE_IQ2_XXS] = {ONE(iq2_xxs)},
    [DTYPE_IQ2_XS] = {ONE(iq2_xs)},   [DTYPE_IQ2_S] = {ONE(iq2_s)},     [DTYPE_IQ3_XXS] = {ONE(iq3_xxs)}, [DTYPE_IQ3_S] = {ONE(iq3_s)},
    [DTYPE_IQ1_S] = {ONE(iq1_s)},     [DTYPE_IQ4_NL] = {ONE(iq4_nl)},   [DTYPE_IQ4_XS] = {ONE(iq4_xs)},   [DTYPE_TQ1_0] = {ONE(tq1_0)},
    [DTYPE_TQ2_0] = {ONE(tq2_0)},     [DTYPE_Q1_0] = {ONE(q1_0)},       [DTYPE_Q2_0] = {ONE(q2_0)},
};

static bool bad_half(const uint8_t *at, uint16_t exponent) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return (value & exponent) == exponent;
}

/* 16-bit floats; runs of 1024 are first looked at as a whole. */
static size_t check_halves(const uint8_t *data, size_t count, uint16_t exponent) {
    size_t i = 0;
    for (; i + 1024 <= count; i += 1024) {
        unsigned bad = 0;
        for (size_t k = 0; k < 1024; k++) {
            uint16_t value;
            memcpy(&value, data + 2 * (i + k), sizeof value);
            bad |= (value & exponent) == exponent;
        }
        if (bad)
            break;
    }
    while (i < count && !bad_half(data + 2 * i, exponent))
        i++;
    return i;
}

static size_t check_decoded(const struct dtype_info *info, const uint8_t *data, size_t count) {
    float values[BLOCK_MAX];
    size_t step = info->block_elements > 1 ? info->block_elements : BLOCK_MAX;
    CHECK(info->block_elements <= BLOCK_MAX);
    for (size_t i = 0; i < count; i += step) {
        size_t n = count - i < step ? count - i : step;
        info->decode(data + i / info->block_elements * info->block_bytes, values, n);
        size_t bad = f32_first_not_finite(values, n);
        if (bad < n)
            return i + bad;
    }
    return count;
}

static size_t check_scales(const struct dtype_info *info, const struct scale_places *at, const uint8_t *data, size_t count) {
    for (size_t i = 0; i < count; i += info->block_elements, data += info->block_bytes)
        for (int s = 0; s < 2 && at->at[s]; s++)
            if (bad_half(data + at->at[s] - 1, 0x7c00))
                return i;
    return count;
}

size_t finite_check(enum dtype dtype, const void *data, size_t count) {
    const struct dtype_info *info = dtype_info(dtype);
    CHECK(count % info->block_elements == 0);
    if (info->dtype_class == DTYPE_CLASS_INTEGER || !info->decode || dtype == DTYPE_F8_E8M0)
        return count;
    if (dtype == DTYPE_F32)
        return check_decoded(info, data, count);
    if (dtype == DTYPE_F16 || dtype == DTYPE_BF16)
        return check_halves(data, count, dtype == DTYPE_F16 ? 0x7c00 : 0x7f80);
    return places[dtype].at[0] ? check_scales(info, &places[dtype], data, count) : check_decoded(info, data, count);
}
