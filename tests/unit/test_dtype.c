/* test_dtype: every format against reference values of a file that holds all of them, and the scalar conversions exhaustively. */
#include "model_fixture.h"

#include <math.h>
#include <sys/mman.h>

#include "dtype/block_layouts.h"
#include "dtype/dtype.h"
#include "dtype/scalar_convert.h"

/* ---- blocks: tests/data/gguf/types.gguf has a tensor per ggml type, types.expected.safetensors its values ---- */

/* Bytes that end at an unreadable page; free with munmap(base, mapped_bytes). */
struct guarded {
    uint8_t *base, *data;
    size_t mapped_bytes;
};

static struct guarded guarded_create(size_t size_bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size_bytes + page - 1) / page * page;
    struct guarded g = {.mapped_bytes = whole + page};
    g.base = mmap(NULL, g.mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(g.base, MAP_FAILED);
    assert_int_equal(mprotect(g.base + whole, page, PROT_NONE), 0);
    g.data = g.base + whole - size_bytes;
    return g;
}

static void guarded_destroy(struct guarded *g) {
    assert_int_equal(munmap(g->base, g->mapped_bytes), 0);
}

static void read_tensor(const struct opened *o, const struct tensor_entry *tensor, void *dst) {
    struct error err;
    ASSERT_OK(file_set_read(o->files, tensor->file, tensor->offset_bytes, dst, tensor->size_bytes, &err), err);
}

static void assert_same_bits(const float *got, const float *wanted, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (bits_from_f32(got[i]) != bits_from_f32(wanted[i]))
            fail_msg("%s: element %zu is %.9g (%08x), wanted %.9g (%08x)", name, i, (double)got[i], bits_from_f32(got[i]),
                     (double)wanted[i], bits_from_f32(wanted[i]));
}

/* The whole tensor, then runs of 1, 2 and 3 blocks from anywhere, each flush against a guard page, writing nothing behind. */
static void check_format(const struct dtype_info *info, const uint8_t *src, const float *wanted, size_t count) {
    struct guarded source = guarded_create(count / info->block_elements * info->block_bytes);
    struct guarded values = guarded_create(count * sizeof(float));
    size_t source_bytes = count / info->block_elements * info->block_bytes;
    memcpy(source.data, src, source_bytes);
    info->decode(source.data, (float *)(void *)values.data, count);
    assert_same_bits((const float *)(const void *)values.data, wanted, count, info->name);
    for (size_t blocks = 1; blocks <= 3; blocks++) {
        size_t elements = blocks * info->block_elements, bytes = blocks * info->block_bytes;
        for (size_t first = 0; first + blocks <= count / info->block_elements; first += 3) {
            uint8_t *flush = source.data + source_bytes - bytes;
            float *out = (float *)(void *)(values.data + (count - elements) * sizeof(float));
            memcpy(flush, src + first * info->block_bytes, bytes);
            info->decode(flush, out, elements);
            assert_same_bits(out, wanted + first * info->block_elements, elements, info->name);
        }
    }
    guarded_destroy(&source);
    guarded_destroy(&values);
}

