/*
 * avx2: kernels for AVX2, FMA and F16C; the same bits as ref/. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/kernel.h"

void avx2_matmul_columns(const struct matmul_args *args);
void avx2_matmul_f32(const struct matmul_args *args);
void avx2_matmul_f16(const struct matmul_args *args);
void avx2_matmul_bf16(const struct matmul_args *args);
void avx2_matmul_f8_e4m3(const struct matmul_args *args);
void avx2_matmul_f8_e5m2(const struct matmul_args *args);
void avx2_matmul_f8_block(const struct matmul_args *args);
void avx2_matmul_mxfp8_split(const struct matmul_args *args);
void avx2_matmul_f8_e5m2_block(const struct matmul_args *args);
void avx2_matmul_int_groups(const struct matmul_args *args);
void avx2_matmul_packed(const struct matmul_args *args);
void avx2_matmul_q4_0(const struct matmul_args *args);
void avx2_matmul_q4_1(const struct matmul_args *args);
void avx2_matmul_q5_0(const struct matmul_args *args);
void avx2_matmul_q5_1(const struct matmul_args *args);
void avx2_matmul_q8_0(const struct matmul_args *args);
void avx2_matmul_iq4_nl(const struct matmul_args *args);
void avx2_matmul_mxfp4(const struct matmul_args *args);
void avx2_matmul_affine(const struct matmul_args *args);
void avx2_matmul_mxfp4_split(const struct matmul_args *args);
void avx2_matmul_nvfp4_split(const struct matmul_args *args);
void avx2_matmul_nvfp4(const struct matmul_args *args);
void avx2_matmul_iq4_xs(const struct matmul_args *args);
void avx2_matmul_q2_k(const struct matmul_args *args);
void avx2_matmul_q3_k(const struct matmul_args *args);
void avx2_matmul_q4_k(const struct matmul_args *args);
void avx2_matmul_q5_k(const struct matmul_args *args);
void avx2_matmul_q6_k(const struct matmul_args *args);

bool avx2_matmul_many(const struct matmul_args *args, uint8_t *scratch);
void avx2_matmul_many_floats(const struct matmul_args *args, uint8_t *scratch); /* F32, F16, BF16 with columns side by side */
void avx2_quantize(const float *x, size_t cols, unsigned block, uint8_t *row);
void avx2_rms_norm(const float *x, const float *w, float *y, size_t count, float eps);
void avx2_layer_norm(const float *x, const float *w, const float *b, float *y, size_t count, float eps);
void avx2_l2_norm(const float *x, float *y, size_t count, float eps);
void avx2_rope(float *x, size_t heads, size_t stride, size_t half, const float *cos, const float *sin, bool pairs);
void avx2_gate(const struct gate_args *args);
void avx2_add(float *y, const float *x, size_t count);
void avx2_multiply(float *y, const float *x, size_t count);
void avx2_scale(float *y, float factor, size_t count);
void avx2_add_scaled(float *y, const float *x, float factor, size_t count);
void avx2_softcap(float *x, size_t count, float cap);
void avx2_softmax(float *x, size_t count);
void avx2_short_conv(const struct short_conv_args *args);
void avx2_delta_rule(const struct delta_rule_args *args);
void avx2_attention(const struct attention_args *args);
void avx2_attention_join(const struct attention_join_args *args);
void avx2_index_scores(const struct index_args *args);
void avx2_f16_from_f32(const float *x, uint16_t *y, size_t count);
void avx2_f32_from_f16(const uint16_t *x, float *y, size_t count);
size_t avx2_argmax(const float *x, size_t count);
float avx2_exp_sum(const float *x, float *y, size_t count, float max, float inverse_temperature);

/* Initialisers of a kernel_table: what is better here than in ref/. */
/* clang-format off: one per line */
#define AVX2_ENTRIES                                                                                                                 \
    .matmul[MATRIX_F8_E5M2_BLOCK] = avx2_matmul_f8_e5m2_block, .matmul[MATRIX_INT_GROUPS] = avx2_matmul_int_groups,                  \
    .matmul[MATRIX_INT8_GROUPS] = avx2_matmul_int_groups, .matmul[MATRIX_AWQ] = avx2_matmul_packed,                                  \
    .matmul[MATRIX_GPTQ] = avx2_matmul_packed, .matmul[MATRIX_GPTQ_V2] = avx2_matmul_packed, .matmul_columns = avx2_matmul_columns,  \
    .matmul[DTYPE_F32] = avx2_matmul_f32, .matmul[DTYPE_F16] = avx2_matmul_f16, .matmul[DTYPE_BF16] = avx2_matmul_bf16,              \
    .matmul[DTYPE_F8_E4M3] = avx2_matmul_f8_e4m3, .matmul[DTYPE_F8_E5M2] = avx2_matmul_f8_e5m2,                                      \
    .matmul[MATRIX_F8_BLOCK] = avx2_matmul_f8_block, .matmul[MATRIX_MXFP8_SPLIT] = avx2_matmul_mxfp8_split,                          \
    .matmul[DTYPE_Q4_0] = avx2_matmul_q4_0, .matmul[DTYPE_Q4_1] = avx2_matmul_q4_1, .matmul[DTYPE_Q5_0] = avx2_matmul_q5_0,          \
    .matmul[DTYPE_Q5_1] = avx2_matmul_q5_1, .matmul[DTYPE_Q8_0] = avx2_matmul_q8_0, .matmul[DTYPE_IQ4_NL] = avx2_matmul_iq4_nl,      \
    .matmul[DTYPE_MXFP4] = avx2_matmul_mxfp4, .matmul[MATRIX_AFFINE] = avx2_matmul_affine,                                           \
    .matmul[MATRIX_MXFP4_SPLIT] = avx2_matmul_mxfp4_split, .matmul[MATRIX_NVFP4_SPLIT] = avx2_matmul_nvfp4_split,                    \
    .matmul[DTYPE_NVFP4] = avx2_matmul_nvfp4, .matmul[DTYPE_IQ4_XS] = avx2_matmul_iq4_xs, .matmul[DTYPE_Q2_K] = avx2_matmul_q2_k,    \
    .matmul[DTYPE_Q3_K] = avx2_matmul_q3_k, .matmul[DTYPE_Q4_K] = avx2_matmul_q4_k, .matmul[DTYPE_Q5_K] = avx2_matmul_q5_k,          \
    .matmul[DTYPE_Q6_K] = avx2_matmul_q6_k, .matmul_many = avx2_matmul_many, .quantize = avx2_quantize, .rms_norm = avx2_rms_norm,   \
    .layer_norm = avx2_layer_norm, .l2_norm = avx2_l2_norm, .rope = avx2_rope, .gate = avx2_gate, .add = avx2_add,                   \
    .multiply = avx2_multiply, .scale = avx2_scale, .add_scaled = avx2_add_scaled, .softcap = avx2_softcap, .softmax = avx2_softmax, \
    .short_conv = avx2_short_conv, .delta_rule = avx2_delta_rule, .attention = avx2_attention,                                       \
    .attention_join = avx2_attention_join, .index_scores = avx2_index_scores,                                                        \
    .f16_from_f32 = avx2_f16_from_f32, .f32_from_f16 = avx2_f32_from_f16, .argmax = avx2_argmax, .exp_sum = avx2_exp_sum
/* clang-format on */
