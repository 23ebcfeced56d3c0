/* test_encode: what is written decodes to something near, nearer than what llama.cpp writes, and never to what is no number. */
#include "test_support.h"

#include <math.h>
#include <stdlib.h>

#include "dtype/encode.h"
#include "dtype/scalar_convert.h"

#define COUNT (256 * 256)

static float x[COUNT], y[COUNT];
static uint8_t coded[4 * COUNT];

/* Sums of eight numbers of a generator: nearly normal, the same everywhere. */
static void fill(int kind) {
    uint64_t state = 1;
    for (size_t i = 0; i < COUNT; i++) {
        int64_t sum = 0;
        for (int k = 0; k < 8; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (int64_t)(state >> 40);
        }
        x[i] = (float)(sum - 8 * (1 << 23)) * 0x1p-25f;
        if (kind == 1 && i % 97 == 0)
            x[i] *= 6; /* outliers */
        if (kind == 2)
            x[i] = x[i] * x[i] * x[i] + 0.1f; /* heavy tails around another middle */
    }
}

static double mean_squared_error(void) {
    double sum = 0;
    for (size_t i = 0; i < COUNT; i++)
        sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sum / COUNT;
}

static const enum dtype blocks[] = {DTYPE_Q4_0, DTYPE_Q8_0, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
#define BLOCKS (sizeof blocks / sizeof *blocks)

static void round_trip(enum dtype dtype) {
    dtype_encode(dtype, x, coded, COUNT);
    dtype_info(dtype)->decode(coded, y, COUNT);
}

/* What quantize_q4_0, .. of ggml (in llama-cpp-python 0.3.36, without an importance matrix) leave of the same numbers. */
static void test_error_is_below_llama_cpps(void **state) {
    (void)state;
    static const double llama[3][BLOCKS] = {
        {1.166418945e-03, 4.521433007e-06, 8.220803145e-04, 2.108544568e-04, 5.079521853e-05},
        {3.317697679e-03, 1.317794996e-05, 1.599816662e-03, 4.083160503e-04, 1.232934934e-04},
        {1.583945809e-03, 5.334198105e-06, 4.704533412e-04, 1.429846429e-04, 5.021701661e-05},
    };
    for (int kind = 0; kind < 3; kind++)
        for (size_t b = 0; b < BLOCKS; b++) {
            fill(kind);
            round_trip(blocks[b]);
            if (!(mean_squared_error() < llama[kind][b]))
                fail_msg("%s, numbers of kind %d: %.4g, llama.cpp %.4g", dtype_info(blocks[b])->name, kind, mean_squared_error(),
                         llama[kind][b]);
        }
}

/* Numbers that a format can hold come back as they were, or nearly: the fit may find scales that are a rounding apart. */
static void test_what_was_decoded_is_kept(void **state) {
    (void)state;
    for (size_t b = 0; b < BLOCKS; b++) {
        fill(0);
        round_trip(blocks[b]);
        double first = mean_squared_error();
        memcpy(x, y, sizeof x);
        round_trip(blocks[b]);
        assert_true(mean_squared_error() < 0.05 * first);
    }
}

static void test_odd_numbers(void **state) {
    (void)state;
    static const float odd[] = {0, 1e-38f, -1e-38f, 1e-45f, 1, -1, 3e7f, -3e38f, 65504, 1e-20f};
    for (size_t b = 0; b < BLOCKS; b++)
        for (size_t k = 0; k < sizeof odd / sizeof *odd; k++)
            for (int mixed = 0; mixed < 2; mixed++) {
                for (size_t i = 0; i < COUNT; i++)
                    x[i] = mixed && i % 5 ? 0.25f : odd[k];
                round_trip(blocks[b]);
                for (size_t i = 0; i < COUNT; i++)
                    if (!isfinite(y[i]))
                        fail_msg("%s of %g is %g", dtype_info(blocks[b])->name, (double)odd[k], (double)y[i]);
                if (odd[k] == 0 && !mixed)
                    assert_true(y[0] == 0 && y[COUNT - 1] == 0);
            }
}

static void test_half_floats(void **state) {
    (void)state;
    fill(1);
    round_trip(DTYPE_F16);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(bits_from_f32(y[i]) == bits_from_f32(f32_from_f16(f16_from_f32(x[i]))));
    round_trip(DTYPE_BF16);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(bits_from_f32(y[i]) == bits_from_f32(f32_from_bf16(bf16_from_f32(x[i]))));
    assert_false(dtype_can_encode(DTYPE_IQ2_S));
}

/* ---- MLX ---- */

static uint8_t scales[4 * COUNT / 32], biases[4 * COUNT / 32];

static float scale_at(const uint8_t *at, enum dtype dtype, size_t index) {
    float value;
    const struct dtype_info *info = dtype_info(dtype);
    info->decode(at + index * info->block_bytes, &value, 1);
    return value;
}

/* Error of codes between the least and the largest number of a group, scale and offset unrounded. */
static double plain_error(size_t group, float high) {
    for (size_t g = 0; g < COUNT / group; g++) {
        float low = x[g * group], top = low;
        for (size_t i = 0; i < group; i++) {
            low = fminf(low, x[g * group + i]);
            top = fmaxf(top, x[g * group + i]);
        }
        float scale = (top - low) / high;
        for (size_t i = 0; i < group; i++)
            y[g * group + i] = low + scale * rintf((x[g * group + i] - low) / scale);
    }
    return mean_squared_error();
}

static void test_affine(void **state) {
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int kind = 0; kind < 3; kind++)
        for (size_t d = 0; d < 3; d++)
            for (unsigned bits = 4; bits <= 8; bits += 4)
                for (size_t group = 32; group <= 128; group *= 2) {
                    struct affine_row row = {coded, scales, biases, bits, dtypes[d], group};
                    fill(kind);
                    double plain = plain_error(group, (float)((1u << bits) - 1));
                    encode_affine(x, COUNT, &row);
                    for (size_t i = 0; i < COUNT; i++) {
                        unsigned code = bits == 8 ? (unsigned)coded[i] : (unsigned)coded[i / 2] >> (i % 2 * 4) & 15u;
                        y[i] = scale_at(scales, dtypes[d], i / group) * (float)code + scale_at(biases, dtypes[d], i / group);
                    }
                    double limit = dtypes[d] == DTYPE_BF16 && bits == 8 ? 1.6 : 1; /* 256 codes reach no further than 8 bits of a scale */
                    if (!(mean_squared_error() < limit * plain))
                        fail_msg("kind %d, %s, %u bits, group %zu: %.4g, plain %.4g", kind, dtype_info(dtypes[d])->name, bits, group,
                                 mean_squared_error(), plain);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_is_below_llama_cpps),
        cmocka_unit_test(test_what_was_decoded_is_kept),
        cmocka_unit_test(test_odd_numbers),
        cmocka_unit_test(test_half_floats),
        cmocka_unit_test(test_affine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
