/*
 * level: what every level has, listed once: LEVEL_.._PRODUCTS and LEVEL_FUNCTIONS give each line to X, from which a level's header
 * makes prototypes and the entries of its table. avx2_matmul_q4_0 is then declared by DECLARE_LEVEL(avx2). What ref/ alone defines stands
 * in ref.h, and what not all of the faster levels have in their headers. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/kernel.h"

/* clang-format off: one per line */
#define LEVEL_FLOAT_PRODUCTS(X, level)            \
    X(level, DTYPE_F32, f32)                      \
    X(level, DTYPE_F16, f16)                      \
    X(level, DTYPE_BF16, bf16)                    \
    X(level, DTYPE_F8_E4M3, f8_e4m3)              \
    X(level, DTYPE_F8_E5M2, f8_e5m2)              \
    X(level, MATRIX_F8_BLOCK, f8_block)           \
    X(level, MATRIX_F8_E5M2_BLOCK, f8_e5m2_block) \
    X(level, MATRIX_MXFP8_SPLIT, mxfp8_split)

/* Of formats whose codes meet bytes. */
#define LEVEL_BYTE_PRODUCTS(X, level)         \
    X(level, DTYPE_Q4_0, q4_0)                \
    X(level, DTYPE_Q4_1, q4_1)                \
    X(level, DTYPE_Q5_0, q5_0)                \
    X(level, DTYPE_Q5_1, q5_1)                \
    X(level, DTYPE_Q8_0, q8_0)                \
    X(level, DTYPE_Q2_K, q2_k)                \
    X(level, DTYPE_Q3_K, q3_k)                \
    X(level, DTYPE_Q4_K, q4_k)                \
    X(level, DTYPE_Q5_K, q5_k)                \
    X(level, DTYPE_Q6_K, q6_k)                \
    X(level, DTYPE_TQ1_0, tq1_0)              \
    X(level, DTYPE_TQ2_0, tq2_0)              \
    X(level, DTYPE_IQ2_XXS, iq2_xxs)          \
    X(level, DTYPE_IQ2_XS, iq2_xs)            \
    X(level, DTYPE_IQ2_S, iq2_s)              \
    X(level, DTYPE_IQ3_XXS, iq3_xxs)          \
    X(level, DTYPE_IQ3_S, iq3_s)              \
    X(level, DTYPE_IQ1_S, iq1_s)              \
    X(level, DTYPE_IQ1_M, iq1_m)              \
    X(level, DTYPE_IQ4_NL, iq4_nl)            \
    X(level, DTYPE_IQ4_XS, iq4_xs)            \
    X(level, DTYPE_MXFP4, mxfp4)              \
    X(level, DTYPE_NVFP4, nvfp4)              \
    X(level, MATRIX_MXFP4_SPLIT, mxfp4_split) \
    X(level, MATRIX_NVFP4_SPLIT, nvfp4_split) \
    X(level, MATRIX_AFFINE, affine)           \
    X(level, MATRIX_INT_GROUPS, int_groups)   \
    X(level, MATRIX_INT8_GROUPS, int_groups)  \
    X(level, MATRIX_AWQ, packed)              \
    X(level, MATRIX_GPTQ, packed)             \
    X(level, MATRIX_GPTQ_V2, packed)

/* Of formats that have panels alone where panels win for every number of rows. */
#define LEVEL_SMALL_PRODUCTS(X, level) \
    X(level, DTYPE_Q1_0, q1_0)         \
    X(level, DTYPE_Q2_0, q2_0)

#define LEVEL_FUNCTIONS(X, level)                                                                                              \
    X(level, void, matmul_columns, (const struct matmul_args *args))                                                           \
    X(level, void, quantize, (const float *x, size_t cols, unsigned block, uint8_t *row))                                      \
    X(level, void, rms_norm, (const float *x, const float *w, float *y, size_t count, float eps))                              \
    X(level, void, layer_norm, (const float *x, const float *w, const float *b, float *y, size_t count, float eps))            \
    X(level, void, l2_norm, (const float *x, float *y, size_t count, float eps))                                               \
    X(level, void, rope, (float *x, size_t heads, size_t stride, size_t half, const float *cos, const float *sin, bool pairs)) \
    X(level, void, gate, (const struct gate_args *args))                                                                       \
    X(level, void, add, (float *y, const float *x, size_t count))                                                              \
    X(level, void, multiply, (float *y, const float *x, size_t count))                                                         \
    X(level, void, scale, (float *y, float factor, size_t count))                                                              \
    X(level, void, add_scaled, (float *y, const float *x, float factor, size_t count))                                         \
    X(level, void, softcap, (float *x, size_t count, float cap))                                                               \
    X(level, void, softmax, (float *x, size_t count))                                                                          \
    X(level, void, short_conv, (const struct short_conv_args *args))                                                           \
    X(level, void, delta_rule, (const struct delta_rule_args *args))                                                           \
    X(level, void, attention, (const struct attention_args *args))                                                             \
    X(level, void, attention_join, (const struct attention_join_args *args))                                                   \
    X(level, void, index_scores, (const struct index_args *args))                                                              \
    X(level, void, f16_from_f32, (const float *x, uint16_t *y, size_t count))                                                  \
    X(level, void, f32_from_f16, (const uint16_t *x, float *y, size_t count))                                                  \
    X(level, size_t, argmax, (const float *x, size_t count))                                                                   \
    X(level, float, exp_sum, (const float *x, float *y, size_t count, float max, float inverse_temperature))
/* clang-format on */

#define LEVEL_PRODUCT_PROTOTYPE(level, format, name) void level##_matmul_##name(const struct matmul_args *args);
#define LEVEL_FUNCTION_PROTOTYPE(level, result, name, parameters) result level##_##name parameters;
#define LEVEL_PRODUCTS(X, level) LEVEL_FLOAT_PRODUCTS(X, level) LEVEL_BYTE_PRODUCTS(X, level)
#define DECLARE_LEVEL(level)                       \
    LEVEL_PRODUCTS(LEVEL_PRODUCT_PROTOTYPE, level) \
    LEVEL_FUNCTIONS(LEVEL_FUNCTION_PROTOTYPE, level)

/* Initialisers of a kernel_table, each with its comma. */
#define LEVEL_PRODUCT_ENTRY(level, format, name) .matmul[format] = level##_matmul_##name,
#define LEVEL_FUNCTION_ENTRY(level, result, name, parameters) .name = level##_##name,
#define LEVEL_ENTRIES(level) LEVEL_PRODUCTS(LEVEL_PRODUCT_ENTRY, level) LEVEL_FUNCTIONS(LEVEL_FUNCTION_ENTRY, level)
