/*
 * ref: the reference kernels, the definition of every result. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/kernel.h"

void ref_quantize(const float *x, size_t cols, unsigned block, uint8_t *row);

void ref_matmul_f32_weights(const struct matmul_args *args);
void ref_matmul_f16(const struct matmul_args *args);
void ref_matmul_bf16(const struct matmul_args *args);
void ref_matmul_f8_e4m3(const struct matmul_args *args);
void ref_matmul_f8_e5m2(const struct matmul_args *args);
void ref_matmul_f8_block(const struct matmul_args *args);
void ref_matmul_mxfp8_split(const struct matmul_args *args);
void ref_matmul_f8_e5m2_block(const struct matmul_args *args);

void ref_matmul_q4_0(const struct matmul_args *args);
void ref_matmul_q4_1(const struct matmul_args *args);
void ref_matmul_q5_0(const struct matmul_args *args);
void ref_matmul_q5_1(const struct matmul_args *args);
void ref_matmul_q8_0(const struct matmul_args *args);
void ref_matmul_iq4_nl(const struct matmul_args *args);
void ref_matmul_q1_0(const struct matmul_args *args);
void ref_matmul_q2_0(const struct matmul_args *args);

void ref_matmul_q2_k(const struct matmul_args *args);
void ref_matmul_q3_k(const struct matmul_args *args);
void ref_matmul_q4_k(const struct matmul_args *args);
void ref_matmul_q5_k(const struct matmul_args *args);
void ref_matmul_q6_k(const struct matmul_args *args);
void ref_matmul_tq1_0(const struct matmul_args *args);
void ref_matmul_tq2_0(const struct matmul_args *args);

void ref_matmul_iq2_xxs(const struct matmul_args *args);
void ref_matmul_iq2_xs(const struct matmul_args *args);
void ref_matmul_iq2_s(const struct matmul_args *args);
void ref_matmul_iq3_xxs(const struct matmul_args *args);
void ref_matmul_iq3_s(const struct matmul_args *args);
void ref_matmul_iq1_s(const struct matmul_args *args);
void ref_matmul_iq1_m(const struct matmul_args *args);
void ref_matmul_iq4_xs(const struct matmul_args *args);

void ref_matmul_mxfp4(const struct matmul_args *args);
void ref_matmul_nvfp4(const struct matmul_args *args);
void ref_matmul_mxfp4_split(const struct matmul_args *args);
void ref_matmul_nvfp4_split(const struct matmul_args *args);
void ref_matmul_affine(const struct matmul_args *args);
void ref_matmul_int_groups(const struct matmul_args *args); /* INT_GROUPS, INT8_GROUPS */
void ref_matmul_packed(const struct matmul_args *args);     /* AWQ, GPTQ, GPTQ_V2 */

void ref_matmul_columns(const struct matmul_args *args);
void ref_matmul_decoded(const struct matmul_args *args, float *scratch);
void ref_decode_row(const struct matrix *w, size_t row, float *dst);

void ref_rms_norm(const float *x, const float *w, float *y, size_t count, float eps);
void ref_layer_norm(const float *x, const float *w, const float *b, float *y, size_t count, float eps);
void ref_l2_norm(const float *x, float *y, size_t count, float eps);
void ref_rope(float *x, size_t heads, size_t stride, size_t half, const float *cos, const float *sin, bool pairs);
void ref_gate(const struct gate_args *args);
void ref_add(float *y, const float *x, size_t count);
void ref_multiply(float *y, const float *x, size_t count);
void ref_scale(float *y, float factor, size_t count);
void ref_add_scaled(float *y, const float *x, float factor, size_t count);
void ref_softcap(float *x, size_t count, float cap);
void ref_softmax(float *x, size_t count);
void ref_router(const struct router_args *args);
void ref_short_conv(const struct short_conv_args *args);
void ref_delta_rule(const struct delta_rule_args *args);
void ref_attention(const struct attention_args *args);
void ref_attention_join(const struct attention_join_args *args);
void ref_index_scores(const struct index_args *args);
void ref_select_top(const float *scores, size_t count, size_t k, uint32_t *positions);
void ref_f16_from_f32(const float *x, uint16_t *y, size_t count);
void ref_f32_from_f16(const uint16_t *x, float *y, size_t count);
size_t ref_argmax(const float *x, size_t count);
float ref_exp_sum(const float *x, float *y, size_t count, float max, float inverse_temperature);