static void d23_every_ggml_type_decodes_to_the_reference(void **state) {
    (void)state;
    struct opened types, expected;
    bool seen[DTYPE_COUNT] = {false};
    ASSERT_OK(model_open(&types, data_path("gguf/types.gguf")), types.error);
    ASSERT_OK(model_open(&expected, data_path("gguf/types.expected.safetensors")), expected.error);
    for (uint64_t i = 0; i < catalogue_tensor_count(types.catalogue); i++) {
        const struct tensor_entry *tensor = catalogue_tensor(types.catalogue, i);
        const struct tensor_entry *wanted = catalogue_find(expected.catalogue, tensor->name);
        const struct dtype_info *info = dtype_info(tensor->dtype);
        assert_non_null(wanted);
        assert_non_null(info->decode);
        assert_int_equal(tensor->rank, 3);
        assert_int_equal(wanted->dtype, DTYPE_F32);
        assert_memory_equal(tensor->shape, wanted->shape, sizeof tensor->shape);
        uint8_t *src = memory_alloc(tensor->size_bytes + 1);
        float *values = memory_alloc(wanted->size_bytes);
        assert_non_null(src);
        assert_non_null(values);
        read_tensor(&types, tensor, src + 1); /* an odd address */
        read_tensor(&expected, wanted, values);
        check_format(info, src + 1, values, wanted->size_bytes / sizeof(float));
        seen[tensor->dtype] = true;
        memory_free(src);
        memory_free(values);
    }
    for (unsigned i = 0; i < DTYPE_COUNT; i++) /* only the formats of activations are not in files */
        if (dtype_info((enum dtype)i)->gguf_id >= 0 && i != DTYPE_Q8_1 && i != DTYPE_Q8_K && !seen[i])
            fail_msg("%s was not tested", dtype_info((enum dtype)i)->name);
    model_close(&types);
    model_close(&expected);
}

static void formats_of_activations(void **state) {
    (void)state;
    struct block_q8_1 q1[2] = {{.d = f16_from_f32(0.5f)}, {.d = f16_from_f32(-2.0f)}};
    struct block_q8_k qk = {.d = 0.1f};
    float out[256];
    for (unsigned i = 0; i < 32; i++) {
        q1[0].qs[i] = (int8_t)i;
        q1[1].qs[i] = (int8_t)(-128 + (int)i);
    }
    for (unsigned i = 0; i < 256; i++)
        qk.qs[i] = (int8_t)((int)i - 128);
    dtype_info(DTYPE_Q8_1)->decode(q1, out, 64);
    for (unsigned i = 0; i < 32; i++) {
        assert_true(out[i] == 0.5f * (float)i);
        assert_true(out[32 + i] == -2.0f * (float)((int)i - 128));
    }
    dtype_info(DTYPE_Q8_K)->decode(&qk, out, 256);
    for (unsigned i = 0; i < 256; i++)
        assert_true(out[i] == 0.1f * (float)((int)i - 128));
}

static void damaged_scales_are_seen(void **state) {
    (void)state;
    struct block_q4_0 infinite = {.d = 0x7c00}, nan = {.d = 0x7e01};
    struct block_mxfp4 mx = {.e = 255};
    float out[32];
    memset(infinite.qs, 0xff, sizeof infinite.qs);
    dtype_info(DTYPE_Q4_0)->decode(&infinite, out, 32);
    assert_true(isinf(out[0]));
    dtype_info(DTYPE_Q4_0)->decode(&nan, out, 32);
    assert_true(isnan(out[31]));
    dtype_info(DTYPE_MXFP4)->decode(&mx, out, 32);
    assert_true(isnan(out[0]) && isnan(out[31]));
}

/* ---- plain numbers ---- */

static void plain_integers(void **state) {
    (void)state;
    const uint8_t bytes[2] = {0x80, 0xff}, flags[3] = {0, 1, 7};
    const uint16_t shorts[1] = {0xfffe};
    const uint32_t words[1] = {0xffffffffu};
    const uint64_t longs[2] = {UINT64_MAX, ((uint64_t)1 << 24) + 1};
    float out[3];
    dtype_info(DTYPE_U8)->decode(bytes, out, 2);
    assert_true(out[0] == 128.0f && out[1] == 255.0f);
    dtype_info(DTYPE_U16)->decode(shorts, out, 1);
    assert_true(out[0] == 65534.0f);
    dtype_info(DTYPE_U32)->decode(words, out, 1);
    assert_true(out[0] == 0x1p32f);
    dtype_info(DTYPE_U64)->decode(longs, out, 2);
    assert_true(out[0] == 0x1p64f && out[1] == 0x1p24f); /* a tie goes to even */
    dtype_info(DTYPE_BOOL)->decode(flags, out, 3);
    assert_true(out[0] == 0.0f && out[1] == 1.0f && out[2] == 1.0f);
    dtype_info(DTYPE_F32)->decode(NULL, NULL, 0);
}

