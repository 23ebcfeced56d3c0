/*
 * dtype: the table, and searches in it; it is short enough to be walked.
 */
#include "dtype/dtype.h"

#include "base/check.h"
#include "base/memory.h"
#include "dtype/block_layouts.h"
#include "dtype/decode.h"

#define PLAIN(label, group, bytes, id, safetensors, function) \
    { label, DTYPE_CLASS_##group, 1, bytes, id, safetensors, function }
#define BLOCK(label, elements, layout, id) \
    { label, DTYPE_CLASS_BLOCK, elements, sizeof(struct block_##layout), id, NULL, decode_##layout }

static const struct dtype_info table[DTYPE_COUNT] = {
    [DTYPE_F32] = PLAIN("F32", FLOAT, 4, 0, "F32", decode_f32),
    [DTYPE_F16] = PLAIN("F16", FLOAT, 2, 1, "F16", decode_f16),
    [DTYPE_BF16] = PLAIN("BF16", FLOAT, 2, 30, "BF16", decode_bf16),
    [DTYPE_F64] = PLAIN("F64", FLOAT, 8, 28, "F64", decode_f64),
    [DTYPE_I8] = PLAIN("I8", INTEGER, 1, 24, "I8", decode_i8),
    [DTYPE_I16] = PLAIN("I16", INTEGER, 2, 25, "I16", decode_i16),
    [DTYPE_I32] = PLAIN("I32", INTEGER, 4, 26, "I32", decode_i32),
    [DTYPE_I64] = PLAIN("I64", INTEGER, 8, 27, "I64", decode_i64),
    [DTYPE_U8] = PLAIN("U8", INTEGER, 1, -1, "U8", decode_u8),
    [DTYPE_U16] = PLAIN("U16", INTEGER, 2, -1, "U16", decode_u16),
    [DTYPE_U32] = PLAIN("U32", INTEGER, 4, -1, "U32", decode_u32),
    [DTYPE_U64] = PLAIN("U64", INTEGER, 8, -1, "U64", decode_u64),
    [DTYPE_BOOL] = PLAIN("BOOL", INTEGER, 1, -1, "BOOL", decode_bool),
    [DTYPE_F8_E4M3] = PLAIN("F8_E4M3", FLOAT, 1, -1, "F8_E4M3", decode_f8_e4m3),
    [DTYPE_F8_E5M2] = PLAIN("F8_E5M2", FLOAT, 1, -1, "F8_E5M2", decode_f8_e5m2),
    [DTYPE_F8_E8M0] = PLAIN("F8_E8M0", FLOAT, 1, -1, "F8_E8M0", decode_f8_e8m0),
    [DTYPE_Q4_0] = BLOCK("Q4_0", 32, q4_0, 2),
    [DTYPE_Q4_1] = BLOCK("Q4_1", 32, q4_1, 3),
    [DTYPE_Q5_0] = BLOCK("Q5_0", 32, q5_0, 6),
    [DTYPE_Q5_1] = BLOCK("Q5_1", 32, q5_1, 7),
    [DTYPE_Q8_0] = BLOCK("Q8_0", 32, q8_0, 8),
    [DTYPE_Q8_1] = BLOCK("Q8_1", 32, q8_1, 9),
    [DTYPE_Q2_K] = BLOCK("Q2_K", 256, q2_k, 10),
    [DTYPE_Q3_K] = BLOCK("Q3_K", 256, q3_k, 11),
    [DTYPE_Q4_K] = BLOCK("Q4_K", 256, q4_k, 12),
    [DTYPE_Q5_K] = BLOCK("Q5_K", 256, q5_k, 13),
    [DTYPE_Q6_K] = BLOCK("Q6_K", 256, q6_k, 14),
    [DTYPE_Q8_K] = BLOCK("Q8_K", 256, q8_k, 15),
    [DTYPE_IQ2_XXS] = BLOCK("IQ2_XXS", 256, iq2_xxs, 16),
    [DTYPE_IQ2_XS] = BLOCK("IQ2_XS", 256, iq2_xs, 17),
    [DTYPE_IQ2_S] = BLOCK("IQ2_S", 256, iq2_s, 22),
    [DTYPE_IQ3_XXS] = BLOCK("IQ3_XXS", 256, iq3_xxs, 18),
    [DTYPE_IQ3_S] = BLOCK("IQ3_S", 256, iq3_s, 21),
    [DTYPE_IQ1_S] = BLOCK("IQ1_S", 256, iq1_s, 19),
    [DTYPE_IQ1_M] = BLOCK("IQ1_M", 256, iq1_m, 29),
    [DTYPE_IQ4_NL] = BLOCK("IQ4_NL", 32, iq4_nl, 20),
    [DTYPE_IQ4_XS] = BLOCK("IQ4_XS", 256, iq4_xs, 23),
    [DTYPE_TQ1_0] = BLOCK("TQ1_0", 256, tq1_0, 34),
    [DTYPE_TQ2_0] = BLOCK("TQ2_0", 256, tq2_0, 35),
    [DTYPE_MXFP4] = BLOCK("MXFP4", 32, mxfp4, 39),
    [DTYPE_NVFP4] = BLOCK("NVFP4", 64, nvfp4, 40),
    [DTYPE_Q1_0] = BLOCK("Q1_0", 128, q1_0, 41),
    [DTYPE_Q2_0] = BLOCK("Q2_0", 64, q2_0, 42),
};

const struct dtype_info *dtype_info(enum dtype dtype) {
    CHECK((unsigned)dtype < DTYPE_COUNT);
    return &table[dtype];
}

bool dtype_from_gguf(uint32_t gguf_id, enum dtype *out) {
    CHECK(out);
    for (unsigned i = 0; i < DTYPE_COUNT; i++)
        if (table[i].gguf_id >= 0 && (uint32_t)table[i].gguf_id == gguf_id) {
            *out = (enum dtype)i;
            return true;
        }
    return false;
}

bool dtype_from_safetensors(struct text name, enum dtype *out) {
    for (unsigned i = 0; i < DTYPE_COUNT; i++)
        if (table[i].safetensors_name && text_is(name, table[i].safetensors_name)) {
            *out = (enum dtype)i;
            return true;
        }
    return false;
}

const char *dtype_retired_gguf_name(uint32_t gguf_id) {
    switch (gguf_id) {
    case 4:
        return "Q4_2";
    case 5:
        return "Q4_3";
    case 31:
        return "Q4_0_4_4";
    case 32:
        return "Q4_0_4_8";
    case 33:
        return "Q4_0_8_8";
    case 36:
        return "IQ4_NL_4_4";
    case 37:
        return "IQ4_NL_4_8";
    case 38:
        return "IQ4_NL_8_8";
    default:
        return NULL;
    }
}

bool dtype_size(enum dtype dtype, uint64_t count, uint64_t *size_bytes) {
    const struct dtype_info *info = dtype_info(dtype);
    return count % info->block_elements == 0 && size_multiply(count / info->block_elements, info->block_bytes, size_bytes);
}