/* Initialisers of a kernel_table: everything. */
/* clang-format off: one per line */
#define REF_ENTRIES \
    .quantize = ref_quantize, \
    .matmul[DTYPE_F32] = ref_matmul_f32_weights, \
    .matmul[DTYPE_F16] = ref_matmul_f16, \
    .matmul[DTYPE_BF16] = ref_matmul_bf16, \
    .matmul[DTYPE_F8_E4M3] = ref_matmul_f8_e4m3, \
    .matmul[DTYPE_F8_E5M2] = ref_matmul_f8_e5m2, \
    .matmul[DTYPE_Q4_0] = ref_matmul_q4_0, \
    .matmul[DTYPE_Q4_1] = ref_matmul_q4_1, \
    .matmul[DTYPE_Q5_0] = ref_matmul_q5_0, \
    .matmul[DTYPE_Q5_1] = ref_matmul_q5_1, \
    .matmul[DTYPE_Q8_0] = ref_matmul_q8_0, \
    .matmul[DTYPE_Q2_K] = ref_matmul_q2_k, \
    .matmul[DTYPE_Q3_K] = ref_matmul_q3_k, \
    .matmul[DTYPE_Q4_K] = ref_matmul_q4_k, \
    .matmul[DTYPE_Q5_K] = ref_matmul_q5_k, \
    .matmul[DTYPE_Q6_K] = ref_matmul_q6_k, \
    .matmul[DTYPE_IQ2_XXS] = ref_matmul_iq2_xxs, \
    .matmul[DTYPE_IQ2_XS] = ref_matmul_iq2_xs, \
    .matmul[DTYPE_IQ2_S] = ref_matmul_iq2_s, \
    .matmul[DTYPE_IQ3_XXS] = ref_matmul_iq3_xxs, \
    .matmul[DTYPE_IQ3_S] = ref_matmul_iq3_s, \
    .matmul[DTYPE_IQ1_S] = ref_matmul_iq1_s, \
    .matmul[DTYPE_IQ1_M] = ref_matmul_iq1_m, \
    .matmul[DTYPE_IQ4_NL] = ref_matmul_iq4_nl, \
    .matmul[DTYPE_IQ4_XS] = ref_matmul_iq4_xs, \
    .matmul[DTYPE_TQ1_0] = ref_matmul_tq1_0, \
    .matmul[DTYPE_TQ2_0] = ref_matmul_tq2_0, \
    .matmul[DTYPE_MXFP4] = ref_matmul_mxfp4, \
    .matmul[DTYPE_NVFP4] = ref_matmul_nvfp4, \
    .matmul[DTYPE_Q1_0] = ref_matmul_q1_0, \
    .matmul[DTYPE_Q2_0] = ref_matmul_q2_0, \
    .matmul[MATRIX_AFFINE] = ref_matmul_affine, \
    .matmul[MATRIX_F8_BLOCK] = ref_matmul_f8_block, \
    .matmul[MATRIX_MXFP4_SPLIT] = ref_matmul_mxfp4_split, \
    .matmul[MATRIX_NVFP4_SPLIT] = ref_matmul_nvfp4_split, \
    .matmul[MATRIX_MXFP8_SPLIT] = ref_matmul_mxfp8_split, \
    .matmul[MATRIX_F8_E5M2_BLOCK] = ref_matmul_f8_e5m2_block, \
    .matmul[MATRIX_INT_GROUPS] = ref_matmul_int_groups, \
    .matmul[MATRIX_INT8_GROUPS] = ref_matmul_int_groups, \
    .matmul[MATRIX_AWQ] = ref_matmul_packed, \
    .matmul[MATRIX_GPTQ] = ref_matmul_packed, \
    .matmul[MATRIX_GPTQ_V2] = ref_matmul_packed, \
    .matmul_columns = ref_matmul_columns, \
    .matmul_f32 = ref_matmul_decoded, \
    .decode_row = ref_decode_row, \
    .rms_norm = ref_rms_norm, \
    .layer_norm = ref_layer_norm, \
    .l2_norm = ref_l2_norm, \
    .short_conv = ref_short_conv, \
    .delta_rule = ref_delta_rule, \
    .rope = ref_rope, \
    .gate = ref_gate, \
    .add = ref_add, \
    .multiply = ref_multiply, \
    .scale = ref_scale, \
    .add_scaled = ref_add_scaled, \
    .softcap = ref_softcap, \
    .softmax = ref_softmax, \
    .router = ref_router, \
    .attention = ref_attention, .attention_join = ref_attention_join, \
    .index_scores = ref_index_scores, \
    .select_top = ref_select_top, \
    .f16_from_f32 = ref_f16_from_f32, \
    .f32_from_f16 = ref_f32_from_f16, \
    .argmax = ref_argmax, \
    .exp_sum = ref_exp_sum
/* clang-format on */