/* Value of sign, exponent and fraction bits by the definition of such floats. */
static double small_value(unsigned bits, unsigned exponent_bits, unsigned fraction_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    double fraction = (double)(bits & ((1u << fraction_bits) - 1));
    double magnitude =
        exponent == 0 ? ldexp(fraction, 1 - bias - (int)fraction_bits) : ldexp(1.0 + ldexp(fraction, -(int)fraction_bits), exponent - bias);
    return bits >> (exponent_bits + fraction_bits) & 1 ? -magnitude : magnitude;
}

static void small_floats(void **state) {
    (void)state;
    static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (unsigned i = 0; i < 256; i++) {
        uint8_t code = (uint8_t)i;
        float e4m3 = f32_from_f8_e4m3(code), e5m2 = f32_from_f8_e5m2(code), e8m0 = f32_from_f8_e8m0(code), scale = f32_from_ue4m3(code);
        if ((i & 0x7f) == 0x7f)
            assert_true(isnan(e4m3) && scale == 0.0f);
        else
            assert_true((double)e4m3 == small_value(i, 4, 3) && scale == fabsf(e4m3) && !signbit(scale));
        assert_int_equal(signbit(e4m3) != 0, i >> 7);
        if ((i & 0x7c) == 0x7c)
            assert_true(i & 3 ? isnan(e5m2) : isinf(e5m2));
        else
            assert_true((double)e5m2 == small_value(i, 5, 2));
        assert_int_equal(signbit(e5m2) != 0, i >> 7);
        if (i == 255)
            assert_true(isnan(e8m0));
        else
            assert_true((double)e8m0 == ldexp(1.0, (int)i - 127));
    }
    for (unsigned i = 0; i < 16; i++) {
        float value = f32_from_fp4_e2m1((uint8_t)i);
        assert_true((double)fabsf(value) == e2m1[i & 7]);
        assert_int_equal(signbit(value) != 0, i >> 3);
    }
}

static void f16_is_exact_both_ways(void **state) {
    (void)state;
    for (unsigned i = 0; i < 65536; i++) {
        uint16_t half = (uint16_t)i;
        float value = f32_from_f16(half);
        if ((i & 0x7fff) > 0x7c00) {
            assert_true(isnan(value));
            uint16_t back = f16_from_f32(value);
            assert_true((back & 0x7fff) > 0x7c00 && (back & 0x8000) == (half & 0x8000) && (back & 0x200));
        } else {
            assert_true((i & 0x7fff) == 0x7c00 ? isinf(value) : (double)value == small_value(i, 5, 10));
            assert_int_equal(f16_from_f32(value), half);
        }
    }
}

/* Between neighbours the midpoint goes to the even one, and what is beside it to the nearer. */
static void f16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (unsigned i = 0; i < 0x7c00; i++) {
        uint16_t low = (uint16_t)i, high = (uint16_t)(i + 1);
        float above = i == 0x7bff ? 65536.0f : f32_from_f16(high); /* the next one if there were room */
        float middle = (float)(((double)f32_from_f16(low) + (double)above) / 2);
        assert_int_equal(f16_from_f32(middle), i % 2 == 0 ? low : high);
        assert_int_equal(f16_from_f32(-middle), (i % 2 == 0 ? low : high) | 0x8000);
        assert_int_equal(f16_from_f32(nextafterf(middle, 0)), low);
        assert_int_equal(f16_from_f32(nextafterf(middle, INFINITY)), high);
    }
    assert_int_equal(f16_from_f32(1e30f), 0x7c00);
    assert_int_equal(f16_from_f32(-INFINITY), 0xfc00);
    assert_int_equal(f16_from_f32(1e-30f), 0);
    assert_int_equal(f16_from_f32(-0.0f), 0x8000);
}

