/*
 * neon: kernels for NEON with dot products of bytes; the same bits as ref/. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/kernel.h"

void neon_matmul_columns(const struct matmul_args *args);
void neon_matmul_f32(const struct matmul_args *args);
void neon_matmul_f16(const struct matmul_args *args);
void neon_matmul_bf16(const struct matmul_args *args);
void neon_matmul_f8_e4m3(const struct matmul_args *args);
void neon_matmul_f8_e5m2(const struct matmul_args *args);
void neon_matmul_f8_block(const struct matmul_args *args);
void neon_matmul_mxfp8_split(const struct matmul_args *args);
void neon_matmul_f8_e5m2_block(const struct matmul_args *args);
void neon_matmul_q4_0(const struct matmul_args *args);
void neon_matmul_q4_1(const struct matmul_args *args);
void neon_matmul_q5_0(const struct matmul_args *args);
void neon_matmul_q5_1(const struct matmul_args *args);
void neon_matmul_q8_0(const struct matmul_args *args);
void neon_matmul_iq4_nl(const struct matmul_args *args);
void neon_matmul_mxfp4(const struct matmul_args *args);
void neon_matmul_affine(const struct matmul_args *args);
void neon_matmul_mxfp4_split(const struct matmul_args *args);
void neon_matmul_nvfp4_split(const struct matmul_args *args);
void neon_matmul_nvfp4(const struct matmul_args *args);
void neon_matmul_iq4_xs(const struct matmul_args *args);
void neon_matmul_q2_k(const struct matmul_args *args);
void neon_matmul_q3_k(const struct matmul_args *args);
void neon_matmul_q4_k(const struct matmul_args *args);
void neon_matmul_q5_k(const struct matmul_args *args);
void neon_matmul_q6_k(const struct matmul_args *args);

bool neon_matmul_many(const struct matmul_args *args, uint8_t *scratch);
void neon_matmul_many_floats(const struct matmul_args *args, uint8_t *scratch); /* F32, F16, BF16 with columns side by side */
void neon_quantize(const float *x, size_t cols, unsigned block, uint8_t *row);
void neon_rms_norm(const float *x, const float *w, float *y, size_t count, float eps);
void neon_layer_norm(const float *x, const float *w, const float *b, float *y, size_t count, float eps);
void neon_l2_norm(const float *x, float *y, size_t count, float eps);
void neon_rope(float *x, size_t heads, size_t stride, size_t half, const float *cos, const float *sin, bool pairs);
void neon_gate(const struct gate_args *args);
void neon_add(float *y, const float *x, size_t count);
void neon_multiply(float *y, const float *x, size_t count);
void neon_scale(float *y, float factor, size_t count);
void neon_add_scaled(float *y, const float *x, float factor, size_t count);
void neon_softcap(float *x, size_t count, float cap);
void neon_softmax(float *x, size_t count);
void neon_short_conv(const struct short_conv_args *args);
void neon_delta_rule(const struct delta_rule_args *args);
void neon_attention(const struct attention_args *args);
void neon_attention_join(const struct attention_join_args *args);
void neon_index_scores(const struct index_args *args);
void neon_f16_from_f32(const float *x, uint16_t *y, size_t count);
void neon_f32_from_f16(const uint16_t *x, float *y, size_t count);
size_t neon_argmax(const float *x, size_t count);
float neon_exp_sum(const float *x, float *y, size_t count, float max, float inverse_temperature);

/* Initialisers of a kernel_table: what is better here than in ref/. */
/* clang-format off: one per line */
#define NEON_ENTRIES                                                                                                                      \
    .matmul_columns = neon_matmul_columns, .matmul[DTYPE_F32] = neon_matmul_f32, .matmul[DTYPE_F16] = neon_matmul_f16,                    \
    .matmul[DTYPE_BF16] = neon_matmul_bf16, .matmul[DTYPE_F8_E4M3] = neon_matmul_f8_e4m3, .matmul[DTYPE_F8_E5M2] = neon_matmul_f8_e5m2,   \
    .matmul[MATRIX_F8_BLOCK] = neon_matmul_f8_block, .matmul[MATRIX_MXFP8_SPLIT] = neon_matmul_mxfp8_split,                               \
    .matmul[MATRIX_F8_E5M2_BLOCK] = neon_matmul_f8_e5m2_block, .matmul[DTYPE_Q4_0] = neon_matmul_q4_0,                                    \
    .matmul[DTYPE_Q4_1] = neon_matmul_q4_1, .matmul[DTYPE_Q5_0] = neon_matmul_q5_0, .matmul[DTYPE_Q5_1] = neon_matmul_q5_1,               \
    .matmul[DTYPE_Q8_0] = neon_matmul_q8_0, .matmul[DTYPE_IQ4_NL] = neon_matmul_iq4_nl, .matmul[DTYPE_MXFP4] = neon_matmul_mxfp4,         \
    .matmul[MATRIX_AFFINE] = neon_matmul_affine, .matmul[MATRIX_MXFP4_SPLIT] = neon_matmul_mxfp4_split,                                   \
    .matmul[MATRIX_NVFP4_SPLIT] = neon_matmul_nvfp4_split, .matmul[DTYPE_NVFP4] = neon_matmul_nvfp4,                                      \
    .matmul[DTYPE_IQ4_XS] = neon_matmul_iq4_xs, .matmul[DTYPE_Q2_K] = neon_matmul_q2_k, .matmul[DTYPE_Q3_K] = neon_matmul_q3_k,           \
    .matmul[DTYPE_Q4_K] = neon_matmul_q4_k, .matmul[DTYPE_Q5_K] = neon_matmul_q5_k, .matmul[DTYPE_Q6_K] = neon_matmul_q6_k,               \
    .matmul_many = neon_matmul_many, .quantize = neon_quantize, .rms_norm = neon_rms_norm, .layer_norm = neon_layer_norm,                 \
    .l2_norm = neon_l2_norm, .rope = neon_rope, .gate = neon_gate, .add = neon_add, .multiply = neon_multiply, .scale = neon_scale,       \
    .add_scaled = neon_add_scaled, .softcap = neon_softcap, .softmax = neon_softmax, .short_conv = neon_short_conv,                       \
    .delta_rule = neon_delta_rule, .attention = neon_attention, .attention_join = neon_attention_join, .index_scores = neon_index_scores, \
    .f16_from_f32 = neon_f16_from_f32, .f32_from_f16 = neon_f32_from_f16, .argmax = neon_argmax, .exp_sum = neon_exp_sum
/* clang-format on */
