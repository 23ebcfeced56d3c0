/*
 * avx512: kernels for AVX-512 F, BW, DQ, VL and VNNI; the same bits as ref/. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/kernel.h"

void avx512_matmul_columns(const struct matmul_args *args);
void avx512_matmul_f32(const struct matmul_args *args);
void avx512_matmul_f16(const struct matmul_args *args);
void avx512_matmul_bf16(const struct matmul_args *args);
void avx512_matmul_f8_e4m3(const struct matmul_args *args);
void avx512_matmul_f8_e5m2(const struct matmul_args *args);
void avx512_matmul_f8_block(const struct matmul_args *args);
void avx512_matmul_mxfp8_split(const struct matmul_args *args);
void avx512_matmul_f8_e5m2_block(const struct matmul_args *args);
void avx512_matmul_int_groups(const struct matmul_args *args);
void avx512_matmul_packed(const struct matmul_args *args);
void avx512_matmul_q4_0(const struct matmul_args *args);
void avx512_matmul_q4_1(const struct matmul_args *args);
void avx512_matmul_q5_0(const struct matmul_args *args);
void avx512_matmul_q5_1(const struct matmul_args *args);
void avx512_matmul_q8_0(const struct matmul_args *args);
void avx512_matmul_iq4_nl(const struct matmul_args *args);
void avx512_matmul_mxfp4(const struct matmul_args *args);
void avx512_matmul_affine(const struct matmul_args *args);
void avx512_matmul_mxfp4_split(const struct matmul_args *args);
void avx512_matmul_nvfp4_split(const struct matmul_args *args);
void avx512_matmul_nvfp4(const struct matmul_args *args);
void avx512_matmul_iq4_xs(const struct matmul_args *args);
void avx512_matmul_q2_k(const struct matmul_args *args);
void avx512_matmul_q3_k(const struct matmul_args *args);
void avx512_matmul_q4_k(const struct matmul_args *args);
void avx512_matmul_q5_k(const struct matmul_args *args);
void avx512_matmul_q6_k(const struct matmul_args *args);

bool avx512_matmul_many(const struct matmul_args *args, uint8_t *scratch);
void avx512_matmul_many_floats(const struct matmul_args *args, uint8_t *scratch); /* F32, F16, BF16 with columns side by side */
void avx512_quantize(const float *x, size_t cols, unsigned block, uint8_t *row);
void avx512_rms_norm(const float *x, const float *w, float *y, size_t count, float eps);
void avx512_layer_norm(const float *x, const float *w, const float *b, float *y, size_t count, float eps);
void avx512_l2_norm(const float *x, float *y, size_t count, float eps);
void avx512_rope(float *x, size_t heads, size_t stride, size_t half, const float *cos, const float *sin, bool pairs);
void avx512_gate(const struct gate_args *args);
void avx512_add(float *y, const float *x, size_t count);
void avx512_multiply(float *y, const float *x, size_t count);
void avx512_scale(float *y, float factor, size_t count);
void avx512_add_scaled(float *y, const float *x, float factor, size_t count);
void avx512_softcap(float *x, size_t count, float cap);
void avx512_softmax(float *x, size_t count);
void avx512_short_conv(const struct short_conv_args *args);
void avx512_delta_rule(const struct delta_rule_args *args);
void avx512_attention(const struct attention_args *args);
void avx512_attention_join(const struct attention_join_args *args);
void avx512_index_scores(const struct index_args *args);
void avx512_f16_from_f32(const float *x, uint16_t *y, size_t count);
void avx512_f32_from_f16(const uint16_t *x, float *y, size_t count);
size_t avx512_argmax(const float *x, size_t count);
float avx512_exp_sum(const float *x, float *y, size_t count, float max, float inverse_temperature);

/* Initialisers of a kernel_table: what is better here than in avx2/. */
/* clang-format off: one per line */
#define AVX512_ENTRIES                                                                                                                     \
    .matmul[MATRIX_F8_E5M2_BLOCK] = avx512_matmul_f8_e5m2_block, .matmul[MATRIX_INT_GROUPS] = avx512_matmul_int_groups,                    \
    .matmul[MATRIX_INT8_GROUPS] = avx512_matmul_int_groups, .matmul[MATRIX_AWQ] = avx512_matmul_packed,                                    \
    .matmul[MATRIX_GPTQ] = avx512_matmul_packed, .matmul[MATRIX_GPTQ_V2] = avx512_matmul_packed, .matmul_columns = avx512_matmul_columns,  \
    .matmul[DTYPE_F32] = avx512_matmul_f32, .matmul[DTYPE_F16] = avx512_matmul_f16, .matmul[DTYPE_BF16] = avx512_matmul_bf16,              \
    .matmul[DTYPE_F8_E4M3] = avx512_matmul_f8_e4m3, .matmul[DTYPE_F8_E5M2] = avx512_matmul_f8_e5m2,                                        \
    .matmul[MATRIX_F8_BLOCK] = avx512_matmul_f8_block, .matmul[MATRIX_MXFP8_SPLIT] = avx512_matmul_mxfp8_split,                            \
    .matmul[DTYPE_Q4_0] = avx512_matmul_q4_0, .matmul[DTYPE_Q4_1] = avx512_matmul_q4_1, .matmul[DTYPE_Q5_0] = avx512_matmul_q5_0,          \
    .matmul[DTYPE_Q5_1] = avx512_matmul_q5_1, .matmul[DTYPE_Q8_0] = avx512_matmul_q8_0, .matmul[DTYPE_IQ4_NL] = avx512_matmul_iq4_nl,      \
    .matmul[DTYPE_MXFP4] = avx512_matmul_mxfp4, .matmul[MATRIX_AFFINE] = avx512_matmul_affine,                                             \
    .matmul[MATRIX_MXFP4_SPLIT] = avx512_matmul_mxfp4_split, .matmul[MATRIX_NVFP4_SPLIT] = avx512_matmul_nvfp4_split,                      \
    .matmul[DTYPE_NVFP4] = avx512_matmul_nvfp4, .matmul[DTYPE_IQ4_XS] = avx512_matmul_iq4_xs, .matmul[DTYPE_Q2_K] = avx512_matmul_q2_k,    \
    .matmul[DTYPE_Q3_K] = avx512_matmul_q3_k, .matmul[DTYPE_Q4_K] = avx512_matmul_q4_k, .matmul[DTYPE_Q5_K] = avx512_matmul_q5_k,          \
    .matmul[DTYPE_Q6_K] = avx512_matmul_q6_k, .matmul_many = avx512_matmul_many, .quantize = avx512_quantize, .rms_norm = avx512_rms_norm, \
    .layer_norm = avx512_layer_norm, .l2_norm = avx512_l2_norm, .rope = avx512_rope, .gate = avx512_gate, .add = avx512_add,               \
    .multiply = avx512_multiply, .scale = avx512_scale, .add_scaled = avx512_add_scaled, .softcap = avx512_softcap,                        \
    .softmax = avx512_softmax, .short_conv = avx512_short_conv, .delta_rule = avx512_delta_rule, .attention = avx512_attention,            \
    .attention_join = avx512_attention_join,                                                                                               \
    .index_scores = avx512_index_scores, .f16_from_f32 = avx512_f16_from_f32, .f32_from_f16 = avx512_f32_from_f16,                         \
    .argmax = avx512_argmax, .exp_sum = avx512_exp_sum
/* clang-format on */