static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    for (unsigned i = 0; i < 0x7f80; i++) {
        assert_int_equal(bf16_from_f32(f32_from_bf16((uint16_t)i)), i);
        uint32_t middle = i << 16 | 0x8000;
        assert_int_equal(bf16_from_f32(f32_from_bits(middle)), i % 2 == 0 ? i : i + 1);
        assert_int_equal(bf16_from_f32(f32_from_bits(middle - 1)), i);
        assert_int_equal(bf16_from_f32(f32_from_bits(middle + 1)), i + 1);
        assert_int_equal(bf16_from_f32(f32_from_bits(middle | 0x80000000u)), (i % 2 == 0 ? i : i + 1) | 0x8000);
    }
    assert_true(isnan(f32_from_bf16(bf16_from_f32(f32_from_bits(0x7f800001)))));
    assert_int_equal(bf16_from_f32(INFINITY), 0x7f80);
}

/* ---- the table ---- */

static void rows_are_complete_and_unique(void **state) {
    (void)state;
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_info((enum dtype)i);
        enum dtype found;
        assert_non_null(info->name);
        assert_non_null(info->decode);
        assert_true(info->block_elements > 0 && info->block_bytes > 0);
        assert_int_equal(info->dtype_class == DTYPE_CLASS_BLOCK, info->block_elements > 1);
        assert_true(info->gguf_id >= 0 || info->safetensors_name);
        if (info->gguf_id >= 0) {
            assert_true(dtype_from_gguf((uint32_t)info->gguf_id, &found));
            assert_int_equal(found, i);
            assert_null(dtype_retired_gguf_name((uint32_t)info->gguf_id));
        }
        if (info->safetensors_name) {
            assert_true(dtype_from_safetensors(text_of(info->safetensors_name), &found));
            assert_int_equal(found, i);
        }
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(info->name, dtype_info((enum dtype)j)->name);
    }
}

static void d14_unknown_and_retired_numbers(void **state) {
    (void)state;
    static const uint32_t retired[] = {4, 5, 31, 32, 33, 36, 37, 38}, unknown[] = {43, 97, 200, 0x7fffffff, 0xffffffff};
    enum dtype found = DTYPE_Q4_K;
    for (size_t i = 0; i < sizeof retired / sizeof retired[0]; i++) {
        assert_false(dtype_from_gguf(retired[i], &found));
        assert_non_null(dtype_retired_gguf_name(retired[i]));
    }
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_false(dtype_from_gguf(unknown[i], &found));
        assert_null(dtype_retired_gguf_name(unknown[i]));
    }
    assert_int_equal(found, DTYPE_Q4_K);
    assert_string_equal(dtype_retired_gguf_name(36), "IQ4_NL_4_4");
    assert_false(dtype_from_safetensors(TEXT("F4"), &found));
    assert_false(dtype_from_safetensors(TEXT(""), &found));
    assert_false(dtype_from_safetensors(TEXT("f32"), &found));
}

static void d9_sizes_do_not_wrap(void **state) {
    (void)state;
    uint64_t size_bytes = 7;
    assert_true(dtype_size(DTYPE_Q4_K, 512, &size_bytes));
    assert_int_equal(size_bytes, 288);
    assert_true(dtype_size(DTYPE_F32, 0, &size_bytes));
    assert_int_equal(size_bytes, 0);
    assert_false(dtype_size(DTYPE_Q4_K, 511, &size_bytes));
    assert_false(dtype_size(DTYPE_F32, (uint64_t)1 << 62, &size_bytes));
    assert_false(dtype_size(DTYPE_F64, UINT64_MAX, &size_bytes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(d23_every_ggml_type_decodes_to_the_reference),
        cmocka_unit_test(formats_of_activations),
        cmocka_unit_test(damaged_scales_are_seen),
        cmocka_unit_test(plain_integers),
        cmocka_unit_test(small_floats),
        cmocka_unit_test(f16_is_exact_both_ways),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(rows_are_complete_and_unique),
        cmocka_unit_test(d14_unknown_and_retired_numbers),
        cmocka_unit_test(d9_sizes_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
